"""The config of a study of saved tables: `import:` stands where others have `workload:`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, PlainValidator, ValidationError, ValidationInfo, create_model

from scaling_study.common.named_files import require_file
from scaling_study.common.problems import (
    ConfigError,
    Problem,
    found,
    nearest_number,
    nearest_word,
    read_each,
    shorten,
    wrong,
)
from scaling_study.config.config import MOST_PROCESSES, Config
from scaling_study.config.config_schema import (
    Allowed,
    Context,
    Section,
    Unit,
    must_exist,
    problems_of,
)
from scaling_study.config.operator_text import Mistake, OperatorTable, TableError, parse_table

KEY = "import"
COUNT = f"a whole number from 1 to {MOST_PROCESSES}"
TABLE = "the path of a saved table of torch's profiler, relative to the working directory"
TABLES = "a section with a number of processes and the path of a table each, as {4: four.txt}"
NUMBER = "a whole number, at least 1"
MOST_BYTES = 16 << 20
"""A table has some hundred lines; what is larger is another file, such as a trace."""
MOST_MISTAKES = 5
"""Lines of one table that are shown; more of them have one cause."""
STEPS = f"{NUMBER}, or a section with one for each number of processes"


def read_table(path: str) -> OperatorTable:
    """Read a saved table.

    Raises:
        ConfigError: with everything in it that cannot be read.
    """
    try:
        return parse_table(_read_text(path))
    except TableError as error:
        shown = shorten(path)
        problems = [Problem((), shown, what, allowed) for what, allowed in _shown(error.mistakes)]
        raise ConfigError(problems) from None


def _shown(mistakes: Sequence[Mistake]) -> Iterator[tuple[str, str]]:
    for mistake in mistakes[:MOST_MISTAKES]:
        place = "" if mistake.line is None else f"line {mistake.line}: "
        yield f"{place}{mistake.what}", mistake.allowed
    if len(mistakes) > MOST_MISTAKES:
        yield f"{len(mistakes) - MOST_MISTAKES} further lines cannot be read", "a table, whole"


def _read_text(path: str) -> str:
    """Read a text file.

    Raises:
        ConfigError: it cannot be read, or is no text of this size.
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


def _read_count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong(value, found(value), COUNT, nearest_number(value))
    if not 1 <= value <= MOST_PROCESSES:
        raise wrong(value, "is not allowed", COUNT)
    return value


def _read_tables(value: object, info: ValidationInfo) -> dict[int, str]:
    known: set[str] = set()

    def read(key: object, path: object) -> tuple[int, str]:
        n = _read_count(key)
        if not isinstance(path, str):
            raise wrong(path, found(path), TABLE)
        if {"{", "}"} & set(path):  # wildcards to Snakemake
            raise wrong(path, "has a brace", "a path without { and }")
        if path in known:
            raise wrong(path, "is given twice", "each table once")
        known.add(path)
        if must_exist(info):
            require_file(path, TABLE)
            read_table(path)
        return n, path

    if not isinstance(value, dict):
        raise wrong(value, found(value), TABLES)
    if not value:
        raise wrong(value, "is empty", TABLES)
    return dict(sorted(read_each(value.items(), read)))


def _read_steps(value: object, info: ValidationInfo) -> dict[int, int]:
    tables = info.data.get("tables")  # None where they have mistakes themselves

    def read_number(number: object) -> int:
        if isinstance(number, bool) or not isinstance(number, int):
            raise wrong(number, found(number), NUMBER, nearest_number(number))
        if number < 1:
            raise wrong(number, "is not allowed", NUMBER)
        return number

    def read(key: object, number: object) -> tuple[int, int]:
        n = _read_count(key)
        if tables is not None and n not in tables:
            counts = ", ".join(map(str, tables))
            raise wrong(number, "has no table", f"the numbers of import.tables: {counts}")
        return n, read_number(number)

    if isinstance(value, dict):
        return dict(sorted(read_each(value.items(), read)))
    if isinstance(value, str | list) or value is None:
        raise wrong(value, found(value), STEPS, nearest_number(value))
    return dict.fromkeys(tables or (), read_number(value))


class Import(Section):
    """Saved tables of torch's profiler."""

    tables: Annotated[Mapping[int, str], PlainValidator(_read_tables), Allowed(TABLES)]
    """A text table of torch's profiler for each number of processes, of one of them."""

    steps: Annotated[
        Mapping[int, int], PlainValidator(_read_steps), Allowed(STEPS), Unit("steps")
    ] = {}
    """Steps that a table covers; without it, the calls of `Optimizer.step` in the table."""


# `import` is a word of Python's own, so that no class body can declare a field of this name.
_FIELDS: dict[str, Any] = {
    **{
        name: (Config.model_fields[name].annotation, Config.model_fields[name])
        for name in ("study", "description")
    },
    KEY: (Import, Field(description="Saved tables of torch's profiler, instead of a workload.")),
}
ImportConfig: type[Section] = create_model("ImportConfig", __base__=Section, **_FIELDS)
"""A study of saved tables."""


@dataclass(frozen=True, slots=True)
class ImportStudy:
    """What is imported.

    Attributes:
        study: its name.
        description: for the report.
        tables: path of the table of each number of processes, ascending.
        steps: steps that a table covers, where the config says it.
    """

    study: str
    description: str
    tables: Mapping[int, str]
    steps: Mapping[int, int]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it, in the form of a config."""
        section = {"tables": dict(self.tables), "steps": dict(self.steps)}
        return {"study": self.study, "description": self.description, KEY: section}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_dict` gave, also after JSON has made its keys text."""
        section = data[KEY]
        tables, steps = (
            {int(n): value for n, value in section[name].items()} for name in ("tables", "steps")
        )
        return cls(data["study"], data["description"], tables, steps)


def is_import(mapping: object) -> bool:
    """Whether a config describes an imported study, well or badly."""
    if not isinstance(mapping, dict):
        return False
    if KEY in mapping:
        return True
    return "workload" not in mapping and any(nearest_word(key, [KEY]) for key in mapping)


def read_import(mapping: Mapping[str, Any]) -> ImportStudy:
    """Check the config of an imported study, and that its tables can be read.

    Args:
        mapping: what YAML gives for the whole file.

    Raises:
        ConfigError: with every mistake found.
    """
    if "workload" in mapping:
        allowed = "workload, which is measured, or import, which is read"
        raise ConfigError([Problem((KEY,), "", "stands beside workload", allowed)])
    try:
        config: Any = ImportConfig.model_validate(mapping, context=Context())
    except ValidationError as error:
        raise ConfigError(problems_of(error, ImportConfig)) from None
    section: Import = getattr(config, KEY)
    return ImportStudy(config.study, config.description, section.tables, section.steps)
