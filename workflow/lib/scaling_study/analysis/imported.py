"""Studies of saved tables of torch's profiler: nothing is run, the tables are compared.

All tables are read while the config is checked, so a mistake in one of them is a mistake of the
config.

A table has the wall time of operators in one process, so it names no cause: an operator that takes
longer may have computed, waited for memory or waited for a CPU. It shows which operators take
longer for the same work, and by how much (`findings`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import pandas as pd
from msgspec.structs import replace

from scaling_study.analysis.inflation import compare
from scaling_study.common.problems import ConfigError, read_each, wrong
from scaling_study.common.quantities import (
    format_count,
    format_number,
    format_percent,
    format_ratio,
)
from scaling_study.config.import_config import KEY, ImportConfig, read_table
from scaling_study.config.mistakes import validate
from scaling_study.config.operator_text import OperatorLine, OperatorTable
from scaling_study.profiling.operator_groups import CUT, NOT_IN_BOTH
from scaling_study.profiling.profiles import operator_rows
from scaling_study.records.analysis import Findings, Inflation, SavedTable, Side
from scaling_study.records.columns import OPERATORS
from scaling_study.records.profile import Operators, OperatorSums
from scaling_study.stats.thresholds import GROWS

IMPORTED = "imported"
"""Machine, launch, label and role of all rows: a table names none of them."""
OPTIMIZER = "Optimizer.step"
"""Start of the name of an optimizer's step in a profile (since torch 1.8); its class follows."""
SCHEDULED = "ProfilerStep*"
"""The name of a step of the profiler's schedule."""
INSIDE = 0.9
"""An optimizer whose step takes at least this share of all time runs forward and backward in it, as
with Lightning's closures. Then its step is the whole step, otherwise a part of it."""
COMMAND = "snakemake --cores all --configfile config/tsmixerx.yaml"
NO_HIGHER = 1.02
"""Throughput that rises by less than this factor counts as no higher, as in a recommendation."""
ALIKE = 1.25
"""Operators whose growth differs by less than this factor grow alike: a count has one profile."""
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
    try:
        return read_each(tables.items(), partial(_interpret, study, inside=inside))
    except ConfigError as error:
        raise ConfigError(error.under(KEY, "tables")) from None


def _optimizers(table: OperatorTable) -> list[OperatorLine]:
    return [row for row in table.rows if row.operator.startswith(OPTIMIZER)]


def _runs_inside(table: OperatorTable) -> bool:
    """Return whether forward and backward run in the step of the only optimizer."""
    optimizers = _optimizers(table)
    whole_s = table.self_s or sum(row.self_s for row in table.rows)
    return len(optimizers) == 1 and (optimizers[0].total_s or 0.0) >= INSIDE * whole_s


def _interpret(study: ImportConfig, n: int, table: OperatorTable, *, inside: bool) -> Imported:
    """Find the steps that a table covers, and the time of each.

    Args:
        study: the config.
        n: processes that ran.
        table: the content of their table.
        inside: whether a step is the optimizer's, in all tables that are compared.

    Raises:
        ConfigError: the steps are not known, or took no time.
    """
    path = study.tables[n]
    steps, steps_from = _find_steps(path, table, study.steps.get(n))
    rows_s = sum(row.self_s for row in table.rows)
    if inside:
        (row,) = _optimizers(table)
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
        cut=tuple(name for name in names if name.endswith(CUT)),
    )
    return Imported(saved, table)


def _find_steps(path: str, table: OperatorTable, said: int | None) -> tuple[int, str]:
    """Return the number of steps that a table covers, and its source in words.

    Raises:
        ConfigError: neither the config nor the table has the number.
    """
    calls: Counter[str] = Counter()
    for row in _optimizers(table):
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
    mistake = f"has no row {OPTIMIZER}, whose calls are the steps that it covers"
    raise wrong(path, mistake, STEPS_NEEDED)


def operator_frame(tables: Iterable[Imported]) -> pd.DataFrame:
    """Make tables/operators: rows of the same name are one operator, phases are unknown."""
    frames = [
        operator_rows(
            Operators(
                steps=table.saved.steps,
                rows=tuple(OperatorSums(phase="", **asdict(row)) for row in table.table.rows),
            ),
            **dict.fromkeys(("machine", "launch", "label", "role"), IMPORTED),
            n=table.saved.n,
            overhead=None,
        )
        for table in tables
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
            Side(launch=IMPORTED, label="the profiled process", n=saved.n, step_s=saved.step_s)
            for saved in (first, other)
        )
        comparison = compare(a, b, both, kind="counts", rest=NOT_IN_BOTH)
        title = f"{first.n} against {format_count(other.n, 'process', 'processes')}"
        comparisons.append(replace(comparison, title=title))
    return Inflation(machine=IMPORTED, comparisons=tuple(comparisons))


def outline(study: ImportConfig) -> str:
    """Return in words what a run will do."""
    counts = ", ".join(map(str, study.tables))
    return f"{study.study}: saved tables of torch's profiler for {counts} processes; nothing is run"


def findings(tables: Sequence[SavedTable], operators: pd.DataFrame) -> Findings:
    """Return what tables show about why a step takes longer with more processes.

    Args:
        tables: ascending in the number of processes.
        operators: tables/operators of the study.
    """
    low, high = tables[0], tables[-1]
    ratio, facts = high.step_s / low.step_s, [throughput(tables)]
    if low is high:
        answer = "One table shows no growth, so there is nothing to explain."
        facts = []
    elif ratio < GROWS:
        answer = (
            f"A step takes {format_ratio(ratio)} as long with {high.n} processes as "
            f"with {low.n}: within what two profiles of one process each may differ by, so "
            "there is nothing to explain."
        )
    else:
        answer = (
            "These tables name no cause: the time of an operator is the wall time between its "
            "begin and its end, whether it computed, waited for memory or waited for a CPU."
        )
        facts = [*_operator_facts(compare_work(operators, low.n, high.n), low, high), *facts]
    return Findings(answer=answer, facts=tuple(facts), command=COMMAND)


def compare_work(operators: pd.DataFrame, low: int, high: int) -> pd.DataFrame:
    """Compare the operators of two tables for the same work, the least grown first.

    Work is counted in floating-point operations where both tables have them, else in calls.

    Args:
        operators: tables/operators.
        low: the lower number of processes.
        high: the higher one.

    Returns:
        By operator its `group`; `expected_s`, the self time of a step at the higher count if the
        same work took the same time; `actual_s`, the time it took; and `ratio`, actual over
        expected.
    """
    a, b = (operators[operators["n"] == n].set_index("operator") for n in (low, high))
    both = a.merge(b, left_index=True, right_index=True, suffixes=("_a", "_b"))
    both = both[(both["self_s_per_step_a"] > 0) & (both["self_s_per_step_b"] > 0)]
    counted = (both["flops_per_step_a"] > 0) & (both["flops_per_step_b"] > 0)
    work = (both["calls_per_step_b"] / both["calls_per_step_a"]).mask(
        counted, both["flops_per_step_b"] / both["flops_per_step_a"]
    )
    growth = pd.DataFrame({"group": both["group_b"], "actual_s": both["self_s_per_step_b"]})
    growth["expected_s"] = both["self_s_per_step_a"] * work
    growth["ratio"] = growth["actual_s"] / growth["expected_s"]
    return growth.sort_values("ratio", kind="stable")


def _operator_facts(grown: pd.DataFrame, low: SavedTable, high: SavedTable) -> Iterator[str]:
    """Yield sentences on which operators grew, and whether they grew alike.

    Args:
        grown: As `compare_work` returns it.
        low: The table with the fewest processes.
        high: The one with the most.
    """
    ratios, step_ratio = grown["ratio"], high.step_s / low.step_s
    if ratios.empty:
        yield "The tables share no operator."
        return
    longer, count = int((ratios > NO_HIGHER).sum()), len(ratios)
    least, most = ratios.iloc[0], ratios.iloc[-1]
    which = "All" if longer == count else f"{longer} of"
    yield (
        f"{which} {format_count(count, 'operator')} in both tables take longer with "
        f"{high.n} processes than with {low.n}, for the same work and "
        f"without the operators that they call: {format_ratio(least)} ({ratios.index[0]}) to "
        f"{format_ratio(most)} ({ratios.index[-1]}) as long, where the step takes "
        f"{format_ratio(step_ratio)}."
    )
    if longer == count:
        yield _common_part(least, most, step_ratio)
    sums = grown.groupby("group", sort=False)[["expected_s", "actual_s"]].sum()
    by_group = (sums["actual_s"] / sums["expected_s"]).sort_values(ascending=False)
    listed = ", ".join(f"{name} {format_ratio(ratio)}" for name, ratio in by_group.items())
    yield f"By what operators are bound by: {listed}."


def _common_part(least: float, most: float, step_ratio: float) -> str:
    """Return sentences on how much of the added time affects all operators alike."""
    share = min(1.0, (least - 1) / (step_ratio - 1))
    common = (
        f"If what slows the least affected of them slows the whole step as much, that is "
        f"{format_percent(share)} of the added time: something that meets everything."
    )
    if most / least <= ALIKE:
        return f"They grow alike. {common}"
    return (
        f"They do not grow alike: the most affected {format_ratio(most / least)} as "
        f"much as the least. {common} The rest meets some operators more than others."
    )


def throughput(tables: Sequence[SavedTable]) -> str:
    """Return whether more processes do more together, if all train like the profiled one."""
    rates = {table.n: table.n / table.step_s for table in tables}
    best = max(rates, key=lambda n: rates[n])
    last = tables[-1].n
    # The fewest processes that the highest count does not beat: more of them gain nothing.
    enough = next(n for n, rate in rates.items() if rates[last] <= NO_HIGHER * rate)
    condition = "steps/s, if all train like the profiled one."
    if enough == last:
        return f"{best} processes do the most together: {format_number(rates[best])} {condition}"
    return (
        f"{last} processes do no more together than {enough}: {format_number(rates[last])} "
        f"against {format_number(rates[enough])} {condition} Then something that they share is "
        f"used up by {enough} processes already."
    )
