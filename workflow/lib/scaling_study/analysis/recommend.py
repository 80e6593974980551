"""The launch to use, from the points of one machine.

The best point is the best by the study's objective (`objectives`): it has the most models per hour,
or the shortest time of one model. If the number of steps of a model is not known, steps take the
place of models. The recommended number of processes is the smallest, over all launches, within the
study's tolerance (`search.tolerance`) of the best point; the recommended launch is the best at that
number. Fewer processes need less memory, for a difference that no one notices. If the objective is
the time of one model, each launch counts with its fewest processes. The probability of being best
is the share of draws in which the point is within the tolerance of the best point of that draw. The
draws come from the same distributions as the intervals. Where a race has trained a forked model,
launches are chosen and ranked by their models per hour with forked starts, as they will be
recommended; all other figures are of fresh starts. The A/A repeat is no candidate, since it is
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

from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np
import pandas as pd
from msgspec import structs
from msgspec.structs import replace

from scaling_study.analysis import unequal_work
from scaling_study.analysis.points import Drawn
from scaling_study.common.objectives import OBJECTIVES, time_s
from scaling_study.config.plan import Plan
from scaling_study.config.work import changed_training
from scaling_study.records import analysis as records
from scaling_study.records.cohorts import CohortSummary
from scaling_study.stats.interval import Interval
from scaling_study.stats.throughputs import DRAWS, Throughputs

INTERVAL = (
    "95%, from joint draws on the log scale: the spreads between starts are learnt from all"
    " launches and process counts of the machine together, and what the machine drifted between the"
    " jobs of a race is drawn, too; none where no launch has two starts"
)
PROBABILITY = (
    f"share of {DRAWS} draws from the distributions of the intervals in which the point "
    "is within {:.0%} of the best point of that draw; none if no launch has two replicates"
)

Gain = Callable[[records.Candidate], float]
"""Returns the rate of a point that is compared; larger is better."""
COLUMNS = {name: name for name in records.Candidate.__struct_fields__ if name != "probability_best"}
COLUMNS |= {"low": "steps_per_s_low", "high": "steps_per_s_high"}
"""Columns of the table of points, by the field of a candidate."""


def candidates(points: pd.DataFrame, cohorts: Sequence[CohortSummary]) -> list[records.Candidate]:
    """Return points that may be recommended: those of proven launches, without the A/A repeat.

    Args:
        points: The machine's rows of the table of points.
        cohorts: Its cohorts.
    """
    refused = {
        cohort.launch for cohort in cohorts if cohort.readback and not cohort.readback.proven
    }
    rows = zip(*(points[column].tolist() for column in COLUMNS.values()), strict=True)
    all_points = [records.Candidate(**dict(zip(COLUMNS, row, strict=True))) for row in rows]
    return [point for point in all_points if point.role != "repeat" and point.launch not in refused]


def gains(known: Throughputs) -> Gain:
    """Return a function that returns a point's rate, the larger the better."""
    return lambda point: float(np.exp(known.mean(point.at)))


def enough(
    points: Sequence[records.Candidate], tolerance: float, gain: Gain, kills: Collection[str] = ()
) -> records.Candidate:
    """Return the point with the fewest processes within a tolerance of the best; of ties, the best.

    Args:
        points: At least one.
        tolerance: A smaller difference (0.02: two percent) is not worth more processes.
        gain: Returns the rate that is compared.
        kills: Launches that lose every tie, since they may kill a process.
    """
    limit = (1 - tolerance) * max(map(gain, points))
    near = [point for point in points if gain(point) >= limit]
    return min(near, key=lambda point: (point.n, point.launch in kills, -gain(point)))


def recommend(
    points: Sequence[records.Candidate],
    drawn: Drawn,
    cohorts: Sequence[CohortSummary],
    plan: Plan,
    unequal: Sequence[unequal_work.Finding] = (),
) -> records.Recommendation:
    """Choose the launch to use.

    Args:
        points: A machine's points of `candidates`.
        drawn: Joint draws of its rates.
        cohorts: Its cohorts.
        plan: plan.json.
        unequal: Signs that steps differ in work, as `unequal_work` finds them.
    """
    tolerance = plan.search.tolerance
    nothing = records.Recommendation(
        machine=cohorts[0].machine,
        status="none",
        objective=plan.objective_name,
        model_length=plan.model_length,
        tolerance=tolerance,
        interval=INTERVAL,
        probability=PROBABILITY.format(tolerance),
    )
    if not points:
        ends = (
            f"{cohort.label}: {cohort.end.reason}"
            for cohort in cohorts
            if cohort.end and cohort.end.status == "failed"
        )
        why = next(ends, "the list of failures says why")
        return replace(nothing, reason=f"no launch has a valid window; {why}")
    chosen = _choose(nothing, points, drawn, cohorts, plan)
    if any(unequal_work.explains(sign, chosen) for sign in unequal):
        return replace(nothing, reason=unequal_work.reason(unequal, plan))
    return chosen


def _choose(
    nothing: records.Recommendation,
    points: Sequence[records.Candidate],
    drawn: Drawn,
    cohorts: Sequence[CohortSummary],
    plan: Plan,
) -> records.Recommendation:
    """Return a recommendation that is chosen from at least one point."""
    objective, tolerance = OBJECTIVES[nothing.objective], nothing.tolerance
    changes = changed_training(plan)
    usual = [point for point in points if not changes.get(point.launch)] or points
    throughput = max(usual, key=lambda point: point.rate(objective).value)
    measured = drawn.of(objective.rate)
    if objective.single:  # each launch counts with its fewest processes
        measured = measured.of_one_process()
        points = [point for point in points if point.at in measured.column]
    forked = None if objective.single else drawn.forked
    compared = forked or measured
    gain = gains(compared)
    by_launch: dict[str, list[records.Candidate]] = {}
    for point in points:
        by_launch.setdefault(point.launch, []).append(point)
    same = [point for point in points if not changes.get(point.launch)]
    raced = _raced(same, plan)
    # `membind: local` kills a member whose node is full; `preferred` takes another node's memory.
    kills = {launch.id for launch in plan.launches if launch.axes.get("membind") == "local"}
    chosen = raced or enough(same or points, tolerance, gain, kills)
    shown = {launch: enough(group, tolerance, gain) for launch, group in by_launch.items()}
    shown[chosen.launch] = chosen

    def most(point: records.Candidate) -> records.Most | None:
        """Return the point with the most processes of a point's launch, against that point."""
        last = max(by_launch[point.launch], key=lambda each: each.n)
        if last.n == point.n:
            return None
        return records.Most(**structs.asdict(last), ratio=measured.ratio(last.at, point.at))

    def ratio_to(point: records.Candidate | None) -> Interval | None:
        return measured.ratio(chosen.at, point.at) if point else None

    def reference(launch: str | None, shell: object = None) -> records.ReferencePoint | None:
        if launch not in shown:
            return None
        point = shown[launch]
        if launch != chosen.launch:  # users start it afresh
            point = enough(by_launch[launch], tolerance, gains(measured))
        at_n = next((candidate for candidate in by_launch[launch] if candidate.n == chosen.n), None)
        return records.ReferencePoint(
            **structs.asdict(point), at_n=at_n, most=most(point), shell=shell
        )

    # The best point that changes training, if it is better than the recommended one.
    limit = (1 + tolerance) * gain(chosen)
    better = [point for point in points if changes.get(point.launch) and gain(point) > limit]
    best = enough(better, tolerance, gain) if better else None
    changed = best and records.Changed(
        **structs.asdict(best),
        what=dict(changes[best.launch]),
        ratio=measured.ratio(best.at, chosen.at),
    )
    shells = {launch.id: launch.axes.get("shell") for launch in plan.launches}
    default = reference(plan.default)
    today = reference(plan.today, shells.get(plan.today or ""))
    against = today or default
    as_run = (against.launch, plan.today_processes) if against and plan.today_processes else None
    sure = compared.probabilities({launch: point.n for launch, point in shown.items()}, tolerance)
    if raced:  # these means ignore drift, and which launches were measured together
        sure = {chosen.launch: raced.probability_best or 0.0}
    cohort = next(each for each in cohorts if each.launch == chosen.launch and each.slots)
    return replace(
        nothing,
        status="ok",
        raced=raced is not None,
        start="forked" if forked else "fresh",
        default=default,
        today=today,
        best=max(same or points, key=gain),
        throughput=throughput,
        recommended=records.Recommended(
            **structs.asdict(replace(chosen, probability_best=sure.get(chosen.launch))),
            most=most(chosen),
            forked=forked.level(chosen.at).value if forked else None,
            axes=cohort.axes,
            slots=tuple(cohort.slots[: chosen.n]),
            requested_env=cohort.requested_env,
        ),
        ratio=ratio_to(against),
        ratio_same_n=ratio_to(against and against.at_n),
        as_run=measured.ratio(chosen.at, as_run) if as_run and as_run in measured.column else None,
        as_run_n=plan.today_processes,
        changed=changed,
        ranking=tuple(
            _ranked(
                replace(point, probability_best=sure.get(point.launch)),
                compared.ratio(point.at, default.at) if default else Interval(),
                forked,
            )
            for point in sorted(shown.values(), key=gain, reverse=True)
        ),
    )


def _raced(points: Iterable[records.Candidate], plan: Plan) -> records.Candidate | None:
    """Return the choice of a race with its probability; None if it has none."""
    choice = plan.searched.choice if plan.searched else None
    if choice is None:
        return None
    points = (point for point in points if point.at == (choice.launch, choice.n))
    return next((replace(point, probability_best=choice.probability) for point in points), None)


def _ranked(
    point: records.Candidate, ratio: Interval, forked: Throughputs | None
) -> records.Ranked:
    """Return a launch of the ranking; ``forked`` has its models/hour if these are compared."""
    fields = structs.asdict(point)
    if forked:
        level = forked.level(point.at)
        ends = {"": level.value, "_low": level.low, "_high": level.high}
        fields |= {f"models_per_hour{end}": value for end, value in ends.items()}
    return records.Ranked(
        **fields, ratio_to_default=ratio.value, ratio_low=ratio.low, ratio_high=ratio.high
    )


def pareto(machine: str, own_points: Iterable[records.Candidate], plan: Plan) -> records.Pareto:
    """Return the rate and the time of every point, and the points on the front.

    Args:
        machine: Hash of the machine.
        own_points: Its points of `candidates`.
        plan: plan.json.
    """
    objective = OBJECTIVES[plan.objective_name]
    changed = changed_training(plan)
    points = tuple(
        records.FrontPoint(
            launch=point.launch,
            label=point.label,
            n=point.n,
            time_s=time_s(point.rate(objective).value, point.n, objective.rate),
            rate=point.rate(objective).value,
            changes_training=bool(changed.get(point.launch)),
        )
        for point in own_points
    )
    usual = [point for point in points if not point.changes_training]
    return records.Pareto(
        machine=machine, rate=objective.rate, points=points, front=tuple(front(usual))
    )


def front(points: Iterable[records.FrontPoint]) -> list[records.FrontPoint]:
    """Return the points that no other one beats, soonest first; of equal points, the first."""
    kept: list[records.FrontPoint] = []
    for point in sorted(points, key=lambda candidate: (candidate.time_s, -candidate.rate)):
        if not kept or point.rate > kept[-1].rate:
            kept.append(point)
    return kept
