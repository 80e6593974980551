"""One sentence for each further section of the report, and the details folded below it.

A sentence quotes only figures of at least two starts, and each quantity has one source (`words`).
"""

import statistics
from collections.abc import Iterator

from scaling_study.analysis.inflation import sum_operators
from scaling_study.common.objectives import OBJECTIVES
from scaling_study.common.quantities import (
    format_bytes,
    format_count,
    format_cpus,
    format_percent,
    format_ratio,
)
from scaling_study.experiments.kernels import STREAM_BYTES
from scaling_study.profiling import operator_groups
from scaling_study.records.analysis import Compared, Comparison, Recommendation
from scaling_study.records.experiment import Microbenchmarks
from scaling_study.records.verdict import MachineUse
from scaling_study.report import words
from scaling_study.stats import thresholds

Rule = tuple[str, bool | None, str]

MAXED = 0.9
"""From this share on, a resource counts as used up."""
STALLED = 0.1
"""From this share of the time on, waiting counts."""


def operators(comparison: Comparison) -> str:
    """Name the known operator with the largest part of the difference between two steps."""
    change = "added" if comparison.added_s >= 0 else "saved"
    groups = [
        f"{group.group} {format_percent(group.share)}"
        for group in sorted(comparison.groups, key=lambda group: -(group.share or 0.0))
        if (group.share or 0.0) >= thresholds.SHARE
    ]
    by_group = f" By group: {words.listed(groups)}." if groups else ""
    rows = sum_operators(comparison)
    known = [row for row in rows if row.group != operator_groups.NOT_IN_BOTH]
    largest = known[0] if known else None
    if largest is None or not largest.difference_s:
        return f"No operator changed.{by_group}"
    outside = largest.group == operator_groups.OUTSIDE
    where = "what no operator covers" if outside else largest.operator
    share = largest.difference_s / comparison.added_s if comparison.added_s else 1.0
    where += " (of operators in both tables)" if len(known) < len(rows) else ""
    part = f"the largest part of the {change} time, {format_percent(share)}, is in {where}"
    return f"{comparison.title}: {part}.{by_group}"


def rules_of_thumb(usage: MachineUse, memory_bytes: float | None) -> Iterator[Rule]:
    """Answer rules of thumb for feeding training, each with its number."""

    def mean(kind: str) -> float | None:
        values = [value for span in usage.spans if (value := getattr(span, kind)) is not None]
        return sum(values) / len(values) if values else None

    used = sum(mean(kind) or 0.0 for kind in ("trainers", "threads", "workers", "others"))
    in_use = f"{format_cpus(used)} of {format_cpus(usage.cpus)} CPUs in use"
    yield "CPUs are not used up", used < MAXED * usage.cpus, in_use
    for kind, resource in (("stalled_cpu", "a CPU"), ("stalled_io", "a disk")):
        if (stalled := mean(kind)) is not None:
            text = f"something waits in {format_percent(round(stalled, 2))} of the time"
            yield f"Nobody waits for {resource}", stalled < STALLED, text
    for left, whole, resource in (
        ("memory_left", memory_bytes, "Memory"),
        ("shared_left", usage.shared_bytes, "Shared memory (/dev/shm)"),
    ):
        if whole:
            least = min(getattr(span, left) for span in usage.spans)
            text = f"at least {format_bytes(least)} left"
            yield f"{resource} is not used up", least > (1 - MAXED) * whole, text
    for kind, transfer in (("disk", "read from disks"), ("network", "received from the network")):
        yield "for comparison", None, f"{format_bytes(mean(kind))} a second {transfer}"


def ceilings(alone: Microbenchmarks) -> Iterator[tuple[str, float]]:
    """Yield rates that a loader cannot exceed (bytes/s): streams, and reading from the disk.

    Streams are those of the fewest and of the most processes.
    """
    for kernel, title in (("memory", "memory, a stream"), ("llc", "last-level cache, a stream")):
        rows = [row for row in alone.rows if row.kernel == kernel and row.valid and row.rates]
        counts = [row.n for row in rows]
        for n in sorted({min(counts), max(counts)} if counts else ()):
            mean = statistics.fmean(sum(row.rates) for row in rows if row.n == n)
            yield f"{title}, {words.processes(n)}", STREAM_BYTES * mean
    if alone.disk and alone.disk.per_s is not None:
        yield f"the disk, in order ({alone.disk.note})", alone.disk.per_s


# Several machines.


def compared_verdict(compared: Compared) -> str:
    """Say which machine gives most, as predicted; confirmations are in the part of each machine."""
    best = compared.best
    if best is None:
        names = [machine.name for machine in compared.measured]
        return f"Only {names[0]} is measured" if len(names) == 1 else "Nothing to compare"
    noun = words.NOUNS[compared.objective or "steps_per_s"]
    first, other, ratio = best.first, best.next, best.ratio
    if not ratio.sure:
        text = f"{first} looks best; without an interval it is not certain"
    elif not words.differs(ratio, best.spread):
        text = f"{first} and {other} give as many {noun}, as far as this study can tell"
    else:
        interval = words.spelled(ratio)
        text = f"{first} gives {format_ratio(ratio.value)} the {noun} of {other} ({interval})"
    return f"{text}, predicted"


def compared_notes(compared: Compared) -> Iterator[str]:
    """Yield what weakens a comparison."""
    for machine in compared.machines:
        if machine.status == "missing":
            yield f"{machine.name} is missing: {machine.reason}."
    for names in compared.same:
        yield f"{words.listed(names, 9)} are the same machine by all that matters to its speed."
    for machine in compared.machines:
        for other in machine.others:
            differences = "; ".join(f"{f.fact} {f.there}, not {f.here}" for f in other.differences)
            yield (
                f"Not all nodes of {machine.name} are alike: {words.listed(other.hosts, 4)} "
                f"({format_count(other.cohorts, 'cohort')}) has {differences}. They are not "
                f"pooled: compared here is {words.listed(machine.hosts, 4)}."
            )
    for entry in compared.software:
        values = "; ".join(f"{name} {value}" for name, value in entry.machines.items())
        yield f"The machines differ in {entry.what}: {values}."


def throughput(recommendation: Recommendation) -> str:
    """Say which point has the highest rate, for a study that asks for one model soonest."""
    most = recommendation.throughput
    if most is None or most.once:
        return ""
    rate = OBJECTIVES[recommendation.objective].rate
    value = words.amount(most.gives(rate), rate)
    by = f"{words.processes(most.n)} of {words.name_launch(most.label)}"
    return f"Most {words.NOUNS[rate]}: {value} with {by}, predicted."
