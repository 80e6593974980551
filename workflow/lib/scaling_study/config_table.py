"""The tables of config/README.md, made from the same declarations that a config is checked by.

`python -m scaling_study.config_table config/README.md` brings the file up to date.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path

from pydantic.fields import FieldInfo

from scaling_study.axes_table import AXES
from scaling_study.config import Config
from scaling_study.config_schema import Section, Unit, allowed_text, keys_of, section_of
from scaling_study.import_config import KEY, ImportConfig


def keys_table() -> str:
    """Return the table of all keys of a study that measures."""
    return _keys(Config)


def import_table() -> str:
    """Return the table of the keys that a study of saved tables has of its own."""
    return _keys(ImportConfig, below=f"{KEY}.")


def _keys(config: type[Section], below: str = "") -> str:
    rows = (
        _key_row(path, field)
        for path, field in keys_of(config)
        if section_of(field) is None and path.startswith(below)
    )
    return _table(("key", "meaning", "allowed", "default", "unit"), rows)


def axes_table() -> str:
    """Return the table of all axes."""
    rows = []
    for name, axis in AXES.items():
        values = [f"`{word}`: {meaning}" for word, meaning in axis.words.items()]
        others = [axis.others.allowed] if axis.others else []
        first, *rest = values + others
        rows += [(f"`{name}`", axis.meaning, first), *(("", "", value) for value in rest)]
    return _table(("axis", "what it is", "value"), rows)


def variables_table() -> str:
    """Return the table of the environment variables that belong to axes."""
    rows = (
        (f"`{name}`", ", ".join(f"`{variable}`" for variable in axis.variables))
        for name, axis in AXES.items()
        if axis.variables
    )
    return _table(("axis", "variables"), rows)


TABLES = {
    "keys": keys_table,
    "import": import_table,
    "axes": axes_table,
    "variables": variables_table,
}


def updated(text: str) -> str:
    """Replace what stands between each table's `<!-- name -->` and `<!-- /name -->`."""
    for name, table in TABLES.items():
        opening, closing = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        before, _, rest = text.partition(opening)
        _, found, after = rest.partition(closing)
        if not found:
            raise ValueError(f"the file has no place for the table {name}")
        text = before + opening + table() + closing + after
    return text


def _key_row(path: str, field: FieldInfo) -> tuple[str, ...]:
    units = [item.text for item in field.metadata if isinstance(item, Unit)]
    default = "required" if field.is_required() else f"`{json.dumps(field.default)}`"
    unit = units[0] if units else "s" if path.endswith("_s") else ""
    return f"`{path}`", field.description or "", allowed_text(field), default, unit


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [tuple(header), *map(tuple, rows)]
    lines.insert(1, ("---",) * len(lines[0]))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    for file in map(Path, sys.argv[1:]):
        file.write_text(updated(file.read_text(encoding="utf-8")), encoding="utf-8")
