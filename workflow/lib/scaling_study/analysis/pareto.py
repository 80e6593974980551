"""One model soon, or many in an hour: the points of a machine that no other point beats at both.

More processes give more models per hour, and each model takes longer. A point is on the front
(Pareto) if no other point has a model done as soon and gives as much, one of them better. Values
are measured means: two neighbours on the front may differ by no more than chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scaling_study.analysis.recommend import candidates
from scaling_study.common.objectives import OBJECTIVES, time_s
from scaling_study.config.work import changed_training

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pandas as pd

    from scaling_study.config.plan import Plan


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """What a point gives, and how soon.

    Attributes:
        launch: Its id.
        label: Its text.
        n: Process count.
        time_s: Of one model, or step.
        rate: Of all processes together.
        changes_training: Which keeps it off the front.
    """

    launch: str
    label: str
    n: int
    time_s: float
    rate: float
    changes_training: bool = False


@dataclass(frozen=True, slots=True)
class Front:
    """A machine's entry of pareto.json, without the machine.

    Attributes:
        rate: models_per_hour, or steps_per_s without a number of steps that train a model.
        points: All, in the table's order.
        front: Those that no other one beats, soonest first.
    """

    rate: str
    points: list[FrontPoint]
    front: list[FrontPoint]


def pareto(points: pd.DataFrame, cohorts: Sequence[Mapping[str, Any]], plan: Plan) -> Front:
    """Return what every point gives and how soon, and which are on the front.

    Args:
        points: The machine's rows of the table of points.
        cohorts: Its cohorts, as cohorts.json holds them.
        plan: plan.json.
    """
    column = OBJECTIVES[plan.objective_name].rate
    changed = changed_training(plan)
    found = []
    for point in candidates(points, cohorts):
        rate, changes = getattr(point, column), bool(changed.get(point.launch))
        time = time_s(rate, point.n, column)
        found.append(FrontPoint(point.launch, point.label, point.n, time, rate, changes))
    return Front(column, found, front(one for one in found if not one.changes_training))


def front(points: Iterable[FrontPoint]) -> list[FrontPoint]:
    """Return the points that no other one beats, soonest first; of equal ones the first."""
    kept: list[FrontPoint] = []
    for point in sorted(points, key=lambda one: (one.time_s, -one.rate)):
        if not kept or point.rate > kept[-1].rate:
            kept.append(point)
    return kept
