"""Update the documents that are made from the code: ``python scripts/documents.py``.

These are docs/columns.md, the tables of docs/records.md and config/README.md, and the JSON schema
of study files.
"""

import inspect
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import get_args

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from scaling_study.common.counter import COUNTERS
from scaling_study.config.config import Config, NodeKind
from scaling_study.config.import_config import KEY, ImportConfig
from scaling_study.config.mistakes import Keys
from scaling_study.launch.axes.axis_table import AXES
from scaling_study.records import columns, confirmation, experiment, window
from scaling_study.records.field import Field, fields
from scaling_study.records.machine import Machine
from scaling_study.records.readback import Readback

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "benchmarks"))
from doc_tables import fill, write_table  # noqa: E402 (where benchmarks find it)

COLUMNS = """\
# Columns of the tables

`results/<study>/tables/` holds each table as parquet (with units and meanings as field metadata)
and as CSV. An empty cell is a number that was not measured or does not exist.
`python scripts/documents.py` prints this page.
"""


def schema() -> str:
    """Return the JSON schema of a study file, which measures or reads saved tables."""
    names, defs = models_json_schema([(Config, "validation"), (ImportConfig, "validation")])
    study, tables = (names[model, "validation"] for model in (Config, ImportConfig))
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A study",
        "if": {"required": [KEY]},
        "then": tables,
        "else": study,
        **defs,
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def keys_table(model: type[BaseModel], *, prefix: str = "", below: str = "") -> str:
    """Return the table of a model's keys.

    Args:
        model: The model.
        prefix: Text before its keys in a study file.
        below: Beginning of the keys to show; empty for all.
    """
    keys = Keys(model)
    rows = []
    for path, key in keys.leaves():
        required = "default" not in key.model_fields_set
        default = "required" if required else f"`{json.dumps(key.default)}`"
        unit = key.unit or next((option.unit for option in keys.options(key)), "")
        meaning = " ".join(key.description.split())
        unit = unit or ("s" if path.endswith("_s") else "")
        rows.append((f"`{prefix}{path}`", meaning, keys.allowed(key), default, unit))
    rows_below = (row for row in rows if row[0].startswith(f"`{below}"))
    return write_table(("key", "meaning", "allowed", "default", "unit"), rows_below)


def axes_table() -> str:
    """Return the table of all axes."""
    rows = []
    for name, axis in AXES.items():
        values = [f"`{word}`: {meaning}" for word, meaning in axis.words.items()]
        others = [axis.others.allowed] if axis.others else []
        first, *rest = values + others
        rows += [(f"`{name}`", axis.meaning, first), *(("", "", value) for value in rest)]
    return write_table(("axis", "what it is", "value"), rows)


def variables_table() -> str:
    """Return the table of the environment variables that belong to axes."""
    rows = (
        (f"`{name}`", ", ".join(f"`{variable}`" for variable in axis.variables))
        for name, axis in AXES.items()
        if axis.variables
    )
    return write_table(("axis", "variables"), rows)


def columns_page(_: str = "") -> str:
    """Return docs/columns.md."""
    parts = [COLUMNS]
    for table in (*columns.TABLES, columns.OPERATORS, columns.EXPERIMENTS):
        parts.append(f"\n## {table.name}\n\nA row is {table.row}.\n\n")
        rows = (
            (f"`{column.name}`", column.kind, column.unit, column.meaning)
            for column in table.columns
        )
        parts.append(write_table(("column", "type", "unit", "meaning"), rows))
    return "".join(parts)


def field_table(described: Iterable[Field]) -> str:
    """Return the table of some fields."""
    rows = ((f"`{field.name}`", field.unit, field.meaning, field.source) for field in described)
    return write_table(("field", "unit", "meaning", "read from"), rows)


def member_table() -> str:
    """Return the table of a member's fields, with counters that have a file of their own."""
    counters = [Field(counter.field, float, counter.unit, counter.meaning) for counter in COUNTERS]
    return field_table([*window.MEMBER.values(), *counters])


def record_sections(records: object) -> str:
    """Return a section for each type of a union of records."""
    parts = []
    for record in get_args(records):
        described = [field for field in fields(record).values() if field.meaning]
        summary = " ".join((inspect.getdoc(record) or "").split())
        parts.append(f"\n### `{record.__struct_config__.tag}`\n\n{summary}\n")
        parts.append("\n" + field_table(described) if described else "")
    return "".join(parts) + "\n"


CONFIG_TABLES = {
    "keys": lambda: keys_table(Config),
    "machines": lambda: keys_table(NodeKind, prefix="machines.<name>."),
    "import": lambda: keys_table(ImportConfig, below=f"{KEY}."),
    "axes": axes_table,
    "variables": variables_table,
}
RECORD_TABLES = {
    "cohort records": lambda: record_sections(window.Record),
    "window machine": lambda: field_table(fields(window.WindowMachine).values()),
    "window member": member_table,
    "readback": lambda: field_table(fields(Readback).values()),
    "why records": lambda: record_sections(experiment.WhyRecord),
    "machine": lambda: field_table(fields(Machine).values()),
    "data loader records": lambda: record_sections(experiment.LoaderRecord),
    "confirmation records": lambda: record_sections(confirmation.Record),
    "confirmation run": lambda: field_table(fields(confirmation.ModelRun).values()),
}

DOCUMENTS: dict[str, Callable[[str], str]] = {
    "workflow/schemas/study.schema.json": lambda _: schema(),
    "config/README.md": lambda text: fill(text, CONFIG_TABLES),
    "docs/columns.md": columns_page,
    "docs/records.md": lambda text: fill(text, RECORD_TABLES),
}
"""Functions that return each document as it should be, from its present text."""


def main() -> None:
    """Write the documents."""
    for name, updated in DOCUMENTS.items():
        path = ROOT / name
        path.write_text(updated(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
