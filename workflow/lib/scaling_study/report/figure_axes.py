"""Axes of figures: process counts, values from zero or logarithmic, a machine's boundaries."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from scaling_study.config.process_counts import boundaries
from scaling_study.host.probe import usable_topology
from scaling_study.report import svg

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pandas as pd
    from matplotlib.axes import Axes

Value = TypeVar("Value", int, float)

LONG_LADDER = 16
"""From this ratio of largest to smallest count on, a linear axis squeezes the small counts."""
WIDE_RANGE = 8.0
"""From this ratio of values on, a linear axis hides the differences between the small ones."""
TICK_GAP = 0.055
"""Room for a character of a tick label, as a part of the axis."""
HEADROOM = 1.15
"""Of the value axis above the highest value."""
FEW_DECADES = 4
"""Of a logarithmic axis, up to which there is room for three labels each."""
NAME_ROW_PT = 14
NAME_PART = 0.0185
"""Width of a character in the name of a boundary, as a part of the axis."""
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Boundary:
    """A process count at which one-CPU processes fill a part of the machine."""

    n: int
    label: str


def find_boundaries(machine: Mapping[str, Any]) -> tuple[Boundary, ...]:
    """List the process counts at which one-CPU processes fill a part of the machine.

    Args:
        machine: machine.json.
    """
    found = boundaries(usable_topology(machine), machine["quota_cpus"])
    return tuple(Boundary(n, ", ".join(names)) for n, names in found.items())


def choose_labelled(counts: Sequence[Value], place: Callable[[float], float]) -> list[Value]:
    """Choose the counts (or other values) that have room for a tick label; the largest always has.

    Args:
        counts: distinct.
        place: of a count on the axis, in any unit.
    """
    present = sorted(counts, reverse=True)
    span = place(present[0]) - place(present[-1])
    labelled: list[Value] = []
    for n in present:
        room = TICK_GAP * span * len(f"{n:.5g}")
        if not labelled or place(labelled[-1]) - place(n) >= room:
            labelled.append(n)
    return labelled


def scale_processes(axes: Axes, counts: Sequence[int]) -> None:
    """Set the axis of process counts: logarithmic (base 2) for a long ladder."""
    present = sorted(set(counts))
    logarithmic = present[-1] / present[0] >= LONG_LADDER
    place: Callable[[float], float] = math.log2 if logarithmic else float
    if logarithmic:
        axes.set_xscale("log", base=2)
    first, last = place(present[0]), place(present[-1])
    margin = 0.06 * (last - first) or 0.5
    low, high = first - margin, last + margin
    axes.set_xlim(*((2**low, 2**high) if logarithmic else (low, high)))
    axes.xaxis.set_major_locator(FixedLocator(choose_labelled(present, place)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda n, _: f"{n:.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("processes")


def scale_values(
    axes: Axes, values: pd.Series[float], *, from_zero: bool, axis: Literal["x", "y"] = "y"
) -> bool:
    """Set the value axis: from zero, or logarithmic where the range is wide.

    Only values count. The interval of a launch whose starts differ widely is cut at the edge: an
    axis for it would make a flat line of everything else.

    Args:
        axes: to set.
        values: all values in it.
        from_zero: not logarithmic, however wide the range is.
        axis: x where the values do not go upwards.

    Returns:
        Whether it is logarithmic.
    """
    low, high = float(values.min()), float(values.max())
    logarithmic = not from_zero and low > 0 and high / low >= WIDE_RANGE
    along = axes.yaxis if axis == "y" else axes.xaxis
    if logarithmic:
        ends = low / HEADROOM**2, high * HEADROOM**2
        ticks = choose_powers(low, high)
        if axis == "x":  # labels stand beside each other
            inside = [tick for tick in ticks if ends[0] <= tick <= ends[1]]
            ticks = choose_labelled(inside, math.log10)
        axes.set(**{f"{axis}scale": "log", f"{axis}lim": ends})
        along.set_major_locator(FixedLocator(ticks))
        along.set_minor_locator(NullLocator())
    else:
        axes.set(**{f"{axis}lim": (0, HEADROOM * high)})
    along.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.5g}"))
    axes.set(**{f"{axis}label": ""})
    return logarithmic


def choose_powers(low: float, high: float) -> list[float]:
    """Choose the tick labels of a logarithmic axis: 1, 2, 5, 10 … or powers of ten alone.

    Args:
        low: smallest value, above zero.
        high: largest value.
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(decades) <= FEW_DECADES else (1,)
    return [step * 10.0**power for power in decades for step in steps]


def draw_boundaries(axes: Axes, marks: Sequence[Boundary], largest: int) -> int:
    """Draw the machine's boundaries as faint lines, named above the plot.

    Args:
        axes: with its limits set.
        marks: what to draw.
        largest: process count of the axis; boundaries above it are left out.

    Returns:
        Rows of names: one that would run into its neighbour goes a row higher.
    """
    ends: list[float] = []  # where the last name of each row ends, as a part of the axis
    for mark in marks:
        if mark.n > largest:
            continue
        on_canvas = axes.transData.transform((mark.n, 0))
        place = float(axes.transAxes.inverted().transform(on_canvas)[0])
        half = 0.5 * NAME_PART * (len(mark.label) + 1)
        center = min(place, 1 - half)
        row = next((row for row, end in enumerate(ends) if end <= center - half), len(ends))
        ends[row : row + 1] = [center + half]
        axes.axvline(mark.n, color=svg.colour("rest"), linewidth=1, zorder=1)
        axes.annotate(
            mark.label, (center, 1), xycoords="axes fraction", ha="center", va="bottom",
            xytext=(0, 3 + NAME_ROW_PT * row), textcoords="offset points",
            fontsize=11, color=svg.colour("muted"),
        )  # fmt: skip
    return len(ends)


def label_difference(percent: float, _position: int | None = None) -> str:
    """A tick label of an axis of differences."""
    return "0" if abs(percent) < ROUNDING else f"{percent:+.3g}%".replace("-", "\N{MINUS SIGN}")
