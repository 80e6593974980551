"""Figures against the number of processes: a line per launch, and the A/A check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.ticker import FuncFormatter
from matplotlib.transforms import ScaledTranslation

from scaling_study.common.quantities import format_count
from scaling_study.report import svg
from scaling_study.report.figure_axes import (
    NAME_ROW_PT,
    Boundary,
    draw_boundaries,
    label_difference,
    scale_processes,
    scale_values,
)
from scaling_study.report.figure_style import STYLE, drawing, legend_lines, open_canvas, say

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas
    from matplotlib.transforms import Transform

    from scaling_study.report.figure_series import Series

PLOT_IN = 3.5
BESIDE_IN = 0.05
"""Launches stand so far beside each other that their intervals do not cover one another."""
FEW_COUNTS = 8
"""Up to so many process counts; more of them leave no room beside a point."""
STRETCH = "stretch"
"""Column of the points that one line joins."""
LOWEST_SERIES = 3
"""Drawing order of the coloured lines: above intervals, references and grey lines."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A finished figure.

    Attributes:
        name: file name without suffix, and prefix of the ids in the SVG.
        title: a few words.
        caption: how to read it.
        svg: an ``<svg>`` element for a page (``svg.standalone`` makes a file of it).
    """

    name: str
    title: str
    caption: str
    svg: str


def draw_curves(
    points: pd.DataFrame,
    series: Sequence[Series],
    *,
    name: str,
    column: str,
    title: str,
    alt: str,
    counts: Sequence[int],
    marks: Sequence[Boundary] = (),
    scale: float = 1.0,
    reference: Callable[[float], float] | None = None,
    from_zero: bool = False,
) -> str:
    """Draw one column against the number of processes, a line per launch.

    Args:
        points: rows of one machine.
        series: the launches in colour; all others are drawn in grey.
        name: of the figure.
        column: what to draw; intervals come from ``<column>_low`` and ``<column>_high``.
        title: above the plot: quantity and unit.
        alt: text for those who cannot see it.
        counts: the ladder; a line joins points of neighbouring counts only.
        marks: faint vertical lines.
        scale: factor on the column's values, to the unit of the title.
        reference: a dashed line, in the title's unit, as a function of n.
        from_zero: never a logarithmic axis.

    Returns:
        An SVG element.
    """
    others = points["launch"].nunique() - len(series)
    rows = sum(map(legend_lines, series)) + (others > 0) + (reference is not None)
    with drawing():
        canvas, axes = open_canvas(PLOT_IN, rows)
        names = 0
        if points[column].notna().any():
            legend = _draw_lines(axes, _stretches(points, column, counts), series, column, scale)
            scale_processes(axes, points["n"].tolist())
            if scale_values(axes, points[column] * scale, from_zero=from_zero):
                title += " (logarithmic)"
            if reference is not None:
                legend.append(_draw_reference(axes, reference, sorted(points["n"].unique())))
            names = draw_boundaries(axes, marks, int(points["n"].max()))
            _add_legend(canvas, legend)
        else:
            say(axes, "No valid window")
        axes.set_title(title, pad=STYLE["axes.titlepad"] + NAME_ROW_PT * names)
        return svg.themed(canvas, name=name, alt=alt)


def draw_noise(noise: Sequence[Mapping[str, float]], *, name: str, title: str, alt: str) -> str:
    """Draw the ratio of the baseline's repeat to the baseline at each n.

    Args:
        noise: entries ``n``, ``ratio``, ``low``, ``high``.
        name: of the figure.
        title: above the plot.
        alt: text for those who cannot see it.
    """
    with drawing():
        canvas, axes = open_canvas(PLOT_IN * 0.8, 0)
        if noise:
            columns = {"low": "ratio_low", "high": "ratio_high"}
            frame = pd.DataFrame(noise).rename(columns=columns).astype(float)
            axes.axhline(1, color=svg.colour("muted"), linewidth=1.2, linestyle=(0, (4, 3)))
            _draw_intervals(
                axes,
                frame,
                "ratio",
                hue=svg.colour("series-3"),
                scale=1.0,
                transform=axes.transData,
            )
            sns.lineplot(
                data=frame, x="n", y="ratio", color=svg.colour("series-3"), marker="s",
                markersize=8, markeredgewidth=0, linewidth=0, errorbar=None, ax=axes,
            )  # fmt: skip
            scale_processes(axes, [int(n) for n in frame["n"]])
            axes.set_ylabel("")
            axes.yaxis.set_major_formatter(
                FuncFormatter(lambda y, _: label_difference(100 * y - 100))
            )
        else:
            say(axes, "No repeat of the baseline was measured")
        axes.set_title(title)
        return svg.themed(canvas, name=name, alt=alt)


def _stretches(points: pd.DataFrame, column: str, counts: Sequence[int]) -> pd.DataFrame:
    """Return the points that have a value, with the stretch of the ladder that each belongs to.

    Between two stretches of a launch lies a count that has no value: there is no line through it.
    """
    rungs = {n: rung for rung, n in enumerate(sorted({*counts, *points["n"]}))}
    rows = points[points[column].notna()].sort_values(["launch", "n"])
    rung = rows["n"].map(rungs)
    return rows.assign(**{STRETCH: (rung.groupby(rows["launch"]).diff() != 1).cumsum()})


def _draw_lines(
    axes: Axes, points: pd.DataFrame, series: Sequence[Series], column: str, scale: float
) -> list[tuple[Artist, str]]:
    """Draw all launches: grey ones below, the series above, the first on top.

    Returns:
        Lines and texts of the legend.
    """
    legend: list[tuple[Artist, str]] = []
    rest = points[~points["launch"].isin([one.launch for one in series])]
    for _, rows in rest.groupby(["launch", STRETCH], sort=True):
        # Of a single point there is no line; grey ones have no markers of their own.
        axes.plot(
            rows["n"], rows[column] * scale, color=svg.colour("rest"), linewidth=1,
            marker="." if len(rows) == 1 else "",
        )  # fmt: skip
    if axes.lines:
        text = format_count(rest["launch"].nunique(), "other launch", "other launches")
        legend.append((max(axes.lines, key=lambda line: np.size(line.get_xdata())), text))
    gap_in = BESIDE_IN if points["n"].nunique() <= FEW_COUNTS else 0.0
    for depth, one in enumerate(reversed(series)):
        rows = points[points["launch"] == one.launch]
        if rows.empty:
            continue
        hue = svg.colour(one.colour)
        beside = axes.transData + ScaledTranslation(
            gap_in * ((len(series) - 1) / 2 - depth), 0, axes.figure.dpi_scale_trans
        )
        _draw_intervals(axes, rows, column, hue=hue, scale=scale, transform=beside)
        sns.lineplot(
            x=rows["n"], y=rows[column] * scale, units=rows[STRETCH], estimator=None, color=hue,
            marker=one.marker, markersize=8 if one.marker in "os" else 9, markeredgewidth=0,
            linewidth=2.8 if one.roles else 1.8,
            zorder=LOWEST_SERIES + depth, transform=beside, ax=axes,
        )  # fmt: skip
        legend.insert(0, (axes.lines[-1], one.legend))
    return legend


def _draw_intervals(
    axes: Axes, rows: pd.DataFrame, column: str, *, hue: str, scale: float, transform: Transform
) -> None:
    """Draw the interval of each point as a bar, where the table has one, of several starts."""
    low, high = f"{column}_low", f"{column}_high"
    if low in rows and high in rows:
        known = rows[rows["replicates"] > 1] if "replicates" in rows else rows
        known = known.dropna(subset=[low, high])
        axes.vlines(
            known["n"], known[low] * scale, known[high] * scale,
            color=hue, linewidth=5, alpha=0.35, zorder=2.5, transform=transform,
        )  # fmt: skip


def _draw_reference(
    axes: Axes, reference: Callable[[float], float], counts: Sequence[int]
) -> tuple[Artist, str]:
    """Draw the dashed line of ideal scaling without letting it stretch the value axis.

    Returns:
        The line and its text in the legend.
    """
    low, high = axes.get_ylim()
    (line,) = axes.plot(
        counts, [reference(n) for n in counts], color=svg.colour("muted"),
        linewidth=1.2, linestyle=(0, (4, 3)), zorder=2,
    )  # fmt: skip
    axes.set_ylim(low, high)
    return line, "ideal: in proportion to n = 1"


def _add_legend(canvas: Canvas, lines: Sequence[tuple[Artist, str]]) -> None:
    """Put the legend below the plot, one launch a line."""
    canvas.legend(
        [handle for handle, _ in lines],
        [text for _, text in lines],
        loc="outside lower left",
        ncols=1,
        handlelength=2.2,
        labelspacing=0.45,
    )
