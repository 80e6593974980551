"""The figures of a report: each a function from rows of ``tables/points`` to one SVG.

Figures are drawn narrow and with large text, so that they are readable on a phone and two stand
beside each other on a desk. Colours are those of ``svg.THEME`` and follow the reader's theme.
"""

from __future__ import annotations

import contextlib
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from scaling_study import svg
from scaling_study.figure_axes import (
    NAME_ROW_PT,
    Boundary,
    choose_labelled,
    draw_boundaries,
    label_difference,
    scale_processes,
    scale_values,
)
from scaling_study.quantities import format_count, format_number, format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from scaling_study.figure_series import Series

WIDTH_IN = 5.9
"""At 72 units an inch; a phone of 390 px shows it at about 0.8 of its size."""
PLOT_IN = 3.5
LEGEND_ROW_IN = 0.27
PANEL_IN = 2.3
STRIP_ROW_IN = 0.5
CROWDED_BARS = 9
"""More bars than these have no room for a number on each."""

STYLE: dict[str, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 14,
    "axes.titlesize": 14,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlepad": 12,
    "axes.labelsize": 13,
    "xtick.labelsize": 14,
    "ytick.labelsize": 14,
    "legend.fontsize": 13,
    "legend.frameon": False,
    "text.color": svg.colour("ink"),
    "axes.titlecolor": svg.colour("ink"),
    "axes.labelcolor": svg.colour("muted"),
    "xtick.color": svg.colour("muted"),
    "ytick.color": svg.colour("muted"),
    "axes.edgecolor": svg.colour("rest"),
    "grid.color": svg.colour("grid"),
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "xtick.bottom": True,
    "ytick.left": False,
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "svg.fonttype": "none",
    "svg.hashsalt": "scaling-study",
}

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


@contextlib.contextmanager
def drawing() -> Iterator[None]:
    """Set seaborn's and matplotlib's style while a figure is drawn and written."""
    with (
        sns.axes_style("white"),
        mpl.rc_context(STYLE),  # type: ignore[arg-type]
        warnings.catch_warnings(),
    ):
        # Names may hold any script. The reader's browser has fonts that matplotlib has not.
        warnings.filterwarnings("ignore", message=r"(?s).*Glyph.* missing from font")
        warnings.filterwarnings("ignore", message=r"(?s).*Matplotlib currently does not support")
        yield


def draw_curves(
    points: pd.DataFrame,
    series: Sequence[Series],
    *,
    name: str,
    column: str,
    title: str,
    alt: str,
    marks: Sequence[Boundary] = (),
    scale: float = 1.0,
    reference: Callable[[float], float] | None = None,
) -> str:
    """Draw one column against the number of processes, a line per launch.

    Args:
        points: rows of one machine.
        series: the launches in colour; all others are drawn in grey.
        name: of the figure.
        column: what to draw; intervals come from ``<column>_low`` and ``<column>_high``.
        title: above the plot: quantity and unit.
        alt: text for those who cannot see it.
        marks: faint vertical lines.
        scale: factor on the column's values, to the unit of the title.
        reference: a dashed line, in the title's unit, as a function of n.

    Returns:
        An SVG element.
    """
    others = points["launch"].nunique() - len(series)
    rows = len(series) + (others > 0) + (reference is not None)
    with drawing():
        canvas, axes = _canvas(PLOT_IN, rows)
        names = 0
        if points[column].notna().any():
            legend = _draw_lines(axes, points, series, column, scale)
            scale_processes(axes, points["n"].tolist())
            if scale_values(axes, points[column] * scale):
                title += " (logarithmic)"
            if reference is not None:
                legend.append(_draw_reference(axes, reference, sorted(points["n"].unique())))
            names = draw_boundaries(axes, marks, int(points["n"].max()))
            _add_legend(canvas, legend)
        else:
            _say(axes, "No valid window")
        axes.set_title(title, pad=STYLE["axes.titlepad"] + NAME_ROW_PT * names)
        return svg.themed(canvas, name=name, alt=alt)


def draw_stacks(
    points: pd.DataFrame,
    series: Sequence[Series],
    *,
    name: str,
    columns: Mapping[str, str],
    title: str,
    alt: str,
) -> str:
    """Draw columns of times per step, stacked, one panel per launch and one bar per n.

    Args:
        points: rows of one machine.
        series: one panel each, which has an axis of its own.
        name: of the figure.
        columns: label of each column, from the bottom up.
        title: above the panels.
        alt: text for those who cannot see it.
    """
    panels = [(one, points[points["launch"] == one.launch].sort_values("n")) for one in series]
    panels = [(one, rows) for one, rows in panels if rows[list(columns)].notna().any(axis=None)]
    with drawing():
        canvas = Canvas(
            figsize=(WIDTH_IN, max(1, len(panels)) * PANEL_IN + 0.9), layout="constrained"
        )
        grid: list[Axes] = list(canvas.subplots(max(1, len(panels)), 1, squeeze=False)[:, 0])
        canvas.get_layout_engine().set(h_pad=0.1, hspace=0.06)  # type: ignore[union-attr, call-arg]
        if not panels:
            _say(grid[0], "No valid window")
        for axes, (one, rows) in zip(grid, panels, strict=False):
            _draw_bars(axes, rows, columns)
            axes.set_title(one.legend, color=svg.colour("muted"), weight="normal", pad=6)
        canvas.suptitle(
            title, x=0.012, ha="left", fontsize=14, weight="bold", color=svg.colour("ink")
        )
        grid[-1].set_xlabel("processes")
        if panels:
            canvas.legend(
                *grid[0].get_legend_handles_labels(),
                loc="outside lower left",
                ncols=2 if len(columns) % 2 == 0 else 3,
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
        canvas, axes = _canvas(1.2 + STRIP_ROW_IN * 1.5 * max(1, len(shown)), 0)
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
            _say(axes, "No point with more than one process")
        axes.set_title(title)
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
        canvas, axes = _canvas(PLOT_IN * 0.8, 0)
        if noise:
            columns = {"low": "ratio_low", "high": "ratio_high"}
            frame = pd.DataFrame(noise).rename(columns=columns).astype(float)
            axes.axhline(1, color=svg.colour("muted"), linewidth=1.2, linestyle=(0, (4, 3)))
            _draw_intervals(axes, frame, "ratio", svg.colour("series-3"), 1.0)
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
            _say(axes, "No repeat of the baseline was measured")
        axes.set_title(title)
        return svg.themed(canvas, name=name, alt=alt)


def _canvas(plot_in: float, legend_rows: int) -> tuple[Canvas, Axes]:
    """A figure with one plot of a fixed height, and below it room for its legend."""
    height_in = plot_in + LEGEND_ROW_IN * legend_rows
    canvas = Canvas(figsize=(WIDTH_IN, height_in), layout="constrained")
    return canvas, canvas.subplots()


def _draw_lines(
    axes: Axes, points: pd.DataFrame, series: Sequence[Series], column: str, scale: float
) -> list[tuple[Artist, str]]:
    """Draw all launches: grey ones below, the series above, the first on top.

    Returns:
        Lines and texts of the legend.
    """
    legend: list[tuple[Artist, str]] = []
    rest = points[~points["launch"].isin([one.launch for one in series]) & points[column].notna()]
    for _, rows in rest.groupby("launch", sort=True):
        axes.plot(rows["n"], rows[column] * scale, color=svg.colour("rest"), linewidth=1)
    if axes.lines:
        text = format_count(len(axes.lines), "other launch", "other launches")
        legend.append((axes.lines[0], text))
    for depth, one in enumerate(reversed(series)):
        rows = points[(points["launch"] == one.launch) & points[column].notna()].sort_values("n")
        if rows.empty:
            continue
        hue = svg.colour(one.colour)
        _draw_intervals(axes, rows, column, hue, scale)
        sns.lineplot(
            x=rows["n"], y=rows[column] * scale, color=hue,
            marker=one.marker, markersize=8 if one.marker in "os" else 9, markeredgewidth=0,
            linewidth=2.8 if one.roles else 1.8,
            errorbar=None, zorder=LOWEST_SERIES + depth, ax=axes,
        )  # fmt: skip
        legend.insert(0, (axes.lines[-1], one.legend))
    return legend


def _draw_intervals(axes: Axes, rows: pd.DataFrame, column: str, hue: str, scale: float) -> None:
    """Draw the interval of each point as a bar, where the table has one."""
    low, high = f"{column}_low", f"{column}_high"
    if low in rows and high in rows:
        known = rows.dropna(subset=[low, high])
        axes.vlines(
            known["n"], known[low] * scale, known[high] * scale,
            color=hue, linewidth=5, alpha=0.35, zorder=2.5,
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


def _draw_bars(axes: Axes, rows: pd.DataFrame, columns: Mapping[str, str]) -> None:
    """Draw one panel of stacked bars, with the sum written on each."""
    sums_s = rows[list(columns)].sum(axis=1)
    unit_s, unit = (1.0, "s") if float(sums_s.max()) >= 1 else (1e-3, "ms")
    places = range(len(rows))
    bottom_s = pd.Series(0.0, index=rows.index)
    for part, (column, label) in enumerate(columns.items(), start=1):
        height_s = rows[column].fillna(0.0)
        axes.bar(
            places, height_s / unit_s, bottom=bottom_s / unit_s, width=0.78, label=label,
            color=svg.colour(f"part-{part}"), edgecolor="none", linewidth=0,
        )  # fmt: skip
        bottom_s = bottom_s + height_s
    for place, sum_s in zip(places, sums_s, strict=True):
        if len(rows) <= CROWDED_BARS or place in {0, len(rows) - 1}:
            text = format_seconds(sum_s) if unit == "s" else format_number(sum_s / unit_s)
            axes.annotate(
                text, (place, sum_s / unit_s), xytext=(0, 3), textcoords="offset points",
                ha="center", fontsize=12, color=svg.colour("ink"),
            )  # fmt: skip
    axes.margins(y=0.18)
    axes.set_ylim(bottom=0)
    axes.set_xlim(-0.6, max(len(rows), 3) - 0.4)
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
            f"{one.legend}, n = {n}", (0, place),
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


def _say(axes: Axes, text: str) -> None:
    """Show a sentence where there is nothing to draw."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes)
