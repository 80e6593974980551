"""The effect of each single change of the baseline on a step, and of the best of them together.

All of it at one process count, the smallest that the baseline was measured at: with one process
alone a change shows what it does for one model. Gains are ratios of throughputs, so they count
what lies between steps; the phases are those of ordinary steps.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from scaling_study.analysing.recommend import or_null, ratio_entry, records
from scaling_study.common import stats
from scaling_study.configuring.launches import differing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

Json = dict[str, Any]
PHASES = ("load", "forward", "backward", "optimizer")


def single_changes(points: pd.DataFrame, rates: pd.DataFrame, plan: Mapping[str, Any]) -> Json:
    """Compare the launches that change one thing, and those on the way to the best one.

    Args:
        points: The machine's rows of the table of points.
        rates: Its rows of the table of replicates.
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
    measured = stats.Means(rates, "steps_per_s")

    def gain(launch: str) -> Json:
        return ratio_entry(measured.ratio((launch, n), (plan["baseline"], n)))

    different = {
        launch: differing(launches[launch]["axes"], base)
        for launch in found
        if launch in launches and launches[launch]["arm"] != "repeat"
    }
    changes = [
        {**_entry(found[launch]), "axis": axis, "value": value, "gain": gain(launch)}
        for launch, changed in different.items()
        if len(changed) == 1
        for axis, value in changed.items()
    ]
    ours = _entry(found[plan["baseline"]])
    axes = list(base)
    changes.sort(key=lambda one: (axes.index(one["axis"]), _order(one["value"])))
    return {
        "n": n,
        "baseline": ours,
        "changes": changes,
        "steps": _steps(ours, different, changes, gain),
    }


def _order(value: Any) -> tuple[bool, float, str]:
    """Numbers by size, then texts."""
    number = isinstance(value, int | float)
    return (not number, float(value) if number else 0.0, str(value))


def _entry(point: Mapping[str, Any]) -> Json:
    """What is shown of a point."""
    return {
        **{name: point[name] for name in ("launch", "label", "replicates")},
        **{name: or_null(point[name]) for name in ("step_s", "cpu_use")},
        **{name: or_null(point[f"{name}_s_per_step"]) for name in PHASES},
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

    Each shortens a phase of a step by the same factor as alone: what one takes away of a phase, the
    next cannot take again. Where phases are not known, gains multiply.
    """
    phases_s = {name: base[name] for name in PHASES}
    if None in phases_s.values() or any(one[name] is None for one in changes for name in PHASES):
        return math.prod(one["gain"]["value"] or 1.0 for one in changes)
    before_s = sum(phases_s.values())
    for one in changes:
        for name, phase_s in phases_s.items():
            if base[name]:
                phases_s[name] = phase_s * one[name] / base[name]
    after_s = sum(phases_s.values())
    return float(before_s / after_s) if after_s else math.nan
