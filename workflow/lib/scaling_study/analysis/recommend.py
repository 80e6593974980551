"""The launch to use, from the points of one machine.

The best point is the best by the study's objective (`objectives`): it has the most models per hour,
or the shortest time of one model. If the number of steps of a model is not known, steps take the
place of models. The recommended number of processes is the smallest, over all launches, within the
study's tolerance (`search.tolerance`) of the best point; the recommended launch is the best at that
number. Fewer processes need less memory, for a difference that no one notices. If the objective is
the time of one model, each launch counts with its fewest processes. The probability of being best
is the share of draws in which the point is within the tolerance of the best point of that draw. The
draws come from the same distributions as the intervals. The A/A repeat is no candidate, since it is
the baseline again.

If a race was run, its choice is recommended. It corrects for machine drift between jobs and, among
near-ties, picks the launch with the fewest changes.

A launch that changes training itself (the samples of a step, coarser numbers) is recommended only
if no other was measured. Otherwise the best of these is reported beside the recommendation if it is
better. Nothing is recommended if steps of unequal work may explain the whole gain (`unequal_work`).

More processes give more models per hour, but each model takes longer. A point is on the Pareto
front if no other point is at least as good in both and better in one. Values are measured means:
two neighbours on the front may differ by no more than chance.
"""

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd
from msgspec import structs
from msgspec.structs import replace

from scaling_study.analysis import unequal_work
from scaling_study.common.objectives import OBJECTIVES, Objective, time_s
from scaling_study.config.plan import Plan
from scaling_study.config.work import changed_training
from scaling_study.records.analysis import (
    Candidate,
    Changed,
    FrontPoint,
    Most,
    Pareto,
    Ranked,
    Recommendation,
    Recommended,
    Reference,
)
from scaling_study.records.cohorts import CohortSummary
from scaling_study.stats.interval import Interval
from scaling_study.stats.intervals import INTERVAL
from scaling_study.stats.throughputs import DRAWS, Throughputs

STEPS = OBJECTIVES["steps_per_s"]
PROBABILITY = (
    f"share of {DRAWS} draws from the distributions of the intervals in which the point "
    "is within {:.0%} of the best point of that draw; none if no launch has two replicates"
)


COLUMNS = {name: name for name in Candidate.__struct_fields__ if name != "probability_best"}
COLUMNS |= {"low": "steps_per_s_low", "high": "steps_per_s_high"}
"""Columns of the table of points, by the field of a candidate."""


def candidates(points: pd.DataFrame, cohorts: Sequence[CohortSummary]) -> list[Candidate]:
    """Return points that may be recommended: those of proven launches, without the A/A repeat.

    Args:
        points: The machine's rows of the table of points.
        cohorts: Its cohorts.
    """
    refused = {one.launch for one in cohorts if one.readback and not one.readback.proven}
    rows = zip(*(points[column].tolist() for column in COLUMNS.values()), strict=True)
    found = [Candidate(**dict(zip(COLUMNS, row, strict=True))) for row in rows]
    return [one for one in found if one.role != "repeat" and one.launch not in refused]


def enough(
    points: Sequence[Candidate], tolerance: float, objective: Objective = STEPS
) -> Candidate:
    """Return the point with the fewest processes within a tolerance of the best; of ties, the best.

    Args:
        points: At least one.
        tolerance: A smaller difference (0.02: two percent) is not worth more processes.
        objective: The objective that is compared.
    """
    limit = (1 - tolerance) * max(point.gain(objective) for point in points)
    near = [point for point in points if point.gain(objective) >= limit]
    return min(near, key=lambda point: (point.n, -point.gain(objective)))


def recommend(
    found: Sequence[Candidate],
    drawn: Mapping[str, Throughputs],
    cohorts: Sequence[CohortSummary],
    plan: Plan,
    unequal: Sequence[unequal_work.Finding] = (),
) -> Recommendation:
    """Choose the launch to use.

    Args:
        found: A machine's points of `candidates`.
        drawn: Joint draws of its rates, by column (`points.joint`).
        cohorts: Its cohorts.
        plan: plan.json.
        unequal: Signs that steps differ in work, as `unequal_work` finds them.
    """
    tolerance = plan.search.tolerance
    nothing = Recommendation(
        machine=cohorts[0].machine,
        status="none",
        objective=plan.objective_name,
        model_length=plan.model_length,
        tolerance=tolerance,
        interval=INTERVAL,
        probability=PROBABILITY.format(tolerance),
    )
    if not found:
        ends = (
            f"{one.label}: {one.end.reason}"
            for one in cohorts
            if one.end and one.end.status == "failed"
        )
        why = next(ends, "the list of failures says why")
        return replace(nothing, reason=f"no launch has a valid window; {why}")
    chosen = _choose(nothing, found, drawn, cohorts, plan)
    if any(unequal_work.explains(one, chosen) for one in unequal):
        return replace(nothing, reason=unequal_work.reason(unequal, plan))
    return chosen


def _choose(
    nothing: Recommendation,
    found: Sequence[Candidate],
    drawn: Mapping[str, Throughputs],
    cohorts: Sequence[CohortSummary],
    plan: Plan,
) -> Recommendation:
    """Return a recommendation that is chosen from at least one point."""
    objective, tolerance = OBJECTIVES[nothing.objective], nothing.tolerance
    changes = changed_training(plan)
    usual = [point for point in found if not changes.get(point.launch)] or found
    throughput = max(usual, key=lambda point: point.rate(objective).value)
    measured = drawn[objective.rate]
    if objective.single:  # each launch counts with its fewest processes
        measured = measured.of_one_process()
        found = [point for point in found if point.at in measured.column]
    by_launch: dict[str, list[Candidate]] = {}
    for point in found:
        by_launch.setdefault(point.launch, []).append(point)
    same = [point for point in found if not changes.get(point.launch)]
    choice = plan.searched.choice if plan.searched else None
    raced = next((one for one in same if choice and one.at == (choice.launch, choice.n)), None)
    chosen = raced or enough(same or found, tolerance, objective)
    shown = {launch: enough(own, tolerance, objective) for launch, own in by_launch.items()}
    shown[chosen.launch] = chosen

    def most(point: Candidate) -> Most | None:
        """Return the point with the most processes of a point's launch, against that point."""
        last = max(by_launch[point.launch], key=lambda each: each.n)
        if last.n == point.n:
            return None
        return Most(**structs.asdict(last), ratio=measured.ratio(last.at, point.at))

    def reference(launch: str | None, shell: object = None) -> Reference | None:
        if launch not in shown:
            return None
        point, own = shown[launch], structs.asdict(shown[launch])
        at_n = next((one for one in by_launch[launch] if one.n == chosen.n), None)
        return Reference(**own, at_n=at_n, most=most(point), shell=shell)

    def ranked(point: Candidate) -> Ranked:
        own = measured.ratio(point.at, default.at) if default else Interval()
        return Ranked(
            **structs.asdict(replace(point, probability_best=sure.get(point.launch))),
            ratio_to_default=own.value,
            ratio_low=own.low,
            ratio_high=own.high,
        )

    # The best point that changes training, if it is better than the recommended one.
    limit, changed = (1 + tolerance) * chosen.gain(objective), None
    better = [one for one in found if changes.get(one.launch) and one.gain(objective) > limit]
    if better:
        best = enough(better, tolerance, objective)
        what, ratio = dict(changes[best.launch]), measured.ratio(best.at, chosen.at)
        changed = Changed(**structs.asdict(best), what=what, ratio=ratio)
    shells = {one.id: one.axes.get("shell") for one in plan.launches}
    default = reference(plan.default)
    today = reference(plan.today, shells.get(plan.today or ""))
    against = today or default
    same_n = against.at_n if against else None
    as_run = (against.launch, plan.today_processes) if against and plan.today_processes else None
    sure = measured.probabilities({one: point.n for one, point in shown.items()}, tolerance)
    if raced and choice:  # these means ignore drift, and which launches were measured together
        sure = {chosen.launch: choice.probability}
    cohort = next(each for each in cohorts if each.launch == chosen.launch and each.slots)
    return replace(
        nothing,
        status="ok",
        raced=raced is not None,
        default=default,
        today=today,
        best=max(same or found, key=lambda point: point.gain(objective)),
        throughput=throughput,
        recommended=Recommended(
            **structs.asdict(replace(chosen, probability_best=sure.get(chosen.launch))),
            most=most(chosen),
            axes=cohort.axes,
            slots=tuple(cohort.slots[: chosen.n]),
            requested_env=cohort.requested_env,
        ),
        ratio=measured.ratio(chosen.at, against.at) if against else None,
        ratio_same_n=measured.ratio(chosen.at, same_n.at) if same_n else None,
        as_run=measured.ratio(chosen.at, as_run) if as_run and as_run in measured.column else None,
        as_run_n=plan.today_processes,
        changed=changed,
        ranking=tuple(map(ranked, sorted(shown.values(), key=lambda one: -one.gain(objective)))),
    )


def pareto(machine: str, found: Iterable[Candidate], plan: Plan) -> Pareto:
    """Return the rate and the time of every point, and the points on the front.

    Args:
        machine: Hash of the machine.
        found: Its points of `candidates`.
        plan: plan.json.
    """
    objective = OBJECTIVES[plan.objective_name]
    changed = changed_training(plan)
    points = tuple(
        FrontPoint(
            launch=point.launch,
            label=point.label,
            n=point.n,
            time_s=time_s(point.rate(objective).value, point.n, objective.rate),
            rate=point.rate(objective).value,
            changes_training=bool(changed.get(point.launch)),
        )
        for point in found
    )
    usual = [one for one in points if not one.changes_training]
    return Pareto(machine=machine, rate=objective.rate, points=points, front=tuple(front(usual)))


def front(points: Iterable[FrontPoint]) -> list[FrontPoint]:
    """Return the points that no other one beats, soonest first; of equal points, the first."""
    kept: list[FrontPoint] = []
    for point in sorted(points, key=lambda one: (one.time_s, -one.rate)):
        if not kept or point.rate > kept[-1].rate:
            kept.append(point)
    return kept
