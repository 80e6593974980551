"""The figure of added time per step by operator: bars that begin where the last one ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from scaling_study.common.quantities import MINUS, format_seconds
from scaling_study.profiling.operator_groups import OTHER, OUTSIDE, read_groups
from scaling_study.report import svg
from scaling_study.report.figure_series import shorten
from scaling_study.report.figure_style import LEGEND_ROW_IN, WIDTH_IN, drawing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

ROW_IN = 0.52
BAR = 0.42
"""Of a row; the rest is for the name above the bar."""
NAME_CHARACTERS = 34
"""Of a name: what stands beside its number in the widest font."""
LARGEST = 9
"""Operators with a bar of their own."""
WHOLE = "whole step"
LEAST_S = 1e-9
"""Differences below a nanosecond are those of rounding."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: a name, the time it adds (s per step, below zero: saves), and its colour."""

    name: str
    added_s: float
    colour: str


def group_colour(group: str) -> str:
    """The name in ``svg.THEME`` of a group's colour."""
    names = [one.name for one in read_groups()]
    if group in names:
        return f"series-{names.index(group) + 1}"
    return {OTHER: "part-2", OUTSIDE: "muted"}[group]


def choose_bars(operators: Sequence[Mapping[str, object]]) -> tuple[Bar, ...]:
    """Choose what has a bar of its own; the rest is one bar of the same sum.

    Args:
        operators: of ``inflation.sum_operators``.
    """
    by_size = sorted(operators, key=lambda row: -abs(_added(row)))
    # One row too many is not worth the bar "1 other".
    few = len(by_size) <= LARGEST + 1
    shown = {str(row["operator"]) for row in by_size[: None if few else LARGEST]}
    bars = [
        Bar(str(row["operator"]), _added(row), group_colour(str(row["group"])))
        for row in operators
        if row["operator"] in shown and row["difference_s"]
    ]
    others = [_added(row) for row in operators if row["operator"] not in shown]
    if others:
        bars.append(Bar(f"{len(others)} smaller changes", sum(others), "rest"))
    return tuple(bars)


def _added(row: Mapping[str, object]) -> float:
    return float(row["difference_s"])  # type: ignore[arg-type]


def draw_inflation(
    bars: Sequence[Bar], groups: Sequence[str], *, name: str, title: str, alt: str
) -> str:
    """Draw the time that each operator adds to a step, from left to right up to the whole.

    Args:
        bars: from the top down.
        groups: names for the legend.
        name: of the figure.
        title: above the plot.
        alt: text for those who cannot see it.
    """
    legend_rows = -(-len(groups) // 2)
    with drawing():
        height_in = ROW_IN * (len(bars) + 1) + LEGEND_ROW_IN * legend_rows + 0.9
        canvas = Canvas(figsize=(WIDTH_IN, height_in), layout="constrained")
        axes = canvas.subplots()
        whole = Bar(WHOLE, sum(bar.added_s for bar in bars), "ink")
        largest_s = max((abs(bar.added_s) for bar in (*bars, whole)), default=0.0)
        unit_s, unit = (1.0, "s") if largest_s >= 1 else (1e-3, "ms")
        begin_s = 0.0
        for place, bar in enumerate(bars):
            _draw_bar(axes, place, bar, begin_s, unit_s)
            begin_s += bar.added_s
            # A thread from the end of this bar to the beginning of the next.
            axes.plot(
                [begin_s / unit_s] * 2, [place, place + 1],
                color=svg.colour("rest"), linewidth=1, zorder=1,
            )  # fmt: skip
        _draw_bar(axes, len(bars), whole, 0.0, unit_s)
        axes.axvline(0, color=svg.colour("muted"), linewidth=1.2, zorder=1)
        axes.set_ylim(len(bars) + 0.4, -0.85)
        axes.set_yticks([])
        axes.grid(visible=False, axis="y")
        axes.grid(visible=True, axis="x")
        axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: _signed(f"{x:,.4g} {unit}", x)))
        axes.set_title(title)
        canvas.legend(
            handles=[Patch(color=svg.colour(group_colour(one)), label=one) for one in groups],
            loc="outside lower left",
            ncols=2,
            handlelength=1,
            columnspacing=1.2,
        )
        return svg.themed(canvas, name=name, alt=alt)


def _draw_bar(axes: Axes, place: int, bar: Bar, begin_s: float, unit_s: float) -> None:
    """Draw a bar, with its name and its number above it."""
    axes.barh(
        place, bar.added_s / unit_s, left=begin_s / unit_s, height=BAR,
        color=svg.colour(bar.colour), edgecolor="none", linewidth=0, zorder=2,
    )  # fmt: skip
    weight = "bold" if bar.name == WHOLE else "normal"
    for text, x, side in (
        (shorten(bar.name, NAME_CHARACTERS), 0, "left"),
        (format_added(bar.added_s), 1, "right"),
    ):
        axes.annotate(
            text, (x, place), xycoords=("axes fraction", "data"), xytext=(0, 10),
            textcoords="offset points", ha=side, va="bottom", fontsize=13, weight=weight,
            color=svg.colour("ink"),
            # The threads between bars end behind the text.
            bbox={"facecolor": svg.colour("surface"), "edgecolor": "none", "pad": 1},
        )  # fmt: skip


def format_added(seconds: float | None) -> str:
    """Write a difference of times with its sign: ``+8.20 ms``."""
    if seconds is not None and abs(seconds) < LEAST_S:
        seconds = 0.0
    return _signed(format_seconds(seconds), seconds or 0.0)


def _signed(text: str, value: float) -> str:
    return f"+{text}" if value > 0 else text.replace("-", MINUS)
