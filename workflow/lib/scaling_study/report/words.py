"""The report's sentences, each chosen from a table by the findings.

A row of a table is a name, a condition and a sentence; the first row whose condition holds is the
answer. A sentence quotes only figures of at least two starts, and each quantity has one source: the
gain comes from the confirmation, or else from the windows; scaling from tables/points; shares of
causes from the verdict.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from scaling_study.common.objectives import OBJECTIVES
from scaling_study.common.quantities import (
    MINUS,
    MISSING,
    format_count,
    format_cpus,
    format_interval,
    format_number,
    format_percent,
    format_probability,
    format_ratio,
    format_time,
    known,
    time_unit,
)
from scaling_study.launch.axes import shell
from scaling_study.records import analysis
from scaling_study.records.confirmation import Losses
from scaling_study.records.model_length import ModelLength
from scaling_study.records.verdict import CauseResult, Target
from scaling_study.report.model import MachineReport
from scaling_study.runner import foreign, windows
from scaling_study.runner.foreign import ForeignLoad
from scaling_study.stats import thresholds
from scaling_study.stats.interval import Interval

UNITS = {"models_per_hour": "models/hour", "steps_per_s": "steps/s"}
NOUNS = {"models_per_hour": "models per hour", "steps_per_s": "steps per second"}
VERBS = {"models_per_hour": ("train", "trains"), "steps_per_s": ("do", "does")}
THINGS = {"models_per_hour": "one model", "steps_per_s": "one step"}
"""The unit of work whose time is stated, by its rate."""
PLAIN_NAMES = {
    "default": "the default launch",
    "today": "today's launch",
    "intra_op 1": "one thread per process",
    "inter_op 1": "one inter-op thread",
    "wait_policy passive": "threads that sleep while they wait",
    "blas openblas": "OpenBLAS",
    "blas blis": "BLIS",
    "blas mkl": "MKL",
    "isa avx2": "AVX2",
    "isa avx512": "AVX-512",
    "allocator glibc-large-thresholds": "large malloc thresholds",
    "allocator jemalloc": "jemalloc",
    "allocator mimalloc": "mimalloc",
    "allocator tcmalloc": "tcmalloc",
    "huge_pages always": "huge pages",
    "optimizer_kernel fused": "a fused optimizer",
    "gc frozen": "frozen garbage collection",
    "placement compact": "processes packed together",
    "placement cores": "a core for each process",
    "placement fast_cores": "fast cores only",
    "placement spread": "processes spread out",
    "placement per_l3": "a cache for each process",
    "membind local": "local memory",
    "membind preferred": "memory near by",
    "membind interleave": "interleaved memory",
    "launcher dask": "workers of Dask",
}
"""Names of launches, and of the values that labels hold; other values keep their axis's name."""
SURE = 0.8
"""Least probability of being the best at which a launch is called the best one."""
SMALL_GAIN = 1.25
"""An interval that ends below this rules out a large gain, and the headline states that."""
WIDE = 4.0
"""From this ratio of an interval's ends on, only its lower end is claimed."""
ENOUGH_REPLICATES = 3
ALL = 0.995
LEAST_FACTOR = 0.01
"""A factor that is nearer to 1 is not listed."""
MANY_LOST = 0.1
"""Retries make up for lost windows below this share of all."""
FEW = 3
"""Most items that a list names; it counts the others."""


def sentence(text: str) -> str:
    """Return a text with a capital first letter, as a sentence has."""
    return text[:1].upper() + text[1:]


def name_launch(label: str) -> str:
    """Name a launch inside a sentence."""
    return listed((PLAIN_NAMES.get(part, part) for part in label.split(", ")), None)


def opening(label: str) -> str:
    """Name a launch at the beginning of a sentence: the names of axes keep their spelling."""
    name, first = name_launch(label), label.partition(", ")[0]
    return sentence(name) if first in PLAIN_NAMES else name


def processes(n: int) -> str:
    """Write a number of processes."""
    return format_count(n, "process", "processes")


def listed(items: Iterable[object], most: int | None = FEW) -> str:
    """Join names or numbers with "and".

    Args:
        items: the names or numbers.
        most: of more than this, the first ones are named and the others counted; None for all.
    """
    shown = [str(item) for item in items]
    if most and len(shown) > most:
        shown = [*shown[: most - 1], f"{len(shown) - most + 1} more"]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def spelled(ratio: Interval) -> str:
    """Write the interval of a ratio; empty without one."""
    if not ratio.sure:
        return ""
    return f"{format_ratio(max(0.0, ratio.low or 0.0))} to {format_ratio(ratio.high)}"


def share_text(share: Interval | None) -> str:
    """Write a share in whole percent: intervals of experiments are some percent wide."""
    value = share.value if share else None
    if value is None or not known(value):
        return MISSING
    return f"{round(value, 2) + 0.0:.0%}".replace("-", MINUS)


def share_interval(share: Interval | None) -> str:
    """Write the interval of a share; empty without one."""
    if share is None or not share.sure:
        return ""
    ends = (share_text(Interval(end)) for end in (share.low, share.high) if end is not None)
    return " to ".join(ends)


def share_and_interval(share: Interval) -> str:
    """Write a share with its interval, where it has one: ``38% (37% to 38%)``."""
    interval = share_interval(share)
    return share_text(share) + (f" ({interval})" if interval else "")


def amount(quantity: Interval, objective: str) -> str:
    """Write a launch's rate or time: ``870 models/hour``, or ``one model in 4.9 s``."""
    goal, value = OBJECTIVES[objective], quantity.value if known(quantity.value) else 0.0
    if goal.single:
        return f"{THINGS[goal.rate]} in {format_time(value)}"
    return f"{format_number(value)} {UNITS[goal.rate]}"


def differs(ratio: Interval, spread: float | None) -> bool:
    """Return whether a ratio is a difference that this study can tell from noise.

    Args:
        ratio: of two launches.
        spread: of the A/A check at the process counts in question; None without one.
    """
    return (ratio.above_one or ratio.below_one) and abs(ratio.value - 1) > (spread or 0.0)


# The headline.

NO_GAIN = Interval()
"""Nothing to compare with."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The findings that decide the headline.

    Attributes:
        ok: whether something is recommended.
        objective: the objective that is compared, a key of `OBJECTIVES`.
        confirmed: whether the figures come from a confirmation.
        launches: how many were measured.
        same: whether the recommended launch is the one it would be compared with.
        best: label of the recommended launch.
        started: how its models start, if not each in a fresh process.
        other: label of the launch that it is compared with.
        value: the rate or time of the recommended launch, in words.
        n: processes of the recommended launch.
        other_n: processes of the launch that it is compared with, at its own best.
        probability: probability that the study has nothing better.
        once: whether a figure comes from one start.
        ratio: the gain, each launch at its own count.
        same_n: the gain at the same count.
        spread: of the A/A check.
    """

    ok: bool = True
    objective: str = "models_per_hour"
    confirmed: bool = False
    launches: int = 2
    same: bool = False
    best: str = ""
    started: str = ""
    other: str = "default"
    value: str = ""
    n: int = 1
    other_n: int = 1
    probability: float | None = None
    once: bool = False
    ratio: Interval = NO_GAIN
    same_n: Interval = NO_GAIN
    spread: float | None = None

    def surely_more(self, ratio: Interval) -> bool:
        """Return whether a ratio is a gain; the A/A check does not apply to a confirmation."""
        return ratio.above_one and differs(ratio, None if self.confirmed else self.spread)

    def times(self, ratio: Interval) -> str:
        """Word a gain; if its interval is wide, only its lower end."""
        goal = OBJECTIVES[self.objective]
        wide = ratio.low and ratio.high and ratio.high >= WIDE * ratio.low
        text = f"at least {format_ratio(ratio.low)}" if wide else format_ratio(ratio.value)
        if goal.single:
            return f"is {text} as fast as"
        return f"{VERBS[goal.rate][1]} {text} as many {NOUNS[goal.rate]} as"


HEADLINE: tuple[tuple[str, Callable[[Answer], bool], str], ...] = (
    ("nothing", lambda a: not a.ok, "Nothing to recommend"),
    ("one launch", lambda a: a.launches == 1, "Only one launch could be measured: {value}"),
    (
        "best already",
        lambda a: a.same and (a.confirmed or (a.probability or 0.0) >= SURE),
        "{Other} is the best launch found: {value}",
    ),
    ("unbeaten", lambda a: a.same, "No launch is measurably faster than {other}: {value}"),
    (
        "nothing to compare",
        lambda a: not known(a.ratio.value),
        "{Best} gives {value}; there is no default launch to compare it with",
    ),
    (
        "one start",
        lambda a: a.once or not a.ratio.sure,
        "{Best} looks best, but not every launch was started twice",
    ),
    ("faster", lambda a: a.surely_more(a.ratio), "{Best} {times} {other}"),
    (
        "faster with as many processes",
        lambda a: a.surely_more(a.same_n),
        "{Best} {same_times} {other} with {n} too",
    ),
    (
        "not confirmed",
        lambda a: a.confirmed and a.ratio.below_one,
        "{Other} is faster: the prediction for {best} does not hold",
    ),
    ("slower", lambda a: a.ratio.below_one, "{Other} is the fastest, with more processes"),
    (
        "small",
        lambda a: (a.ratio.high or WIDE) <= SMALL_GAIN,
        "{Best} gains little, if anything, over {other}: at most {high}",
    ),
    ("uncertain", lambda _: True, "{Best} may be faster than {other}, but that is not certain"),
)
"""Name, condition and sentence: the first row whose condition holds is the headline."""
QUOTED = ("faster", "faster with as many processes")
UNQUOTED = ("not confirmed", "slower", "small", "uncertain")
"""Rows with a gain: those whose sentence quotes it, and those whose sentence does not."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A launch's rate, or time of one model, as a bar.

    Attributes:
        role: one of `ROLES`.
        share: share of the largest value shown, 0 to 1.
        once: whether it comes from one start; it is grey then.
    """

    role: str
    text: str
    value: str
    unit: str
    interval: str
    share: float
    once: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """A short note on how sure an answer is, with an explanation; a bad mark weakens the answer."""

    text: str
    tip: str = ""
    bad: bool = False


@dataclass(frozen=True, slots=True)
class Headline:
    """The top of a report: question, answer with its interval, bars and marks."""

    question: str
    verdict: str
    detail: str
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]


def choose(answer: Answer) -> tuple[str, str]:
    """Return the name of the headline's row, and its sentence."""
    name, _, text = next(row for row in HEADLINE if row[1](answer))
    return name, text.format(
        best=f"{name_launch(answer.best)}{answer.started}",
        Best=f"{opening(answer.best)}{answer.started}",
        other=name_launch(answer.other),
        Other=opening(answer.other),
        value=answer.value,
        n=processes(answer.n),
        times=answer.times(answer.ratio),
        same_times=answer.times(answer.same_n),
        high=format_ratio(answer.ratio.high),
    )


def headline(machine: MachineReport) -> Headline:
    """Return the headline of a machine's report."""
    recommendation, answer = machine.recommendation, answer_of(machine)
    best, objective = recommendation.recommended, OBJECTIVES[answer.objective]
    question = (
        f"How soon is {THINGS[objective.rate]} done on this machine?"
        if objective.single
        else f"How many {NOUNS[objective.rate]} can this machine {VERBS[objective.rate][0]}?"
    )
    row, verdict = choose(answer)
    if best is None:
        reason = sentence(f"{recommendation.reason}.")
        return Headline(question, verdict, reason, (), tuple(_loss_marks(machine)))
    ratio = answer.same_n if row == "faster with as many processes" else answer.ratio
    detail = [format_ratio(ratio.value)] if row in UNQUOTED else []
    if row in QUOTED + UNQUOTED:
        detail.append(f"95% interval {spelled(ratio)}")
    detail.append("confirmed" if answer.confirmed else "predicted")
    if row == "faster" and answer.n != answer.other_n:
        counts = f"{processes(answer.n)} against {answer.other_n}"
        alike = f", and {format_ratio(answer.same_n.value)} with {answer.n} each"
        detail.append(counts + (alike if answer.same_n.sure else ""))
    if recommendation.as_run is not None and recommendation.as_run_n != answer.other_n:
        detail.append(
            f"predicted over the {recommendation.as_run_n} that you run today:"
            f" {format_ratio(recommendation.as_run.value)}"
        )
    shown = _confirmed(machine.confirmation) or _predicted(recommendation, best)
    marks = tuple(_marks(machine, best, answer))
    return Headline(question, verdict, ", ".join(detail), _bars(shown, answer.objective), marks)


def answer_of(machine: MachineReport) -> Answer:
    """Return the findings that decide the headline."""
    recommendation, confirmation = machine.recommendation, machine.confirmation
    best, other = recommendation.recommended, recommendation.compared
    if best is None:
        return Answer(ok=False, objective=recommendation.objective)
    arm = confirmation.arm("recommended")
    source = confirmation if arm else recommendation
    objective = source.objective
    against = other.label if other else "default"
    theirs, ratio = None, source.ratio
    if arm:
        against = confirmation.against
        theirs = confirmation.arm(against) or confirmation.arm(f"{against}_same_n")
        # A launch that the study could not measure ran with as many processes only.
        ratio = ratio or (None if other else source.ratio_same_n)
    at_most = arm and not arm.end_seen and objective == "models_per_hour"
    text = amount((arm or best).gives(objective), objective)
    same = other is not None and other.launch == best.launch and not (arm and arm.start == "forked")
    return Answer(
        objective=objective,
        confirmed=arm is not None,
        launches=2 if ratio else len(recommendation.ranking) or 2,
        same=same or (source.ratio is None and arm is not None and other is not None),
        best=best.label,
        started=STARTED[arm.start] if arm else "",
        other=against,
        value=f"{'at most ' if at_most else ''}{text} with {processes(best.n)}",
        n=best.n,
        other_n=theirs.n if theirs else other.n if other else best.n,
        probability=best.probability_best,
        once=arm is None and (best.once or (other is not None and other.once)),
        ratio=ratio or NO_GAIN,
        same_n=(source.ratio_same_n if other is None or other.n != best.n else None) or NO_GAIN,
        spread=machine.noise.at(best.n, *([other.n] if other else [])),
    )


def confirmed_amount(confirmation: analysis.Confirmation) -> str:
    """Write the confirmed rate or time of the recommended launch; empty if not confirmed."""
    arm = confirmation.arm("recommended")
    if arm is None:
        return ""
    text = amount(arm.gives(confirmation.objective), confirmation.objective)
    return f"{text}, confirmed{STARTED[arm.start]}"


ROLES = ("today", "today_same_n", "default", "default_same_n", "recommended")
"""Launches of the headline, in their order; ``same_n``: at the recommended process count."""
STARTED = {"fresh": "", "forked": " with forked starts"}
"""Words behind a launch's name, by how its models start."""


Shown = list[tuple[str, analysis.Candidate | analysis.ArmResult]]
"""Launches of the headline, by their roles."""


def _predicted(recommendation: analysis.Recommendation, best: analysis.Recommended) -> Shown:
    """Return today's launch, the default one and the recommended one.

    The launch that the recommended one is compared with comes at the recommended count, too.
    """
    shown: Shown = []
    for role, entry in (("today", recommendation.today), ("default", recommendation.default)):
        if entry is None or entry.launch == best.launch:
            continue
        shown.append((role, entry))
        if entry is recommendation.compared and entry.at_n is not None and entry.at_n.n != entry.n:
            shown.append((f"{role}_same_n", entry.at_n))
    return [*shown, ("recommended", best)]


def _confirmed(confirmation: analysis.Confirmation) -> Shown:
    """Return the launches as confirmed, the recommended one with fresh starts too; or none."""
    arms = [confirmation.arm(role) for role in ROLES]
    if confirmation.start != "fresh":
        arms.insert(-1, confirmation.arm("recommended", "fresh"))
    return [(arm.role, arm) for arm in arms if arm is not None]


def _bars(shown: Shown, objective: str) -> tuple[Bar, ...]:
    gave = [entry.gives(objective) for _, entry in shown]
    values = [quantity.value if known(quantity.value) else 0.0 for quantity in gave]
    scale, unit = 1.0, UNITS[OBJECTIVES[objective].rate]
    if OBJECTIVES[objective].single:
        scale, unit = time_unit(min(values))
    return tuple(
        Bar(
            role=role,
            text=f"{opening(entry.label)}{started}: {processes(entry.n)}",
            value=format_number(value / scale),
            unit=unit,
            interval=format_interval(quantity.low, quantity.high, like=value, unit=scale),
            share=value / (max(values) or 1.0),
            once=isinstance(entry, analysis.Candidate) and entry.once,
        )
        for (role, entry), quantity, value in zip(shown, gave, values, strict=True)
        for started in [STARTED[entry.start] if isinstance(entry, analysis.ArmResult) else ""]
    )


# How sure the answer is.


def sureness(recommendation: analysis.Recommendation) -> str:
    """Say how sure it is that the study has nothing better."""
    best = recommendation.recommended
    probability = best.probability_best if best else None
    if best is None or not known(probability):
        return "With one start of each launch it is not known how sure this is."
    text = (
        f"Probability that no launch of the study{STARTED[recommendation.start]} is more than "
        f"{format_percent(recommendation.tolerance)} faster: {format_probability(probability)}."
    )
    other = next((point for point in recommendation.ranking if point.launch != best.launch), None)
    if other is not None and (probability or 0.0) < SURE:
        text += f" The closest one is {name_launch(other.label)} with {processes(other.n)}."
    return text


def _marks(machine: MachineReport, best: analysis.Recommended, answer: Answer) -> Iterator[Mark]:
    """Mark how sure the recommendation of a launch is."""
    recommendation, confirmation = machine.recommendation, machine.confirmation
    if arm := confirmation.arm("recommended"):
        yield Mark(
            f"confirmed in {format_count(arm.rounds, 'round')}",
            "Each launch ran as the launch script starts it: plain processes, from their start to "
            "their end, in a queue that keeps every slot busy.",
        )
        yield from _difference_marks(confirmation, arm)
    else:
        why = NOT_CONFIRMED.get(confirmation.status, "")
        reason = f": {confirmation.reason}" if confirmation.reason else ""
        tip = f"From windows of training, not from whole models{why}{reason}."
        bad = confirmation.status in {"none", "failed"}
        yield Mark("predicted, not confirmed", tip, bad)
    if known(best.probability_best):
        probability = format_probability(best.probability_best, short=True)
        text = f"best of {len(recommendation.ranking)}: {probability}"
        yield Mark(text, sureness(recommendation))
    if answer.spread is None:
        yield Mark("no A/A check", "The baseline was not repeated: noise is not known.", bad=True)
    else:
        tip = "Two runs of one launch differed by this much: smaller gains mean nothing."
        yield Mark(f"A/A noise {format_percent(answer.spread)}", tip)
    starts = min(point.replicates for point in (best, recommendation.compared or best))
    if starts < ENOUGH_REPLICATES and arm is None:  # a confirmation rests on its rounds
        more = "a larger search.budget_minutes" if recommendation.raced else "measure.replicates: 3"
        tip = (
            f"The interval rests on the spread of all launches together; {more} gives more starts."
        )
        yield Mark(format_count(starts, "start"), tip, bad=starts < analysis.ENOUGH_STARTS)
    if length := confirmation.model_length or recommendation.model_length:
        yield _length_mark(length)
    if recommendation.today is not None:
        shown = shell.tell(recommendation.today.shell)  # type: ignore[arg-type]
        yield Mark("today's launch", f"Today's launch is the default one with {shown}.")
    yield from _training_marks(machine, best)
    yield from _loss_marks(machine)


NOT_CONFIRMED = {
    "off": "; the config says confirm: off",
    "none": "; nothing was confirmed",
    "failed": "; the confirmation failed",
}
"""Why a recommendation is predicted only, by the status of the confirmation."""
PARTS = {
    "start": "start and end of a process",
    "between": "work between steps",
    "queue": "gaps between processes",
    "clock": "CPU clock",
}


def _difference_marks(
    confirmation: analysis.Confirmation, arm: analysis.ArmResult
) -> Iterator[Mark]:
    """Mark the kind of start, differences from the prediction, and weaknesses of a confirmation."""
    if arm.start == "forked":
        tip = "Each model is forked from a process that has imported the script's packages."
        yield Mark("forked", tip)
    objective = confirmation.objective
    forked = confirmation.arm("recommended", "forked")
    if OBJECTIVES[objective].single and forked is not None:
        tip = (
            "The later models of a list can be forked from a process that has imported the script's"
            " packages (--queue --forked). One model alone cannot."
        )
        yield Mark(f"of many in turn: {amount(forked.gives(objective), objective)}", tip)
    difference = confirmation.difference
    if difference is not None and abs(difference.value - 1) > thresholds.NOTICEABLE:
        side = "below" if difference.value < 1 else "above"
        away = f"{format_percent(abs(round(difference.value - 1, 3)))} {side} the prediction"
        if arm.start == "forked":  # which is of fresh starts
            away = f"fresh starts: {away}"
        bad = abs(difference.unexplained - 1) > thresholds.NOTICEABLE
        yield Mark(away, explain_difference(confirmation), bad)
    if arm.foreign_cpus > thresholds.FOREIGN_CPUS:
        cpus = format_cpus(arm.foreign_cpus)
        tip = f"Other programs took {cpus} CPUs meanwhile. Confirm again on a quiet machine."
        yield Mark("busy machine", tip, bad=True)
    if not arm.end_seen and OBJECTIVES[objective].rate == "models_per_hour":
        tip = (
            "No process ended after one model, so its time may lack the end of a process. "
            "Raise confirm.seconds."
        )
        yield Mark("end of a model not seen", tip, bad=True)


def explain_difference(confirmation: analysis.Confirmation) -> str:
    """Write the factors of the difference from the prediction."""
    difference = confirmation.difference
    if difference is None:
        return ""
    parts = [
        f"{PARTS[part.what]} {format_ratio(part.factor)}"
        for part in difference.parts
        if abs(part.factor - 1) >= LEAST_FACTOR
    ]
    if abs(difference.unexplained - 1) >= LEAST_FACTOR:
        parts.append(f"unexplained {format_ratio(difference.unexplained)}")
    return f"Factors: {', '.join(parts)}." if parts else ""


def _length_mark(length: ModelLength) -> Mark:
    if length.steps is None:
        tip = "No start showed how many steps a model has. Set workload.steps_per_model."
        return Mark("steps of a model not known", tip, bad=True)
    text = f"The script ended after this many steps in {format_count(length.starts, 'start')}."
    if length.differs:
        text = f"Models differ in length: {length.shortest:,.0f} to {length.longest:,.0f} steps."
    return Mark(f"one model: {length.steps:,.0f} steps", text, bad=length.differs)


def _training_marks(machine: MachineReport, best: analysis.Recommended) -> Iterator[Mark]:
    """Mark changes of training: of the recommended launch, and of a faster one that is left out."""
    losses = {loss.launch: loss for loss in machine.confirmation.losses}
    if loss := losses.get(best.launch):
        tip = f"It computes in another order or precision than the baseline. {_loss_text(loss)}"
        yield Mark("loss compared", tip, bad=not loss.alike)
    if changed := machine.recommendation.changed:
        changes = " and ".join(f"{name} {value}" for name, value in changed.what.items())
        other = losses.get(changed.launch)
        text = _loss_text(other) if other else "Compare the loss at equal samples before using it."
        gain = "" if changed.once else f" ({format_ratio(changed.ratio.value)})"
        yield Mark(
            "a faster launch changes training",
            f"{changed.label} with {processes(changed.n)} is faster{gain}, and is not "
            f"recommended because it changes training ({changes}). {text}",
        )


def _loss_text(loss: Losses) -> str:
    if loss.status != "ok":
        return f"Its loss could not be compared: {loss.reason}."
    how = "falls as the baseline's does" if loss.alike else "does not fall as the baseline's does"
    mean = sum(loss.losses) / len(loss.losses)
    low, high = min(loss.baseline), max(loss.baseline)
    return (
        f"Its loss {how}: {mean:.4g} over the second half of {loss.steps} steps, {low:.4g} to "
        f"{high:.4g} in {len(loss.baseline)} runs of the baseline."
    )


BY_WHOM = {"foreign_cpu": "other programs", "stolen_cpu": "the hypervisor"}


def _loss_marks(machine: MachineReport) -> Iterator[Mark]:
    """Mark launches, windows and files that were lost."""
    failures = machine.failures
    ranked = {point.launch for point in machine.recommendation.ranking}
    lost = dict.fromkeys(point.label for point in failures.points if point.launch not in ranked)
    if lost:
        tip = f"No valid window, so not compared: {listed(lost)}."
        yield Mark(f"{format_count(len(lost), 'launch', 'launches')} lost", tip, bad=True)
    yield from lost_windows(failures, machine.provenance.windows)
    if writers := failures.shared_files:
        path = max(writers, key=lambda file: writers[file])
        tip = (
            f"{writers[path]:,} processes write {path}"
            f"{f' (and {len(writers) - 1:,} more files)' if len(writers) > 1 else ''}: each "
            "overwrites what the others write. Put {member} into the argument that names it, such "
            'as args: ["--out", "runs/{member}"].'
        )
        yield Mark("processes share a file", tip, bad=True)


def lost_windows(failures: analysis.Failures, taken: int) -> Iterator[Mark]:
    """Mark large shares of windows that were lost to other programs, or to the hypervisor.

    Args:
        failures: of the machine.
        taken: number of all windows.
    """
    for flag, whom in BY_WHOM.items():
        count = sum(window.count for window in failures.windows if window.flag == flag)
        if taken and count >= MANY_LOST * taken:
            tip = (
                f"{count:,} of {taken:,} windows lost CPU time to {whom}; such windows do not"
                " count, and are taken again as often as measure.retries allows. On a quieter"
                " machine the study is quicker and its intervals are narrower."
            )
            yield Mark(f"{format_percent(count / taken)} of windows disturbed", tip, bad=True)


def warn_busy(look: ForeignLoad) -> str:
    """Warn, before a study starts, that its machine is busy; empty if that costs no window."""
    if not (look.taken or look.stolen):
        return ""
    limit = format_cpus(windows.foreign_limit_cpus(look.usable_cpus))
    return (
        f"  Warning: this machine is busy now: {foreign.describe(look)}.\n"
        f"  Windows in which others take more than {limit} CPUs are not used. Stop these programs, "
        "or the study takes\n  longer and may lose results."
    )


# Why it does not scale further.


def grows(target: Target) -> bool:
    """Return whether a step takes longer with more processes, by more than noise."""
    ratio = target.growth_ratio
    return ratio is not None and thresholds.grows(ratio.value, ratio.low)


def is_open(target: Target) -> bool:
    """Return whether there is growth to be explained."""
    return target.status != "nothing_to_explain" and (
        grows(target) or bool(target.scaling_loss.named)
    )


def is_noisy(target: Target) -> bool:
    """Return whether a step got longer, but by no more than windows differ among themselves."""
    value = target.growth_ratio.value if target.growth_ratio else None
    return value is not None and value >= thresholds.GROWS and not grows(target)


def _possible(target: Target) -> list[CauseResult]:
    """Return causes of a slow step of one process that are large, but not sure enough to name."""
    return [
        cause
        for cause in target.single_process_loss.inconclusive
        if cause.share and cause.share.value >= thresholds.SHARE and (cause.share.low or 0.0) > 0
    ]


WHY: tuple[tuple[str, Callable[[Target], bool], str], ...] = (
    ("skipped", lambda t: t.status == "skipped", "Not known: no experiments were made{reason}"),
    ("failed", lambda t: t.status == "failed", "Not known: the experiments failed{reason}"),
    (
        "scaling_loss",
        lambda t: bool(t.scaling_loss.named),
        "{explained} of the time that {processes} add to a step: {scaling_loss}{besides}",
    ),
    (
        "level, and growth that is open",
        lambda t: bool(t.single_process_loss.named) and is_open(t),
        "One process alone is slow: {single_process_loss}. What more processes add is unexplained",
    ),
    (
        "single_process_loss",
        lambda t: bool(t.single_process_loss.named),
        "One process alone is slow: {single_process_loss}",
    ),
    (
        "unknown",
        lambda t: t.status == "inconclusive" or is_open(t),
        "We do not know why: no tested cause explains the time that {processes} add to a step",
    ),
    ("noisy", is_noisy, "The windows differ too much to tell whether a step takes longer"),
    ("one process", lambda t: t.n == 1, "Only one process was tried"),
    (
        "undecided",
        lambda t: bool(_possible(t)),
        "A step takes hardly longer with {processes}. why: full would tell whether {possible}",
    ),
    ("scales", lambda _: True, "Nothing to explain: a step takes hardly longer with {processes}"),
)
"""Name, condition and answer: the first row whose condition holds for a launch is its answer."""


def why(target: Target) -> str:
    """Return the answer for a launch, in one sentence without its full stop."""
    text = next(text for _, holds, text in WHY if holds(target))
    named, explained = target.scaling_loss.named, target.scaling_loss.explained_share
    if named and (len(named) == 1 or explained is None):
        explained = named[0].share
    adding = {cause.cause for cause in named}
    other = [cause for cause in target.single_process_loss.named if cause.cause not in adding][:1]
    everything = explained and explained.value >= ALL
    return text.format(
        reason=f": {target.reason}" if target.reason else "",
        processes=processes(target.n or 1),
        explained="All" if everything else share_text(explained) if explained else "A part",
        scaling_loss=_causes(named),
        single_process_loss=_level(target.single_process_loss.named),
        possible=_level(_possible(target)),
        besides=f". One process alone: {_level(other)}" if other else "",
    )


def _causes(named: Sequence[CauseResult]) -> str:
    """Name causes with their shares. The share of a single cause begins its sentence instead."""
    if len(named) == 1:
        return _doubted(named[0])
    return listed(f"{_doubted(cause)} ({share_text(cause.share)})" for cause in named)


def _level(named: Sequence[CauseResult]) -> str:
    """Name causes of a slow step of one process: ``34% of its step is a slow kernel``."""
    return listed(
        f"{share_text(cause.share)}{'' if place else ' of its step is'} {_doubted(cause)}"
        for place, cause in enumerate(named)
    )


def _doubted(cause: CauseResult) -> str:
    return f"{'probably ' if cause.confidence == 'low' else ''}{inside(cause.title)}"


def inside(title: str) -> str:
    """Return a title for inside a sentence: ``a slow kernel``, but still ``CPU quota``."""
    first, _, _ = title.partition(" ")
    return title[:1].lower() + title[1:] if first[1:] == first[1:].lower() else title


def unexplained(target: Target) -> Interval | None:
    """Return the unexplained share of the added time; None if nothing was added."""
    if not is_open(target):
        return None
    rest = target.scaling_loss.unexplained_share
    return rest if rest is not None or target.scaling_loss.named else Interval(value=1.0)
