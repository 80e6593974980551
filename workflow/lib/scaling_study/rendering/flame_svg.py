"""A flamegraph as one interactive SVG file: every viewer shows it, a browser zooms and searches.

Each root (trainer, other threads, ...) is a panel of its own. The script inside is
``workflow/report/flame_svg.js``.
"""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from scaling_study.common.quantities import MINUS, format_percent, format_seconds
from scaling_study.rendering import flame_tree, svg

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scaling_study.rendering.flame_tree import Node

SCRIPT = Path(__file__).parents[3] / "report" / "flame_svg.js"
WIDTH = 1200
ROW = 18
MARGIN = 12
HEAD = 92
LETTER = 6.7
"""Width of a letter of 11.5 px, generous for what a system font has."""
ABOUT_LETTER = 7.3
"""The same at 12.5 px."""
LEAST_TEXT = 30
FIXED_DEPTH = 2
"""Whose, running or waiting, and the phase are never folded into a chain."""
STRUCTURE = re.compile(
    r"(?:phase: |thread: |waiting )|(?:trainer|running|other threads.*|child processes)$"
)
"""What stands above the frames; flame.js has the same."""
SHADES = 5
"""Steps of colour on each side of what did not change."""

COLOURS: dict[str, tuple[str, str]] = {
    # name: (on light, on dark). Orange-red against blue can be told apart with every common
    # colour blindness; ends and middle differ in lightness too. style.css has the same.
    "more": ("#c93a1d", "#ef7350"),
    "less": ("#2270b5", "#5aa9e6"),
    "even": ("#e3e7ec", "#39414b"),
    "python": ("#b9d9f0", "#2b5f85"),
    "native": ("#f5d3ae", "#7d4f22"),
}
DARK_TEXT, LIGHT_TEXT = "#000000", "#ffffff"
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Box(NamedTuple):
    """A frame where it is drawn; x and width in the panel's share of 1."""

    node: Node
    row: int
    x: float
    width: float
    folded: int


def draw(
    root: Node,
    *,
    title: str,
    caption: str,
    labels: tuple[str, str | None],
    pale: float,
    least: float,
) -> str:
    """Draw a tree as a file of its own.

    Args:
        root: its children become panels.
        title: what it is about.
        caption: what it shows.
        labels: of the first and the second profile.
        pale: see ``flame_tree.heat``, in seconds.
        least: frames up to this share of a panel are left out.

    Returns:
        The file's text.
    """
    lines = _wrap(caption, int((WIDTH - 2 * MARGIN) / ABOUT_LETTER))
    y = HEAD + 16 * len(lines)
    panels = []
    for group in root.children:
        boxes = list(lay_out(group, least))
        height = (max(box.row for box in boxes) + 1) * ROW
        parts = "".join(_element(box, group, labels, pale) for box in boxes)
        heading = f"{group.name}: {_times(group, group, labels)}"
        panels.append(
            f'<text class="m" x="{MARGIN}" y="{y + 14}">{_text(heading)}</text>'
            f'<svg class="p" x="{MARGIN}" y="{y + 22}" width="{WIDTH - 2 * MARGIN}" '
            f'height="{height}">{parts}</svg>\n'
        )
        y += height + 44
    about = "".join(
        f'<text class="m" x="{MARGIN}" y="{50 + 16 * place}">{_text(line)}</text>'
        for place, line in enumerate(lines)
    )
    tools_y = 62 + 16 * (len(lines) - 1)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" '
        f'height="{y}" role="group" aria-label="{_text(f"{title}. {caption}")}">\n'
        f"<title>{_text(title)}</title>\n<style>{_style(differs=labels[1] is not None)}</style>\n"
        f'<rect class="s" width="100%" height="100%"/>'
        f'<text class="t" x="{MARGIN}" y="28">{_text(title)}</text>\n{about}\n'
        f'<foreignObject x="{MARGIN}" y="{tools_y}" width="{WIDTH - 2 * MARGIN}" height="34">'
        '<div xmlns="http://www.w3.org/1999/xhtml" id="tools"></div></foreignObject>\n'
        f"{''.join(panels)}<script><![CDATA[\n{SCRIPT.read_text(encoding='utf-8')}]]></script>\n"
        "</svg>\n"
    )


def lay_out(group: Node, least: float) -> Iterator[Box]:
    """Places of the frames that can be seen; a chain of equal frames keeps its two ends."""
    whole = group.a + group.b or 1.0
    waiting = [(group, 0, 0, 0.0)]
    while waiting:
        node, row, depth, x = waiting.pop()
        # The frames of a chain, after its first, that call one frame and do nothing themselves.
        chain, folded = node, 0
        while depth >= FIXED_DEPTH and (only := _only_child(chain)) and _only_child(only):
            chain, folded = only, folded + 1
        yield Box(node, row, x, (node.a + node.b) / whole, folded)
        place = x
        below = []
        for child in chain.children:
            if child.width > least * group.width:
                below.append((child, row + 1, depth + folded + 1, place))
            place += (child.a + child.b) / whole
        waiting.extend(reversed(below))


def _only_child(node: Node) -> Node | None:
    """A frame's one callee where all of its time is spent."""
    if len(node.children) != 1:
        return None
    (child,) = node.children
    return child if (child.a, child.b) == (node.a, node.b) else None


def _element(box: Box, group: Node, labels: tuple[str, str | None], pale: float) -> str:
    """One frame: a rectangle, its name where there is room, and all its numbers to hover."""
    node = box.node
    panel = WIDTH - 2 * MARGIN
    x, width = box.x * panel, max(box.width * panel, 0.1)
    more = f", and {box.folded} more in a row" if box.folded else ""
    full = f"{node.name}{more}\n{_times(node, group, labels)}"
    text = _text(fit(node.name, int((width - 8) / LETTER))) if width >= LEAST_TEXT else ""
    return (
        f'<g class="f {shade(node, labels, pale)}"><title>{_text(full)}</title>'
        f'<rect x="{x:.2f}" y="{box.row * ROW}" width="{width:.2f}" height="{ROW - 1}"/>'
        f'<text x="{x + 4:.2f}" y="{box.row * ROW + 12.5}">{text}</text></g>'
    )


def fit(name: str, letters: int) -> str:
    """As much of a frame's name as there is room for: its file goes first, then C++ namespaces."""
    function = re.sub(r"(?<=.) \([^()]*\)$", "", name)
    last = "::".join(function.split("::")[-2:])
    for shown in (name, function, last):
        if len(shown) <= letters:
            return shown
    return f"{last[: letters - 1]}…"


def shade(node: Node, labels: tuple[str, str | None], pale: float) -> str:
    """The class of a frame's colour: h-5 … h5 for a difference, else by kind."""
    if labels[1] is not None:
        return f"h{round(flame_tree.heat(node.a, node.b, pale) * SHADES)}"
    if re.search(r"(?:\.py|>)\)$", node.name):
        return "python"
    return "h0" if STRUCTURE.match(node.name) else "native"


def _times(node: Node, group: Node, labels: tuple[str, str | None]) -> str:
    """A frame's numbers, as one line of text."""
    of_a = f"{format_seconds(node.a)} ({format_percent(node.a / group.a if group.a else None)})"
    if labels[1] is None:
        return f"{of_a} a step"
    of_b = f"{format_seconds(node.b)} ({format_percent(node.b / group.b if group.b else None)})"
    change = format_difference(node.b - node.a)
    return f"{labels[0]}: {of_a}; {labels[1]}: {of_b}; {change} a step"


def format_difference(seconds: float) -> str:
    """Write a difference with its sign: ``+1.20 ms``."""
    sign = "+" if seconds > 0 else MINUS if seconds < 0 else ""
    return f"{sign}{format_seconds(abs(seconds))}"


def _style(*, differs: bool) -> str:
    """The file's style, light and dark."""

    def scheme(at: int) -> str:
        if differs:
            fills = {
                f"h{step}": mix(
                    COLOURS["even"][at],
                    COLOURS["more" if step > 0 else "less"][at],
                    abs(step) / SHADES,
                )
                for step in range(-SHADES, SHADES + 1)
            }
        else:
            fills = {"h0": COLOURS["even"][at]}
            fills |= {kind: COLOURS[kind][at] for kind in ("python", "native")}
        rules = "".join(
            f".{name}{{fill:{fill}}}.{name} text{{fill:{text_on(fill)}}}"
            for name, fill in fills.items()
        )
        ink, muted, surface = (svg.THEME[name][at] for name in ("ink", "muted", "surface"))
        return (
            f"{rules}.t{{fill:{ink}}}.m{{fill:{muted}}}.s{{fill:{surface}}}"
            f".f:focus rect,.f:hover rect{{stroke:{ink};stroke-width:1.5}}#tools{{color:{ink}}}"
        )

    return (
        f"svg{{font-family:{svg.FONT_STACK};font-size:11.5px}}.t{{font-size:17px;font-weight:600}}"
        ".m{font-size:12.5px}.f{cursor:pointer}.f text{pointer-events:none}.f:focus{outline:none}"
        ".pale{opacity:.3}.gone{display:none}"
        "#tools{font:13px system-ui,sans-serif;display:flex;gap:10px;align-items:center}"
        "#tools *{font:inherit}"
        f"{scheme(0)}@media (prefers-color-scheme:dark){{:root{{color-scheme:dark}}{scheme(1)}}}"
    )


def mix(one: str, other: str, share: float) -> str:
    """The colour that lies at a share of the way from one to the other."""
    pairs = zip(_channels(one), _channels(other), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2)."""
    linear = [
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4  # noqa: PLR2004
        for value in (channel / 255 for channel in _channels(colour))
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def text_on(colour: str) -> str:
    """The text colour with the larger contrast, at least 4.5; flame.js has the same limit."""
    return DARK_TEXT if luminance(colour) > 0.179 else LIGHT_TEXT  # noqa: PLR2004 (see above)


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _text(text: str) -> str:
    """Text for XML: escaped, without characters that XML has not."""
    return html.escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text))


def _wrap(text: str, letters: int) -> list[str]:
    """Lines of at most so many letters, broken between words."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > letters:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
