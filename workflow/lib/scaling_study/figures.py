"""The figures of a report: each a function from rows of ``tables/points`` to one SVG.

Figures are drawn narrow and with large text, so that they are readable on a phone and two stand
beside each other on a desk. Colours are those of ``svg.THEME`` and follow the reader's theme.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from scaling_study import svg
from scaling_study.ladder import boundaries
from scaling_study.quantities import format_count, format_number, format_seconds
from scaling_study.topology import Topology, parse_cpu_list

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from matplotlib.axes import Axes

WIDTH_IN = 6.2
"""At 72 units an inch; a phone of 390 px shows it at about 0.8 of its size."""
PLOT_IN = 3.5
LEGEND_ROW_IN = 0.27
PANEL_IN = 2.3
STRIP_ROW_IN = 0.5
LABEL_CHARACTERS = 50
"""Of a launch's label in a legend: what fits the width in the widest font."""
LONG_LADDER = 16
"""From this ratio of largest to smallest count on, a linear axis squeezes the small counts."""
WIDE_RANGE = 8.0
"""From this ratio of values on, a linear axis hides the differences between the small ones."""
FEWEST_COLOURED = 6
"""Series drawn in colour; more than this many lines cannot be told apart."""
NAME_ROW_PT = 14
CHARACTER_PART = 0.0165
"""Width of a character in the name of a boundary, as a part of the axis."""
TICK_GAP = 0.055
"""Smallest distance of two tick labels, as a part of the axis."""

STYLE: dict[str, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 13,
    "axes.titlesize": 13,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlepad": 12,
    "axes.labelsize": 13,
    "xtick.labelsize": 13,
    "ytick.labelsize": 13,
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
MARKERS = ("o", "X", "s", "^", "D", "v")


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


@dataclass(frozen=True, slots=True)
class Series:
    """A launch that figures draw in colour.

    Attributes:
        launch: its id.
        label: its text in legends.
        role: ``recommended``, ``default``, ``baseline`` or ``""``.
        colour: a name of ``svg.THEME``.
        marker: matplotlib's name.
    """

    launch: str
    label: str
    role: str
    colour: str
    marker: str


@dataclass(frozen=True, slots=True)
class Boundary:
    """A process count at which one-CPU processes fill a part of the machine."""

    n: int
    label: str


def shorten(label: str, characters: int = LABEL_CHARACTERS) -> str:
    """Cut a long label in its middle, and make what cannot be printed visible."""
    visible = "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in label)
    if len(visible) <= characters:
        return visible
    half = (characters - 1) // 2
    return f"{visible[:half]}…{visible[-half:]}"


def choose_series(
    labels: Mapping[str, str],
    *,
    recommended: str | None,
    default: str | None,
    baseline: str | None,
    best_first: Sequence[str],
) -> tuple[Series, ...]:
    """Choose the launches to draw in colour.

    Args:
        labels: text of every launch that has points, by id.
        recommended: id of the recommended launch.
        default: id of the default launch.
        baseline: id of the baseline.
        best_first: launches by their throughput.

    Returns:
        At most ``FEWEST_COLOURED``: recommended, default, baseline, and then the best of the rest.
    """
    roles = {recommended: "recommended", default: "default", baseline: "baseline"}
    if recommended == default:
        roles[default] = "default, recommended"
    ordered = dict.fromkeys([recommended, default, baseline, *best_first, *labels])
    chosen = [launch for launch in ordered if launch in labels][:FEWEST_COLOURED]
    return tuple(
        Series(launch, labels[launch], roles.get(launch, ""), f"series-{index}", MARKERS[index - 1])
        for index, launch in enumerate(chosen, start=1)
        if launch is not None
    )


def find_boundaries(machine: Mapping[str, Any]) -> tuple[Boundary, ...]:
    """List the process counts at which one-CPU processes fill a part of the machine.

    Args:
        machine: machine.json.
    """
    topology = Topology.from_dict(machine["topology"])
    found = boundaries(topology.restricted(parse_cpu_list(machine["allowed_cpus"])), machine["quota_cpus"])
    return tuple(Boundary(n, ", ".join(names)) for n, names in found.items())


@contextlib.contextmanager
def drawing() -> Iterator[None]:
    """Set seaborn's and matplotlib's style while a figure is drawn and written."""
    with (
        sns.axes_style("white"),
        mpl.rc_context(STYLE),
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
        if points[column].notna().any():
            _draw_lines(axes, points, series, column, scale)
            _scale_processes(axes, points["n"].tolist())
            _scale_values(axes, points[column] * scale)
            if reference is not None:
                _draw_reference(axes, reference, sorted(points["n"].unique()))
            names = _draw_boundaries(axes, marks, int(points["n"].max()))
        else:
            _say(axes, "No valid window")
            names = 0
        axes.set_title(title, pad=STYLE["axes.titlepad"] + NAME_ROW_PT * names)
        _add_legend(canvas, axes)
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
            axes.set_title(_legend_label(one), color=svg.colour("muted"), weight="normal", pad=6)
        canvas.suptitle(title, x=0.012, ha="left", fontsize=13, weight="bold", color=svg.colour("ink"))
        grid[-1].set_xlabel("processes")
        if panels:
            handles, labels = grid[0].get_legend_handles_labels()
            canvas.legend(
                handles,
                labels,
                loc="outside lower left",
                ncols=2 if len(labels) % 2 == 0 else 3,
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
            texts = {one.launch: _legend_label(one) for one in shown}
            sns.stripplot(
                x=100 * members["relative"],
                y=members["launch"].map(texts),
                hue=members["launch"].map(texts),
                order=list(texts.values()),
                palette={texts[one.launch]: svg.colour(one.colour) for one in shown},
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
            _scale_processes(axes, [int(n) for n in frame["n"]])
            axes.set_ylabel("")
            axes.set_xlabel("processes")
            axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: _percent(100 * (y - 1))))
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
) -> None:
    """Draw all launches: grey ones below, the series above, the first on top."""
    rest = points[~points["launch"].isin([one.launch for one in series]) & points[column].notna()]
    legend = format_count(rest["launch"].nunique(), "other launch", "other launches")
    for index, (_, rows) in enumerate(rest.groupby("launch", sort=True)):
        axes.plot(
            rows["n"], rows[column] * scale, color=svg.colour("rest"), linewidth=1,
            label=None if index else legend,
        )  # fmt: skip
    for depth, one in enumerate(reversed(series)):
        rows = points[(points["launch"] == one.launch) & points[column].notna()].sort_values("n")
        if rows.empty:
            continue
        hue = svg.colour(one.colour)
        _draw_intervals(axes, rows, column, hue, scale)
        sns.lineplot(
            x=rows["n"],
            y=rows[column] * scale,
            color=hue,
            marker=one.marker,
            markersize=9 if one.marker in "X^Dv" else 8,
            markeredgewidth=0,
            linewidth=2.8 if one.role else 1.8,
            label=_legend_label(one),
            legend=False,
            errorbar=None,
            zorder=LOWEST_SERIES + depth,
            ax=axes,
        )
    axes.set_xlabel("processes")
    axes.set_ylabel("")


def _draw_intervals(
    axes: Axes, rows: pd.DataFrame, column: str, hue: str, scale: float
) -> None:
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
) -> None:
    """Draw the dashed line of ideal scaling without letting it stretch the value axis."""
    low, high = axes.get_ylim()
    axes.plot(
        counts, [reference(n) for n in counts], color=svg.colour("muted"),
        linewidth=1.2, linestyle=(0, (4, 3)), label="ideal: in proportion to n = 1", zorder=2,
    )  # fmt: skip
    axes.set_ylim(low, high)


def _draw_boundaries(axes: Axes, marks: Sequence[Boundary], largest: int) -> int:
    """Draw the machine's boundaries as faint lines, named above the plot.

    Returns:
        Rows of names: one that would run into its neighbour goes a row higher.
    """
    ends = [-math.inf]  # where the last name of each row ends, as a part of the axis
    for mark in marks:
        if mark.n > largest:
            continue
        place = float(axes.transAxes.inverted().transform(axes.transData.transform((mark.n, 0)))[0])
        half = 0.5 * CHARACTER_PART * (len(mark.label) + 1)
        center = min(place, 1 - half)
        row = next((row for row, end in enumerate(ends) if end <= center - half), len(ends))
        ends[row : row + 1] = [center + half]
        axes.axvline(mark.n, color=svg.colour("rest"), linewidth=1, zorder=1)
        axes.annotate(
            mark.label, (center, 1), xycoords="axes fraction", ha="center", va="bottom",
            xytext=(0, 3 + NAME_ROW_PT * row), textcoords="offset points",
            fontsize=11, color=svg.colour("muted"),
        )  # fmt: skip
    return len(ends) if ends[0] > -math.inf else 0


def _scale_processes(axes: Axes, counts: Sequence[int]) -> None:
    """Set the axis of process counts, and label as many of them as have room."""
    present = sorted(set(counts))
    logarithmic = present[-1] / present[0] >= LONG_LADDER
    place: Callable[[float], float] = math.log2 if logarithmic else float
    if logarithmic:
        axes.set_xscale("log", base=2)
    first, last = place(present[0]), place(present[-1])
    span = (last - first) or 1.0
    labelled: list[int] = []
    for n in reversed(present):  # the largest first: it is the one that matters most
        if not labelled or place(labelled[-1]) - place(n) >= TICK_GAP * span * len(str(n)):
            labelled.append(n)
    margin = 0.06 * span if len(present) > 1 else 0.5
    low, high = first - margin, last + margin
    axes.set_xlim(*((2**low, 2**high) if logarithmic else (low, high)))
    axes.xaxis.set_major_locator(FixedLocator(labelled))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda n, _: f"{n:.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())


def _scale_values(axes: Axes, values: pd.Series[float]) -> None:
    """Set the value axis: from zero, or logarithmic where the range is wide."""
    low, high = float(values.min()), float(values.max())
    if low > 0 and high / low >= WIDE_RANGE:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(0, 1.12 * max(high, axes.get_ylim()[1] / 1.12))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.5g}"))


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
    crowded = len(rows) > 9  # noqa: PLR2004 (what a sum's text needs of the width)
    for place, sum_s in zip(places, sums_s, strict=True):
        if not crowded or place in {0, len(rows) - 1}:
            text = format_seconds(sum_s) if unit == "s" else format_number(sum_s / unit_s)
            axes.annotate(
                text, (place, sum_s / unit_s), xytext=(0, 3), textcoords="offset points",
                ha="center", fontsize=12, color=svg.colour("ink"),
            )  # fmt: skip
    axes.margins(y=0.18)
    axes.set_ylim(bottom=0)
    axes.set_xlim(-0.6, max(len(rows), 3) - 0.4)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.4g} {unit}"))
    axes.yaxis.get_major_locator().set_params(nbins=4)  # type: ignore[attr-defined]
    axes.xaxis.set_major_locator(FixedLocator(list(places)))
    axes.set_xticklabels([str(n) for n in rows["n"]])


def _name_strips(axes: Axes, members: pd.DataFrame, shown: Sequence[Series]) -> None:
    """Write each launch above its dots instead of beside them: labels are long."""
    axes.axvline(0, color=svg.colour("muted"), linewidth=1.2, linestyle=(0, (4, 3)), zorder=0)
    for place, one in enumerate(shown):
        n = int(members.loc[members["launch"] == one.launch, "n"].max())
        axes.annotate(
            f"{_legend_label(one, LABEL_CHARACTERS)}, n = {n}", (0, place),
            xycoords=("axes fraction", "data"), xytext=(0, 11), textcoords="offset points",
            color=svg.colour("ink"), va="bottom",
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
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: _percent(x)))


def _percent(percent: float) -> str:
    """A difference on an axis."""
    return f"{percent:+.3g}%".replace("-", "−") if abs(percent) > 1e-9 else "0"  # noqa: PLR2004


def _legend_label(one: Series, characters: int = LABEL_CHARACTERS) -> str:
    """A launch's text with its role."""
    if not one.role or one.label == one.role:
        return shorten(one.label, characters)
    if one.label == "default":
        return "default (recommended)" if "recommended" in one.role else "default"
    return f"{shorten(one.label, characters - len(one.role) - 3)} ({one.role})"


def _add_legend(canvas: Canvas, axes: Axes) -> None:
    """Put the legend below the plot, one launch a line, in the order of the series."""
    handles, labels = axes.get_legend_handles_labels()
    if not labels:
        return
    # Lines are drawn the most important last, which puts them on top. Here they come first.
    lines = list(zip(handles, labels, strict=True))
    ordered = [line for line in reversed(lines) if line[0].get_zorder() >= LOWEST_SERIES]
    ordered += [line for line in lines if line not in ordered]
    canvas.legend(
        [handle for handle, _ in ordered],
        [label for _, label in ordered],
        loc="outside lower left",
        ncols=1,
        handlelength=2.2,
        labelspacing=0.45,
    )


def _say(axes: Axes, text: str) -> None:
    """Show a sentence where there is nothing to draw."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes)
