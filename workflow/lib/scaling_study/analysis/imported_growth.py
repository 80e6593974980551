"""Findings from saved tables on why a step takes longer with more processes.

A table has the wall time of operators in one process, so it names no cause: an operator that takes
longer may have computed, waited for memory or waited for a CPU. It shows which operators take
longer for the same work, and by how much. Pure: tables go in, sentences come out.
"""

from collections.abc import Sequence

import pandas as pd

from scaling_study.common.quantities import (
    format_count,
    format_number,
    format_percent,
    format_ratio,
)
from scaling_study.records.analysis import Findings, SavedTable
from scaling_study.stats.thresholds import GROWS

CONFIG = "config/tsmixerx.yaml"
COMMAND = f"snakemake --cores all --configfile {CONFIG}"

NO_HIGHER = 1.02
"""Throughput that rises by less than this factor counts as no higher, as in a recommendation."""
ALIKE = 1.25
"""Operators whose growth differs by less than this factor grow alike: a count has one profile."""


def findings(tables: Sequence[SavedTable], operators: pd.DataFrame) -> Findings:
    """Return what tables show about why a step takes longer with more processes.

    Args:
        tables: ascending in the number of processes.
        operators: tables/operators of the study.
    """
    low, high = tables[0], tables[-1]
    if low is high:
        answer = "One table shows no growth, so there is nothing to explain."
        return Findings(answer=answer, command=COMMAND)
    ratio, rates = high.step_s / low.step_s, throughput(tables)
    if ratio < GROWS:
        answer = (
            f"A step takes {format_ratio(ratio)} as long with {high.n} processes as "
            f"with {low.n}: within what two profiles of one process each may differ by, so "
            "there is nothing to explain."
        )
        return Findings(answer=answer, facts=(rates,), command=COMMAND)
    answer = (
        "These tables name no cause: the time of an operator is the wall time between its "
        "begin and its end, whether it computed, waited for memory or waited for a CPU."
    )
    facts = (*_operator_facts(compare_work(operators, low.n, high.n), low, high), rates)
    return Findings(answer=answer, facts=facts, command=COMMAND)


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
    found = pd.DataFrame({"group": both["group_b"], "actual_s": both["self_s_per_step_b"]})
    found["expected_s"] = both["self_s_per_step_a"] * work
    found["ratio"] = found["actual_s"] / found["expected_s"]
    return found.sort_values("ratio", kind="stable")


def _operator_facts(grown: pd.DataFrame, low: SavedTable, high: SavedTable) -> list[str]:
    """Return sentences on which operators grew, and whether they grew alike.

    Args:
        grown: As `compare_work` returns it.
        low: The table with the fewest processes.
        high: The one with the most.
    """
    ratios, step_ratio = grown["ratio"], high.step_s / low.step_s
    if ratios.empty:
        return ["The tables share no operator."]
    longer, count = int((ratios > NO_HIGHER).sum()), len(ratios)
    least, most = ratios.iloc[0], ratios.iloc[-1]
    which = "All" if longer == count else f"{longer} of"
    first = (
        f"{which} {format_count(count, 'operator')} in both tables take longer with "
        f"{high.n} processes than with {low.n}, for the same work and "
        f"without the operators that they call: {format_ratio(least)} ({ratios.index[0]}) to "
        f"{format_ratio(most)} ({ratios.index[-1]}) as long, where the step takes "
        f"{format_ratio(step_ratio)}."
    )
    texts = [first]
    if longer == count:
        texts.append(_common_part(least, most, step_ratio))
    sums = grown.groupby("group", sort=False)[["expected_s", "actual_s"]].sum()
    by_group = (sums["actual_s"] / sums["expected_s"]).sort_values(ascending=False)
    listed = ", ".join(f"{name} {format_ratio(ratio)}" for name, ratio in by_group.items())
    return [*texts, f"By what operators are bound by: {listed}."]


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
