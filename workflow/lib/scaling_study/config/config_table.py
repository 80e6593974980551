"""The JSON schema of study files, and the tables of config/README.md: both made from the models.

`python -m scaling_study.config.config_table config/README.md` brings both up to date.
"""

import json
import sys
from pathlib import Path

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from scaling_study.common import doc_tables
from scaling_study.config.config import Config, NodeKind
from scaling_study.config.import_config import KEY, ImportConfig
from scaling_study.config.mistakes import Keys
from scaling_study.launch.axes.axis_table import AXES

SCHEMA = Path(__file__).parents[3] / "schemas/study.schema.json"


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
    for path, one in keys.leaves():
        required = "default" not in one.model_fields_set
        default = "required" if required else f"`{json.dumps(one.default)}`"
        unit = one.unit or next((option.unit for option in keys.options(one)), "")
        meaning = " ".join(one.description.split())
        unit = unit or ("s" if path.endswith("_s") else "")
        rows.append((f"`{prefix}{path}`", meaning, keys.allowed(one), default, unit))
    shown = (row for row in rows if row[0].startswith(f"`{below}"))
    return doc_tables.write_table(("key", "meaning", "allowed", "default", "unit"), shown)


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
    "keys": lambda: keys_table(Config),
    "machines": lambda: keys_table(NodeKind, prefix="machines.<name>."),
    "import": lambda: keys_table(ImportConfig, below=f"{KEY}."),
    "axes": axes_table,
    "variables": variables_table,
}


def updated(text: str) -> str:
    """Replace the text between each table's `<!-- name -->` and `<!-- /name -->`."""
    return doc_tables.fill(text, TABLES)


if __name__ == "__main__":
    doc_tables.update(sys.argv[1:], updated)
    SCHEMA.write_text(schema(), encoding="utf-8")
