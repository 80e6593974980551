"""The four ways in which the report draws: lines, dots with intervals, stacked bars, a waterfall.

Figures are narrow and have large text: they are readable on a phone, and two fit side by side on a
desktop screen. Colours are names in ``svg.THEME`` and follow the reader's theme.
"""

import contextlib
import math
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import matplotlib as mpl
import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from scaling_study.common import quantities
from scaling_study.report import svg
from scaling_study.stats.interval import Interval

WIDTH_IN = 5.9
"""At 72 units an inch; a phone of 390 px shows it at about 0.8 of its size."""
PLOT_IN, SMALL_IN, PANEL_IN, ROW_IN, LEGEND_ROW_IN = 3.5, 1.9, 2.3, 0.52, 0.27
NAME_ROW_PT = 14
NAME_PART = 0.0185
"""Width of a character in the name of a boundary, as a part of the axis."""
LABEL_CHARACTERS = 46
"""Longest line of a legend: it fits a figure's width in the widest font."""
ROW_CHARACTERS = 34
"""Longest name of a row that has a number beside it."""
LONG_AXIS = 16
"""From this ratio of largest to smallest count on, a linear axis squeezes the small counts."""
WIDE_RANGE = 8.0
"""From this ratio of values on, a linear axis hides the differences between the small ones."""
TICK_GAP = 0.055
"""Room for a character of a tick label, as a part of the axis."""
HEADROOM = 1.15
FEW_DECADES = 1e3
"""Up to this ratio of values a logarithmic axis has room for three labels a decade."""
CROWDED_BARS = 9
"""More bars than this have no room for a number on each."""
FEWEST_BARS = 4
"""Room is left for this many bars: two over the whole width would look like a wall."""
FARTHEST = 1.5
"""Shares beyond this are drawn at the edge: intervals may reach over thousands of percent."""
STYLE: dict[str, object] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 14,
    "axes.titlesize": 13,
    "axes.titlelocation": "left",
    "axes.labelsize": 13,
    "legend.fontsize": 13,
    "legend.frameon": False,
    "text.color": svg.colour("ink"),
    "axes.labelcolor": svg.colour("muted"),
    "xtick.color": svg.colour("muted"),
    "ytick.color": svg.colour("muted"),
    "axes.edgecolor": svg.colour("rest"),
    "grid.color": svg.colour("grid"),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "xtick.bottom": True,
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "svg.fonttype": "none",
}


@dataclass(frozen=True, slots=True)
class About:
    """The texts around a figure.

    Attributes:
        name: file name without suffix, and prefix of the ids in the SVG.
        title: above the plots.
        caption: how to read it.
    """

    name: str
    title: str
    caption: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A finished figure: an ``<svg>`` element (``svg.standalone`` makes a file of it)."""

    name: str
    caption: str
    svg: str


@dataclass(frozen=True, slots=True)
class Curve:
    """Values that a line joins.

    Attributes:
        label: in the legend.
        points: place and value of each; the line has a gap where a value is not known.
        colour: of ``svg.THEME``.
        marker: matplotlib's; ``""`` without.
        width: of the line, in points; 0 for markers alone.
        dashed: a doubtful or ideal line.
    """

    label: str
    points: tuple[tuple[float, Interval], ...]
    colour: str = "series-1"
    marker: str = "o"
    width: float = 2.2
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class DotRow:
    """A row of a figure of dots, with a value for each of its one or two columns, or None."""

    title: str
    columns: tuple[Interval | None, ...]
    colour: str = ""


@dataclass(frozen=True, slots=True)
class WaterfallBar:
    """A bar of a waterfall: the time that it adds (s; negative: saves), or a step from zero on."""

    title: str
    added_s: float
    colour: str = "ink"
    whole: bool = False


def shorten(text: str, characters: int) -> str:
    """Cut a long text in its middle, and replace characters that cannot be printed."""
    visible = "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)
    if len(visible) <= characters:
        return visible
    half = (characters - 1) // 2
    return f"{visible[:half]}…{visible[-half:]}"


def wrap(text: str, characters: int) -> str:
    """Put a text on at most two lines."""
    return "\n".join(
        textwrap.wrap(shorten(text, 2 * characters - 12), characters, break_on_hyphens=False)
    )


@contextlib.contextmanager
def drawing(about: About, height_in: float) -> Iterator[Canvas]:
    """Yield a canvas, and set the style while a figure is drawn on it and written."""
    style = {**STYLE, "svg.hashsalt": about.name}
    with sns.axes_style("white"), mpl.rc_context(style), warnings.catch_warnings():  # type: ignore[arg-type]
        # Names may be in any script. The reader's browser has fonts that matplotlib lacks.
        warnings.filterwarnings("ignore", message=r"(?s).*Glyph.* missing from font")
        warnings.filterwarnings("ignore", message=r"(?s).*Matplotlib currently does not support")
        yield Canvas(figsize=(WIDTH_IN, height_in), layout="constrained")


def lines(
    panels: Mapping[str, Sequence[Curve]],
    about: About,
    x_label: str,
    *,
    counts: bool = True,
    marks: Mapping[int, Sequence[str]] | None = None,
    from_zero: bool = False,
    ratios: bool = False,
) -> Figure:
    """Draw curves in one plot, or in small plots of equal axes.

    Args:
        panels: the curves of each plot by its title; at least one has a known value.
        about: the texts around the figure.
        x_label: below the plot.
        counts: whether x is process counts, which are then the ticks.
        marks: process counts at which a part of the machine is full, as faint named lines.
        from_zero: whether the axis of values is never logarithmic.
        ratios: whether values are ratios to 1.
    """
    several = len(panels) > 1
    rows, columns = (-(-len(panels) // 2), 2) if several else (1, 1)
    curves = [curve for panel in panels.values() for curve in panel]
    labels = {curve.label: wrap(curve.label, LABEL_CHARACTERS) for curve in curves if curve.label}
    legend_rows = sum(text.count("\n") + 1 for text in labels.values())
    height_in = (SMALL_IN * rows if several else PLOT_IN) + LEGEND_ROW_IN * legend_rows + 0.5
    with drawing(about, height_in) as canvas:
        grid = list(canvas.subplots(rows, columns, squeeze=False, sharey=True).flat)
        for axes in grid[len(panels) :]:
            axes.set_axis_off()
        handles: dict[str, Artist] = {}
        for place, (axes, (title, panel)) in enumerate(zip(grid, panels.items(), strict=False)):
            for depth, curve in enumerate(reversed(panel)):
                handles[curve.label] = _draw_curve(axes, curve, depth)
            axes.set_xlabel(x_label if place >= len(panels) - 2 else "")
            if counts:
                _scale_counts(axes, curves)
            if several:
                axes.set_title("\n".join(textwrap.wrap(shorten(title, 42), 25)), pad=5)
            if ratios:
                axes.axhline(1, color=svg.colour("rest"), linewidth=1, zorder=1)
        # Ideal lines, which have no values of their own, do not stretch the axis.
        shown = [
            (value.value, x, curve.label)
            for curve in curves
            if not curve.dashed or curve.marker
            for x, value in _known(curve)
        ]
        values = [value for value, _, _ in shown]
        logarithmic = _scale_y(grid[0], values, from_zero=from_zero, ratios=ratios)
        _draw_marks(grid[0], marks or {}, max(_places(curves)))
        if labels:
            canvas.legend(
                [handles[label] for label in labels], [*labels.values()],
                loc="outside lower left", ncols=1, handlelength=2.2, labelspacing=0.45,
            )  # fmt: skip
        most, at, label = max(shown)
        highest = quantities.format_number(most)
        alt = f"{about.title}: at most {highest} ({label}; {x_label}: {at:.3g})"
        head = f"{about.title} (logarithmic)" if logarithmic and not several else about.title
        return _finish(canvas, about, alt, head)


def dots(rows: Sequence[DotRow], about: About, heads: Sequence[str] = ("",)) -> Figure | None:
    """Draw shares as dots with their intervals, a row each, in one column or two; None without any.

    Args:
        rows: from the top down.
        about: the texts around the figure.
        heads: above each column.
    """
    if not rows:
        return None
    values = [dot for row in rows for dot in row.columns if dot is not None]
    ends = [end for dot in values for end in (dot.value, dot.low, dot.high) if end is not None]
    span = 0.05 * (max(ends) - min(ends)) if len(set(ends)) > 1 else 0.01
    low = max(-FARTHEST, min([0.0, *(end - span for end in ends)]))
    high = min(FARTHEST, max([0.0, *(end + span for end in ends)]))
    with drawing(about, ROW_IN * len(rows) + 1.4) as canvas:
        grid = list(canvas.subplots(1, len(heads), squeeze=False, sharey=True).flat)
        for at, (axes, head) in enumerate(zip(grid, heads, strict=True)):
            colour = f"series-{at + 1}"
            for place, row in enumerate(rows):
                if (dot := row.columns[at]) is not None:
                    _draw_dot(axes, dot, place, svg.colour(row.colour or colour), (low, high))
            axes.set_title(head, color=svg.colour(colour), weight="bold")
            axes.set_xlim(low, high)
            percent = FuncFormatter(lambda x, _: quantities.format_percent(round(x, 4)))
            _rows_only(axes, len(rows), 4 // len(heads) + 1, percent)
        said = []
        for place, row in enumerate(rows):
            _write(grid[0], place, shorten(row.title, LABEL_CHARACTERS))
            shares = (quantities.format_percent(dot.value) if dot else "" for dot in row.columns)
            said.append(f"{row.title} {', '.join(shares)}")
        return _finish(canvas, about, f"{about.title}: {'; '.join(said)}")


def stacks(
    panels: Mapping[str, pd.DataFrame], parts: Sequence[tuple[str, str]], about: About
) -> Figure:
    """Draw stacked bars, one panel below the other, each with a scale of its own.

    Args:
        panels: heights (s) by title, at least one: a row for each number of processes, a column for
            each part.
        parts: name and colour of each part, from the bottom up.
        about: the texts around the figure.
    """
    titles = [wrap(title, LABEL_CHARACTERS) for title in panels]
    extra = sum(title.count("\n") for title in titles)
    height_in = PANEL_IN * len(panels) + LEGEND_ROW_IN * extra + 1.1
    with drawing(about, height_in) as canvas:
        grid: list[Axes] = list(canvas.subplots(len(panels), 1, squeeze=False).flat)
        for axes, title, heights in zip(grid, titles, panels.values(), strict=True):
            _draw_stack(axes, heights, [colour for _, colour in parts])
            axes.set_title(title, color=svg.colour("muted"))
        grid[-1].set_xlabel("processes")
        _legend(canvas, parts)
        said = []
        for title, heights in panels.items():
            last = heights.iloc[-1]
            share = quantities.format_percent(last.max() / (last.sum() or 1.0))
            name, _ = parts[int(last.argmax())]
            said.append(f"{title}, n = {last.name}: {share} is {name}")
        return _finish(canvas, about, f"{about.title}. {'; '.join(said)}")


def waterfall(
    steps: Sequence[WaterfallBar], about: About, legend: Sequence[tuple[str, str]] = ()
) -> Figure:
    """Draw what each part adds to a step: each bar begins where the one above ended.

    Args:
        steps: from the top down; whole ones begin at zero.
        about: the texts around the figure.
        legend: names and colours.
    """
    said = []
    legend_in = LEGEND_ROW_IN * -(-len(legend) // 2)
    with drawing(about, ROW_IN * len(steps) + 0.9 + legend_in) as canvas:
        axes = canvas.subplots()
        unit_s, unit = (1.0, "s") if max(abs(step.added_s) for step in steps) >= 1 else (1e-3, "ms")
        end_s = 0.0
        for place, step in enumerate(steps):
            begin_s = 0.0 if step.whole else end_s
            axes.barh(place, step.added_s / unit_s, left=begin_s / unit_s, height=0.42,
                      color=svg.colour(step.colour), linewidth=0, zorder=2)  # fmt: skip
            end_s = begin_s + step.added_s
            absolute = step.whole and steps[0].whole
            text = quantities.format_seconds(step.added_s) if absolute else added(step.added_s)
            _write(axes, place, step.title, right=text, bold=step.whole)
            if step.whole:
                said.append(f"{step.title} {text}")
            if place < len(steps) - 1:
                axes.plot([end_s / unit_s] * 2, [place, place + 1], color=svg.colour("rest"),
                          linewidth=1, zorder=1)  # fmt: skip
        _rows_only(axes, len(steps), 4, FuncFormatter(lambda x, _: f"{x:,.4g} {unit}"))
        if legend:
            _legend(canvas, legend)
        return _finish(canvas, about, f"{about.title}: {'; '.join(said)}")


def added(seconds: float | None) -> str:
    """Write a difference of times with its sign: ``+8.20 ms``."""
    text = quantities.format_seconds(seconds)
    return f"+{text}" if seconds is not None and seconds >= quantities.LEAST_S else text


def _known(curve: Curve) -> list[tuple[float, Interval]]:
    return [(x, value) for x, value in curve.points if quantities.known(value.value)]


def _draw_curve(axes: Axes, curve: Curve, depth: int) -> Artist:
    hue = svg.colour(curve.colour)
    sure = [
        (x, value.low, value.high)
        for x, value in curve.points
        if value.low is not None and value.high is not None
    ]
    if sure:
        axes.vlines(*zip(*sure, strict=True), color=hue, linewidth=5, alpha=0.35, zorder=2.5)
    marker = curve.marker or ("." if len(_known(curve)) == 1 else "")
    (line,) = axes.plot(
        [x for x, _ in curve.points], [value.value for _, value in curve.points], color=hue,
        marker=marker, markersize={".": 4, "o": 8, "s": 8}.get(marker, 9), markeredgewidth=0,
        linewidth=curve.width,
        linestyle=(0, (4, 3)) if curve.dashed else "-", zorder=3 + depth,
    )  # fmt: skip
    return line


def _places(curves: Sequence[Curve]) -> list[float]:
    return sorted({x for curve in curves for x, _ in _known(curve)})


def _scale_counts(axes: Axes, curves: Sequence[Curve]) -> None:
    """Set the axis of process counts."""
    places = _places(curves)
    place: Callable[[float], float] = float
    if places[-1] / places[0] >= LONG_AXIS:
        axes.set_xscale("log", base=2)
        place = math.log2
    axes.margins(x=0.06)
    axes.xaxis.set_major_locator(FixedLocator(with_room(places, place)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda n, _: f"{n:.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())


def with_room(places: Sequence[float], place: Callable[[float], float]) -> list[float]:
    """Choose the places that have room for a tick label; the largest always has."""
    present = sorted(places, reverse=True)
    span = place(present[0]) - place(present[-1])
    chosen: list[float] = []
    for tick in present:
        room = TICK_GAP * span * len(f"{tick:.5g}")
        if not chosen or place(chosen[-1]) - place(tick) >= room:
            chosen.append(tick)
    return chosen


def _scale_y(axes: Axes, values: Sequence[float], *, from_zero: bool, ratios: bool) -> bool:
    """Set the axis of values: from zero, around one, or logarithmic where the range is wide.

    Only values count. A much wider interval is cut at the edge: an axis for it would flatten
    everything else.
    """
    low, high, unit = min(values), max(values), quantities.TIMES if ratios else ""
    logarithmic = not from_zero and low > 0 and high / low >= WIDE_RANGE
    if logarithmic:
        axes.set_yscale("log")
        axes.set_ylim(low / HEADROOM**2, high * HEADROOM**2)
        few = high / low < FEW_DECADES
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,)))
        axes.yaxis.set_minor_locator(NullLocator())
    elif ratios:
        axes.set_ylim(min(0.9, 0.97 * low), max(1.5, 1 + (high - 1) * HEADROOM))
    else:
        axes.set_ylim(0, HEADROOM * high or 1)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.5g}{unit}"))
    return logarithmic


def _draw_marks(axes: Axes, marks: Mapping[int, Sequence[str]], largest: float) -> None:
    """Draw the machine's boundaries, named above the plot."""
    ends: list[float] = []  # where the last name of each row ends, as a part of the axis
    for n, names in marks.items():
        if n > largest:
            continue
        label = ", ".join(names)
        on_canvas = axes.transData.transform((n, 0 if axes.get_yscale() == "linear" else 1))
        place = float(axes.transAxes.inverted().transform(on_canvas)[0])
        half = 0.5 * NAME_PART * (len(label) + 1)
        center = min(place, 1 - half)
        row = next((row for row, end in enumerate(ends) if end <= center - half), len(ends))
        ends[row : row + 1] = [center + half]
        axes.axvline(n, color=svg.colour("rest"), linewidth=1, zorder=1)
        axes.annotate(
            label, (center, 1), xycoords="axes fraction", ha="center", va="bottom",
            xytext=(0, 3 + NAME_ROW_PT * row), textcoords="offset points",
            fontsize=11, color=svg.colour("muted"),
        )  # fmt: skip


def _draw_dot(
    axes: Axes, value: Interval, place: int, hue: str, limits: tuple[float, float]
) -> None:
    low, high = limits
    if value.low is not None and value.high is not None:
        axes.hlines(place, max(low, value.low), min(high, value.high), color=hue, linewidth=5,
                    alpha=0.35, zorder=2.5)  # fmt: skip
    marker = "<" if value.value < low else ">" if value.value > high else "o"
    at = min(high, max(low, value.value))
    axes.plot([at], [place], marker=marker, markersize=9, markeredgewidth=0, color=hue, alpha=0.8,
              linewidth=0, zorder=4, clip_on=False)  # fmt: skip


def _draw_stack(axes: Axes, heights: pd.DataFrame, colours: Sequence[str]) -> None:
    unit_s, unit = (1e-3, "ms") if heights.sum(axis=1).max() < 1 else (1.0, "s")
    places = range(len(heights))
    tops = pd.Series(0.0, heights.index)
    for (_, part), colour in zip((heights / unit_s).items(), colours, strict=True):
        bars = axes.bar(places, part, bottom=tops, width=0.78, color=svg.colour(colour),
                        linewidth=0)  # fmt: skip
        tops += part
    labelled = places if len(tops) <= CROWDED_BARS else {0, len(tops) - 1}
    texts = [quantities.format_number(top) if at in labelled else "" for at, top in enumerate(tops)]
    axes.bar_label(bars, texts, padding=3, fontsize=12, color=svg.colour("ink"))
    axes.set_ylim(0, 1.2 * tops.max() or 1)
    side = 0.6 + max(0, FEWEST_BARS - len(tops)) / 2
    axes.set_xlim(-side, len(tops) - 1 + side)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.4g} {unit}"))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    chosen = [int(place) for place in with_room(places, float)]
    axes.xaxis.set_major_locator(FixedLocator(chosen))
    axes.set_xticklabels([str(tops.index[place]) for place in chosen])


def _write(axes: Axes, place: int, left: str, *, right: str = "", bold: bool = False) -> None:
    """Write a name and a number above a row."""
    name = shorten(left, ROW_CHARACTERS) if right else left
    for text, at, side in ((name, 0, "left"), (right, 1, "right")):
        note = axes.annotate(
            text, (at, place), xycoords=("axes fraction", "data"), xytext=(0, 10),
            textcoords="offset points", ha=side, va="bottom", fontsize=13, zorder=6,
            weight="bold" if bold else "normal", color=svg.colour("ink"), annotation_clip=False,
            # Lines between bars end behind the text.
            bbox={"facecolor": svg.colour("surface"), "edgecolor": "none", "pad": 1},
        )  # fmt: skip
        note.set_in_layout(bool(right))


def _rows_only(axes: Axes, rows: int, ticks: int, texts: FuncFormatter) -> None:
    """Leave the vertical axis to the rows, and mark zero on the horizontal one."""
    axes.axvline(0, color=svg.colour("muted"), linewidth=1.2, zorder=1)
    axes.set_ylim(rows - 0.6, -0.95)
    axes.set_yticks([])
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")
    axes.xaxis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(texts)


def _legend(canvas: Canvas, parts: Iterable[tuple[str, str]]) -> None:
    """Name colours below the plots, in two columns."""
    patches = [Patch(color=svg.colour(colour), label=text) for text, colour in parts]
    canvas.legend(handles=patches, loc="outside lower left", ncols=2, handlelength=1,
                  columnspacing=1.2)  # fmt: skip


def _finish(canvas: Canvas, about: About, alt: str, head: str = "") -> Figure:
    """Write the figure, with its title and with a text for those who cannot see it."""
    canvas.suptitle(head or about.title, x=0.012, ha="left", fontsize=14, weight="bold")
    return Figure(about.name, about.caption, svg.themed(canvas, alt=alt))
