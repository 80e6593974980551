"""Small plots of equal size, one for each kernel: dose and response, or inflation with n.

The same machine's kernels stand in the same order in both figures. In each plot the control, a loop
in registers that shares nothing but a core and a clock, is drawn in grey; the first is its own.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from scaling_study.common.quantities import format_number
from scaling_study.report import svg
from scaling_study.report.figure_axes import HEADROOM, WIDE_RANGE, choose_powers, scale_processes
from scaling_study.report.figure_series import shorten
from scaling_study.report.figure_style import LEGEND_ROW_IN, WIDTH_IN, drawing, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

COLUMNS = 2
PLOT_IN = 1.75
HEAD_CHARACTERS = 25
"""Of a line above a small plot."""
LEAST_TOP = 1.5
"""Of the value axis: where nothing inflates, 2% must not look like a mountain."""
BOTTOM = 0.9
MOST_DOSES = 5
QUARTERS = (0, 0.25, 0.5, 0.75, 1)
FRACTIONS = {"0": "0", "0.33": "⅓", "0.67": "⅔", "0.25": "¼", "0.50": "½", "0.75": "¾", "1": "1"}


@dataclass(frozen=True, slots=True)
class Curve:
    """Values of one kernel.

    Attributes:
        title: of the kernel.
        x: doses or process counts.
        y: values.
        low: of each value's interval; None where it has none.
        high: as ``low``.
        sure: whether to draw it with a full line.
    """

    title: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    sure: bool = True


def draw_multiples(
    curves: Sequence[Curve],
    control: Curve | None,
    *,
    name: str,
    title: str,
    alt: str,
    counts: bool,
    doubtful: str = "dashed: not verified",
    x_label: str = "",
) -> str:
    """Draw a small plot for each curve, all with the same axes.

    Args:
        curves: from the left, then down, the control's own not among them.
        control: drawn in each plot; None without one.
        name: of the figure.
        title: above all.
        alt: text for those who cannot see it.
        counts: whether x is process counts; doses otherwise.
        doubtful: what the legend says of curves that are not sure.
        x_label: below the plots; empty for the usual one.
    """
    with drawing():
        drawn = [*([control] if control else []), *curves]
        heads = [_head(curve) for curve in drawn]
        rows = max(1, -(-len(drawn) // COLUMNS))
        extra_in = LEGEND_ROW_IN if any("\n" in head for head in heads) else 0.0
        height_in = rows * (PLOT_IN + extra_in) + 1.2
        canvas = Canvas(figsize=(WIDTH_IN, height_in), layout="constrained")
        grid = list(canvas.subplots(rows, COLUMNS, squeeze=False, sharey=True).flat)
        canvas.get_layout_engine().set(h_pad=0.09, hspace=0.04, wspace=0.04)  # type: ignore[union-attr, call-arg]
        for axes in grid[len(drawn) :]:
            axes.set_axis_off()
        if not drawn:
            say(grid[0], "Nothing was measured")
        for place, (axes, curve, head) in enumerate(zip(grid, drawn, heads, strict=False)):
            if control:
                _draw_curve(axes, control, "muted", "s")
            if curve is not control:
                _draw_curve(axes, curve, "series-1", "o")
            axes.axhline(1, color=svg.colour("rest"), linewidth=1, zorder=1)
            axes.set_title(head, fontsize=12.5, weight="normal", pad=5)
            _scale_x(axes, drawn, counts=counts)
            axes.set_xlabel(
                (x_label or _x_label(counts=counts)) if place >= len(drawn) - COLUMNS else ""
            )
            axes.tick_params(labelsize=12.5)
        if drawn:
            _scale_y(grid[0], drawn)
            _add_legend(canvas, grid[0], control, curves, doubtful)
        canvas.suptitle(
            title, x=0.012, ha="left", fontsize=14, weight="bold", color=svg.colour("ink")
        )
        return svg.themed(canvas, name=name, alt=alt)


def _head(curve: Curve) -> str:
    """The kernel's title on at most two lines."""
    title = shorten(curve.title, 2 * HEAD_CHARACTERS - 8)
    return "\n".join(textwrap.wrap(title, HEAD_CHARACTERS, break_on_hyphens=False))


def _x_label(*, counts: bool) -> str:
    return "processes" if counts else "dose of the others"


def _draw_curve(axes: Axes, curve: Curve, colour: str, marker: str) -> None:
    hue = svg.colour(colour)
    for x, low, high in zip(curve.x, curve.low, curve.high, strict=True):
        if low is not None and high is not None:
            axes.vlines(x, low, high, color=hue, linewidth=5, alpha=0.35, zorder=2.5)
    axes.plot(
        curve.x, curve.y, color=hue, marker=marker, markersize=6, markeredgewidth=0,
        linewidth=2.2, linestyle="-" if curve.sure else (0, (2.5, 2)), zorder=3,
    )  # fmt: skip


def _scale_x(axes: Axes, curves: Sequence[Curve], *, counts: bool) -> None:
    places = sorted({x for curve in curves for x in curve.x})
    if counts:
        scale_processes(axes, [int(n) for n in places])
        return
    axes.set_xlim(-0.06, 1.06)
    # Doses that were asked for; what was measured lies anywhere.
    axes.xaxis.set_major_locator(FixedLocator(places if len(places) <= MOST_DOSES else QUARTERS))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: _fraction(x)))


def _fraction(x: float) -> str:
    plain = f"{x:.2f}" if x % 1 else f"{x:.0f}"
    return FRACTIONS.get(plain, f"{x:.2g}")


def _scale_y(axes: Axes, curves: Sequence[Curve]) -> None:
    """Set the value axis that all plots share: logarithmic where the values range widely."""
    values = [y for curve in curves for y in curve.y]
    low, high = min([*values, 1.0]), max(values)
    if low > 0 and high / low >= WIDE_RANGE:
        axes.set_yscale("log")
        axes.set_ylim(BOTTOM * low, high * HEADROOM**2)
        axes.yaxis.set_major_locator(FixedLocator(choose_powers(low, high)))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(min(BOTTOM, 0.97 * low), max(LEAST_TOP, 1 + (high - 1) * HEADROOM))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.3g}\N{MULTIPLICATION SIGN}"))


def _add_legend(
    canvas: Canvas, axes: Axes, control: Curve | None, curves: Sequence[Curve], doubtful: str
) -> None:
    lines = list(axes.get_lines())
    entries = []
    if control:
        entries.append((lines[0], f"control: {shorten(control.title, 28)}"))
    if not all(curve.sure for curve in curves):
        (dashed,) = axes.plot(
            [], [], color=svg.colour("series-1"), linewidth=2.2, linestyle=(0, (2.5, 2))
        )
        entries.append((dashed, doubtful))
    if entries:
        canvas.legend(
            [line for line, _ in entries], [text for _, text in entries],
            loc="outside lower left", ncols=len(entries), handlelength=2.2,
        )  # fmt: skip


def describe_largest(curves: Sequence[Curve]) -> str:
    """The kernel with the largest last value, as a sentence."""
    last = [(curve.y[-1], curve.title) for curve in curves if curve.y]
    if not last:
        return "Nothing was measured."
    value, title = max(last)
    return f"Largest: {title}, {format_number(value)} times."
