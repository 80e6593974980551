"""One model soon, or many in an hour: the points of a machine that no other point beats at both.

More processes give more models per hour, and each model takes longer. A point is on the front
(Pareto) if no other point has a model done as soon and gives as much, one of them better. Values
are measured means: two neighbours on the front may differ by no more than chance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scaling_study.common.objectives import OBJECTIVES, objective_of, time_s
from scaling_study.config.work import changed_training
from scaling_study.records.analysis import FrontPoint, Pareto

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scaling_study.records.analysis import Candidate


def pareto(machine: str, candidates: Iterable[Candidate], plan: Mapping[str, Any]) -> Pareto:
    """Return what every point gives and how soon, and which are on the front.

    Args:
        machine: Its hash.
        candidates: Points that may be recommended on it.
        plan: plan.json.
    """
    objective = OBJECTIVES[objective_of(plan)]
    changed = changed_training(plan)
    found = tuple(
        FrontPoint(
            launch=point.launch,
            label=point.label,
            n=point.n,
            time_s=time_s(point.rate(objective).value, point.n, objective.rate),
            rate=point.rate(objective).value,
            changes_training=bool(changed.get(point.launch)),
        )
        for point in candidates
    )
    usual = [one for one in found if not one.changes_training]
    return Pareto(machine=machine, rate=objective.rate, points=found, front=tuple(front(usual)))


def front(points: Iterable[FrontPoint]) -> list[FrontPoint]:
    """Return the points that no other one beats, soonest first; of equal ones the first."""
    kept: list[FrontPoint] = []
    for point in sorted(points, key=lambda one: (one.time_s, -one.rate)):
        if not kept or point.rate > kept[-1].rate:
            kept.append(point)
    return kept
