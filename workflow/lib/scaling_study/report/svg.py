"""From a matplotlib figure to an SVG that follows the reader's light or dark theme.

Matplotlib writes fixed colours, ids that repeat from figure to figure and a style rule for every
element of the page. Here the colours of ``THEME`` become CSS variables, ids get the figure's name
in front, and what only a file of its own needs is left to ``standalone``.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from scaling_study.common.printable import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
HREF = f"{{{XLINK}}}href"

THEME: dict[str, tuple[str, str]] = {
    # name: (on light, on dark). The light colour is what figures draw with, so each is unique.
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
"""Matplotlib's own font, which it brings along: layouts are the same on every machine. It is
wider than the fonts of ``FONT_STACK``, so what fits here fits there."""

_VARIABLE = {light: f"var(--{name}, {light})" for name, (light, _) in THEME.items()}
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")


def colour(name: str) -> str:
    """The colour to draw with, which the reader's theme replaces."""
    return THEME[name][0]


def theme_css(scheme: int) -> str:
    """CSS declarations of the theme's variables.

    Args:
        scheme: 0 for light, 1 for dark.
    """
    return "".join(f"--{name}:{pair[scheme]};" for name, pair in THEME.items())


def themed(figure: Figure, *, name: str, alt: str) -> str:
    """Write a figure as an SVG element to put into a page.

    Args:
        figure: what to write; the same figure always gives the same text.
        name: the prefix of all ids in it; unique in the page.
        alt: what the figure shows, for those who cannot see it.

    Returns:
        One ``<svg>`` element with its width left to the page.
    """
    text = io.StringIO()
    nothing = {"Date": None, "Creator": None, "Type": None, "Format": None}
    figure.savefig(text, format="svg", metadata=nothing, transparent=True)
    root = ET.fromstring(text.getvalue())  # noqa: S314 (matplotlib's own output)
    _drop_page_wide(root)
    _rename_ids(root, name)
    for element in root.iter():
        style = element.get("style")
        if style is not None:
            element.set("style", _restyle(style))
    for size in ("width", "height"):
        root.attrib.pop(size)
    root.set("class", "figure")
    root.set("role", "img")
    root.set("aria-label", printable(alt))  # XML has no control characters
    ET.register_namespace("", SVG)
    ET.register_namespace("xlink", XLINK)
    return ET.tostring(root, encoding="unicode")


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


def _drop_page_wide(root: ET.Element) -> None:
    """Remove the style rule for ``*``, which in a page would reach everything in it."""
    for parent in root.iter():
        for child in parent.findall(f"{{{SVG}}}style"):
            parent.remove(child)
    root.set("style", "stroke-linejoin:round;stroke-linecap:butt")


def _rename_ids(root: ET.Element, name: str) -> None:
    """Put ``name-`` before the ids that are referred to, and drop all others."""
    used: set[str] = set()
    for element in root.iter():
        for key, value in element.attrib.items():
            if key == HREF:
                used.add(value.removeprefix("#"))
                element.set(key, f"#{name}-{value.removeprefix('#')}")
            elif found := _REFERENCE.search(value):
                used.add(found[1])
                element.set(key, _REFERENCE.sub(rf"url(#{name}-\1)", value))
    for element in root.iter():
        identity = element.attrib.pop("id", None)
        if identity in used:
            element.set("id", f"{name}-{identity}")


def _restyle(style: str) -> str:
    """Put the theme's variables and the font stack into a style attribute."""
    themed_style = _COLOUR.sub(lambda found: _VARIABLE.get(found[0], found[0]), style)
    return themed_style.replace(DRAWN_FONT, FONT_STACK)
