"""The lists of docs/why.md, made from the same entries that experiments and verdicts are made of.

``python -m scaling_study.cause_tables docs/why.md`` brings the file up to date.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from scaling_study.causes import CAUSES
from scaling_study.reliefs import RELIEFS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scaling_study.cause import Cause


def reliefs_table() -> str:
    """Return the table of all changes that take one thing away."""
    rows = (
        (
            f"`{relief.name}`",
            relief.title,
            ", ".join(f"`{axis}: {value}`" for axis, value in relief.axes.items())
            or "inside the processes",
            "yes" if relief.quick else "no, `full` only",
        )
        for relief in RELIEFS
    )
    return _table(("change", "what it does", "how", "in `quick`"), rows)


def causes_list() -> str:
    """Return the list of all causes: how each looks, its source, and what helps."""
    return "".join(map(_cause, CAUSES))


def _cause(cause: Cause) -> str:
    scopes = [scope for scope in ("growth", "level") if getattr(cause, scope)]
    remedy = f" What helps: {cause.remedy.text}"
    if cause.remedy.code:
        remedy += f" `{cause.remedy.code}`"
    source = cause.source.rstrip(".")
    title = f"- **{cause.title}** (`{cause.id}`; {', '.join(scopes)})."
    return f"{title} {cause.looks}{remedy} Source: {source}.\n"


TABLES = {"reliefs": reliefs_table, "causes": causes_list}


def updated(text: str) -> str:
    """Replace what stands between each table's ``<!-- name -->`` and ``<!-- /name -->``.

    Raises:
        ValueError: a table has no place in the text.
    """
    for name, table in TABLES.items():
        opening, closing = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        before, _, rest = text.partition(opening)
        _, found, after = rest.partition(closing)
        if not found:
            raise ValueError(f"the file has no place for the table {name}")
        text = before + opening + table() + closing + after
    return text


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [tuple(header), *map(tuple, rows)]
    lines.insert(1, ("---",) * len(lines[0]))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    for file in map(Path, sys.argv[1:]):
        file.write_text(updated(file.read_text(encoding="utf-8")), encoding="utf-8")
