"""Documentation made from types and columns: docs/columns.md, and the tables of docs/records.md.

``python -m scaling_study.records.docs docs`` brings both up to date.
"""

import inspect
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import get_args

from scaling_study.common import doc_tables
from scaling_study.common.counter import COUNTERS
from scaling_study.common.field import Field
from scaling_study.records import columns, confirmation, experiment, window
from scaling_study.records.field import fields
from scaling_study.records.machine import Machine
from scaling_study.records.readback import Readback

COLUMNS = """\
# Columns of the tables

`results/<study>/tables/` holds each table as parquet (with units and meanings as field metadata)
and as CSV. An empty cell is a number that was not measured or does not exist. Printed by
`python -m scaling_study.records.docs docs`.
"""


def columns_page() -> str:
    """Return docs/columns.md."""
    parts = [COLUMNS]
    for table in (*columns.TABLES, columns.OPERATORS, columns.EXPERIMENTS):
        parts.append(f"\n## {table.name}\n\nA row is {table.row}.\n\n")
        rows = ((f"`{one.name}`", one.kind, one.unit, one.meaning) for one in table.columns)
        parts.append(doc_tables.write_table(("column", "type", "unit", "meaning"), rows))
    return "".join(parts)


def field_table(described: Iterable[Field]) -> str:
    """Return the table of some fields."""
    rows = ((f"`{one.name}`", one.unit, one.meaning, one.source) for one in described)
    return doc_tables.write_table(("field", "unit", "meaning", "read from"), rows)


def member_table() -> str:
    """Return the table of a member's fields, with counters that have a file of their own."""
    counted = [Field(one.field, float, one.unit, one.meaning) for one in COUNTERS]
    return field_table([*window.MEMBER.values(), *counted])


def record_sections(records: object) -> str:
    """Return a section for each type of a union of records."""
    parts = []
    for one in get_args(records):
        described = [field for field in fields(one).values() if field.meaning]
        summary = " ".join((inspect.getdoc(one) or "").split())
        parts.append(f"\n### `{one.__struct_config__.tag}`\n\n{summary}\n")
        parts.append("\n" + field_table(described) if described else "")
    return "".join(parts) + "\n"


TABLES = {
    "cohort records": lambda: record_sections(window.Record),
    "window machine": lambda: field_table(fields(window.WindowMachine).values()),
    "window member": member_table,
    "readback": lambda: field_table(fields(Readback).values()),
    "why records": lambda: record_sections(experiment.WhyRecord),
    "machine": lambda: field_table(fields(Machine).values()),
    "data loader records": lambda: record_sections(experiment.LoaderRecord),
    "confirmation records": lambda: record_sections(confirmation.Record),
    "confirmation run": lambda: field_table(fields(confirmation.Run).values()),
}


def records_page(text: str) -> str:
    """Return docs/records.md with its tables up to date."""
    return doc_tables.fill(text, TABLES)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    (folder / "columns.md").write_text(columns_page(), encoding="utf-8")
    doc_tables.update([str(folder / "records.md")], records_page)
