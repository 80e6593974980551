"""The effect of each single change of the baseline on a step, and of the best of them together.

All of it at one process count, the smallest that the baseline was measured at: with one process
alone a change shows what it does for one model. Gains are ratios of throughputs, so they count
what lies between steps; the phases are those of ordinary steps.
"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Any

from scaling_study.analysis.process_starts import compiling
from scaling_study.analysis.recommend import or_null, ratio_entry, records
from scaling_study.config.launches import differing
from scaling_study.config.work import epoch_s, work_by_launch
from scaling_study.stats import intervals

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

Json = dict[str, Any]
PHASES = ("load", "forward", "backward", "optimizer")


def single_changes(
    points: pd.DataFrame,
    rates: pd.DataFrame,
    cohorts: Sequence[Mapping[str, Any]],
    plan: Mapping[str, Any],
) -> Json:
    """Compare the launches that change one thing, and those on the way to the best one.

    Args:
        points: The machine's rows of the table of points.
        rates: Its rows of the table of replicates.
        cohorts: Its cohorts, as cohorts.json holds them.
        plan: plan.json, or what a race has made of it.

    Returns:
        The machine's entry of single_changes.json, without the machine: ``n``, ``baseline`` (None
        where it has no valid window), ``changes`` (launches that differ from it in one axis) and
        ``steps`` (see `_steps`).
    """
    launches = {launch["id"]: launch for launch in plan["launches"]}
    base = launches[plan["baseline"]]["axes"]
    counts = points.loc[points["launch"] == plan["baseline"], "n"]
    if counts.empty:
        return {"n": None, "baseline": None, "changes": [], "steps": []}
    n = int(counts.min())
    found = {point["launch"]: point for point in records(points[points["n"] == n])}
    measured = intervals.Means(rates, "steps_per_s")

    def gain(launch: str) -> Json:
        return ratio_entry(measured.ratio((launch, n), (plan["baseline"], n)))

    different = {
        launch: differing(launches[launch]["axes"], base)
        for launch in found
        if launch in launches and launches[launch]["arm"] != "repeat"
    }
    work, compiled = work_by_launch(plan), _compiled(cohorts)
    changes = [
        {
            **_entry(found[launch], plan),
            "axis": axis,
            "value": value,
            "gain": gain(launch),
            "work": work.get(launch, 1.0),
            "compiled": compiled.get(launch),
        }
        for launch, changed in different.items()
        if len(changed) == 1
        for axis, value in changed.items()
    ]
    ours = _entry(found[plan["baseline"]], plan)
    axes = list(base)
    changes.sort(key=lambda one: (axes.index(one["axis"]), _order(one["value"])))
    return {
        "n": n,
        "baseline": ours,
        "changes": changes,
        "steps": _steps(ours, different, changes, gain),
    }


def _compiled(cohorts: Sequence[Mapping[str, Any]]) -> dict[str, Json]:
    """What torch.compile took in the starts of each launch that compiled.

    Returns:
        By launch ``anew_s``, with an empty cache, and ``cached_s``, with what earlier starts had
        left there; None where there was no such start.
    """
    seen: dict[str, dict[bool, list[float]]] = {}
    for cohort in cohorts:
        if cohort["attestation"] and cohort["attestation"].get("compiled"):
            anew, seconds = compiling(cohort["attestation"], "seconds")
            seen.setdefault(cohort["launch"], {True: [], False: []})[anew].append(seconds)
    return {
        launch: {
            f"{name}_s": statistics.fmean(own[anew]) if own[anew] else None
            for name, anew in (("anew", True), ("cached", False))
        }
        for launch, own in seen.items()
    }


def _order(value: Any) -> tuple[bool, float, str]:
    """Numbers by size, then texts."""
    number = isinstance(value, int | float)
    return (not number, float(value) if number else 0.0, str(value))


def _entry(point: Mapping[str, Any], plan: Mapping[str, Any]) -> Json:
    """What is shown of a point."""
    return {
        "epoch_s": epoch_s(plan, point["steps_per_s"] / point["n"]),
        **{name: point[name] for name in ("launch", "label", "replicates")},
        **{name: or_null(point[name]) for name in ("step_s", "cpu_use")},
        **{name: or_null(point[f"{name}_s_per_step"]) for name in (*PHASES, "ranks_wait")},
    }


def _steps(
    base: Json, different: Mapping[str, Mapping[str, Any]], changes: Sequence[Json], gain: Any
) -> list[Json]:
    """The way from the baseline to the best of the launches whose changes were all tried alone.

    The change that gains most alone comes first.

    Returns:
        For each change in this order: ``axis``, ``value``, ``alone`` (its gain), ``predicted`` (of
        all so far, see `_predicted`) and ``measured`` (the launch with just these changes; None
        where it was not measured).
    """
    alone = {(one["axis"], str(one["value"])): one for one in changes}
    known = {
        launch: [(axis, str(value)) for axis, value in changed.items()]
        for launch, changed in different.items()
    }
    whole = [
        launch
        for launch, changed in known.items()
        if len(changed) > 1 and all(one in alone for one in changed)
    ]
    if not whole:
        return []
    best = max(whole, key=lambda launch: gain(launch)["value"] or 0.0)
    order = sorted(known[best], key=lambda one: -(alone[one]["gain"]["value"] or 0.0))
    found = []
    for count, one in enumerate(order, 1):
        same = [launch for launch, own in known.items() if set(own) == set(order[:count])]
        found.append(
            {
                "axis": alone[one]["axis"],
                "value": alone[one]["value"],
                "alone": alone[one]["gain"],
                "predicted": _predicted(base, [alone[each] for each in order[:count]]),
                "measured": gain(same[0]) if same else None,
            }
        )
    return found


def _predicted(base: Json, changes: Sequence[Json]) -> float:
    """What changes are expected to gain together.

    Each phase of a step gets the strongest shortening and the strongest lengthening that any of the
    changes brought it alone. Products of all would promise too much: what changes do to phases that
    are not theirs, as by leaving more of a cache, they mostly do to the same time (in
    docs/one-model.md both are compared). Where phases are not known, gains multiply.
    """
    if any(one[name] is None for one in (base, *changes) for name in PHASES):
        return math.prod(one["gain"]["value"] or 1.0 for one in changes)
    after_s = 0.0
    for name in PHASES:
        alone = [one[name] / base[name] for one in changes if base[name]]
        after_s += base[name] * min(1.0, *alone, 1.0) * max(1.0, *alone, 1.0)
    return float(sum(base[name] for name in PHASES) / after_s) if after_s else math.nan
