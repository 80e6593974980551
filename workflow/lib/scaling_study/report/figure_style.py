"""How all figures look, and the canvas they are drawn on.

Figures are narrow and have large text, so that they are readable on a phone and two stand beside
each other on a desk. Colours are those of ``svg.THEME`` and follow the reader's theme.
"""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import seaborn as sns
from matplotlib.figure import Figure as Canvas

from scaling_study.report import svg

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes

    from scaling_study.report.figure_series import Series

WIDTH_IN = 5.9
"""At 72 units an inch; a phone of 390 px shows it at about 0.8 of its size."""
LEGEND_ROW_IN = 0.27
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


def open_canvas(plot_in: float, legend_rows: int) -> tuple[Canvas, Axes]:
    """A figure with one plot of a fixed height, and below it room for its legend."""
    height_in = plot_in + LEGEND_ROW_IN * legend_rows
    canvas = Canvas(figsize=(WIDTH_IN, height_in), layout="constrained")
    return canvas, canvas.subplots()


def legend_lines(one: Series) -> int:
    """Lines of a launch's text in a legend."""
    return one.legend.count("\n") + 1


def say(axes: Axes, text: str) -> None:
    """Show a sentence where there is nothing to draw."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes)
