"""What saved tables say about causes: what they speak against, and what only experiments decide.

A table has the wall time of operators in one process, so it names no cause: an operator that takes
longer may have computed, waited for memory or waited for a CPU. But causes meet operators in
different ways. Waiting for a CPU meets all alike; page faults only what writes new memory; memory
bandwidth what streams; a slow BLAS the matrix multiplies (operator_groups.yaml). Where an operator
grows that a cause would spare, the table speaks against that cause. Pure: tables go in, sentences
come out, and every number in them is computed from the tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scaling_study.common.quantities import (
    format_count,
    format_number,
    format_percent,
    format_ratio,
    format_seconds,
)
from scaling_study.records.analysis import Finding, Findings
from scaling_study.stats.thresholds import GROWS, SHARE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pandas as pd

    from scaling_study.records.analysis import SavedTable

CONFIG = "config/decide.yaml"
COMMAND = f"snakemake --cores all --configfile {CONFIG}"

NO_HIGHER = 1.02
"""Throughput that rises by less than this has not risen: the recommendation's own margin."""
ALIKE = 1.25
"""Operators whose growth differs by less than this factor grow alike, with one profile each."""

MULTIPLY, RANDOM = "matrix multiply", "random numbers"
SPARED_BY_FAULTS = (RANDOM, MULTIPLY)
"""Groups that write little new memory for the time they take."""
SPARED_BY_BANDWIDTH = (RANDOM,)
"""Groups that compute for long on each element: torch draws random numbers one after the other."""


CLEARLY = 0.5
"""An operator shares in a slowdown if it has at least this part of the step's growth."""


@dataclass(frozen=True, slots=True)
class Growth:
    """How an operator, or a group of them, grew for the same work.

    Attributes:
        name: of the operator or group.
        group: that it belongs to.
        expected_s: self time of a step at the higher count, had the same work taken the same time.
        actual_s: what it took.
    """

    name: str
    group: str
    expected_s: float
    actual_s: float

    @property
    def ratio(self) -> float:
        """How many times as long the same work took."""
        return self.actual_s / self.expected_s


@dataclass(frozen=True, slots=True)
class Evidence:
    """What two tables show of each other.

    Attributes:
        low: the table with the fewest processes.
        high: the one with the most.
        operators: that both show, the least grown first.
        groups: the same, summed.
    """

    low: SavedTable
    high: SavedTable
    operators: tuple[Growth, ...]
    groups: Mapping[str, Growth]

    @property
    def ratio(self) -> float:
        """How many times as long a step takes."""
        return self.high.step_s / self.low.step_s

    @property
    def added_s(self) -> float:
        """What a step takes longer (s)."""
        return self.high.step_s - self.low.step_s

    def shares_in_growth(self, growth: Growth) -> bool:
        """Whether an operator has a clear part of the step's growth."""
        return growth.ratio - 1 >= CLEARLY * (self.ratio - 1)


def compare_work(operators: pd.DataFrame, low: int, high: int) -> tuple[Growth, ...]:
    """Compare operators of two tables for the same work.

    Work is counted in floating-point operations where both tables have them, else in calls.

    Args:
        operators: tables/operators.
        low: the lower number of processes.
        high: the higher one.
    """
    columns = ["calls_per_step", "self_s_per_step", "flops_per_step"]
    a, b = (operators[operators["n"] == n].set_index("operator") for n in (low, high))
    both = a[columns].merge(
        b[[*columns, "group"]], left_index=True, right_index=True, suffixes=("_a", "_b")
    )
    both = both[(both["self_s_per_step_a"] > 0) & (both["self_s_per_step_b"] > 0)]
    counted = (both["flops_per_step_a"] > 0) & (both["flops_per_step_b"] > 0)
    work = (both["calls_per_step_b"] / both["calls_per_step_a"]).mask(
        counted, both["flops_per_step_b"] / both["flops_per_step_a"]
    )
    expected = both["self_s_per_step_a"] * work
    found = [
        Growth(str(name), str(group), float(before), float(after))
        for name, group, before, after in zip(
            both.index, both["group"], expected, both["self_s_per_step_b"], strict=True
        )
    ]
    return tuple(sorted(found, key=lambda growth: growth.ratio))


def sum_groups(growths: Sequence[Growth]) -> dict[str, Growth]:
    """Sum operators of the same group."""
    return {
        name: Growth(
            name,
            name,
            sum(growth.expected_s for growth in growths if growth.group == name),
            sum(growth.actual_s for growth in growths if growth.group == name),
        )
        for name in dict.fromkeys(growth.group for growth in growths)
    }


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
    evidence = Evidence(low, high, growths, sum_groups(growths))
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
        against=tuple(found for rule in AGAINST if (found := rule(evidence)) is not None),
        open=left(evidence),
        command=COMMAND,
    )


def _operator_facts(evidence: Evidence) -> list[str]:
    """Say which operators grew, and whether they did alike."""
    if not evidence.operators:
        return ["The tables share no operator."]
    least, most = evidence.operators[0], evidence.operators[-1]
    grown = sum(growth.ratio > NO_HIGHER for growth in evidence.operators)
    count = len(evidence.operators)
    which = "All" if grown == count else f"{grown} of"
    first = (
        f"{which} {format_count(count, 'operator')} in both tables take longer with "
        f"{evidence.high.n} processes than with {evidence.low.n}, for the same work and "
        f"without the operators that they call: {format_ratio(least.ratio)} ({least.name}) to "
        f"{format_ratio(most.ratio)} ({most.name}) as long, where the step takes "
        f"{format_ratio(evidence.ratio)}."
    )
    texts = [first, *([_common_part(evidence, least, most)] if grown == count else [])]
    by_group = sorted(evidence.groups.values(), key=lambda group: -group.ratio)
    listed = ", ".join(f"{group.name} {format_ratio(group.ratio)}" for group in by_group)
    return [*texts, f"By what operators are bound by: {listed}."]


def _common_part(evidence: Evidence, least: Growth, most: Growth) -> str:
    """Say how much of the added time meets everything alike."""
    share = min(1.0, (least.ratio - 1) / (evidence.ratio - 1))
    common = (
        f"If what slows the least affected of them slows the whole step as much, that is "
        f"{format_percent(share)} of the added time: something that meets everything."
    )
    if most.ratio / least.ratio <= ALIKE:
        return f"They grow alike. {common}"
    return (
        f"They do not grow alike: the most affected {format_ratio(most.ratio / least.ratio)} as "
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


def _against_loading(evidence: Evidence) -> Finding | None:
    """The loader's next batch is a range of its own in a profile, outside the optimizer's step."""
    low, high = evidence.low, evidence.high
    if not all(one.step_from.startswith("time in ") and one.self_s for one in (low, high)):
        return None
    outside = [max(0.0, (one.self_s or 0.0) / one.steps - one.step_s) for one in (low, high)]
    share = (outside[1] - outside[0]) / evidence.added_s
    if share >= SHARE:
        return None
    text = (
        f"The profiler counts a loader's next batch outside the optimizer's step, which holds "
        f"forward and backward here. Outside are {format_seconds(outside[0])} with {low.n} "
        f"processes and {format_seconds(outside[1])} with {high.n}: what that adds is "
        f"{format_percent(max(0.0, share))} of what the step adds."
    )
    return Finding(cause="data_loading", title="Data loading", text=text)


def _against_faults(evidence: Evidence) -> Finding | None:
    spared = [evidence.groups[name] for name in SPARED_BY_FAULTS if name in evidence.groups]
    grown = [group for group in spared if evidence.shares_in_growth(group)]
    if not grown or len(grown) < len(spared):
        return None
    text = (
        f"Page faults meet what writes new memory, and spare what computes. {_listed(grown)} as "
        "long for the same work. So they are at most a part of it."
    )
    return Finding(
        cause="page_faults", title="Page faults by the allocator's settings, alone", text=text
    )


def _against_bandwidth(evidence: Evidence) -> Finding | None:
    spared = [evidence.groups[name] for name in SPARED_BY_BANDWIDTH if name in evidence.groups]
    grown = [group for group in spared if evidence.shares_in_growth(group)]
    if not grown:
        return None
    text = (
        f"Bandwidth meets what streams through memory. {_listed(grown)} as long, though torch "
        "draws them one after the other and computes for nanoseconds on each. So bandwidth is at "
        "most a part of it."
    )
    return Finding(cause="memory_bandwidth", title="Memory bandwidth, alone", text=text)


def _listed(groups: Sequence[Growth]) -> str:
    texts = [f"{group.name} took {format_ratio(group.ratio)}" for group in groups]
    text = " and ".join(texts)
    return text[:1].upper() + text[1:]


def _against_blas(evidence: Evidence) -> Finding | None:
    group = evidence.groups.get(MULTIPLY)
    if group is None:
        return None
    share = (group.actual_s - group.expected_s) / evidence.added_s
    if share >= SHARE:
        return None
    text = (
        f"Matrix multiplies hold {format_percent(max(0.0, share))} of the added time, as far as "
        "the tables show them: no BLAS could bring back more."
    )
    return Finding(cause="slow_blas", title="Slow matrix multiplies", text=text)


def _against_waiting(evidence: Evidence) -> Finding | None:
    """What the optimizer's step does itself, where it runs forward and backward, is no operator."""
    own = [growth for growth in evidence.operators if growth.name.startswith("Optimizer.step")]
    if len(own) != 1 or not evidence.low.step_from.startswith("time in "):
        return None
    share = (own[0].actual_s - own[0].expected_s) / evidence.added_s
    if share >= CLEARLY:
        return None
    text = (
        f"Between operators lies {format_percent(max(0.0, share))} of the added time. A process "
        "that waits there, for a lock, a file or Python's own lock, waits no longer than that."
    )
    return Finding(cause="waiting", title="Locks, files and the interpreter, alone", text=text)


def _against_own(evidence: Evidence) -> Finding:
    text = (
        f"What a process brings along (an old BLAS kernel, denormal numbers, an allocator's "
        f"settings) is there with {evidence.low.n} processes too. It can make every step slow, "
        "which these tables cannot show; by itself it does not grow with the number of processes."
    )
    return Finding(cause="level", title="What slows a process that is alone", text=text)


AGAINST: tuple[Callable[[Evidence], Finding | None], ...] = (
    _against_bandwidth, _against_faults, _against_blas, _against_loading, _against_waiting,
    _against_own,
)  # fmt: skip


def left(evidence: Evidence) -> tuple[Finding, ...]:
    """Say what is open, and which experiment of the config decides it."""
    everything = all(map(evidence.shares_in_growth, evidence.operators))
    fits = "It meets every operator, as here. " if everything and evidence.operators else ""
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
