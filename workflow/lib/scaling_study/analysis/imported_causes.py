"""What saved tables say about causes: what they speak against, and what only experiments decide.

A table has the wall time of operators in one process, so it names no cause: an operator that takes
longer may have computed, waited for memory or waited for a CPU. But causes meet operators in
different ways. Waiting for a CPU meets all alike; page faults only what writes new memory; memory
bandwidth what streams; a slow BLAS the matrix multiplies (operator_groups.yaml). Where an operator
grows that a cause would spare, the table speaks against that cause. Pure: tables go in, sentences
come out, and every number in them is computed from the tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scaling_study.analysis.imported_growth import (
    CLEARLY,
    Evidence,
    Growth,
    compare_work,
    sum_groups,
)
from scaling_study.common.quantities import (
    format_count,
    format_number,
    format_percent,
    format_ratio,
    format_seconds,
)
from scaling_study.stats.thresholds import GROWS, SHARE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pandas as pd

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


def findings(tables: Sequence[Mapping[str, Any]], operators: pd.DataFrame) -> dict[str, Any]:
    """Say what tables show of why a step takes longer with more processes.

    Args:
        tables: entries of analysis/tables.json, ascending in the number of processes.
        operators: tables/operators of the study.

    Returns:
        ``answer`` (a sentence), ``facts`` (sentences), ``against`` (causes that the tables speak
        against: ``cause``, ``title``, ``text``), ``open`` (what they leave open: ``title``,
        ``text``, and the experiment that decides it, ``decided_by``) and ``command``.
    """
    low, high = tables[0], tables[-1]
    nothing: dict[str, Any] = {"facts": [], "against": [], "open": [], "command": COMMAND}
    if low is high:
        return nothing | {"answer": "One table shows no growth, so there is nothing to explain."}
    growths = compare_work(operators, low["n"], high["n"])
    evidence = Evidence(low, high, growths, sum_groups(growths))
    rates = throughput(tables)
    if evidence.ratio < GROWS:
        answer = (
            f"A step takes {format_ratio(evidence.ratio)} as long with {high['n']} processes as "
            f"with {low['n']}: within what two profiles of one process each may differ by, so "
            "there is nothing to explain."
        )
        return nothing | {"answer": answer, "facts": [*rates]}
    against = [found for rule in AGAINST if (found := rule(evidence)) is not None]
    answer = (
        "These tables name no cause: the time of an operator is the wall time between its begin "
        "and its end, whether it computed, waited for memory or waited for a CPU. But each cause "
        "would meet other operators, and that speaks against some of them."
    )
    facts = [*_operator_facts(evidence), *rates]
    return nothing | {"answer": answer, "facts": facts, "against": against, "open": left(evidence)}


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
        f"{evidence.high['n']} processes than with {evidence.low['n']}, for the same work and "
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


def throughput(tables: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say whether more processes did more together, had all been like the profiled one."""
    rates = {table["n"]: table["n"] / table["step_s"] for table in tables}
    best = max(rates, key=lambda n: rates[n])
    last = tables[-1]["n"]
    # The fewest processes that the highest count does not beat: more of them gain nothing.
    enough = next(n for n, rate in rates.items() if rates[last] <= NO_HIGHER * rate)
    condition = "steps/s, if all train like the profiled one."
    if enough == last:
        return [f"{best} processes do the most together: {format_number(rates[best])} {condition}"]
    text = (
        f"{last} processes do no more together than {enough}: {format_number(rates[last])} "
        f"against {format_number(rates[enough])} {condition} Then something that they share is "
        f"used up by {enough} processes already."
    )
    return [text]


def _found(cause: str, title: str, text: str) -> dict[str, str]:
    return {"cause": cause, "title": title, "text": text}


def _against_loading(evidence: Evidence) -> dict[str, str] | None:
    """The loader's next batch is a range of its own in a profile, outside the optimizer's step."""
    low, high = evidence.low, evidence.high
    if not all(one["step_from"].startswith("time in ") and one["self_s"] for one in (low, high)):
        return None
    outside = [max(0.0, one["self_s"] / one["steps"] - one["step_s"]) for one in (low, high)]
    share = (outside[1] - outside[0]) / evidence.added_s
    if share >= SHARE:
        return None
    text = (
        f"The profiler counts a loader's next batch outside the optimizer's step, which holds "
        f"forward and backward here. Outside are {format_seconds(outside[0])} with {low['n']} "
        f"processes and {format_seconds(outside[1])} with {high['n']}: what that adds is "
        f"{format_percent(max(0.0, share))} of what the step adds."
    )
    return _found("data_loading", "Data loading", text)


def _against_faults(evidence: Evidence) -> dict[str, str] | None:
    spared = [evidence.groups[name] for name in SPARED_BY_FAULTS if name in evidence.groups]
    grown = [group for group in spared if evidence.shares_in_growth(group)]
    if not grown or len(grown) < len(spared):
        return None
    text = (
        f"Page faults meet what writes new memory, and spare what computes. {_listed(grown)} as "
        "long for the same work. So they are at most a part of it."
    )
    return _found("page_faults", "Page faults by the allocator's settings, alone", text)


def _against_bandwidth(evidence: Evidence) -> dict[str, str] | None:
    spared = [evidence.groups[name] for name in SPARED_BY_BANDWIDTH if name in evidence.groups]
    grown = [group for group in spared if evidence.shares_in_growth(group)]
    if not grown:
        return None
    text = (
        f"Bandwidth meets what streams through memory. {_listed(grown)} as long, though torch "
        "draws them one after the other and computes for nanoseconds on each. So bandwidth is at "
        "most a part of it."
    )
    return _found("memory_bandwidth", "Memory bandwidth, alone", text)


def _listed(groups: Sequence[Growth]) -> str:
    texts = [f"{group.name} took {format_ratio(group.ratio)}" for group in groups]
    text = " and ".join(texts)
    return text[:1].upper() + text[1:]


def _against_blas(evidence: Evidence) -> dict[str, str] | None:
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
    return _found("slow_blas", "Slow matrix multiplies", text)


def _against_waiting(evidence: Evidence) -> dict[str, str] | None:
    """What the optimizer's step does itself, where it runs forward and backward, is no operator."""
    own = [growth for growth in evidence.operators if growth.name.startswith("Optimizer.step")]
    if len(own) != 1 or not evidence.low["step_from"].startswith("time in "):
        return None
    share = (own[0].actual_s - own[0].expected_s) / evidence.added_s
    if share >= CLEARLY:
        return None
    text = (
        f"Between operators lies {format_percent(max(0.0, share))} of the added time. A process "
        "that waits there, for a lock, a file or Python's own lock, waits no longer than that."
    )
    return _found("waiting", "Locks, files and the interpreter, alone", text)


def _against_own(evidence: Evidence) -> dict[str, str]:
    text = (
        f"What a process brings along (an old BLAS kernel, denormal numbers, an allocator's "
        f"settings) is there with {evidence.low['n']} processes too. It can make every step slow, "
        "which these tables cannot show; by itself it does not grow with the number of processes."
    )
    return _found("level", "What slows a process that is alone", text)


AGAINST: tuple[Callable[[Evidence], dict[str, str] | None], ...] = (
    _against_bandwidth, _against_faults, _against_blas, _against_loading, _against_waiting,
    _against_own,
)  # fmt: skip


def left(evidence: Evidence) -> list[dict[str, str]]:
    """Say what is open, and which experiment of the config decides it."""
    everything = all(map(evidence.shares_in_growth, evidence.operators))
    fits = "It meets every operator, as here. " if everything and evidence.operators else ""
    return [
        {
            "title": "Waiting for a CPU",
            "text": f"{fits}More threads than CPUs, threads that spin while they wait, a quota, "
            "processes piled on few CPUs, or other programs.",
            "decided_by": "the time accounts of each step (computing, kernel, waiting for a CPU, "
            "throttled, blocked), and the same launch with one thread per process, with threads "
            "that sleep while they wait, and bound to cores",
        },
        {
            "title": "A slower CPU",
            "text": "Two processes on one core (SMT), or a lower clock with more cores at work: "
            "both slow down all that computes.",
            "decided_by": "a training process beside loops that stay in registers, at several "
            "doses, and the same loops alone on 1, 2, 4 … CPUs",
        },
        {
            "title": "Shared caches and memory",
            "text": "Beside something that meets everything they may hold what is different "
            "between operators.",
            "decided_by": "a training process beside streams through the last-level cache and "
            "through memory, against the loop in registers; processes spread over caches and "
            "memory nodes; memory of the own node only",
        },
        {
            "title": "New memory",
            "text": "How often pages are mapped and touched is not in a table.",
            "decided_by": "page faults per step, and the same launch with an allocator that keeps "
            "large blocks",
        },
    ]
