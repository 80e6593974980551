"""Causes that saved tables speak against, and those that only experiments decide.

A table has the wall time of operators in one process, so it names no cause: an operator that takes
longer may have computed, waited for memory or waited for a CPU. But causes meet operators in
different ways. Waiting for a CPU meets all alike; page faults only what writes new memory; memory
bandwidth what streams; a slow BLAS the matrix multiplies (operator_groups.yaml). Where an operator
grows that a cause would spare, the table speaks against that cause. Pure: tables go in, sentences
come out, and every number in them is computed from the tables.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from scaling_study.common.quantities import (
    format_count,
    format_number,
    format_percent,
    format_ratio,
    format_seconds,
)
from scaling_study.records.analysis import Finding, Findings, SavedTable
from scaling_study.stats.thresholds import GROWS, SHARE

CONFIG = "config/decide.yaml"
COMMAND = f"snakemake --cores all --configfile {CONFIG}"

NO_HIGHER = 1.02
"""Throughput that rises by less than this has not risen: the recommendation's own margin."""
ALIKE = 1.25
"""Operators whose growth differs by less than this factor grow alike, with one profile each."""

MULTIPLY, RANDOM = "matrix multiply", "random numbers"
"""Groups that write little new memory for the time they take. Torch draws random numbers one after
the other, so they stream little, too."""
CLEARLY = 0.5
"""An operator shares in a slowdown if it has at least this part of the step's growth."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The comparison of two tables.

    Operators and groups are rows of `expected_s`, the self time of a step at the higher count if
    the same work took the same time; `actual_s`, what it took; and `ratio`, of both.

    Attributes:
        low: the table with the fewest processes.
        high: the one with the most.
        operators: that both show, the least grown first; with their `group`.
        groups: the same, summed.
    """

    low: SavedTable
    high: SavedTable
    operators: pd.DataFrame
    groups: pd.DataFrame

    @property
    def ratio(self) -> float:
        """How many times as long a step takes."""
        return self.high.step_s / self.low.step_s

    @property
    def added_s(self) -> float:
        """By how much longer a step takes (s)."""
        return self.high.step_s - self.low.step_s

    def share_of(self, rows: pd.DataFrame) -> float:
        """Return the share of the added time that some operators or groups take."""
        return float((rows["actual_s"] - rows["expected_s"]).sum()) / self.added_s

    def all_grow(self, rows: pd.DataFrame) -> bool:
        """Whether there are rows, and each has a clear part of the step's growth."""
        least = CLEARLY * (self.ratio - 1)
        return len(rows) > 0 and bool((rows["ratio"] - 1 >= least).all())


def compare_work(operators: pd.DataFrame, low: int, high: int) -> pd.DataFrame:
    """Compare operators of two tables for the same work.

    Work is counted in floating-point operations where both tables have them, else in calls.

    Args:
        operators: tables/operators.
        low: the lower number of processes.
        high: the higher one.

    Returns:
        `Evidence.operators`.
    """
    a, b = (operators[operators["n"] == n].set_index("operator") for n in (low, high))
    both = a.merge(b, left_index=True, right_index=True, suffixes=("_a", "_b"))
    both = both[(both["self_s_per_step_a"] > 0) & (both["self_s_per_step_b"] > 0)]
    counted = (both["flops_per_step_a"] > 0) & (both["flops_per_step_b"] > 0)
    work = (both["calls_per_step_b"] / both["calls_per_step_a"]).mask(
        counted, both["flops_per_step_b"] / both["flops_per_step_a"]
    )
    found = pd.DataFrame(
        {
            "group": both["group_b"],
            "expected_s": both["self_s_per_step_a"] * work,
            "actual_s": both["self_s_per_step_b"],
        }
    )
    return _with_ratios(found).sort_values("ratio", kind="stable")


def _with_ratios(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(ratio=rows["actual_s"] / rows["expected_s"])


def findings(tables: Sequence[SavedTable], operators: pd.DataFrame) -> Findings:
    """Say what tables show of why a step takes longer with more processes.

    Args:
        tables: ascending in the number of processes.
        operators: tables/operators of the study.
    """
    low, high = tables[0], tables[-1]
    if low is high:
        answer = "One table shows no growth, so there is nothing to explain."
        return Findings(answer=answer, command=COMMAND)
    growths = compare_work(operators, low.n, high.n)
    groups = growths.groupby("group", sort=False)[["expected_s", "actual_s"]].sum()
    evidence = Evidence(low, high, growths, _with_ratios(groups))
    rates = throughput(tables)
    if evidence.ratio < GROWS:
        answer = (
            f"A step takes {format_ratio(evidence.ratio)} as long with {high.n} processes as "
            f"with {low.n}: within what two profiles of one process each may differ by, so "
            "there is nothing to explain."
        )
        return Findings(answer=answer, facts=(rates,), command=COMMAND)
    return Findings(
        answer=(
            "These tables name no cause: the time of an operator is the wall time between its "
            "begin and its end, whether it computed, waited for memory or waited for a CPU. But "
            "each cause would meet other operators, and that speaks against some of them."
        ),
        facts=(*_operator_facts(evidence), rates),
        against=tuple(_against(evidence)),
        open=_open(evidence),
        command=COMMAND,
    )


def _operator_facts(evidence: Evidence) -> list[str]:
    """Say which operators grew, and whether they did alike."""
    ratios = evidence.operators["ratio"]
    if ratios.empty:
        return ["The tables share no operator."]
    grown, count = int((ratios > NO_HIGHER).sum()), len(ratios)
    least, most = ratios.iloc[0], ratios.iloc[-1]
    which = "All" if grown == count else f"{grown} of"
    first = (
        f"{which} {format_count(count, 'operator')} in both tables take longer with "
        f"{evidence.high.n} processes than with {evidence.low.n}, for the same work and "
        f"without the operators that they call: {format_ratio(least)} ({ratios.index[0]}) to "
        f"{format_ratio(most)} ({ratios.index[-1]}) as long, where the step takes "
        f"{format_ratio(evidence.ratio)}."
    )
    texts = [first, *([_common_part(evidence, least, most)] if grown == count else [])]
    by_group = evidence.groups["ratio"].sort_values(ascending=False)
    listed = ", ".join(f"{name} {format_ratio(ratio)}" for name, ratio in by_group.items())
    return [*texts, f"By what operators are bound by: {listed}."]


def _common_part(evidence: Evidence, least: float, most: float) -> str:
    """Say how much of the added time meets everything alike."""
    share = min(1.0, (least - 1) / (evidence.ratio - 1))
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
    """Say whether more processes did more together, had all been like the profiled one."""
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


def _against(evidence: Evidence) -> Iterator[Finding]:
    """Name each cause that the tables speak against."""
    if spared := _spared(evidence, RANDOM):
        text = (
            f"Bandwidth meets what streams through memory. {spared} as long, though torch draws "
            "them one after the other and computes for nanoseconds on each. So bandwidth is at "
            "most a part of it."
        )
        yield Finding(cause="memory_bandwidth", title="Memory bandwidth, alone", text=text)
    if spared := _spared(evidence, RANDOM, MULTIPLY):
        text = (
            f"Page faults meet what writes new memory, and spare what computes. {spared} as long "
            "for the same work. So they are at most a part of it."
        )
        title = "Page faults by the allocator's settings, alone"
        yield Finding(cause="page_faults", title=title, text=text)
    multiplies = evidence.groups[evidence.groups.index == MULTIPLY]
    share = evidence.share_of(multiplies)
    if len(multiplies) and share < SHARE:
        text = (
            f"Matrix multiplies hold {format_percent(max(0.0, share))} of the added time, as far "
            "as the tables show them: no BLAS could bring back more."
        )
        yield Finding(cause="slow_blas", title="Slow matrix multiplies", text=text)
    if all(one.step_from.startswith("time in ") for one in (evidence.low, evidence.high)):
        yield from _against_outside(evidence)
    text = (
        f"What a process brings along (an old BLAS kernel, denormal numbers, an allocator's "
        f"settings) is there with {evidence.low.n} processes too. It can make every step slow, "
        "which these tables cannot show; by itself it does not grow with the number of processes."
    )
    yield Finding(cause="level", title="What slows a process that is alone", text=text)


def _against_outside(evidence: Evidence) -> Iterator[Finding]:
    """Name causes that lie outside operators, where the optimizer's step runs the whole step.

    The loader's next batch is a range of its own in a profile, outside the optimizer's step. The
    time of that step without the operators that it calls is spent between them.
    """
    low, high = evidence.low, evidence.high
    if low.self_s and high.self_s:
        before_s, after_s = (
            max(0.0, self_s / one.steps - one.step_s)
            for one, self_s in ((low, low.self_s), (high, high.self_s))
        )
        share = (after_s - before_s) / evidence.added_s
        if share < SHARE:
            text = (
                f"The profiler counts a loader's next batch outside the optimizer's step, which "
                f"holds forward and backward here. Outside are {format_seconds(before_s)} with "
                f"{low.n} processes and {format_seconds(after_s)} with {high.n}: what that adds "
                f"is {format_percent(max(0.0, share))} of what the step adds."
            )
            yield Finding(cause="data_loading", title="Data loading", text=text)
    own = evidence.operators[evidence.operators.index.str.startswith("Optimizer.step")]
    share = evidence.share_of(own)
    if len(own) == 1 and share < CLEARLY:
        text = (
            f"Between operators lies {format_percent(max(0.0, share))} of the added time. A "
            "process that waits there, for a lock, a file or Python's own lock, waits no longer "
            "than that."
        )
        title = "Locks, files and the interpreter, alone"
        yield Finding(cause="waiting", title=title, text=text)


def _spared(evidence: Evidence, *groups: str) -> str:
    """Say how long groups took that a cause would spare; nothing unless all of them grew."""
    rows = evidence.groups.reindex([name for name in groups if name in evidence.groups.index])
    if not evidence.all_grow(rows):
        return ""
    text = " and ".join(
        f"{name} took {format_ratio(ratio)}" for name, ratio in rows["ratio"].items()
    )
    return text[:1].upper() + text[1:]


def _open(evidence: Evidence) -> tuple[Finding, ...]:
    """Say what is open, and which experiment of the config decides it."""
    fits = "It meets every operator, as here. " if evidence.all_grow(evidence.operators) else ""
    return (
        Finding(
            title="Waiting for a CPU",
            text=f"{fits}More threads than CPUs, threads that spin while they wait, a quota, "
            "processes piled on few CPUs, or other programs.",
            decided_by="the time accounts of each step (computing, kernel, waiting for a CPU, "
            "throttled, blocked), and the same launch with one thread per process, with threads "
            "that sleep while they wait, and bound to cores",
        ),
        Finding(
            title="A slower CPU",
            text="Two processes on one core (SMT), or a lower clock with more cores at work: "
            "both slow down all that computes.",
            decided_by="a training process beside loops that stay in registers, at several "
            "doses, and the same loops alone on 1, 2, 4 … CPUs",
        ),
        Finding(
            title="Shared caches and memory",
            text="Beside something that meets everything they may hold what is different "
            "between operators.",
            decided_by="a training process beside streams through the last-level cache and "
            "through memory, against the loop in registers; processes spread over caches and "
            "memory nodes; memory of the own node only",
        ),
        Finding(
            title="New memory",
            text="How often pages are mapped and touched is not in a table.",
            decided_by="page faults per step, and the same launch with an allocator that keeps "
            "large blocks",
        ),
    )
