"""Studies of saved tables of torch's profiler: nothing is run, the tables are compared.

All tables are read while the config is checked, so a mistake in one of them is a mistake of the
config.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import pandas as pd
from msgspec.structs import replace

from scaling_study.analysis.inflation import compare
from scaling_study.common.problems import ConfigError, read_each, wrong
from scaling_study.common.quantities import format_count
from scaling_study.config.import_config import KEY, ImportConfig, read_table
from scaling_study.config.mistakes import validate
from scaling_study.config.operator_text import TRUNCATED, OperatorTable, Row
from scaling_study.profiling.operator_groups import NOT_IN_BOTH
from scaling_study.profiling.profiles import operator_rows
from scaling_study.records.analysis import Inflation, SavedTable, Side
from scaling_study.records.columns import OPERATORS
from scaling_study.records.profile import Operators, OperatorSums

IMPORTED = "imported"
"""Machine, launch, label and role of all rows: a table names none of them."""
OPTIMIZER = "Optimizer.step"
"""Start of the name of an optimizer's step in a profile (since torch 1.8); its class follows."""
SCHEDULED = "ProfilerStep*"
"""The name of a step of the profiler's schedule."""
INSIDE = 0.9
"""An optimizer whose step takes at least this share of all time runs forward and backward in it, as
with Lightning's closures. Then its step is the whole step, otherwise a part of it."""
STEPS_NEEDED = "the steps of each such table in import.steps, as {4: 550}"


@dataclass(frozen=True, slots=True)
class Imported:
    """A table, and the steps that it covers.

    Attributes:
        saved: the steps, the time of each, and their sources.
        table: the table's content.
    """

    saved: SavedTable
    table: OperatorTable


def load_import(mapping: Mapping[str, object]) -> ImportConfig:
    """Check the config of an imported study and its tables.

    Args:
        mapping: the whole config file, as parsed from YAML.

    Raises:
        ConfigError: with every mistake found, those in the tables with their lines.
    """
    study = validate(ImportConfig, mapping)
    read_tables(study)
    return study


def read_tables(study: ImportConfig) -> list[Imported]:
    """Read all tables of a study, the lowest number of processes first.

    Raises:
        ConfigError: a table cannot be read, or the steps that it covers are not known.
    """
    tables = {n: read_table(path) for n, path in study.tables.items()}
    inside = all(map(_runs_inside, tables.values()))

    def read(n: int, table: OperatorTable) -> Imported:
        return interpret(n, study.tables[n], table, study.steps.get(n), inside=inside)

    try:
        return read_each(tables.items(), read)
    except ConfigError as error:
        raise ConfigError(error.under(KEY, "tables")) from None


def _optimizers(table: OperatorTable) -> list[Row]:
    return [row for row in table.rows if row.operator.startswith(OPTIMIZER)]


def _runs_inside(table: OperatorTable) -> bool:
    """Return whether forward and backward run in the step of the only optimizer."""
    optimizers = _optimizers(table)
    whole_s = table.self_s or sum(row.self_s for row in table.rows)
    return len(optimizers) == 1 and (optimizers[0].total_s or 0.0) >= INSIDE * whole_s


def interpret(
    n: int, path: str, table: OperatorTable, said: int | None, *, inside: bool
) -> Imported:
    """Find the steps that a table covers, and the time of each.

    Args:
        n: processes that ran.
        path: path of the table.
        table: its content.
        said: number of steps in the config; None without one.
        inside: whether a step is the optimizer's, in all tables that are compared.

    Raises:
        ConfigError: the steps are not known, or took no time.
    """
    optimizers = _optimizers(table)
    steps, steps_from = _find_steps(path, table, optimizers, said)
    rows_s = sum(row.self_s for row in table.rows)
    if inside:
        (row,) = optimizers
        step_s, step_from = (row.total_s or 0.0) / steps, f"time in {row.operator}"
    elif table.self_s is not None:
        step_s, step_from = table.self_s / steps, "self time of all operators"
    else:
        step_s, step_from = rows_s / steps, "self time of the rows, so at least"
    if step_s <= 0:
        raise wrong(path, "holds no time", "a table whose operators took time")
    names = dict.fromkeys(row.operator for row in table.rows)
    saved = SavedTable(
        n=n,
        path=path,
        steps=steps,
        steps_from=steps_from,
        step_s=step_s,
        step_from=step_from,
        self_s=table.self_s,
        rows_s=rows_s,
        rows=len(table.rows),
        unread=tuple(table.unread),
        cut=tuple(name for name in names if name.endswith(TRUNCATED)),
    )
    return Imported(saved, table)


def _find_steps(
    path: str, table: OperatorTable, optimizers: Sequence[Row], said: int | None
) -> tuple[int, str]:
    """Return the number of steps that a table covers, and its source in words.

    Raises:
        ConfigError: neither the config nor the table has the number.
    """
    calls: Counter[str] = Counter()
    for row in optimizers:
        calls[row.operator] += row.calls
    counted = " and ".join(f"{count:,} calls of {name}" for name, count in calls.items())
    if said is not None:
        differs = set(calls.values()) - {said}
        return said, f"the config; the table has {counted}" if differs else "the config"
    if len(set(calls.values())) == 1:
        return next(iter(calls.values())), f"calls of {' and of '.join(calls)}"
    if calls:
        raise wrong(path, f"has {counted}: which of them are steps?", STEPS_NEEDED)
    scheduled = sum(row.calls for row in table.rows if row.operator == SCHEDULED)
    if scheduled:
        return scheduled, f"calls of {SCHEDULED}"
    what = f"has no row {OPTIMIZER}, whose calls are the steps that it covers"
    raise wrong(path, what, STEPS_NEEDED)


def operator_frame(tables: Iterable[Imported]) -> pd.DataFrame:
    """Make tables/operators: rows of the same name are one operator, phases are unknown."""
    frames = [
        operator_rows(
            Operators(
                steps=one.saved.steps,
                rows=tuple(OperatorSums(phase="", **asdict(row)) for row in one.table.rows),
            ),
            **dict.fromkeys(("machine", "launch", "label", "role"), IMPORTED),
            n=one.saved.n,
            overhead=None,
        )
        for one in tables
    ]
    return OPERATORS.frame(pd.concat(frames, ignore_index=True))


def compare_tables(tables: Sequence[Imported], operators: pd.DataFrame) -> Inflation:
    """Compare the table of the fewest processes with every other one: analysis/inflation.json.

    A table is cut after some rows, so an operator that it does not show is unknown, not absent:
    only operators that both tables show are compared. The rest of the step is one row, in a group
    of its own.

    Args:
        tables: ascending in the number of processes.
        operators: as `operator_frame` returns them.
    """
    first, *others = (table.saved for table in tables)
    shown = {n: set(rows["operator"]) for n, rows in operators.groupby("n")}
    comparisons = []
    for other in reversed(others):
        both = operators[operators["operator"].isin(shown[first.n] & shown[other.n])]
        a, b = (
            Side(launch=IMPORTED, label="the profiled process", n=one.n, step_s=one.step_s)
            for one in (first, other)
        )
        found = compare(a, b, both, kind="counts", rest=(f"({NOT_IN_BOTH})", NOT_IN_BOTH))
        title = f"{first.n} against {format_count(other.n, 'process', 'processes')}"
        comparisons.append(replace(found, title=title))
    return Inflation(machine=IMPORTED, comparisons=tuple(comparisons))


def outline(study: ImportConfig) -> str:
    """Return in words what a run will do."""
    counts = ", ".join(map(str, study.tables))
    return f"{study.study}: saved tables of torch's profiler for {counts} processes; nothing is run"
