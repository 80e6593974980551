"""The config of a study of saved tables: it has `import:` in place of `workload:`."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypeGuard

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator

from scaling_study.common.problems import ConfigError, Problem, require_file, shorten, wrong
from scaling_study.config.config import Named
from scaling_study.config.operator_text import OperatorTable, parse_table
from scaling_study.config.section import MOST_PROCESSES, Count, Section, Steps, allowed, must_exist

KEY = "import"
TABLE = "the path of a saved table of torch's profiler, relative to the working directory"
MOST_BYTES = 16 << 20
"""A table has some hundred lines; a larger file is something else, such as a trace."""
MOST_MISTAKES = 5
"""Mistakes in one table that are shown; further ones have the same cause."""


def read_table(path: str) -> OperatorTable:
    """Read a saved table.

    Raises:
        ConfigError: with the first mistakes in it.
    """
    try:
        return parse_table(_read_text(path))
    except ConfigError as error:
        problems = error.problems[:MOST_MISTAKES]
        raise ConfigError(replace(one, value=shorten(path)) for one in problems) from None


def _read_text(path: str) -> str:
    """Read a text file.

    Raises:
        ConfigError: it cannot be read, is too large, or is not UTF-8 text.
    """
    try:
        size = Path(path).stat().st_size
        if size > MOST_BYTES:
            raise wrong(path, f"has {size:,} bytes", f"a text table, at most {MOST_BYTES:,} bytes")
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise wrong(path, str(error.strerror).lower(), TABLE) from None
    except UnicodeDecodeError as error:
        what = f"is not UTF-8 text (byte {error.start})"
        raise wrong(path, what, "a text table, as torch prints it") from None


def _read_path(path: str, info: ValidationInfo) -> str:
    if {"{", "}"} & set(path):  # wildcards to Snakemake
        raise wrong(path, "has a brace", "a path without { and }")
    if must_exist(info):
        require_file(path, TABLE)
        read_table(path)
    return path


def _as_number(key: object) -> object:
    """Return a key as a number if it can be one: in JSON, all keys are text."""
    return int(key) if isinstance(key, str) and key.isdecimal() and key.isascii() else key


Processes = Annotated[Count, BeforeValidator(_as_number)]


class Import(Section):
    """Saved tables of torch's profiler."""

    tables: Annotated[
        Mapping[Processes, Annotated[str, AfterValidator(_read_path), allowed(TABLE)]],
        Field(min_length=1),
        allowed(
            f"a section with numbers of processes (from 1 to {MOST_PROCESSES}) and the path of a"
            " table each, as {4: four.txt}"
        ),
    ]
    """For each number of processes, a text table of torch's profiler from one of them."""

    steps: Annotated[
        Steps | Mapping[Processes, Steps],
        allowed(
            "a whole number, at least 1, or a section with one for each number of processes",
            unit="steps",
        ),
    ] = Field(default={})
    """Steps that a table covers; without it, the calls of `Optimizer.step` in the table."""

    @field_validator("tables")
    @classmethod
    def _check_tables(cls, tables: Mapping[int, str]) -> Mapping[int, str]:
        paths = list(tables.values())
        repeated = [n for at, n in enumerate(tables) if paths[at] in paths[:at]]
        if repeated:
            raise ConfigError(
                Problem((n,), shorten(tables[n]), "is given twice", "each table once")
                for n in repeated
            )
        return dict(sorted(tables.items()))

    @field_validator("steps")
    @classmethod
    def _check_steps(
        cls, steps: int | Mapping[int, int], info: ValidationInfo
    ) -> Mapping[int, int]:
        tables = info.data.get("tables")  # None if they have mistakes
        if isinstance(steps, int):
            return dict.fromkeys(tables or (), steps)
        if tables is not None and steps.keys() - tables:
            counts = f"the numbers of import.tables: {', '.join(map(str, tables))}"
            raise ConfigError(
                Problem((n,), shorten(steps[n]), "has no table", counts)
                for n in sorted(steps.keys() - tables)
            )
        return steps


class ImportConfig(Named):
    """A study of saved tables."""

    import_: Import = Field(alias="import")
    """Saved tables of torch's profiler, instead of a workload."""

    @property
    def tables(self) -> Mapping[int, str]:
        """Path of the table of each number of processes, ascending."""
        return self.import_.tables

    @property
    def steps(self) -> Mapping[int, int]:
        """Steps that each table covers; empty if the config does not give them."""
        steps = self.import_.steps  # one number for all has become a section
        return {} if isinstance(steps, int) else steps

    def to_dict(self) -> dict[str, object]:
        """Return the config as values of JSON."""
        return self.model_dump(mode="json", by_alias=True)


def is_import(mapping: object) -> TypeGuard[Mapping[str, object]]:
    """Return whether a config describes an imported study, valid or not."""
    return isinstance(mapping, dict) and KEY in mapping
