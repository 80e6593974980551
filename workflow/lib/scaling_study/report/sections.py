"""One sentence for each further section of the report, and what is folded below it.

A sentence quotes figures of at least two starts only, and each quantity has one source (`words`).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from scaling_study.common.objectives import OBJECTIVES
from scaling_study.common.quantities import (
    format_bytes,
    format_count,
    format_cpus,
    format_interval,
    format_number,
    format_percent,
    format_ratio,
    format_time,
    known,
)
from scaling_study.experiments.kernels import STREAM_BYTES
from scaling_study.launch.axes.isa import ISAS
from scaling_study.profiling import operator_groups
from scaling_study.records.analysis import ENOUGH_STARTS
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
    sentence,
    share_interval,
    share_text,
    spelled,
)
from scaling_study.stats import thresholds
from scaling_study.stats.interval import Interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scaling_study.records.analysis import (
        ChosenLaw,
        Compared,
        Comparison,
        Effective,
        Recommendation,
    )
    from scaling_study.records.experiment import Microbenchmarks
    from scaling_study.records.verdict import DataLoader, MachineUse
    from scaling_study.report.figures import Series
    from scaling_study.report.model import Machine

    Rule = tuple[str, bool | None, str]

STILL_SCALING = 0.9
"""From this efficiency on, a launch still scales."""
HURTS = 1.02
"""A step that is surely this much longer is hurt."""
MAXED = 0.9
"""What is used to this part has nothing left to give."""
STALLED = 0.1
"""Something waits for this share of the time, and more."""
LEFT_OUT = {
    "failed": "the script failed",
    "slow": "some process did not finish two iterations before the round's last limit",
    "unavailable": "this machine cannot run it",
}
LOADER_PARTS = {
    "waiting": "waiting for the loader",
    "training": "training itself",
    "interference": "what the loader's own work takes from training",
    "rest": "not accounted for",
}


def scaling(machine: Machine, launch: str, label: str) -> str:
    """Say how far a launch scales; nothing is quoted of a launch that was started once."""
    last, first = machine.point(launch), machine.point(launch, 1)
    name = opening(label)
    if last is None:
        return f"{name} gave no valid window."
    n = int(last["n"])
    if n == 1:
        return f"Only one process of {name_launch(label)} was measured."
    cpus = (
        f"{format_cpus(round(float(last['cpu_use']), 1))} of {len(machine.hardware.cpus)} CPUs busy"
    )
    ends = (last["efficiency_low"], last["efficiency_high"])
    efficiency = Interval(last["efficiency"], *(end if known(end) else None for end in ends))
    starts = min(int(one["replicates"]) for one in (last, last if first is None else first))
    if first is None or starts < ENOUGH_STARTS or not known(efficiency.value):
        return f"{name} was not started often enough to say how it scales."
    value, low, high = (end or 0.0 for end in (efficiency.value, efficiency.low, efficiency.high))
    if efficiency.sure and high > WIDE * max(low, 0.01):
        return f"{name} differs too much between its starts to say how it scales."
    interval = f" ({share_interval(efficiency)})" if efficiency.sure else ""
    verb = (
        "still scales with an efficiency of" if value >= STILL_SCALING else "has an efficiency of"
    )
    return f"{name} {verb} {share_text(efficiency)}{interval} at {processes(n)}, with {cpus}."


STAGES = {
    "first": "the default launch, the baseline and its repeat",
    "screen": "every other launch once",
    "combine": "changes together that were better alone",
    "aside": "the choice with changes of training",
    "race": "fresh starts of those that may be the best",
}
"""What each stage of a race measures."""
LAWS = {
    "linear": "growth in proportion",
    "hard_saturation": "growth in proportion up to a hard ceiling",
    "smooth_saturation": "growth that bends slowly into a ceiling",
    "domain_saturation": "a ceiling for each part of the machine that members fill",
    "usl": "the universal scalability law (contention and coherence)",
}


def laws(machine: Machine, series: Sequence[Series]) -> list[str]:
    """Say which scaling law fits each launch best, and where its knee is."""
    found = {one.launch: one.laws for one in machine.scaling.launches}
    said: dict[str, list[str]] = {}
    for one in series:
        if one.launch in found:
            said.setdefault(_law(found[one.launch]), []).append(one.label)
    return [f"{listed(labels)}: {text}" for text, labels in said.items()]


def _law(found: ChosenLaw) -> str:
    if found.status != "fitted" or found.best is None:
        return f"No scaling law was fitted: {found.reason}."
    text = f"{sentence(LAWS[found.best])} fits best of {len(found.candidates)} laws ({found.text})"
    if (knee := found.knee) is not None:
        interval = format_interval(knee.low, knee.high, like=knee.value)
        text += f"; its knee is at {format_number(knee.value)} processes ({interval})"
    return f"{text}."


def sum_operators(comparison: Comparison) -> list[tuple[str, str, float]]:
    """Return operator, group and difference (s) without phases, the largest part first."""
    sums: dict[tuple[str, str], float] = {}
    for row in comparison.rows:
        key = row.operator, row.group
        sums[key] = sums.get(key, 0.0) + (row.difference_s or 0.0)
    sign = 1 if comparison.added_s >= 0 else -1
    return sorted(((*key, s) for key, s in sums.items()), key=lambda one: -sign * one[2])


def operators(comparison: Comparison) -> str:
    """Say in which operator most of a step's difference is."""
    change = "added" if comparison.added_s >= 0 else "saved"
    groups = [
        f"{one.group} {format_percent(one.share)}"
        for one in sorted(comparison.groups, key=lambda one: -(one.share or 0.0))
        if (one.share or 0.0) >= thresholds.SHARE
    ]
    by_group = f" By group: {listed(groups)}." if groups else ""
    summed = sum_operators(comparison)
    if not summed or not summed[0][2]:
        return f"No operator changed.{by_group}"
    largest, group, _ = summed[0]
    where = f"operators {largest.strip('()')}" if largest.startswith("(") else largest
    if group == operator_groups.OUTSIDE:
        where = "what no operator covers"
    return f"{comparison.title}: most of the {change} time is in {where}.{by_group}"


def data_loader(found: DataLoader) -> str:
    """Say what the loader costs training; the sentence quotes shares of a step only."""
    if not found.variants:
        return f"Nothing was measured: {found.reason or 'no data loader was found'}."
    waiting, cached = found.part("waiting"), found.step_s("cached")
    if waiting is None or not cached:
        return "What the loader costs could not be told apart."
    share = share_text(waiting.share)
    gain = format_ratio((found.step_s("as_is") or cached) / cached)
    return (
        f"A step waits {share} of its time for the loader, so no loader can make training more "
        f"than {gain} as fast."
    )


def loader_findings(found: DataLoader, l3_bytes: float | None, limit: float | None) -> list[str]:
    """Say what else was seen of a loader, the most useful first."""
    cached = found.cached
    size = cached.cached_bytes if cached else None
    rest = found.part("rest")
    read = found.disk_bytes_per_s.get("as_is")
    said = [_other_way(found), _interference(found)]
    if {"loader", "training"} <= found.most.keys():
        slower = "the loader" if found.most["loader"] < found.most["training"] else "training"
        said.append(f"Each alone, {slower} is the slower one.")
    said += [_fetching(found), _hurting(found)]
    if rest is not None and abs(rest.share.value) > thresholds.NOTICEABLE:
        said.append(f"{share_text(rest.share)} of a step is not accounted for.")
    if limit and read and read >= limit / 2:
        said.append(
            f"{format_bytes(read)} a second come from disks, {format_percent(read / limit)} "
            "of what one process can read here in order: the disk may be the limit."
        )
    if size and l3_bytes and size * found.n < l3_bytes:
        said.append("The batches in memory fit into the last-level cache, which flatters training.")
    if cached and cached.copied:
        said.append("The script changes its batches in place: each is copied before it is reused.")
    return [text for text in said if text]


def _other_way(found: DataLoader) -> str:
    """Say what the best other way to load gives."""
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


def _interference(found: DataLoader) -> str:
    taken = found.part("interference")
    if taken is None:
        return ""
    hurts = (taken.share.low or 0.0) > 0 and taken.share.value >= thresholds.NOTICEABLE
    how = ": it competes for CPUs, caches or the interpreter." if hurts else ", which is little."
    share = f"{share_text(taken.share)} ({share_interval(taken.share)})"
    return f"The loader's own work takes {share} of a step from training{how}"


def _fetching(found: DataLoader) -> str:
    """Say what a step takes to fetch files from storage, and to prepare what was read."""
    if found.fetching is None or found.preparing is None:
        cold = found.step_s("cold") is not None
        return "What fetching from storage takes is not known: files stayed in memory." * cold
    fetched = format_time(found.fetching.value)
    if (found.fetching.low or 0.0) <= 0:
        fetched = "nothing noticeable"
    return (
        f"Of a step whose files are not in memory, fetching from storage takes {fetched}, and "
        f"preparing {format_time(found.preparing.value)}; a virtual host may cache."
    )


def _hurting(found: DataLoader) -> str:
    """Say from where on work beside training surely hurts it."""
    said = []
    for one in found.neighbours:
        dots = [dose for dose in one.doses if dose.ratio]
        hurt = [
            *itertools.takewhile(
                lambda dose: dose.ratio is not None and (dose.ratio.low or 0.0) > HURTS,
                reversed(dots),
            )
        ]
        if hurt and hurt[-1].ratio:
            cpus = format_cpus(hurt[-1].cpus)
            said.append(
                f"{one.title} from {cpus} CPUs on ({format_ratio(hurt[-1].ratio.value)} as long)"
            )
    return f"What slows training beside it: {'; '.join(said)}." if said else ""


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


def streams(alone: Microbenchmarks) -> list[tuple[str, float]]:
    """Return what streams move at most (bytes per second), with one process and with the most."""
    found = []
    for kernel, title in (("memory", "memory, a stream"), ("llc", "last-level cache, a stream")):
        sums: dict[int, list[float]] = {}
        for row in alone.rows:
            if row.kernel == kernel and row.valid and row.rates:
                sums.setdefault(row.n, []).append(sum(row.rates))
        for n in sorted({min(sums), max(sums)} if sums else ()):
            mean = sum(sums[n]) / len(sums[n])
            found.append((f"{title}, {processes(n)}", STREAM_BYTES * mean))
    return found


# Several machines.


def compared_verdict(compared: Compared) -> str:
    """Say which machine gives most, by their windows: each confirmation stands in its own part."""
    best = compared.best.get("rate")
    if best is None:
        names = [one.name for one in compared.measured]
        return f"Only {names[0]} is measured" if len(names) == 1 else "Nothing to compare"
    gain = _most(
        best.first, best.next, best.ratio, best.spread, NOUNS[compared.objective or "steps_per_s"]
    )
    return f"{gain}, predicted"


def _most(first: str, other: str, ratio: Interval, spread: float | None, what: str) -> str:
    """Say which machine gives most of something, where this study can tell."""
    if not ratio.sure:
        return f"{first} looks best; without an interval it is not certain"
    if not differs(ratio, spread):
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
    things = {"models_per_hour": "models", "steps_per_s": "steps"}[
        compared.objective or "steps_per_s"
    ]
    notes = [
        Mark(f"{one.name} is missing: {one.reason}.", bad=True)
        for one in compared.machines
        if one.status == "missing"
    ]
    for measure, unit in per_unit(compared).items():
        best = compared.best.get(measure)
        if best is not None:
            text = _most(best.first, best.next, best.ratio, best.spread, f"{things} per {unit}")
            notes.append(Mark(f"{text}."))
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


# What an iteration is, and what the script or its environment did to it.

ATEN_KERNELS = (
    ("AVX512", ("avx512f", "avx512dq", "avx512bw", "avx512vl", "fma")),
    ("AVX2", ("avx2", "fma")),
)
"""What ATen calls its kernels, best first, with the CPU flags that each needs."""
ISA_VARIABLES = sorted(
    {name for isa in ISAS.values() for name in isa.env} - {"ATEN_CPU_CAPABILITY"}
)


def iteration_notes(machine: Machine, launches: Mapping[str, str], step: object) -> list[str]:
    """Say what an iteration was, and what limits vector instructions.

    Args:
        machine: what was found.
        launches: titles of the launches to look at, by id.
        step: the config's workload.step.
    """
    shown = [one for one in machine.readback.launches if one.launch in launches]
    notes = [_iteration(one, step) for one in shown]
    notes += [_kernels(one, machine.hardware.isa) for one in shown]
    return [note for note in dict.fromkeys(notes) if note]


def _iteration(one: Effective, step: object) -> str:
    if step == "mark":
        return "An iteration is one call of scaling_study.mark()."
    if isinstance(step, dict) and "every" in step:
        return f"An iteration is {step['every']} optimizer steps, as workload.step says."
    counted = next(iter(one.counted or ()), None)
    optimizers = counted.optimizers if counted else ()
    if isinstance(step, dict):
        others = sorted({each.name for each in optimizers if not each.ends})
        left_out = f" Steps of {listed(others)} are left out." if others else ""
        return f"An iteration is one step of {step['optimizer']}, as workload.step says.{left_out}"
    if not optimizers:
        return ""
    if len(optimizers) == 1:
        return f"An iteration is one step of the script's optimizer, {optimizers[0].name}."
    last = next((each.name for each in optimizers if each.ends), optimizers[-1].name)
    return (
        f"The script has {len(optimizers)} optimizers: an iteration is one round of them and ends "
        f"with a step of {last}. If that is wrong, set workload.step to {{every: k}} or "
        "{optimizer: name}."
    )


def _kernels(one: Effective, isa: Sequence[str]) -> str:
    """Say that a launch runs older vector instructions than it asked for."""
    member = one.member
    asked = next((check.requested for check in one.checks if check.axis == "isa"), "default")
    if member is None or asked != "default":
        return ""
    env = member.env
    limits = [
        f"{name}={env[name]}"
        for name in ISA_VARIABLES
        if env.get(name, "default").lower() not in {"default", "all"}
    ]
    names = ["DEFAULT", *(name for name, _ in reversed(ATEN_KERNELS))]
    best = next((name for name, flags in ATEN_KERNELS if set(flags) <= set(isa)), None)
    ran = member.isa
    if best is not None and ran in names and names.index(ran) < names.index(best):
        limits.append(f"ATEN_CPU_CAPABILITY ({ran} kernels on a CPU that has {best})")
    if not limits:
        return ""
    return (
        f"{one.label}: the script or its environment sets {listed(limits)}, which limits vector "
        "instructions. Without that, operators may be faster."
    )
