"""Turn a matplotlib figure into an SVG that follows the reader's light or dark theme.

Matplotlib writes fixed colours, ids that repeat from figure to figure and a style rule for every
element of the page. Here the colours of ``THEME`` become CSS variables, and ids that nothing refers
to are removed. ``standalone`` adds the parts that only a separate file needs.
"""

import html
import io
import re

from matplotlib.figure import Figure

from scaling_study.common.printable import printable

THEME: dict[str, tuple[str, str]] = {
    # name: (on light, on dark). Figures draw with the light colours, so each of these is unique.
    # Hues after Okabe and Ito (colour-blind safe), each at least 3:1 against its background.
    "surface": ("#ffffff", "#16191d"),
    "ink": ("#1c2128", "#e8eaed"),
    "muted": ("#57606a", "#a4acb6"),
    "grid": ("#e3e6ea", "#2d333b"),
    "rest": ("#b4bac2", "#565e69"),
    "series-1": ("#0072b2", "#56b4e9"),
    "series-2": ("#c8500a", "#ff8f57"),
    "series-3": ("#00845f", "#37c79a"),
    "series-4": ("#a3478c", "#e394cf"),
    "series-5": ("#846a00", "#e0bd2c"),
    "series-6": ("#4a52a8", "#a3adff"),
    "part-1": ("#0071b1", "#4aa3d9"),
    "part-2": ("#7fbde3", "#a9d8f5"),
    "part-3": ("#d0641c", "#f0853f"),
    "part-4": ("#9aa3ad", "#6b7480"),
}
FONT_STACK = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif"
DRAWN_FONT = "'DejaVu Sans'"
"""The font that matplotlib brings along, so layouts are the same on every machine. It is wider than
the fonts of ``FONT_STACK``, so a text that fits in this font fits in those."""
SVG = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'

_VARIABLE = {light: f"var(--{name}, {light})" for name, (light, _) in THEME.items()}
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
_STYLE = re.compile(r'style="[^"]*"')
_GROUP_ID = re.compile(r' id="[A-Za-z.]+(?:2d)?_\d+"')
"""Ids of groups, such as ``axes_1``. Nothing refers to them; ids that are used are hashes."""
_HEAD_END = "</style>\n </defs>\n"
"""Ends the head of matplotlib's file: the root element, and a style rule for ``*``, which
would apply to everything in a page."""


def colour(name: str) -> str:
    """Return the colour to draw with, which the reader's theme replaces."""
    return THEME[name][0]


def theme_css(scheme: int) -> str:
    """Return CSS declarations of the theme's variables.

    Args:
        scheme: 0 for light, 1 for dark.
    """
    return "".join(f"--{name}:{pair[scheme]};" for name, pair in THEME.items())


def themed(figure: Figure, *, alt: str) -> str:
    """Write a figure as an SVG element to put into a page.

    Args:
        figure: the figure; it always gives the same text. The setting ``svg.hashsalt`` makes
            its ids unique in the page.
        alt: the content of the figure in words, for those who cannot see it.

    Returns:
        One ``<svg>`` element with its width left to the page.
    """
    text = io.StringIO()
    nothing = {"Date": None, "Creator": None, "Type": None, "Format": None}
    figure.savefig(text, format="svg", metadata=nothing, transparent=True)
    _, _, body = text.getvalue().partition(_HEAD_END)
    body = _STYLE.sub(lambda match: _restyle(match[0]), _GROUP_ID.sub("", body))
    width, height = 72 * figure.get_size_inches()
    return (
        f'<svg {SVG} viewBox="0 0 {width:g} {height:g}" class="figure" role="img"'
        f' aria-label="{html.escape(printable(alt))}"'  # XML has no control characters
        f' style="stroke-linejoin:round;stroke-linecap:butt">\n{body}'
    )


def standalone(svg: str) -> str:
    """Complete an SVG element from ``themed`` to a file of its own.

    Such a file carries its colours for both themes and the size that matplotlib gave it.
    """
    width, height = svg.partition('viewBox="0 0 ')[2].partition('"')[0].split()
    style = (
        f"<style>:root{{{theme_css(0)}background:{colour('surface')}}}"
        f"@media (prefers-color-scheme:dark){{:root{{{theme_css(1)}"
        f"background:{THEME['surface'][1]}}}}}</style>"
    )
    head, _, body = svg.partition(">")
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f'{head} width="{width}" height="{height}">{style}{body}\n'
    )


def _restyle(style: str) -> str:
    """Put the theme's variables and the font stack into a style attribute."""
    themed_style = _COLOUR.sub(lambda match: _VARIABLE.get(match[0], match[0]), style)
    return themed_style.replace(DRAWN_FONT, FONT_STACK)
