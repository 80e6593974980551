"""The launch to use, from the points of one machine.

The best point is the one that serves the study's objective most (`objectives`): it gives most
models per hour, or has the shortest time of one model; without a number of steps that train a
model, the same of steps. Recommended is the smallest number of processes within the study's
tolerance (`search.tolerance`) of it over all launches, and at that number the fastest launch: fewer
processes need less memory, for a difference that no one notices. Where one model counts, each
launch counts with its fewest processes. The probability of being best is the share of draws in
which the point is within the tolerance of the best point of that draw. The draws come from the same
distributions as the intervals. The A/A repeat is no candidate, since it is the baseline again.

A race has chosen already, and by more than these points show: without what the machine drifted
between its jobs, and of launches that hardly differ the one that changes the least.

A launch that changes training itself (the samples of a step, coarser numbers) is never recommended:
the best of those is named beside, where it is better. Nothing is recommended where steps of unequal
work may be all that launches differ by (`unequal_work`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from scaling_study.analysis import unequal_work
from scaling_study.common.objectives import OBJECTIVES, Objective
from scaling_study.common.storage import FLAT
from scaling_study.config.work import changed_training
from scaling_study.stats import intervals
from scaling_study.stats.intervals import Interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from scaling_study.config.plan import Choice, Plan
    from scaling_study.launch.axes.axis import Value
    from scaling_study.records.model_length import ModelLength

    Json = Mapping[str, Any]

STEPS = OBJECTIVES["steps_per_s"]
PROBABILITY = (
    f"share of {intervals.DRAWS} draws from the distributions of the intervals in which the point "
    "is within {:.0%} of the best point of that draw; none if no launch has two replicates"
)


@dataclass(frozen=True, slots=True)
class Point:
    """What recommendation.json holds of a point: steps/s from `low` to `high`; NaN is not known."""

    launch: str
    label: str
    role: str
    n: int
    replicates: int
    oversubscribed: bool
    steps_per_s: float
    step_s: float
    low: float
    high: float
    non_step_share: float
    models_per_hour: float
    models_per_hour_low: float
    models_per_hour_high: float

    @property
    def at(self) -> tuple[str, int]:
        """Its name in `intervals.Means`."""
        return self.launch, self.n

    def gain(self, objective: Objective) -> float:
        """What is compared, which is to be large."""
        return float(objective.gain(getattr(self, objective.rate), self.n))


@dataclass(frozen=True, slots=True)
class Most:
    """The point of a launch with the most processes, and its ratio to the launch's best one."""

    point: Point = field(metadata=FLAT)
    ratio: Interval


@dataclass(frozen=True, slots=True)
class Reference:
    """A launch that the recommended one is compared with.

    Attributes:
        point: Its best point.
        at_n: Its point at the recommended process count.
        most: Its point with the most processes, where that is another.
    """

    point: Point = field(metadata=FLAT)
    at_n: Point | None
    most: Most | None


@dataclass(frozen=True, slots=True)
class Today(Reference):
    """Today's launch, with the variables of the user's shell that make it."""

    shell: Value


@dataclass(frozen=True, slots=True)
class Recommended:
    """The point to use, and what started its members."""

    point: Point = field(metadata=FLAT)
    probability_best: float | None
    most: Most | None
    axes: Json
    slots: Sequence[Json]
    requested_env: Json


@dataclass(frozen=True, slots=True)
class Changed:
    """The best point that trains otherwise, by what, and its ratio to the recommended one."""

    point: Point = field(metadata=FLAT)
    what: Json
    ratio: Interval


@dataclass(frozen=True, slots=True)
class Ranked:
    """The best point of a launch, against that of the default launch."""

    point: Point = field(metadata=FLAT)
    ratio_to_default: float
    ratio_low: float | None
    ratio_high: float | None
    probability_best: float | None


@dataclass(frozen=True, slots=True)
class Chosen:
    """All that a recommendation says of points.

    Attributes:
        raced: A race has chosen.
        default: None where it was not measured.
        today: None where it is the default launch, or was not measured.
        best: The point that serves the objective most.
        throughput: The point with the highest throughput.
        recommended: The point to use.
        ratio: Of it to today's launch, or the default one: each at its own process count.
        ratio_same_n: Both at the same count.
        changed: Another way to train that is better.
        ranking: Every launch at its best point, best first.
    """

    raced: bool = False
    default: Reference | None = None
    today: Today | None = None
    best: Point | None = None
    throughput: Point | None = None
    recommended: Recommended | None = None
    ratio: Interval | None = None
    ratio_same_n: Interval | None = None
    changed: Changed | None = None
    ranking: Sequence[Ranked] = ()


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A machine's entry of recommendation.json, without the machine.

    Attributes:
        status: ``ok``, or ``none`` for a `reason`.
        reason: Why nothing is recommended.
        objective: Name of what is compared, of `OBJECTIVES`.
        model_length: How long scripts are, where they say it themselves (`work`).
        tolerance: A smaller difference is not worth more processes.
        interval: How intervals are made, in words.
        probability: What the probability of being best is, in words.
        chosen: The points; none where nothing is recommended.
    """

    status: str
    reason: str | None
    objective: str
    model_length: ModelLength | None
    tolerance: float
    interval: str
    probability: str
    chosen: Chosen = field(metadata=FLAT)


RENAMED = {"low": "steps_per_s_low", "high": "steps_per_s_high"}
"""Fields of a point that are other columns of the table."""


def candidates(points: pd.DataFrame, cohorts: Sequence[Json]) -> list[Point]:
    """Points that may be recommended: of proven launches, without the A/A repeat.

    Args:
        points: The machine's rows of the table of points.
        cohorts: Its cohorts, as cohorts.json holds them.
    """
    refused = {cohort["launch"] for cohort in cohorts if not _proven(cohort)}
    names = [RENAMED.get(one.name, one.name) for one in fields(Point)]
    rows = zip(*(points[name].tolist() for name in names), strict=True)
    found = [Point(*row) for row in rows]
    return [one for one in found if one.role != "repeat" and one.launch not in refused]


def _proven(cohort: Json) -> bool:
    readback = cohort["readback"]
    return readback is None or all(check["ok"] for check in readback["checks"])


def enough(points: Sequence[Point], tolerance: float, objective: Objective = STEPS) -> Point:
    """The point with the fewest processes within a tolerance of the best; the best of those.

    Args:
        points: At least one.
        tolerance: A smaller difference (0.02: two percent) is not worth more processes.
        objective: What is compared.
    """
    limit = (1 - tolerance) * max(point.gain(objective) for point in points)
    near = [point for point in points if point.gain(objective) >= limit]
    return min(near, key=lambda point: (point.n, -point.gain(objective)))


def recommend(
    points: pd.DataFrame,
    rates: pd.DataFrame,
    cohorts: Sequence[Json],
    plan: Plan,
    unequal: Sequence[unequal_work.Finding] = (),
) -> Recommendation:
    """Choose the launch to use.

    Args:
        points: The machine's rows of the table of points.
        rates: Its rows of the table of replicates.
        cohorts: Its cohorts, as cohorts.json holds them.
        plan: plan.json.
        unequal: What shows that steps differ in work, as `unequal_work` finds it.
    """
    tolerance = plan.search.tolerance
    nothing = Recommendation(
        "none",
        None,
        plan.objective_name,
        plan.model_length,
        tolerance,
        intervals.INTERVAL,
        PROBABILITY.format(tolerance),
        Chosen(),
    )
    found = candidates(points, cohorts)
    if not found:
        ends = (
            f"{one['label']}: {one['end']['reason']}"
            for one in cohorts
            if one["end"] and one["end"]["status"] == "failed"
        )
        why = next(ends, "the list of failures says why")
        return replace(nothing, reason=f"no launch has a valid window; {why}")
    chosen = _choose(found, OBJECTIVES[nothing.objective], rates, cohorts, plan)
    if any(unequal_work.explains(one, chosen) for one in unequal):
        return replace(nothing, reason=unequal_work.reason(unequal, plan))
    return replace(nothing, status="ok", chosen=chosen)


def _choose(
    found: Sequence[Point],
    objective: Objective,
    rates: pd.DataFrame,
    cohorts: Sequence[Json],
    plan: Plan,
) -> Chosen:
    """All that a recommendation says of points, at least one."""
    changes, tolerance = changed_training(plan), plan.search.tolerance
    usual = [point for point in found if not changes.get(point.launch)] or found
    throughput = max(usual, key=lambda point: float(getattr(point, objective.rate)))
    if objective.single:  # more processes make no model sooner, except by chance
        fewest = rates.groupby("launch")["n"].min()
        rates = rates[rates["n"] == rates["launch"].map(fewest)]
        found = [point for point in found if point.n == fewest[point.launch]]
    measured = intervals.Means(
        rates.assign(gain=objective.gain(rates[objective.rate], rates["n"])), "gain"
    )
    by_launch: dict[str, list[Point]] = {}
    for point in found:
        by_launch.setdefault(point.launch, []).append(point)
    same = [point for point in found if not changes.get(point.launch)]
    raced = _raced(same, plan)
    chosen = raced or enough(same or found, tolerance, objective)
    shown = {launch: enough(own, tolerance, objective) for launch, own in by_launch.items()}
    shown[chosen.launch] = chosen

    def alike(point: Point) -> Point | None:
        return next((one for one in by_launch[point.launch] if one.n == chosen.n), None)

    def most(point: Point) -> Most | None:
        """The launch with the most processes that it was measured with, against a point of it."""
        last = max(by_launch[point.launch], key=lambda each: each.n)
        return None if last.n == point.n else Most(last, measured.ratio(last.at, point.at))

    def ratio(over: Point, under: Point | None) -> Interval | None:
        return None if under is None else measured.ratio(over.at, under.at)

    default, today = shown.get(plan.default), shown.get(plan.today or "")
    against = today or default
    shells = {one.id: one.axes["shell"] for one in plan.launches}
    best = max(same or found, key=lambda point: point.gain(objective))
    sure = measured.probabilities_of_best(
        {launch: point.n for launch, point in shown.items()},
        tolerance=tolerance,
        seed=plan.seed,
    )
    choice = _raced_choice(plan)
    if raced and choice:  # these means know nothing of drift, nor of what was measured together
        sure = {chosen.launch: choice.probability}
    cohort = next(each for each in cohorts if each["launch"] == chosen.launch and each["slots"])

    def ranked(point: Point) -> Ranked:
        own = ratio(point, default) or Interval(math.nan)
        return Ranked(point, own.value, own.low, own.high, sure.get(point.launch))

    return Chosen(
        raced is not None,
        None if default is None else Reference(default, alike(default), most(default)),
        None if today is None else Today(today, alike(today), most(today), shells[today.launch]),
        best,
        throughput,
        Recommended(
            chosen,
            sure.get(chosen.launch),
            most(chosen),
            cohort["axes"],
            cohort["slots"][: chosen.n],
            cohort["requested_env"],
        ),
        ratio(chosen, against),
        ratio(chosen, None if against is None else alike(against)),
        _changed(measured, objective, found, chosen, plan),
        sorted(map(ranked, shown.values()), key=lambda one: -one.point.gain(objective)),
    )


def _raced(found: Sequence[Point], plan: Plan) -> Point | None:
    """The point that a race has chosen; None without a race, or where its point is no candidate."""
    choice = _raced_choice(plan)
    if choice is None:
        return None
    return next((point for point in found if point.at == (choice.launch, choice.n)), None)


def _raced_choice(plan: Plan) -> Choice | None:
    return plan.searched.choice if plan.searched else None


def _changed(
    measured: intervals.Means,
    objective: Objective,
    found: Sequence[Point],
    chosen: Point,
    plan: Plan,
) -> Changed | None:
    """The best point that trains otherwise, where it is better than what is recommended."""
    changes, tolerance = changed_training(plan), plan.search.tolerance
    limit = (1 + tolerance) * chosen.gain(objective)
    better = [one for one in found if changes.get(one.launch) and one.gain(objective) > limit]
    if not better:
        return None
    best = enough(better, tolerance, objective)
    return Changed(best, changes[best.launch], measured.ratio(best.at, chosen.at))


def of_objective(entry: Json, objective: str) -> tuple[float | None, float | None, float | None]:
    """What a point of a recommendation gives, or the time it takes (s), with its interval.

    Args:
        entry: As `recommend` makes it.
        objective: Its name, of `OBJECTIVES`.
    """
    asked = OBJECTIVES[objective]
    names = (
        ("steps_per_s", "low", "high")
        if asked.rate == "steps_per_s"
        else tuple(f"models_per_hour{end}" for end in ("", "_low", "_high"))
    )
    rate, low, high = (entry[name] for name in names)
    return asked.shown(rate, low, high, entry["n"])
