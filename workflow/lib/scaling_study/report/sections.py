"""One sentence for each further section of the report, and what is folded below it.

A sentence quotes figures of at least two starts only, and each quantity has one source (`words`).
"""

import statistics

from scaling_study.analysis.imported import NOT_IN_BOTH
from scaling_study.analysis.inflation import sum_operators
from scaling_study.common.objectives import OBJECTIVES
from scaling_study.common.quantities import (
    format_bytes,
    format_count,
    format_cpus,
    format_percent,
    format_ratio,
    known,
)
from scaling_study.experiments.kernels import STREAM_BYTES
from scaling_study.profiling import operator_groups
from scaling_study.records.analysis import ENOUGH_STARTS, Best, Compared, Comparison, Recommendation
from scaling_study.records.experiment import Microbenchmarks
from scaling_study.records.verdict import DataLoader, MachineUse
from scaling_study.report.model import Machine
from scaling_study.report.words import (
    NOUNS,
    WIDE,
    Mark,
    amount,
    differs,
    listed,
    name_launch,
    opening,
    processes,
    share_and_interval,
    spelled,
)
from scaling_study.stats import thresholds
from scaling_study.stats.interval import Interval

Rule = tuple[str, bool | None, str]

STILL_SCALING = 0.9
"""From this efficiency on, a launch still scales."""
MAXED = 0.9
"""A resource used to this part has nothing left to give."""
STALLED = 0.1
"""Something waits for this share of the time, and more."""


def scaling(machine: Machine, launch: str, label: str) -> str:
    """Say how far a launch scales; nothing is quoted of a launch that was started once."""
    last, first = machine.point(launch), machine.point(launch, 1)
    name = opening(label)
    if last is None:
        return f"{name} gave no valid window."
    if last["n"] == 1:
        return f"Only one process of {name_launch(label)} was measured."
    ends = (last["efficiency_low"], last["efficiency_high"])
    found = Interval(last["efficiency"], *(end if known(end) else None for end in ends))
    starts = 0 if first is None else min(first["replicates"], last["replicates"])
    if starts < ENOUGH_STARTS or not known(found.value):
        return f"{name} was not started often enough to say how it scales."
    if (found.high or 0.0) > WIDE * max(found.low or 0.0, 0.01):
        return f"{name} differs too much between its starts to say how it scales."
    verb = "still scales with" if found.value >= STILL_SCALING else "has"
    busy = format_cpus(round(float(last["cpu_use"]), 1))
    return (
        f"{name} {verb} an efficiency of {share_and_interval(found)} at "
        f"{processes(int(last['n']))}, with {busy} of {len(machine.hardware.cpus)} CPUs busy."
    )


def operators(comparison: Comparison) -> str:
    """Say in which known operator the largest part of a step's difference is."""
    change = "added" if comparison.added_s >= 0 else "saved"
    groups = [
        f"{one.group} {format_percent(one.share)}"
        for one in sorted(comparison.groups, key=lambda one: -(one.share or 0.0))
        if (one.share or 0.0) >= thresholds.SHARE
    ]
    by_group = f" By group: {listed(groups)}." if groups else ""
    known = (row for row in sum_operators(comparison) if row.operator != NOT_IN_BOTH)
    largest = next(known, None)
    if largest is None or not largest.difference_s:
        return f"No operator changed.{by_group}"
    outside = largest.group == operator_groups.OUTSIDE
    where = "what no operator covers" if outside else largest.operator
    share = largest.difference_s / comparison.added_s if comparison.added_s else 1.0
    part = f"the largest part of the {change} time, {format_percent(share)}, is in {where}"
    return f"{comparison.title}: {part}.{by_group}"


def other_way(found: DataLoader) -> str:
    """Say what the best other way to load gives; empty where none was looked at."""
    tried = [one for one in found.ways if one.name and one.measured_s is not None]
    if not found.ways or found.ways[0].name:  # nothing is known of the script as it is
        return ""
    if not tried:
        return "Of the ways to load that were looked at, none should be faster."
    best = min(tried, key=lambda one: one.predicted_s or 0.0)
    gain = f"{format_ratio(best.gain.value)} ({spelled(best.gain)})" if best.gain else "not known"
    axes = ", ".join(f"{axis}: {value}" for axis, value in best.axes.items())
    if best.gain is None or not best.gain.above_one:
        return f"The best other way to load, {best.title}, is not surely faster: {gain}."
    return f"Load with {best.title}: {gain} as fast{f'; in a launch, {axes}' if axes else ''}."


def rules_of_thumb(found: MachineUse, memory_bytes: float | None) -> list[Rule]:
    """Answer rules of thumb for feeding training, each with its number."""

    def mean(kind: str) -> float | None:
        seen = [value for span in found.spans if (value := getattr(span, kind)) is not None]
        return sum(seen) / len(seen) if seen else None

    used = sum(mean(kind) or 0.0 for kind in ("trainers", "threads", "workers", "others"))
    in_use = f"{format_cpus(used)} of {format_cpus(found.cpus)} CPUs in use"
    rows: list[Rule] = [("CPUs are not used up", used < MAXED * found.cpus, in_use)]
    for kind, what in (("stalled_cpu", "a CPU"), ("stalled_io", "a disk")):
        if (stalled := mean(kind)) is not None:
            text = f"something waits in {format_percent(round(stalled, 2))} of the time"
            rows.append((f"Nobody waits for {what}", stalled < STALLED, text))
    for left, whole, what in (
        ("memory_left", memory_bytes, "Memory"),
        ("shared_left", found.shared_bytes, "Shared memory (/dev/shm)"),
    ):
        if whole:
            least = min(getattr(span, left) for span in found.spans)
            text = f"at least {format_bytes(least)} left"
            rows.append((f"{what} is not used up", least > (1 - MAXED) * whole, text))
    for kind, what in (("disk", "read from disks"), ("network", "received from the network")):
        rows.append(("for comparison", None, f"{format_bytes(mean(kind))} a second {what}"))
    return rows


def ceilings(alone: Microbenchmarks) -> list[tuple[str, float]]:
    """Return what a loader cannot exceed (bytes per second): streams, and reading from the disk.

    Streams with one process and with the most.
    """
    found = []
    for kernel, title in (("memory", "memory, a stream"), ("llc", "last-level cache, a stream")):
        rows = [row for row in alone.rows if row.kernel == kernel and row.valid and row.rates]
        counts = [row.n for row in rows]
        for n in sorted({min(counts), max(counts)} if counts else ()):
            mean = statistics.fmean(sum(row.rates) for row in rows if row.n == n)
            found.append((f"{title}, {processes(n)}", STREAM_BYTES * mean))
    if alone.disk and alone.disk.per_s is not None:
        found.append((f"the disk, in order ({alone.disk.note})", alone.disk.per_s))
    return found


# Several machines.


def compared_verdict(compared: Compared) -> str:
    """Say which machine gives most, by their windows: each confirmation stands in its own part."""
    best = compared.best.get("rate")
    if best is None:
        names = [one.name for one in compared.measured]
        return f"Only {names[0]} is measured" if len(names) == 1 else "Nothing to compare"
    return f"{_most(best, NOUNS[compared.objective or 'steps_per_s'])}, predicted"


def _most(best: Best, what: str) -> str:
    """Say which machine gives most of something, where this study can tell."""
    first, other, ratio = best.first, best.next, best.ratio
    if not ratio.sure:
        return f"{first} looks best; without an interval it is not certain"
    if not differs(ratio, best.spread):
        return f"{first} and {other} give as many {what}, as far as this study can tell"
    return f"{first} gives {format_ratio(ratio.value)} the {what} of {other} ({spelled(ratio)})"


def per_unit(compared: Compared) -> dict[str, str]:
    """Return what rates are per, of those that some machine has, by the name of the measure."""
    units = {"per_price": compared.currency, "per_kwh": "kWh"}
    return {
        measure: unit
        for measure, unit in units.items()
        if any(one.recommended and getattr(one.recommended, measure) for one in compared.machines)
    }


def compared_notes(compared: Compared) -> list[Mark]:
    """Say what a careful reader wants to know of a comparison; bad ones weaken it."""
    things, *_ = NOUNS[compared.objective or "steps_per_s"].split()
    notes = [
        Mark(f"{one.name} is missing: {one.reason}.", bad=True)
        for one in compared.machines
        if one.status == "missing"
    ]
    for measure, unit in per_unit(compared).items():
        best = compared.best.get(measure)
        if best is not None:
            notes.append(Mark(f"{_most(best, f'{things} per {unit}')}."))
    for names in compared.same:
        text = "are the same machine by all that matters to its speed"
        notes.append(Mark(f"{listed(names, 9)} {text}.", bad=True))
    for one in compared.machines:
        for other in one.others:
            differences = "; ".join(f"{f.fact} {f.there}, not {f.here}" for f in other.differences)
            text = (
                f"Not all nodes of {one.name} are alike: {listed(other.hosts, 4)} "
                f"({format_count(other.cohorts, 'cohort')}) has {differences}. They are not "
                f"pooled: compared here is {listed(one.hosts, 4)}."
            )
            notes.append(Mark(text, bad=True))
    for entry in compared.software:
        values = "; ".join(f"{name} {value}" for name, value in entry.machines.items())
        notes.append(Mark(f"The machines differ in {entry.what}: {values}.", bad=True))
    return notes


def throughput(found: Recommendation) -> str:
    """Say which point gives most per hour, where one model soonest was asked for."""
    most = found.throughput
    if most is None or most.once:
        return ""
    rate = OBJECTIVES[found.objective].rate
    value = amount(most.gives(rate), rate)
    by = f"{processes(most.n)} of {name_launch(most.label)}"
    return f"Most {NOUNS[rate]}: {value} with {by}, predicted."
