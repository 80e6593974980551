"""Figures of the search for causes: time accounts of a step, and what each relief brings back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from scaling_study.common.quantities import format_percent, format_seconds
from scaling_study.report import svg
from scaling_study.report.figure_inflation import format_added
from scaling_study.report.figure_series import shorten
from scaling_study.report.figure_style import WIDTH_IN, drawing, say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

ROW_IN = 0.52
BAR = 0.42
"""Of a row; the rest is for the names above the bar."""
NAME_CHARACTERS = 32
"""Of a name: what stands beside its number in the widest font."""
ACCOUNT_COLOURS = {
    "user": "part-1",
    "system": "part-2",
    "runqueue": "part-3",
    "throttled": "series-4",
    "blocked": "part-4",
    "residual": "rest",
}
FALLBACK_COLOUR = "muted"
SMALL_SHARE = 0.005
"""Of the longer step: an account that is smaller at both counts has no row of its own."""
RELIEF_NAME_CHARACTERS = 44
FARTHEST = 1.5
"""Shares beyond this, either way, stand at the edge as an arrow: an interval of two units may reach
over thousands of percent."""
NEAR_ZERO = -0.15
NEAR_WHOLE = 1.05
"""The axis of shares shows at least this much on each side."""
WIDE = 1.6
"""From this range of shares on, there is no room for a tick label at every 50%."""
GROWTH_COLOUR, LEVEL_COLOUR = "series-1", "series-2"


@dataclass(frozen=True, slots=True)
class Account:
    """One account of a step's time: its name, its colour, and seconds at the low and high count."""

    name: str
    title: str
    low_s: float
    high_s: float

    @property
    def added_s(self) -> float:
        """What the high count adds (s)."""
        return self.high_s - self.low_s

    @property
    def colour(self) -> str:
        """Its colour's name in ``svg.THEME``."""
        return ACCOUNT_COLOURS.get(self.name, FALLBACK_COLOUR)


@dataclass(frozen=True, slots=True)
class Dot:
    """A value with its interval; the ends are None where there is no interval."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class ReliefRow:
    """What one relief changes: shares of the growth, and of a step alone; None where not known."""

    title: str
    growth: Dot | None
    level: Dot | None


def choose_accounts(entries: Sequence[Mapping[str, object]]) -> tuple[Account, ...]:
    """Choose the accounts with a row of their own; the residual always has one.

    Args:
        entries: ``accounts`` of a target in analysis/causes.json.
    """
    known = [
        Account(
            str(entry["account"]),
            str(entry["title"]),
            float(entry["low_s"]),  # type: ignore[arg-type]
            float(entry["high_s"]),  # type: ignore[arg-type]
        )
        for entry in entries
        if entry["low_s"] is not None and entry["high_s"] is not None
    ]
    whole_s = sum(account.high_s for account in known)
    least_s = SMALL_SHARE * abs(whole_s)
    return tuple(
        account
        for account in known
        if max(abs(account.low_s), abs(account.high_s)) > least_s or account.name == "residual"
    )


def draw_accounts(accounts: Sequence[Account], n: int, *, name: str, title: str, alt: str) -> str:
    """Draw a step of one process, what each account adds to it, and the step of n processes.

    Args:
        accounts: of ``choose_accounts``.
        n: the high count.
        name: of the figure.
        title: above the plot.
        alt: text for those who cannot see it.
    """
    low_s = sum(account.low_s for account in accounts)
    high_s = sum(account.high_s for account in accounts)
    changes = sorted(accounts, key=lambda account: -account.added_s)
    rows = len(changes) + 2
    with drawing():
        canvas = Canvas(figsize=(WIDTH_IN, ROW_IN * rows + 0.9), layout="constrained")
        axes = canvas.subplots()
        unit_s, unit = (1.0, "s") if max(low_s, high_s) >= 1 else (1e-3, "ms")
        _draw_step(axes, 0, [(one.colour, one.low_s / unit_s) for one in accounts])
        _write(axes, 0, "a step of 1 process", format_seconds(low_s), bold=True)
        end_s = low_s
        for place, account in enumerate(changes, 1):
            _thread(axes, end_s / unit_s, place)
            _draw_part(axes, place, account.colour, end_s / unit_s, account.added_s / unit_s)
            _write(axes, place, account.title, format_added(account.added_s))
            end_s += account.added_s
        _thread(axes, end_s / unit_s, rows - 1)
        _draw_step(axes, rows - 1, [(one.colour, one.high_s / unit_s) for one in accounts])
        _write(axes, rows - 1, f"a step of {n} processes", format_seconds(high_s), bold=True)
        axes.axvline(0, color=svg.colour("muted"), linewidth=1.2, zorder=1)
        _finish_rows(axes, rows, title)
        axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.4g} {unit}"))
        return svg.themed(canvas, name=name, alt=alt)


def draw_reliefs(rows: Sequence[ReliefRow], *, name: str, title: str, alt: str) -> str:
    """Draw what each relief brings back: of the growth on the left, of a step alone on the right.

    Args:
        rows: from the top down.
        name: of the figure.
        title: above the plots.
        alt: text for those who cannot see it.
    """
    with drawing():
        height_in = ROW_IN * max(1, len(rows)) + 1.6
        canvas = Canvas(figsize=(WIDTH_IN, height_in), layout="constrained")
        left, right = canvas.subplots(1, 2, sharey=True)
        canvas.get_layout_engine().set(w_pad=0.08, wspace=0.04)  # type: ignore[union-attr, call-arg]
        if not rows:
            say(left, "No relief was measured")
            right.set_axis_off()
        limits = _choose_limits([dot for row in rows for dot in (row.growth, row.level)])
        for axes, dots, colour, head in (
            (left, [row.growth for row in rows], GROWTH_COLOUR, "of the growth with n"),
            (right, [row.level for row in rows], LEVEL_COLOUR, "of a step alone (n = 1)"),
        ):
            if rows:
                _draw_shares(axes, dots, colour, limits)
                axes.set_title(head, color=svg.colour(colour), fontsize=13, pad=6)
        for place, row in enumerate(rows):
            left.annotate(
                shorten(row.title, RELIEF_NAME_CHARACTERS), (0, place),
                xycoords=("axes fraction", "data"), xytext=(0, 9), textcoords="offset points",
                va="bottom", fontsize=13, color=svg.colour("ink"), annotation_clip=False,
                zorder=6, bbox={"facecolor": svg.colour("surface"), "edgecolor": "none", "pad": 1},
            )  # fmt: skip
            left.texts[-1].set_in_layout(False)
        canvas.suptitle(
            title, x=0.012, ha="left", fontsize=14, weight="bold", color=svg.colour("ink")
        )
        return svg.themed(canvas, name=name, alt=alt)


def _draw_step(axes: Axes, place: int, parts: Sequence[tuple[str, float]]) -> None:
    """Draw a whole step; parts below zero (a residual) lie to the left of zero."""
    ends = {True: 0.0, False: 0.0}
    for colour, length in parts:
        begin = ends[length >= 0]
        _draw_part(axes, place, colour, begin, length)
        ends[length >= 0] = begin + length


def _draw_part(axes: Axes, place: int, colour: str, begin: float, length: float) -> None:
    axes.barh(
        place, length, left=begin, height=BAR, color=svg.colour(colour),
        edgecolor="none", linewidth=0, zorder=2,
    )  # fmt: skip


def _thread(axes: Axes, x: float, place: int) -> None:
    """Draw a thread from the end of the row above to the beginning of this one."""
    axes.plot([x, x], [place - 1, place], color=svg.colour("rest"), linewidth=1, zorder=1)


def _write(axes: Axes, place: int, left: str, right: str, *, bold: bool = False) -> None:
    """Write a name and a number above a row."""
    for text, x, side in ((shorten(left, NAME_CHARACTERS), 0, "left"), (right, 1, "right")):
        axes.annotate(
            text, (x, place), xycoords=("axes fraction", "data"), xytext=(0, 10),
            textcoords="offset points", ha=side, va="bottom", fontsize=13,
            weight="bold" if bold else "normal", color=svg.colour("ink"),
            # The threads between bars end behind the text.
            bbox={"facecolor": svg.colour("surface"), "edgecolor": "none", "pad": 1},
        )  # fmt: skip


def _finish_rows(axes: Axes, rows: int, title: str) -> None:
    axes.set_ylim(rows - 0.6, -0.85)
    axes.set_yticks([])
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")
    axes.set_title(title)


def _draw_shares(
    axes: Axes, dots: Sequence[Dot | None], colour: str, limits: tuple[float, float]
) -> None:
    """Draw shares as dots with their intervals, and what is too far away as an arrow."""
    low, high = limits
    hue = svg.colour(colour)
    axes.axvline(0, color=svg.colour("muted"), linewidth=1.2, zorder=1)
    for place, dot in enumerate(dots):
        if dot is None:
            continue
        if dot.low is not None and dot.high is not None:
            axes.hlines(
                place, max(low, dot.low), min(high, dot.high),
                color=hue, linewidth=5, alpha=0.35, zorder=2.5,
            )  # fmt: skip
        marker = "<" if dot.value < low else ">" if dot.value > high else "o"
        at = min(high, max(low, dot.value))
        axes.plot(
            [at], [place], marker=marker, markersize=9, markeredgewidth=0, color=hue,
            linewidth=0, zorder=4, clip_on=False,
        )  # fmt: skip
    axes.set_xlim(low, high)
    _finish_rows(axes, len(dots), "")
    step = 0.5 if high - low < WIDE else 1.0
    ticks = [step * at for at in range(-3, 4)]
    axes.xaxis.set_major_locator(FixedLocator([tick for tick in ticks if low <= tick <= high]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: format_percent(x)))


def _choose_limits(dots: Sequence[Dot | None]) -> tuple[float, float]:
    """Limits of an axis of shares that hold all values, and of their intervals what is near."""
    ends = [end for dot in dots if dot for end in (dot.value, dot.low, dot.high) if end is not None]
    low = max(-FARTHEST, min([NEAR_ZERO, *(end - 0.05 for end in ends)]))
    high = min(FARTHEST, max([NEAR_WHOLE, *(end + 0.05 for end in ends)]))
    return low, high
