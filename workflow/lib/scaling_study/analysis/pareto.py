"""One model soon, or many in an hour: the points of a machine that no other point beats at both.

More processes give more models per hour, and each model takes longer. A point is on the front
(Pareto) if no other point has a model done as soon and gives as much, one of them better. Values
are measured means: two neighbours on the front may differ by no more than chance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scaling_study.analysis.recommend import candidates
from scaling_study.common.objectives import OBJECTIVES, objective_of, time_s
from scaling_study.config.work import changed_training

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pandas as pd

Json = dict[str, Any]


def pareto(
    points: pd.DataFrame,
    cohorts: Sequence[Mapping[str, Any]],
    plan: Mapping[str, Any],
) -> Json:
    """Return what every point gives and how soon, and which are on the front.

    Args:
        points: The machine's rows of the table of points.
        cohorts: Its cohorts, as cohorts.json holds them.
        plan: plan.json.

    Returns:
        The machine's entry of pareto.json, without the machine: ``rate`` (models_per_hour, or
        steps_per_s without a number of steps that train a model), ``points`` in the table's order
        and ``front``, soonest first, each with ``launch``, ``label``, ``n``, ``time_s`` (of one
        model or step), ``rate``, and ``changes_training``, which keeps a launch off the front.
    """
    column = OBJECTIVES[objective_of(plan)].rate
    changed = changed_training(plan)
    found = [
        {
            **{name: point[name] for name in ("launch", "label", "n")},
            "time_s": time_s(point[column], point["n"], column),
            "rate": point[column],
            "changes_training": bool(changed.get(point["launch"])),
        }
        for point in candidates(points, cohorts)
    ]
    usual = [point for point in found if not point["changes_training"]]
    return {"rate": column, "points": found, "front": front(usual)}


def front(points: Iterable[Json]) -> list[Json]:
    """Return the points that no other one beats, soonest first; of equal ones the first.

    Args:
        points: With ``time_s``, which is to be small, and ``rate``, which is to be large.
    """
    kept: list[Json] = []
    for point in sorted(points, key=lambda one: (one["time_s"], -one["rate"])):
        if not kept or point["rate"] > kept[-1]["rate"]:
            kept.append(point)
    return kept
