"""analysis/confirmation.json: the result of the rounds, compared with the prediction.

The choice comes from the study's records, the gain from these rounds alone. Intervals are over
rounds, on the log scale, and ratios are paired by turn. Three rounds show little of how much rounds
differ, so this is estimated from all arms together (``variances``).
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from msgspec import structs

from scaling_study.common.objectives import OBJECTIVES, Objective, named
from scaling_study.config.work import model_length
from scaling_study.confirm import timeline
from scaling_study.records import analysis, codec, confirmation
from scaling_study.records.model_length import ModelLength, pool
from scaling_study.stats import thresholds
from scaling_study.stats.interval import Interval
from scaling_study.stats.throughputs import Start, fit

RECOMMENDED, FORKED = "recommended/fresh", "recommended/forked"
OWN_N, SAME_N = "{}/fresh", "{}_same_n/fresh"
"""The arms of today's or the default launch: at its own process count, at the recommended one."""

PARTS = ("start", "between", "queue")

STRAYS = 0.2
"""Prior share of arms whose rounds scatter many times as much as others: those of forked models,
and of launches with two speeds, do."""


@dataclass(frozen=True, slots=True)
class Length:
    """The number of steps of a model.

    Attributes:
        steps_per_model: In steps of the default launch; None if unknown.
        work: The work of a step of each launch, in steps of the default one.
        learnt: The length that starts of the script show, once they have ended; None if the
            config sets the number, or asks for none.
        pool: Whether a run of the program trains several models.
    """

    steps_per_model: float | None
    work: Mapping[str, float]
    learnt: ModelLength | None = None
    pool: bool = False

    def of(self, launch: str) -> float | None:
        """Return the number of a launch's steps that train a model; None if unknown."""
        if self.steps_per_model is None:
            return None
        return self.steps_per_model / self.work.get(launch, 1.0)


@dataclass(frozen=True, slots=True)
class _Arm:
    """An arm, with the record and the result of each of its rounds by turn.

    Attributes:
        factor: by which the values of results are multiplied, for rates in equal work.
        models: number of models that a run of the program trains.
    """

    about: confirmation.Arm
    records: Mapping[int, confirmation.Round]
    seen: Mapping[int, timeline.RoundResult]
    how: timeline.Basis
    factor: float
    models: float

    def mean(self, name: str) -> float | None:
        """Return the mean of a part over the rounds that show it; None if none does."""
        values = [getattr(look, name) for look in self.seen.values()]
        known = [value for value in values if value is not None]
        return sum(known) / len(known) if known else None


def summarise(
    recommendation: Sequence[analysis.Recommendation],
    file: Path | None,
    windows: pd.DataFrame,
    length: Length,
) -> list[analysis.Confirmation]:
    """Return the entries of analysis/confirmation.json.

    Args:
        recommendation: the entries of analysis/recommendation.json.
        file: confirm/rounds.jsonl; None if the config has ``confirm: off``.
        windows: rows of tables/windows: machine, launch, n, valid, frequency_mhz.
        length: of a model.

    Raises:
        RecordError: the file holds something else.
    """
    head, records = _read(file) if file else (None, [])
    confirmations = []
    for entry in recommendation:
        result = analysis.Confirmation(
            machine=entry.machine, status="none", objective=entry.objective
        )
        if head is None:
            result = structs.replace(result, status="off")
        elif entry.recommended is None:
            result = structs.replace(result, reason=entry.reason)
        elif entry.machine != head.machine_hash:
            result = structs.replace(result, reason="this machine has not been confirmed")
        else:
            rows = windows[(windows["machine"] == entry.machine) & windows["valid"]]
            result = _confirmed(entry, head, records, rows, length)
        confirmations.append(result)
    return confirmations


def _read(path: Path) -> tuple[confirmation.Head, list[confirmation.Record]]:
    records = [record for _, record in codec.read(path, confirmation.DECODER)]
    head = records.pop(0) if records else None
    if not isinstance(head, confirmation.Head):
        raise codec.RecordError(
            f"{path} does not begin with what is confirmed; delete it, and rerun"
        )
    return head, records


def _confirmed(
    entry: analysis.Recommendation,
    head: confirmation.Head,
    records: Sequence[confirmation.Record],
    windows: pd.DataFrame,
    length: Length,
) -> analysis.Confirmation:
    """Return the entry of a machine that has rounds."""
    learnt, objective = None, entry.objective
    if length.learnt is not None:
        rounds_length = _ended(head, records, length.work)
        learnt = replace(
            pool([length.learnt, rounds_length]),
            steps=length.steps_per_model or rounds_length.steps,
        )
        if length.steps_per_model is None and rounds_length.starts:
            objective = named("models_per_hour", single=entry.single)
            length = replace(length, steps_per_model=rounds_length.steps, learnt=rounds_length)
    arms, left_out = _arms(head, records, length)
    nothing = analysis.Confirmation(
        machine=entry.machine, status="failed", objective=objective, left_out=tuple(left_out)
    )
    if RECOMMENDED not in arms:
        reason = next(
            (omission.reason for omission in left_out if omission.arm == RECOMMENDED), None
        )
        return structs.replace(nothing, reason=reason, objective=entry.objective)
    # Arms take turns: what a round has in common is drift.
    measured = fit(
        [
            Start(key, turn, {arm.about.n: arm.factor * look.value})
            for key, arm in arms.items()
            for turn, look in sorted(arm.seen.items())
            if look.value is not None
        ],
        strays=STRAYS,
    )
    points = {key: (key, arm.about.n) for key, arm in arms.items()}
    means = {key: measured.level(point) for key, point in points.items()}
    goal = OBJECTIVES[objective]
    compared = measured.of_one_process() if goal.single else measured
    # Forked models count only if each slot has trained one whose imports were made ahead. One
    # model alone is never forked: a server would have to import first.
    forks = FORKED in arms and arms[FORKED].how.ahead and not goal.single
    least = (1 + thresholds.NOTICEABLE) * means[RECOMMENDED].value
    chosen = FORKED if forks and means[FORKED].value > least else RECOMMENDED
    ratios = {
        key: compared.ratio(points[chosen], point) for key, point in points.items() if key != chosen
    }
    predicted = {key: _predicted(entry, arm.about, goal) for key, arm in arms.items()}
    against = "today" if any(key.startswith("today") for key in arms) else "default"
    said = predicted[RECOMMENDED]
    # If the recommended launch is the one to compare with, its own fresh starts are the reference.
    measured_against = any(arm.role.startswith(against) for arm in head.arms)
    reference = OWN_N.format(against) if measured_against else RECOMMENDED
    return structs.replace(
        nothing,
        status="confirmed",
        against=against,
        start=arms[chosen].about.start,
        steps_per_model=length.of(arms[chosen].about.launch),
        model_length=learnt,
        arms=tuple(_arm_entry(arm, means[key], predicted[key]) for key, arm in arms.items()),
        losses=tuple(record for record in records if isinstance(record, confirmation.Losses)),
        imports=next(
            (record for record in records if isinstance(record, confirmation.Imports)), None
        ),
        ratio=_ratio(ratios.get(reference)),
        ratio_same_n=_ratio(ratios.get(SAME_N.format(against))),
        difference=_difference(
            entry.recommended, arms[RECOMMENDED], means[RECOMMENDED].value / said, windows, length
        )
        if entry.recommended and said
        else None,
    )


def _ended(
    head: confirmation.Head, records: Sequence[confirmation.Record], work: Mapping[str, float]
) -> ModelLength:
    """Return the model length that the script's ends in the rounds show."""
    launches = {arm.key: arm.launch for arm in head.arms}
    ended: dict[str, list[ModelLength]] = {launch: [] for launch in launches.values()}
    for record in records:
        if isinstance(record, confirmation.Round) and record.status == "ok":
            ended[launches[record.arm]] += [
                ModelLength(1, steps, steps, steps) for steps in _ends([record])
            ]
    plain = (OWN_N.format("default"), SAME_N.format("default"), RECOMMENDED)
    default = next(launches[key] for key in plain if key in launches)
    return model_length(ended, {launch: work.get(launch, 1.0) for launch in ended}, default)


def _arms(
    head: confirmation.Head, records: Sequence[confirmation.Record], length: Length
) -> tuple[dict[str, _Arm], list[analysis.MissingArm]]:
    """Return the arms that have a figure, and why the others have none."""
    arms: dict[str, _Arm] = {}
    left_out = []
    for about in head.arms:
        key = about.key
        entries = [
            entry
            for entry in records
            if isinstance(entry, confirmation.Round | confirmation.ArmLeftOut) and entry.arm == key
        ]
        rounds = [entry for entry in entries if isinstance(entry, confirmation.Round)]
        ran = {entry.turn: entry for entry in rounds if entry.status == "ok"}
        failed = next((entry for entry in entries if entry not in ran.values()), None)
        steps, models = length.of(about.launch), 1.0
        factor = length.work.get(about.launch, 1.0)
        if steps is not None:
            factor = models = _models_per_run(ran.values(), steps) if length.pool else 1.0
            steps *= models
        differs = length.pool or bool(length.learnt and length.learnt.differs)
        how = timeline.basis(list(ran.values()), steps, any_end=differs)
        looks = {turn: timeline.look(entry, steps, how) for turn, entry in ran.items()}
        # An arm that failed in one round has no result: only its rounds that went well would count.
        if failed is not None:
            status = failed.status if isinstance(failed, confirmation.Round) else "unavailable"
            left_out.append(_left_out(about, status, failed.reason))
        elif all(look.value is None for look in looks.values()):
            left_out.append(_left_out(about, "slow", None))
        else:
            arms[key] = _Arm(about, ran, looks, how, factor, models)
    return arms, left_out


def _ends(records: Iterable[confirmation.Round]) -> list[int]:
    """Return the iterations of each start of the script that has ended."""
    return [run.iterations for record in records for run in record.runs if run.ended_s is not None]


def _models_per_run(records: Collection[confirmation.Round], steps_per_model: float) -> float:
    """Return how many models a run of a program trains: so far, if no run has ended."""
    most = max((run.iterations for record in records for run in record.runs), default=0)
    return max(1.0, float(np.median(_ends(records) or [most])) / steps_per_model)


def _left_out(about: confirmation.Arm, status: str, reason: str | None) -> analysis.MissingArm:
    names = {name: getattr(about, name) for name in ("role", "label", "n", "start")}
    return analysis.MissingArm(arm=about.key, **names, status=status, reason=reason)


def _arm_entry(arm: _Arm, rate: Interval, predicted: float | None) -> analysis.ArmResult:
    foreign_s = sum(record.foreign_cpu_s for record in arm.records.values())
    return analysis.ArmResult(
        **structs.asdict(arm.about),
        rounds=sum(look.value is not None for look in arm.seen.values()),
        value=rate.value,
        low=rate.low,
        high=rate.high,
        predicted=predicted,
        start_s=arm.mean("start_s"),
        iteration_s=arm.mean("iteration_s"),
        end_s=arm.mean("end_s"),
        whole_models=sum(round(arm.models * look.whole_models) for look in arm.seen.values()),
        cut=not arm.how.whole,
        end_seen=arm.mean("end_s") is not None,
        foreign_cpus=foreign_s / sum(record.cut_s for record in arm.records.values()),
    )


def _predicted(
    entry: analysis.Recommendation, about: confirmation.Arm, objective: Objective
) -> float | None:
    """Return the rate that the points predict for an arm; None if they do not."""
    if about.start == "forked":
        return entry.recommended.forked if entry.recommended else None
    role, same_n, _ = about.role.partition("_same_n")
    points = {"today": entry.today, "default": entry.default, "recommended": entry.recommended}
    point: analysis.Candidate | None = points[role]
    if same_n and isinstance(point, analysis.ReferencePoint):
        point = point.at_n
    if point is None or point.at != (about.launch, about.n):
        return None
    value = point.rate(objective).value
    return None if math.isnan(value) else value


def _ratio(ratio: Interval | None) -> Interval | None:
    return None if ratio is None or math.isnan(ratio.value) else ratio


def _difference(
    point: analysis.Recommended, arm: _Arm, value: float, windows: pd.DataFrame, length: Length
) -> analysis.Difference:
    """Return the confirmed rate over the predicted one, as a product of known factors.

    Each factor is the ratio of a model's times before and after one part of it changes from the
    predicted to the observed value, in this order:

    Start
        Start and end of a process; the prediction has the end if first models have shown it.
    Between
        Time between iterations, in proportion to ordinary ones.
    Queue
        Time between two processes of a slot.
    Clock
        Frequency of the CPUs in the rounds over that in the windows. All of a step's time is taken
        to scale with it, so this is the most that the clock can explain.
    """
    parts = []
    start_s, iteration_s = arm.mean("start_s"), arm.mean("iteration_s")
    ordinary_s = arm.mean("ordinary_s")
    steps_per_model, own_steps = length.steps_per_model, length.of(arm.about.launch)
    if (
        steps_per_model and own_steps and start_s is not None and iteration_s and ordinary_s
        and point.steps_per_s and point.models_per_hour
    ):  # fmt: skip
        said_s = timeline.SECONDS_PER_HOUR * point.n / point.models_per_hour
        said_start_s = max(0.0, said_s - steps_per_model * point.n / point.steps_per_s)
        beside_s = start_s + (arm.mean("end_s") or 0.0)
        said_steps_s = own_steps * ordinary_s / (1 - (point.non_step_share or 0.0))
        steps_s = own_steps * iteration_s
        times = [
            said_start_s + said_steps_s,
            beside_s + said_steps_s,
            beside_s + steps_s,
            beside_s + steps_s + (arm.mean("gap_s") or 0.0),
        ]
        parts += [
            analysis.Part(what=part, factor=before / after)
            for part, (before, after) in zip(PARTS, pairwise(times), strict=True)
        ]
    clock = _clock(arm, windows)
    if clock is not None:
        parts.append(analysis.Part(what="clock", factor=clock))
    explained = math.prod(part.factor for part in parts)
    return analysis.Difference(value=value, parts=tuple(parts), unexplained=value / explained)


def _clock(arm: _Arm, windows: pd.DataFrame) -> float | None:
    """Return the clock in the rounds over that in the windows; None if it is not known."""
    about = arm.about
    rows = windows[(windows["launch"] == about.launch) & (windows["n"] == about.n)]
    before = rows["frequency_mhz"].dropna()
    during = [record.frequency_mhz for record in arm.records.values() if record.frequency_mhz]
    if before.empty or not during or not before.mean():
        return None
    return float(np.mean(during) / before.mean())
