"""Figures with one panel or one row per launch: stacked times per step, members side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from scaling_study.common.quantities import format_number, format_seconds
from scaling_study.report import svg
from scaling_study.report.figure_axes import choose_labelled, label_difference
from scaling_study.report.figure_style import (
    LEGEND_ROW_IN,
    WIDTH_IN,
    drawing,
    legend_lines,
    open_canvas,
    say,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

    from scaling_study.report.figure_series import Series

PANEL_IN = 2.3
STRIP_ROW_IN = 0.5
FEWEST_PLACES = 4
"""Two bars over the whole width would look like a wall."""
CROWDED_BARS = 9
"""More bars than these have no room for a number on each."""
PARTS = ("part-1", "part-2", "part-3", "part-4")
"""Colours from the bottom up."""


def draw_stacks(
    points: pd.DataFrame,
    series: Sequence[Series],
    *,
    name: str,
    columns: Mapping[str, str],
    title: str,
    alt: str,
    colours: Sequence[str] = PARTS,
) -> str:
    """Draw columns of times per step, stacked, one panel per launch and one bar per n.

    Args:
        points: rows of one machine.
        series: one panel each, which has an axis of its own.
        name: of the figure.
        columns: label of each column, from the bottom up.
        title: above the panels.
        alt: text for those who cannot see it.
        colours: of the columns, names in ``svg.THEME``.
    """
    panels = [(one, points[points["launch"] == one.launch].sort_values("n")) for one in series]
    panels = [(one, rows) for one, rows in panels if rows[list(columns)].notna().any(axis=None)]
    with drawing():
        titles_in = LEGEND_ROW_IN * sum(legend_lines(one) - 1 for one, _ in panels)
        height_in = max(1, len(panels)) * PANEL_IN + titles_in + 0.9
        canvas = Canvas(figsize=(WIDTH_IN, height_in), layout="constrained")
        grid: list[Axes] = list(canvas.subplots(max(1, len(panels)), 1, squeeze=False)[:, 0])
        canvas.get_layout_engine().set(h_pad=0.1, hspace=0.06)  # type: ignore[union-attr, call-arg]
        if not panels:
            say(grid[0], "No valid window")
        for axes, (one, rows) in zip(grid, panels, strict=False):
            _draw_bars(axes, rows, columns, colours)
            axes.set_title(one.legend, color=svg.colour("muted"), weight="normal", pad=6)
        canvas.suptitle(
            title, x=0.012, ha="left", fontsize=14, weight="bold", color=svg.colour("ink")
        )
        grid[-1].set_xlabel("processes")
        if panels:
            canvas.legend(
                *grid[0].get_legend_handles_labels(),
                loc="outside lower left",
                ncols=2,  # three long texts would be too wide
                handlelength=1,
            )
        return svg.themed(canvas, name=name, alt=alt)


def draw_fairness(
    members: pd.DataFrame, series: Sequence[Series], *, name: str, title: str, alt: str
) -> str:
    """Draw every member's mean step time against the mean of its cohort's members.

    Args:
        members: rows ``launch``, ``n``, ``slot``, ``relative`` (a share of 1 above the mean).
        series: one line of dots each.
        name: of the figure.
        title: above the plot.
        alt: text for those who cannot see it.
    """
    shown = [one for one in series if (members["launch"] == one.launch).any()]
    with drawing():
        canvas, axes = open_canvas(1.2 + STRIP_ROW_IN * 1.5 * max(1, len(shown)), 0)
        if shown:
            colours = {one.launch: svg.colour(one.colour) for one in shown}
            sns.stripplot(
                x=100 * members["relative"],
                y=members["launch"],
                hue=members["launch"],
                order=list(colours),
                hue_order=list(colours),
                palette=colours,
                jitter=False,
                size=8,
                alpha=0.6,
                linewidth=0,
                legend=False,
                ax=axes,
            )
            _name_strips(axes, members, shown)
        else:
            say(axes, "No point with more than one process")
        axes.set_title(title)
        return svg.themed(canvas, name=name, alt=alt)


def _draw_bars(
    axes: Axes, rows: pd.DataFrame, columns: Mapping[str, str], colours: Sequence[str]
) -> None:
    """Draw one panel of stacked bars, with the sum written on each."""
    sums_s = rows[list(columns)].sum(axis=1)
    unit_s, unit = (1.0, "s") if float(sums_s.max()) >= 1 else (1e-3, "ms")
    places = range(len(rows))
    bottom_s = pd.Series(0.0, index=rows.index)
    for part, (column, label) in enumerate(columns.items()):
        height_s = rows[column].fillna(0.0)
        axes.bar(
            places, height_s / unit_s, bottom=bottom_s / unit_s, width=0.78, label=label,
            color=svg.colour(colours[part]), edgecolor="none", linewidth=0,
        )  # fmt: skip
        bottom_s = bottom_s + height_s
    for place, sum_s in zip(places, sums_s, strict=True):
        if len(rows) <= CROWDED_BARS or place in {0, len(rows) - 1}:
            text = format_seconds(sum_s) if unit == "s" else format_number(sum_s / unit_s)
            axes.annotate(
                text, (place, sum_s / unit_s), xytext=(0, 3), textcoords="offset points",
                ha="center", fontsize=12, color=svg.colour("ink"),
            )  # fmt: skip
    axes.set_ylim(0, 1.2 * float(sums_s.max()) / unit_s or 1)
    side = 0.6 + max(0, FEWEST_PLACES - len(rows)) / 2
    axes.set_xlim(-side, len(rows) - 1 + side)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.4g} {unit}"))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    counts = rows["n"].tolist()
    labelled = choose_labelled(counts, counts.index)
    axes.xaxis.set_major_locator(FixedLocator([counts.index(n) for n in labelled]))
    axes.set_xticklabels([str(n) for n in labelled])


def _name_strips(axes: Axes, members: pd.DataFrame, shown: Sequence[Series]) -> None:
    """Write each launch above its dots instead of beside them: labels are long."""
    axes.axvline(0, color=svg.colour("muted"), linewidth=1.2, linestyle=(0, (4, 3)), zorder=0)
    for place, one in enumerate(shown):
        n = int(members.loc[members["launch"] == one.launch, "n"].max())
        axes.annotate(
            f"{one.line}, n = {n}", (0, place),
            xycoords=("axes fraction", "data"), xytext=(0, 11), textcoords="offset points",
            color=svg.colour("ink"), va="bottom", fontsize=13,
        )  # fmt: skip
    axes.set_ylim(len(shown) - 0.6, -0.9)
    low, high = axes.get_xlim()
    reach = max(abs(low), abs(high), 1.0)
    axes.set_xlim(-reach, reach)
    axes.set_yticks([])
    axes.set_ylabel("")
    axes.set_xlabel("")
    axes.grid(visible=True, axis="x")
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(label_difference))
