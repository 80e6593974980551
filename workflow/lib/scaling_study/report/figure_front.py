"""The figure of one model soon against many in an hour: every point, and those no other beats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from scaling_study.common.quantities import format_count, time_unit
from scaling_study.report import svg
from scaling_study.report.figure_axes import scale_values
from scaling_study.report.figure_series import LABEL_CHARACTERS, shorten
from scaling_study.report.figure_style import drawing, open_canvas

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

PLOT_IN = 3.8
BOTH = "soonest, and most"
"""Of a front of one point."""


def draw_front(
    points: Sequence[Mapping[str, Any]],
    front: Sequence[Mapping[str, Any]],
    *,
    name: str,
    thing: str,
    title: str,
    alt: str,
) -> str:
    """Draw the rate of each point against the time of one model.

    Args:
        points: of pareto.json, at least one.
        front: of pareto.json.
        name: of the figure.
        thing: what the time is of.
        title: above the plot: the rate.
        alt: text for those who cannot see it.

    Returns:
        An SVG element.
    """
    times_s, rates = ([float(point[key]) for point in points] for key in ("time_s", "rate"))
    unit_s, unit = time_unit(min(times_s))
    with drawing():
        canvas, axes = open_canvas(PLOT_IN, 5)
        legend = _draw_points(axes, points, unit_s)
        if front:
            legend = [*_draw_front(axes, front, unit_s), *legend]
        if scale_values(axes, pd.Series(rates), from_zero=False):
            title += " (logarithmic)"
        long = scale_values(axes, pd.Series(times_s) / unit_s, from_zero=False, axis="x")
        axes.set_xlabel(f"{thing}, {unit}{' (logarithmic)' if long else ''}")
        axes.grid(visible=True, axis="x")
        axes.set_title(title)
        canvas.legend(
            [handle for handle, _ in legend],
            [shorten(text, LABEL_CHARACTERS) for _, text in legend],
            loc="outside lower left",
            ncols=1,
            handlelength=2.2,
            labelspacing=0.45,
        )
        return svg.themed(canvas, name=name, alt=alt)


def _draw_points(
    axes: Axes, points: Sequence[Mapping[str, Any]], unit_s: float
) -> list[tuple[Artist, str]]:
    """Draw every point as a faint mark, those that change training hollow; return the legend."""
    legend: list[tuple[Artist, str]] = []
    for changed, text in ((False, "a launch at a process count"), (True, "changes training")):
        own = [point for point in points if point["changes_training"] == changed]
        if own:
            (marks,) = axes.plot(
                [point["time_s"] / unit_s for point in own], [point["rate"] for point in own],
                color=svg.colour("rest"), marker="o", markersize=6, linewidth=0, zorder=2,
                markerfacecolor="none" if changed else svg.colour("rest"),
            )  # fmt: skip
            legend.append((marks, text))
    return legend


def _draw_front(
    axes: Axes, front: Sequence[Mapping[str, Any]], unit_s: float
) -> list[tuple[Artist, str]]:
    """Join the front's points and mark its ends; return the legend."""
    axes.plot(
        [point["time_s"] / unit_s for point in front], [point["rate"] for point in front],
        color=svg.colour("series-1"), linewidth=2, marker="o", markersize=6, zorder=3,
    )  # fmt: skip
    soonest, most = (front[0], "series-1", "o"), (front[-1], "series-2", "s")
    ends = {"soonest": soonest, "most": most} if len(front) > 1 else {BOTH: soonest}
    legend: list[tuple[Artist, str]] = []
    for words, (point, hue, marker) in ends.items():
        place = point["time_s"] / unit_s, point["rate"]
        (mark,) = axes.plot(
            *([one] for one in place), color=svg.colour(hue), marker=marker, markersize=11,
            linewidth=0, zorder=4,
        )  # fmt: skip
        axes.annotate(
            f"n = {point['n']}", place, xytext=(10, -4), textcoords="offset points",
            fontsize=12, color=svg.colour("ink"),
        )  # fmt: skip
        count = format_count(point["n"], "process", "processes")
        legend.append((mark, f"{words}: {point['label']}, {count}"))
    return legend
