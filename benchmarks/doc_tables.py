"""Tables in documents, made from declarations: their places and their Markdown."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path


def fill(text: str, tables: Mapping[str, Callable[[], str]]) -> str:
    """Replace the text between each table's ``<!-- name -->`` and ``<!-- /name -->``.

    Raises:
        ValueError: a table has no place in the text.
    """
    for name, table in tables.items():
        opening, closing = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        before, _, rest = text.partition(opening)
        _, found, after = rest.partition(closing)
        if not found:
            raise ValueError(f"the file has no place for the table {name}")
        text = before + opening + table() + closing + after
    return text


def write_table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Write a Markdown table."""
    lines = [tuple(header), *map(tuple, rows)]
    lines.insert(1, ("---",) * len(lines[0]))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def publish(text: str, name: str, document: Path | None) -> None:
    """Print a table, and fill it into a document if there is one."""
    print(text)
    if document is not None:
        update([str(document)], lambda page: fill(page, {name: lambda: text}))


def update(paths: Iterable[str], updated: Callable[[str], str]) -> None:
    """Bring files up to date."""
    for file in map(Path, paths):
        file.write_text(updated(file.read_text(encoding="utf-8")), encoding="utf-8")
