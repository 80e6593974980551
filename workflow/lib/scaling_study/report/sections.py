"""One sentence for each further section of the report, and what is folded below it.

A sentence quotes figures of at least two starts only, and each quantity has one source (`words`).
"""

from __future__ import annotations

import itertools
from collections import Counter
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
from scaling_study.launch.axes.isa import ISAS
from scaling_study.report.model import ENOUGH_STARTS, Interval
from scaling_study.report.words import (
    NOUNS,
    THINGS,
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

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scaling_study.config.plan import Plan
    from scaling_study.report.figures import Series
    from scaling_study.report.model import (
        Compared,
        Comparison,
        Confirmation,
        DataLoader,
        Effective,
        Machine,
        Pareto,
        Recommendation,
    )

WORTH_A_WORD = 1.1
"""Another queue that gives more by this factor is said to."""
STILL_SCALING = 0.9
"""From this efficiency on, a launch still scales."""
WORTH_SAYING = 0.03
"""Of a step: a smaller change is not said."""
LITTLE = 0.05
"""A smaller part of a step is not worth a remedy."""
HURTS = 1.02
"""A step that is surely this much longer is hurt."""
LEFT_OUT = {
    "once": "the script does not run a second time in one process",
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
    cpus = f"{format_cpus(round(float(last['cpu_use']), 1))} of {machine.hardware.cpus} CPUs busy"
    efficiency = Interval(
        value=last["efficiency"], low=last["efficiency_low"], high=last["efficiency_high"]
    )
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


def scaling_findings(machine: Machine, series: Iterable[Series]) -> list[str]:
    """Say how each further launch scales, and which law each one follows."""
    shown = list(series)
    texts = [scaling(machine, one.launch, one.label) for one in shown[1:]]
    laws = (law(machine, one.launch) for one in shown)
    texts += [f"{one.label}: {text}" for one, text in zip(shown, laws, strict=True) if text]
    return texts


LAWS = {
    "linear": "growth in proportion",
    "hard_saturation": "growth in proportion up to a hard ceiling",
    "smooth_saturation": "growth that bends slowly into a ceiling",
    "domain_saturation": "a ceiling for each part of the machine that members fill",
    "usl": "the universal scalability law (contention and coherence)",
}


def law(machine: Machine, launch: str) -> str:
    """Say which scaling law fits a launch best, and where its knee is."""
    laws = next((one.laws for one in machine.scaling.launches if one.launch == launch), None)
    if laws is None:
        return ""
    if laws.status != "fitted" or laws.best is None:
        return f"No scaling law was fitted: {laws.reason}."
    text = f"{sentence(LAWS[laws.best])} fits best of {len(laws.candidates)} laws ({laws.text})"
    knee = laws.knee
    if knee is not None:
        interval = format_interval(knee.low, knee.high, like=knee.value)
        text += f"; its knee is at {format_number(knee.value)} processes ({interval})"
    return f"{text}."


def ranking(found: Recommendation) -> str:
    """Say how many launches were compared, and which came first."""
    if not found.ranking:
        return "No launch gave a valid window."
    count = format_count(len(found.ranking), "launch was", "launches were")
    best, recommended = found.best, found.recommended
    text = f"{count} measured, each shown at its best number of processes."
    if best and recommended and (best.launch, best.n) != (recommended.launch, recommended.n):
        chosen = (
            "the race's choice, without the machine's drift"
            if found.raced
            else (f"the smallest launch within {format_percent(found.tolerance)} of it")
        )
        text += (
            f" {opening(best.label)} with {processes(best.n)} was the fastest in "
            f"windows; recommended is {chosen}."
        )
    return text


STAGES = {
    "first": "the default launch, the baseline and its repeat",
    "screen": "every other launch once",
    "combine": "changes together that were better alone",
    "aside": "the choice with changes of training",
    "race": "fresh starts of those that may be the best",
}
"""What each stage of a race measures."""


def race(plan: Plan, helpful: Sequence[str] = ()) -> list[str]:
    """Say what a race measured, why it ended, and what nobody looked at; empty without one.

    Args:
        plan: plan.json, or what a race has made of it.
        helpful: labels of launches that experiments showed to help and that were not measured.
    """
    found = plan.searched
    if found is None:
        return []
    made = [count for count in (plan.made or {}).values() if count]
    starts = format_count(sum(made), "start")
    minutes = f"{found.spent_s / 60:.0f} of {found.budget_s / 60:.0f} minutes"
    text = f"The race took {minutes}: {starts} of {format_count(len(made), 'launch', 'launches')}"
    following = found.next
    if found.reason or following is None:
        said = [f"{text}. It ended because {found.reason}."]
    else:
        wait = max(1, round(following.expected_s / 60))
        soon = f"the next round takes {format_count(wait, 'minute')} or so and measures"
        what = f"{STAGES[following.stage]} ({listed(following.labels)})"
        said = [f"{text}. It is not over: {soon} {what}."]
    stages = Counter(one.stage for one in found.rounds)
    rounds = (f"{STAGES[stage]} ({format_count(n, 'round')})" for stage, n in stages.items())
    said.append(f"Measured: {'; '.join(rounds)}.")
    unseen = [plan.by_id[launch].label for launch in found.not_screened]
    if unseen:
        said.append(f"Not measured, so nothing is known of them: {'; '.join(unseen)}.")
    if helpful:
        said.append(
            f"The experiments showed what helps, and no launch had it yet: {'; '.join(helpful)}. "
            "A larger search.budget_minutes races it."
        )
    return said


def front(pareto: Pareto) -> str:
    """Say which point has one model soonest, and which most per hour."""
    if not pareto.front:
        return ""
    thing, noun = THINGS[pareto.rate], NOUNS[pareto.rate]
    soonest, most = pareto.front[0], pareto.front[-1]

    def named(label: str, n: int) -> str:
        return f"{processes(n)} of {name_launch(label)}"

    soon = f"{sentence(thing)} is done soonest with {named(soonest.label, soonest.n)}"
    if soonest is most:
        return f"{soon}, which gives most {noun}, too."
    return f"{soon}; most {noun} come from {named(most.label, most.n)}."


def operators(comparison: Comparison, largest: str | None) -> str:
    """Say in which operator most of a step's difference is."""
    more = "more" if comparison.added_s >= 0 else "less"
    groups = [
        f"{one.group} {format_percent(one.share)}"
        for one in sorted(comparison.groups, key=lambda one: -(one.share or 0.0))
        if (one.share or 0.0) >= thresholds.SHARE
    ]
    by_group = f" By group: {listed(groups)}." if groups else ""
    if largest is None:
        return f"No operator changed.{by_group}"
    return f"{comparison.title}: most of the {more} time is in {largest}.{by_group}"


def losses(machine: Machine) -> str:
    """Say what was skipped, failed or invalid."""
    stories = Counter(one.status for one in machine.failures.launches)
    parts = [f"{format_count(n, 'cohort')} {status}" for status, n in stories.items()]
    invalid, windows_of = machine.provenance.windows_invalid, machine.provenance.windows
    if invalid:
        parts.append(f"{invalid:,} of {windows_of:,} windows invalid, and taken again")
    return (
        sentence(f"{'; '.join(parts)}.")
        if parts
        else "Every launch was measured, and no window was lost."
    )


def effective(launches: Sequence[Effective]) -> str:
    """Say whether all that launches asked for took effect."""
    if not launches:
        return "No member reported its settings."
    wrong = [one.label for one in launches if one.wrong]
    if wrong:
        return f"Not every setting took effect: see {listed(wrong)}."
    return "Every setting that processes read back had taken effect."


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


def loader_findings(
    found: DataLoader, l3_bytes: float | None, disk_limit: float | None
) -> list[str]:
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
    if rest is not None and abs(rest.share.value or 0.0) > WORTH_SAYING:
        said.append(f"{share_text(rest.share)} of a step is not accounted for.")
    if disk_limit and read and read >= disk_limit / 2:
        said.append(
            f"{format_bytes(read)} a second come from disks, {format_percent(read / disk_limit)} "
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
    hurts = (taken.share.low or 0.0) > 0 and (taken.share.value or 0.0) >= LITTLE
    how = ": it competes for CPUs, caches or the interpreter." if hurts else ", which is little."
    share = f"{share_text(taken.share)} ({share_interval(taken.share)})"
    return f"The loader's own work takes {share} of a step from training{how}"


def _fetching(found: DataLoader) -> str:
    """Say what a step takes to fetch files from storage, and to prepare what was read."""
    if found.fetching is None or found.preparing is None:
        cold = found.step_s("cold") is not None
        return "What fetching from storage takes is not known: files stayed in memory." * cold
    fetched = format_time(found.fetching.value or 0.0)
    if (found.fetching.low or 0.0) <= 0:
        fetched = "nothing noticeable"
    return (
        f"Of a step whose files are not in memory, fetching from storage takes {fetched}, and "
        f"preparing {format_time(found.preparing.value or 0.0)}; a virtual host may cache."
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
        Mark(f"{one.name} is missing: {one.reason}.", "", bad=True)
        for one in compared.machines
        if one.status == "missing"
    ]
    for measure, unit in per_unit(compared).items():
        best = compared.best.get(measure)
        if best is not None:
            text = _most(best.first, best.next, best.ratio, best.spread, f"{things} per {unit}")
            notes.append(Mark(f"{text}.", ""))
    for names in compared.same:
        text = "are the same machine by all that matters to its speed"
        notes.append(Mark(f"{listed(names, 9)} {text}.", "", bad=True))
    for one in compared.machines:
        for other in one.others:
            differences = "; ".join(f"{f.fact} {f.there}, not {f.here}" for f in other.differences)
            notes.append(
                Mark(
                    f"Not all nodes of {one.name} are alike: {listed(other.hosts, 4)} "
                    f"({format_count(other.cohorts, 'cohort')}) has {differences}. They are not "
                    f"pooled: compared here is {listed(one.hosts, 4)}.",
                    "",
                    bad=True,
                )
            )
    for entry in compared.software:
        values = "; ".join(f"{name} {value}" for name, value in entry.machines.items())
        notes.append(Mark(f"The machines differ in {entry.what}: {values}.", "", bad=True))
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


def queues(confirmation: Confirmation | None) -> str:
    """Say what models one after the other in a process give, where that is clearly more."""
    arm = confirmation.arm("recommended") if confirmation else None
    other = confirmation.arm("recommended", "one_process") if confirmation else None
    if (
        confirmation is None
        or arm is None
        or other is None
        or other.value < WORTH_A_WORD * arm.value
    ):
        return ""
    kind = "as fast" if OBJECTIVES[confirmation.objective].single else "as many"
    return (
        f"With --reuse, each process trains one model after the other: "
        f"{amount(other.gave(confirmation.objective), confirmation.objective)}, "
        f"{format_ratio(other.value / arm.value)} {kind}."
    )


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
    """Say what an iteration was, and what scripts did to their own speed.

    Args:
        machine: what was found.
        launches: titles of the launches to look at, by id.
        step: the config's workload.step.
    """
    shown = [one for one in machine.readback.launches if one.launch in launches]
    notes = [
        note
        for one in shown
        for note in (
            _iteration(one, step),
            "The script can run only once in a process: each run got its own." if one.once else "",
            *(
                f"{one.label}: the script changed {change.what} from {change.before} to "
                f"{change.after} while it trained."
                for change in one.changes or ()
            ),
            _kernels(one, machine.hardware.isa),
            _settled(one),
            _paced(one),
        )
        if note
    ]
    return list(dict.fromkeys(notes))


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
    env = member.get("env") or {}
    limits = [
        f"{name}={env[name]}"  # type: ignore[index]
        for name in ISA_VARIABLES
        if str(env.get(name, "default")).lower() not in {"default", "all"}  # type: ignore[attr-defined]
    ]
    names = ["DEFAULT", *(name for name, _ in reversed(ATEN_KERNELS))]
    best = next((name for name, flags in ATEN_KERNELS if set(flags) <= set(isa)), None)
    ran = str(member.get("isa"))
    if best is not None and ran in names and names.index(ran) < names.index(best):
        limits.append(f"ATEN_CPU_CAPABILITY ({ran} kernels on a CPU that has {best})")
    if not limits:
        return ""
    return (
        f"{one.label}: the script or its environment sets {listed(limits)}, which limits vector "
        "instructions. Without that, operators may be faster."
    )


def _settled(one: Effective) -> str:
    found = one.settling
    if found is None:
        return ""
    how = "slower" if found.least > 0 else "faster" if found.most < 0 else "slower or faster"
    changed = format_percent(max(abs(found.least), abs(found.most)))
    left = f" In {found.left} of them it was still changing at the end." if found.left else ""
    return (
        f"{one.label}: the first windows of {found.cohorts} of {found.of} cohorts do not count, "
        f"because training became up to {changed} {how} in them.{left}"
    )


def _paced(one: Effective) -> str:
    pace = one.pace
    if pace is None or pace.value is None or abs(pace.value - 1) < WORTH_SAYING:
        return ""
    if not (pace.above_one or pace.below_one):
        return ""
    return (
        f"{one.label}: a step took {format_percent(abs(pace.value - 1))} "
        f"{'longer' if pace.above_one else 'less'} in the last windows than in the first. A rate "
        "from windows holds for as long as they saw."
    )
