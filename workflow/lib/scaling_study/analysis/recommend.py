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
from typing import TYPE_CHECKING, Any

from scaling_study.analysis import unequal_work
from scaling_study.common.objectives import OBJECTIVES, Objective, objective_of
from scaling_study.common.quantities import format_estimate
from scaling_study.config.work import changed_training
from scaling_study.stats import intervals
from scaling_study.stats.intervals import DRAWS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from scaling_study.stats.intervals import Interval

    Json = Mapping[str, Any]

STEPS = OBJECTIVES["steps_per_s"]
PROBABILITY = (
    f"share of {DRAWS} draws from the distributions of the intervals in which the point is "
    "within {:.0%} of the best point of that draw; none if no launch has two replicates"
)
PLAIN = (*("launch", "label", "arm", "n", "replicates", "oversubscribed", "steps_per_s", "step_s"),)
EMPTY: dict[str, Any] = {
    "raced": False,
    "default": None,
    "today": None,
    "best": None,
    "throughput": None,
    "recommended": None,
    "ratio": None,
    "ratio_same_n": None,
    "changed": None,
    "ranking": [],
}


def records(points: pd.DataFrame) -> list[Json]:
    """Rows of the table of points as plain values by column."""
    return [{str(name): value for name, value in row.items()} for row in points.to_dict("records")]


def candidates(points: pd.DataFrame, cohorts: Sequence[Json]) -> list[Json]:
    """Points that may be recommended: of proven launches, without the A/A repeat.

    Args:
        points: The machine's rows of the table of points.
        cohorts: Its cohorts, as cohorts.json holds them.
    """
    refused = {cohort["launch"] for cohort in cohorts if not _proven(cohort)}
    return [
        point
        for point in records(points)
        if point["arm"] != "repeat" and point["launch"] not in refused
    ]


def enough(points: Sequence[Json], tolerance: float, objective: Objective = STEPS) -> Json:
    """The point with the fewest processes within a tolerance of the best; the best of those.

    Args:
        points: Rows of the table of points, at least one.
        tolerance: A smaller difference (0.02: two percent) is not worth more processes.
        objective: What is compared.
    """

    def gain(point: Json) -> float:
        return _gain(point, objective)

    limit = (1 - tolerance) * max(map(gain, points))
    near = [point for point in points if gain(point) >= limit]
    return min(near, key=lambda point: (point["n"], -gain(point)))


def _gain(point: Json, objective: Objective) -> float:
    return float(objective.gain(point[objective.rate], point["n"]))


def recommend(
    points: pd.DataFrame,
    rates: pd.DataFrame,
    cohorts: Sequence[Json],
    plan: Json,
    unequal: Sequence[Json] = (),
) -> Json:
    """Choose the launch to use.

    Args:
        points: The machine's rows of the table of points.
        rates: Its rows of the table of replicates.
        cohorts: Its cohorts, as cohorts.json holds them.
        plan: plan.json.
        unequal: What shows that steps differ in work, as `unequal_work` finds it.

    Returns:
        The machine's entry of recommendation.json, without the machine.
    """
    head: dict[str, Any] = {
        "objective": objective_of(plan),
        "model_length": plan["workload"].get("model_length"),
        "tolerance": plan["search"]["tolerance"],
        "interval": intervals.INTERVAL,
        "probability": PROBABILITY.format(plan["search"]["tolerance"]),
    }
    found = candidates(points, cohorts)
    if not found:
        ends = (f"{one['label']}: {one['end']['reason']}" for one in cohorts if _failed(one))
        why = next(ends, "the list of failures says why")
        reason = f"no launch has a valid window; {why}"
        return {"status": "none", "reason": reason, **head, **EMPTY}
    chosen = _choose(found, OBJECTIVES[head["objective"]], rates, cohorts, plan)
    if any(unequal_work.explains(one, chosen) for one in unequal):
        return {"status": "none", "reason": unequal_work.reason(unequal, plan), **head, **EMPTY}
    return {"status": "ok", "reason": None, **head, **chosen}


def _failed(cohort: Json) -> bool:
    return bool(cohort["end"] and cohort["end"]["status"] == "failed")


def _choose(
    found: Sequence[Json],
    objective: Objective,
    rates: pd.DataFrame,
    cohorts: Sequence[Json],
    plan: Json,
) -> Json:
    """All that a recommendation says of points, at least one."""
    changes, tolerance = changed_training(plan), plan["search"]["tolerance"]
    usual = [point for point in found if not changes.get(point["launch"])] or found
    throughput = max(usual, key=lambda point: float(point[objective.rate]))
    if objective.single:  # more processes make no model sooner, except by chance
        fewest = rates.groupby("launch")["n"].min()
        rates = rates[rates["n"] == rates["launch"].map(fewest)]
        found = [point for point in found if point["n"] == fewest[point["launch"]]]
    measured = intervals.Means(
        rates.assign(gain=objective.gain(rates[objective.rate], rates["n"])), "gain"
    )

    def gives(point: Json) -> float:
        return _gain(point, objective)

    by_launch: dict[str, list[Json]] = {}
    for point in found:
        by_launch.setdefault(point["launch"], []).append(point)
    same = [point for point in found if not changes.get(point["launch"])]
    raced = _raced(same, plan)
    chosen = enough(same or found, tolerance, objective) if raced is None else raced
    shown = {launch: enough(own, tolerance, objective) for launch, own in by_launch.items()}
    shown[chosen["launch"]] = chosen

    def alike(launch: str) -> Json | None:
        own = by_launch.get(launch, ())
        return next((point for point in own if point["n"] == chosen["n"]), None)

    def reference(launch: str) -> Json | None:
        if launch not in shown:
            return None
        same, own = alike(launch), shown[launch]
        return {
            **_entry(own),
            "at_n": None if same is None else _entry(same),
            "most": _most(measured, own, by_launch[launch]),
        }

    default = shown.get(plan["default"])
    against = next((one for one in (plan.get("today"), plan["default"]) if one in shown), "")
    today = reference(plan.get("today") or "")
    if today is not None:
        own_axes = next(one["axes"] for one in plan["launches"] if one["id"] == plan["today"])
        today = {**today, "shell": own_axes["shell"]}
    sure = measured.probabilities_of_best(
        {launch: point["n"] for launch, point in shown.items()},
        tolerance=tolerance,
        seed=plan["seed"],
    )
    if raced is not None:  # these means know nothing of drift, nor of what was measured together
        sure = {chosen["launch"]: plan["searched"]["choice"]["probability"]}
    return {
        "raced": raced is not None,
        "default": reference(plan["default"]),
        "today": today,
        "best": _entry(max(same or found, key=gives)),
        "throughput": _entry(throughput),
        "recommended": {
            **_entry(chosen),
            "probability_best": sure.get(chosen["launch"]),
            "most": _most(measured, chosen, by_launch[chosen["launch"]]),
            **_how(chosen, cohorts),
        },
        "ratio": _ratio(
            measured, chosen, shown.get(against), "each at its own number of processes"
        ),
        "ratio_same_n": _ratio(measured, chosen, alike(against), "at the same number of processes"),
        "changed": _changed(measured, objective, found, chosen, plan),
        "ranking": [
            {
                **_entry(point),
                **_ratio_to_default(measured, point, default),
                "probability_best": sure.get(point["launch"]),
            }
            for point in sorted(shown.values(), key=gives, reverse=True)
        ],
    }


def _raced(found: Sequence[Json], plan: Json) -> Json | None:
    """The point that a race has chosen; None without a race, or where its point is no candidate."""
    choice = plan.get("searched", {}).get("choice")
    if choice is None:
        return None
    wanted = choice["launch"], choice["n"]
    return next((point for point in found if _at(point) == wanted), None)


def _changed(
    measured: intervals.Means,
    objective: Objective,
    found: Sequence[Json],
    chosen: Json,
    plan: Json,
) -> Json | None:
    """The best point that trains otherwise, where it is better than what is recommended."""
    changes, tolerance = changed_training(plan), plan["search"]["tolerance"]
    other = [point for point in found if changes.get(point["launch"])]
    limit = (1 + tolerance) * _gain(chosen, objective)
    better = [point for point in other if _gain(point, objective) > limit]
    if not better:
        return None
    best = enough(better, tolerance, objective)
    return {
        **_entry(best),
        "what": dict(changes[best["launch"]]),
        "ratio": ratio_entry(measured.ratio(_at(best), _at(chosen))),
    }


def _at(point: Json) -> tuple[str, int]:
    """A point as `intervals.Means` names it."""
    return point["launch"], point["n"]


def or_null(value: float) -> float | None:
    """A number as JSON holds it: null where there is none."""
    return None if math.isnan(value) else value


def ratio_entry(found: Interval) -> dict[str, float | None]:
    """An estimate as JSON holds it."""
    return found.to_dict()


def _proven(cohort: Json) -> bool:
    attestation = cohort["attestation"]
    return attestation is None or all(check["ok"] for check in attestation["checks"])


def _entry(point: Json) -> Json:
    return {
        **{name: point[name] for name in PLAIN},
        "low": or_null(point["steps_per_s_low"]),
        "high": or_null(point["steps_per_s_high"]),
        "between_share": or_null(point["between_share"]),
        **{
            f"models_per_hour{end}": or_null(point[f"models_per_hour{end}"])
            for end in ("", "_low", "_high")
        },
    }


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


def _most(measured: intervals.Means, point: Json, own: Sequence[Json]) -> Json | None:
    """The launch with the most processes that it was measured with, against a point of it."""
    last = max(own, key=lambda each: int(each["n"]))
    if last["n"] == point["n"]:
        return None
    ratio = ratio_entry(measured.ratio(_at(last), _at(point)))
    return {**_entry(last), "ratio": ratio}


def _how(point: Json, cohorts: Sequence[Json]) -> Json:
    """What started the members of a point, from the first cohort of its launch."""
    cohort = next(each for each in cohorts if each["launch"] == point["launch"] and each["slots"])
    return {
        "axes": cohort["axes"],
        "slots": cohort["slots"][: point["n"]],
        "requested_env": cohort["requested_env"],
    }


def _ratio(measured: intervals.Means, point: Json, default: Json | None, what: str) -> Json | None:
    if default is None:
        return None
    found = measured.ratio(_at(point), _at(default))
    times = format_estimate(found.value, found.low, found.high)
    whose = "today's" if default["arm"] == "today" else "the default"
    text = f"{times} times what {whose} launch gives, {what}"
    return {**ratio_entry(found), "text": text}


def _ratio_to_default(measured: intervals.Means, point: Json, default: Json | None) -> Json:
    if default is None:
        return dict.fromkeys(["ratio_to_default", "ratio_low", "ratio_high"])
    found = measured.ratio(_at(point), _at(default))
    return {
        "ratio_to_default": or_null(found.value),
        "ratio_low": found.low,
        "ratio_high": found.high,
    }
