"""The signature of T(n): how the time of a step grows with the number of processes.

How knee and exponent are found, with their intervals, is said in ``knee``.

Boundary
    A knee coincides with a boundary of the machine if its interval holds that one and no other, and
    lies close around it. A wide interval, or a bend that is not sharp, names nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from scaling_study.analysis.knee import (
    CONFIDENCE,
    Curve,
    Fit,
    curve_of,
    exponent_interval,
    fit_knee,
    knee_interval,
)
from scaling_study.common.quantities import format_count, format_number, format_percent
from scaling_study.config.process_counts import boundaries
from scaling_study.host.probe import usable_topology
from scaling_study.stats import thresholds

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

FEWEST_COUNTS = 4
"""Level, knee and exponent pass through any three counts."""
PROPORTIONAL = 0.05
"""An exponent whose interval lies this far from 1 is not one of proportional growth."""
CLEAR = (0.7, 1.5)
"""An interval of the exponent that reaches further than this says too little to call it 1."""
CLOSE = 1.15
"""A knee's interval must lie within this factor of the boundary that it coincides with."""
ONE_CPU = 1.25
"""A member that keeps no more CPUs busy than this needs one."""

NOT_ENOUGH = "not enough points"
FLAT_KIND = "flat"
LESS = "less than proportional"
IN_PROPORTION = "proportional past a knee"
WORSE = "worse than proportional"
NOT_CLEAR = "not clear"


def signature(
    points: pd.DataFrame,
    replicates: pd.DataFrame,
    machine: Mapping[str, Any],
    cpus_per_process: float | None = None,
) -> dict[str, Any]:
    """Say how the time of a step grows with the number of processes.

    Args:
        points: rows of tables/points of one launch on one machine.
        replicates: its rows of tables/replicates.
        machine: machine.json.
        cpus_per_process: CPUs that a member needs; without it a launch whose members keep more
            than one CPU busy is compared with no boundary.

    Returns:
        ``kind`` (one of the constants above), ``text``, ``knee`` and ``exponent`` (value, low,
        high; None where there is none), ``boundary`` (name, and n in processes; or None).
    """
    rows = replicates[replicates["steps_per_s"] > 0]
    counts = np.unique(rows["n"].to_numpy(dtype=np.float64))
    if len(counts) < 2:  # noqa: PLR2004 - growth needs two
        return _result(NOT_ENOUGH, "Only one process count was measured.")
    curve = curve_of(rows, counts)
    highest = float(np.exp(curve.logs.max() - curve.logs[0]))
    span = f"from {_processes(counts[0])} to {counts[-1]:.0f}"
    if len(counts) < FEWEST_COUNTS and highest >= thresholds.GROWS:
        text = (
            f"A step takes up to {format_number(highest)} times as long {span}. A knee cannot be "
            f"told with {len(counts)} process counts; it takes {FEWEST_COUNTS}."
        )
        return _result(NOT_ENOUGH, text)
    fit = fit_knee(curve) if len(counts) >= FEWEST_COUNTS else None
    if fit is None or max(fit.growth, highest) < thresholds.GROWS:
        text = f"A step takes about as long {span}: at most {format_percent(highest - 1)} longer."
        return _result(FLAT_KIND, text)
    return _bent(fit, curve, span, _boundaries(points, machine, cpus_per_process))


def _bent(
    fit: Fit, curve: Curve, span: str, possible: Mapping[float, tuple[str, ...]]
) -> dict[str, Any]:
    """The signature of a curve that is not flat."""
    growth = f"A step takes {format_number(fit.growth)} times as long {span}"
    if fit.p_flat > 1 - CONFIDENCE:
        text = f"{growth}, but the scatter between measurements is of the same size."
        return _result(NOT_CLEAR, text)
    knee, exponent = knee_interval(fit), exponent_interval(fit)
    kind = _kind(exponent)
    boundary = _coinciding(knee, possible) if fit.accepted[:, 0].any() else None
    first = float(curve.n[0])
    where = (
        "from the first process on"
        if knee["low"] <= first
        else f"past a knee at {format_number(knee['value'])} processes "
        f"({format_number(knee['low'])} to {format_number(knee['high'])})"
    )
    text = f"{growth}: {where} it {GROWS[kind]}."
    if boundary:
        at = format_count(boundary["n"], "process", "processes")
        text += f" The knee coincides with a boundary of the machine: {boundary['name']} ({at})."
    return _result(kind, text, knee=knee, exponent=exponent, boundary=boundary)


GROWS = {
    LESS: "grows, but more slowly than the number of processes: more of them still do more work",
    IN_PROPORTION: "grows in proportion to the number of processes, as when something of fixed "
    "size is shared out: more of them do no more work",
    WORSE: "grows faster than the number of processes: more of them do less work together",
    NOT_CLEAR: "grows, and how fast cannot be told from these measurements",
}


def _kind(exponent: Mapping[str, float]) -> str:
    if exponent["low"] > 1 + PROPORTIONAL:
        return WORSE
    if exponent["high"] < 1 - PROPORTIONAL:
        return LESS
    low, high = CLEAR
    return IN_PROPORTION if low <= exponent["low"] and exponent["high"] <= high else NOT_CLEAR


def _boundaries(
    points: pd.DataFrame, machine: Mapping[str, Any], cpus_per_process: float | None
) -> dict[float, tuple[str, ...]]:
    """Process counts at which something runs out, with what it is; none if that is not known."""
    if cpus_per_process is None:
        first = points.sort_values("n").iloc[0]
        if not first["cpu_use"] / first["n"] <= ONE_CPU:
            return {}
        cpus_per_process = 1.0
    quota = machine["quota_cpus"]
    limits = [
        (float(n), names)
        for n, names in boundaries(usable_topology(machine), None).items()
        if quota is None or n < quota
    ]
    if quota is not None:
        limits.append((quota, ("CPU quota",)))
    return {n / cpus_per_process: names for n, names in limits}


def _coinciding(
    knee: Mapping[str, float], possible: Mapping[float, tuple[str, ...]]
) -> dict[str, Any] | None:
    """The only boundary in a knee's interval, if the interval is close around it."""
    inside = [n for n in possible if n > 1 and knee["low"] <= n <= knee["high"]]
    if len(inside) != 1:
        return None
    (n,) = inside
    if knee["low"] * CLOSE < n or knee["high"] > n * CLOSE:
        return None
    return {"name": ", ".join(possible[n]), "n": int(n) if n == int(n) else n}


def _processes(n: float) -> str:
    return format_count(int(n), "process", "processes")


def _result(
    kind: str,
    text: str,
    *,
    knee: dict[str, float] | None = None,
    exponent: dict[str, float] | None = None,
    boundary: dict[str, Any] | None = None,
) -> dict[str, Any]:
    return {"kind": kind, "text": text, "knee": knee, "boundary": boundary, "exponent": exponent}
