"""The tables of config/README.md, made from the same declarations that a config is checked by.

`python -m scaling_study.config.config_table config/README.md` brings the file up to date.
"""

import json
import sys

from pydantic.fields import FieldInfo

from scaling_study.common import doc_tables
from scaling_study.config.config import Config
from scaling_study.config.config_machines import NodeKind
from scaling_study.config.config_schema import Section, Unit, allowed_text, keys_of, section_of
from scaling_study.config.import_config import KEY, ImportConfig
from scaling_study.launch.axes.axis_table import AXES


def keys_table() -> str:
    """Return the table of all keys of a study that measures."""
    return _keys(Config)


def machines_table() -> str:
    """Return the table of the keys of each machine."""
    return _keys(NodeKind, prefix="machines.<name>.")


def import_table() -> str:
    """Return the table of the keys that a study of saved tables has of its own."""
    return _keys(ImportConfig, below=f"{KEY}.")


def _keys(config: type[Section], *, prefix: str = "", below: str = "") -> str:
    rows = (
        _key_row(path, field)
        for path, field in keys_of(config, prefix)
        if section_of(field) is None and path.startswith(below)
    )
    return doc_tables.write_table(("key", "meaning", "allowed", "default", "unit"), rows)


def axes_table() -> str:
    """Return the table of all axes."""
    rows = []
    for name, axis in AXES.items():
        values = [f"`{word}`: {meaning}" for word, meaning in axis.words.items()]
        others = [axis.others.allowed] if axis.others else []
        first, *rest = values + others
        rows += [(f"`{name}`", axis.meaning, first), *(("", "", value) for value in rest)]
    return doc_tables.write_table(("axis", "what it is", "value"), rows)


def variables_table() -> str:
    """Return the table of the environment variables that belong to axes."""
    rows = (
        (f"`{name}`", ", ".join(f"`{variable}`" for variable in axis.variables))
        for name, axis in AXES.items()
        if axis.variables
    )
    return doc_tables.write_table(("axis", "variables"), rows)


TABLES = {
    "keys": keys_table,
    "machines": machines_table,
    "import": import_table,
    "axes": axes_table,
    "variables": variables_table,
}


def updated(text: str) -> str:
    """Replace what stands between each table's `<!-- name -->` and `<!-- /name -->`."""
    return doc_tables.fill(text, TABLES)


def _key_row(path: str, field: FieldInfo) -> tuple[str, ...]:
    units = [item.text for item in field.metadata if isinstance(item, Unit)]
    default = "required" if field.is_required() else f"`{json.dumps(field.default)}`"
    unit = units[0] if units else "s" if path.endswith("_s") else ""
    description = " ".join((field.description or "").split())
    return f"`{path}`", description, allowed_text(field), default, unit


if __name__ == "__main__":
    doc_tables.update(sys.argv[1:], updated)
