"""Flamegraphs of one profile, or of the difference between two.

Two profiles are merged into one tree in which every frame has both its times per step. The page
draws it (``workflow/report/flame.js``). Stacks are files for other programs too: folded, as
flamegraph.pl reads them, and for https://speedscope.app.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scaling_study.common.printable import printable
from scaling_study.common.quantities import MINUS, format_count, format_percent, format_seconds
from scaling_study.profiling import stacks
from scaling_study.report import flame_tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scaling_study.profiling.stacks import Folded
    from scaling_study.report.flame_tree import Node

UNITS = 10_000_000
"""Times are whole numbers of this part of the whole: a frame of LEAST_SHARE has 500 of them."""
TABLE_ROWS = 8


@dataclass(frozen=True, slots=True)
class Row:
    """A frame's own time, callees excluded, over all of the trainer's stacks."""

    frame: str
    a_s: float
    b_s: float | None
    difference_s: float | None
    a: str
    b: str
    difference: str


@dataclass(frozen=True, slots=True)
class Flame:
    """What the templates show of a flamegraph.

    Attributes:
        name: unique in the page; letters, digits, ``-`` and ``_``.
        title: one line.
        caption: what it shows and what it leaves out.
        labels: of the first and the second profile; the second is None where there is one only.
        data: JSON for ``<script type="application/json">``, with nothing in it that HTML knows.
        rows: the frames with the largest own times, or the most different ones.
        heads: heads of the table's columns.
    """

    name: str
    title: str
    caption: str
    labels: tuple[str, str | None]
    data: str
    rows: tuple[Row, ...]
    heads: tuple[str, ...]


def to_json(root: Node, *, labels: tuple[str, str | None], pale: float) -> str:
    """The tree as compact JSON: columns, nodes in the order of a walk, names once.

    Keys: ``labels``; ``unit``, in seconds; ``pale``, in units; ``names``; and per node ``name``,
    ``depth``, ``a`` and ``b``, in units.
    """
    whole = max(root.a, root.b)
    unit = whole / UNITS if whole else 1.0
    names: dict[str, int] = {}
    columns: dict[str, list[int]] = {"name": [], "depth": [], "a": [], "b": []}
    waiting = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        columns["name"].append(names.setdefault(node.name, len(names)))
        columns["depth"].append(depth)
        columns["a"].append(round(node.a / unit))
        columns["b"].append(round(node.b / unit))
        waiting.extend((child, depth + 1) for child in reversed(node.children))
    content = {
        "labels": list(labels),
        "unit": unit,
        "pale": round(pale / unit),
        "names": list(names),
        **columns,
    }
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    for character in "<>&":  # "</script>" ends a script wherever it stands
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def to_files(title: str, folded: Folded) -> dict[str, str]:
    """Write the stacks of one profile for other programs.

    Returns:
        Texts by the end of the file's name: folded stacks with microseconds per step, and
        speedscope's format (https://www.speedscope.app/file-format-schema.json).
    """
    frames: dict[str, int] = {}
    samples = [
        [frames.setdefault(frame, len(frames)) for frame in stack.path] for stack in folded.stacks
    ]
    weights = [stack.seconds for stack in folded.stacks]
    scope = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": title,
        "shared": {"frames": [{"name": frame} for frame in frames]},
        "profiles": [
            {
                "type": "sampled", "name": title, "unit": "seconds",
                "startValue": 0, "endValue": sum(weights), "samples": samples, "weights": weights,
            }
        ],
    }  # fmt: skip
    lines = [
        f"{printable(';'.join(frame.replace(';', ':') for frame in stack.path))}"
        f" {1e6 * stack.seconds:.3f}\n"
        for stack in folded.stacks
    ]
    return {".folded": "".join(lines), ".speedscope.json": json.dumps(scope)}


def format_difference(seconds: float) -> str:
    """Write a difference with its sign: ``+1.20 ms``."""
    sign = "+" if seconds > 0 else MINUS if seconds < 0 else ""
    return f"{sign}{format_seconds(abs(seconds))}"


def own_times(a: Folded, b: Folded | None) -> tuple[Row, ...]:
    """Frames by own time of the trainer: the most different ones, or those that take most."""
    times: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for place, folded in enumerate((a, b)):
        for stack in folded.stacks if folded else ():
            if stack.root == stacks.TRAINER:
                times[stack.frames[-1]][place] += stack.seconds

    def size(frame: str) -> tuple[float, str]:
        one, other = times[frame]
        return (-abs(other - one) if b else -one), frame

    return tuple(
        Row(
            frame=frame,
            a_s=times[frame][0],
            b_s=times[frame][1] if b else None,
            difference_s=times[frame][1] - times[frame][0] if b else None,
            a=format_seconds(times[frame][0]),
            b=format_seconds(times[frame][1]) if b else "",
            difference=format_difference(times[frame][1] - times[frame][0]) if b else "",
        )
        for frame in sorted(times, key=size)[:TABLE_ROWS]
    )


def view(name: str, title: str, a: Folded, b: Folded | None = None) -> Flame:
    """Make what the report shows of one profile, or of the difference between two.

    Args:
        name: unique in the page; letters, digits, ``-`` and ``_``.
        title: one line.
        a: the profile, or the one that the other is compared with.
        b: what is red where it costs more.
    """
    root, hidden = flame_tree.merge(a, b)
    labels = (a.label or "first", (b.label or "second") if b else None)
    return Flame(
        name=name,
        title=title,
        caption=_caption(a, b, labels, hidden),
        labels=labels,
        data=to_json(root, labels=labels, pale=flame_tree.pale_seconds(a, b)),
        rows=own_times(a, b),
        heads=("frame", *(label for label in labels if label), *(("difference",) if b else ())),
    )


ENOUGH_SAMPLES = 300
"""With so many a frame of a tenth of the time may have 7 to 14% of it; with 35, 4 to 24%."""
COARSE_SHARE = 0.10
NORMAL = 1.96
"""Two-sided 95% quantile of the normal distribution."""


def say_coarse(samples: int) -> str:
    """How far off a frame of a tenth of the time may be with so few samples; empty with enough.

    The interval is Wilson's (1927, Journal of the American Statistical Association 22:209).
    """
    if samples >= ENOUGH_SAMPLES:
        return ""
    square = NORMAL**2 / max(1, samples)
    center = COARSE_SHARE + square / 2
    reach = (square * (COARSE_SHARE * (1 - COARSE_SHARE) + square / 4)) ** 0.5
    low, high = ((center + side * reach) / (1 + square) for side in (-1, 1))
    return (
        f" Coarse: with {format_count(samples, 'sample')} a frame that shows "
        f"{COARSE_SHARE:.0%} of the time may have {low:.0%} to {high:.0%} of it."
    )


def _caption(a: Folded, b: Folded | None, labels: Sequence[str | None], hidden: float) -> str:
    """Say how many samples there are, and what weakens or limits what is seen."""
    parts = [
        f"{label}: {format_count(folded.samples, 'sample')}, a step "
        f"{format_seconds(folded.sampled_step_s)} ({format_seconds(folded.step_s)} unsampled)"
        for label, folded in zip(labels, (a, b), strict=True)
        if folded
    ]
    text = f"{'; '.join(parts)}." + say_coarse(min(one.samples for one in (a, b) if one))
    kernels = {kernel for one in (a, b) if one and (kernel := stacks.blas_kernel(one))}
    if kernels:
        text += f" Matrices were multiplied by {' and '.join(sorted(kernels))}."
    if not all(one.native for one in (a, b) if one):
        text += " Frames of libraries are missing: the sampler could not unwind them."
    if hidden:
        text += f" Frames too narrow to be seen are left out: {format_percent(hidden)} of the time."
    return text
