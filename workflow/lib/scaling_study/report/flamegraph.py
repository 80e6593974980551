"""Flamegraphs of one profile or of the difference between two, and the choice for a report.

Two profiles are merged into one tree in which every frame has both its times per step. The page
draws it (``workflow/report/flame.js``). Stacks are also written for other programs: folded, as
flamegraph.pl reads them, and for https://speedscope.app.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from jinja2.utils import htmlsafe_json_dumps

from scaling_study.analysis.inflation import name_pair
from scaling_study.common.printable import printable
from scaling_study.common.quantities import format_count, format_seconds
from scaling_study.profiling import stacks
from scaling_study.profiling.profiles import choose_pairs
from scaling_study.profiling.stacks import Folded
from scaling_study.records.analysis import Point, name_sides
from scaling_study.records.profile import Profiled
from scaling_study.report.words import processes

LEAST_SHARE = 1 / 20_000
"""Narrower frames are left out: a tenth of a pixel of a screen, a pixel when zoomed in tenfold."""
PALE_SAMPLES = 4
"""A frame of so few samples stays pale, since chance alone can make it differ."""
UNITS = 10_000_000
"""Units of time in the whole graph; a frame of LEAST_SHARE has 500 of them."""
TABLE_ROWS = 6
PHASES = ("forward", "backward", "optimizer", "load", "other")
FIRST = (
    *(stacks.TRAINER, stacks.WORKERS, stacks.THREADS, stacks.IDLE),
    *(f"phase: {phase}" for phase in PHASES),
)
"""Groups of threads and phases come in this order; frames by width."""
ENOUGH_SAMPLES = 300
"""With so many, a tenth of the samples stands for 7 to 14% of the time; with 35, for 4 to 24%."""
COARSE_SHARE = 0.10
NORMAL = 1.96
"""Two-sided 95% quantile of the normal distribution."""


@dataclass(slots=True, eq=False)
class FlameNode:
    """A frame below its callers.

    Attributes:
        name: the frame's text.
        times: in the first and in the second profile (s per step), callees included.
        children: its callees by name.
    """

    name: str
    times: list[float] = field(default_factory=lambda: [0.0, 0.0])
    children: dict[str, "FlameNode"] = field(default_factory=dict)

    @property
    def width(self) -> float:
        """The larger of both times, which decides whether the frame can be seen."""
        return max(self.times)


class Flame:
    """A flamegraph of one profile or of the difference between two, as templates show it.

    Args:
        name: unique in the page; letters, digits, ``-`` and ``_``.
        title: one line.
        profiles: one or two; frames are red where the second takes longer than the first.
        labels: names of the profiles below the title; their own labels by default.

    Attributes:
        caption: what it shows and what it leaves out.
        data: JSON for ``<script type="application/json">``, without characters special to HTML.
        rows: the frames with the largest own times, or the most different ones, with their times
            in both profiles (s per step), callees excluded.
    """

    def __init__(
        self, name: str, title: str, *profiles: Folded, labels: Sequence[str] = ()
    ) -> None:
        self.name, self.title = name, title
        self.labels = labels or [folded.label for folded in profiles]
        self.caption = _caption(profiles, self.labels)
        # A difference that is small compared with this time stays pale (``heat`` in flame.js).
        pale_s = PALE_SAMPLES * sum(folded.sample_s for folded in profiles)
        self.data = to_json(merge(profiles), labels=self.labels, pale=pale_s)
        self.rows = own_times(profiles)


def merge(profiles: Sequence[Folded]) -> FlameNode:
    """Merge profiles into one tree; return its root, whose children are the groups of threads."""
    root = FlameNode("all")
    for place, folded in enumerate(profiles):
        for stack, seconds in folded.stacks.items():
            node = root
            node.times[place] += seconds
            for name in stack:
                node = node.children.setdefault(name, FlameNode(name))
                node.times[place] += seconds
    return root


def walk(root: FlameNode) -> Iterator[tuple[FlameNode, int]]:
    """Yield the frames that can be seen with their depths, callers before callees.

    Groups and phases come in their usual order, frames by time. Each group of threads is shown
    alone, so a frame is too narrow by its share of the group; its time stays with its caller.
    """
    waiting = [(root, 0, 0.0)]
    while waiting:
        node, depth, least_s = waiting.pop()
        yield node, depth
        for child in sorted(node.children.values(), key=_order, reverse=True):
            narrow_s = least_s if depth else LEAST_SHARE * child.width
            if child.width > narrow_s:
                waiting.append((child, depth + 1, narrow_s))


def _order(node: FlameNode) -> tuple[int, float, str]:
    """Return the sort key of a frame among the callees of its caller."""
    place = FIRST.index(node.name) if node.name in FIRST else len(FIRST)
    return place, -sum(node.times), node.name


def to_json(root: FlameNode, *, labels: Sequence[str], pale: float) -> str:
    """Write the tree as compact JSON: columns, nodes in the order of a walk, names once.

    Keys: ``labels``; ``unit``, in seconds; ``pale``, in units; ``names``; and per node ``name``,
    ``depth``, ``a`` and ``b``, in units.
    """
    unit = (root.width or UNITS) / UNITS
    names: dict[str, int] = {}
    columns: dict[str, list[int]] = {"name": [], "depth": [], "a": [], "b": []}
    for node, depth in walk(root):
        columns["name"].append(names.setdefault(node.name, len(names)))
        columns["depth"].append(depth)
        for column, seconds in zip("ab", node.times, strict=True):
            columns[column].append(round(seconds / unit))
    content = {
        "labels": labels, "unit": unit, "pale": round(pale / unit), "names": [*names], **columns
    }  # fmt: skip
    return htmlsafe_json_dumps(content, separators=(",", ":"), allow_nan=False)


def to_files(title: str, folded: Folded) -> dict[str, str]:
    """Write the stacks of one profile for other programs.

    Returns:
        Texts by the end of the file's name: folded stacks with microseconds per step, and
        speedscope's format (https://www.speedscope.app/file-format-schema.json).
    """
    frames: dict[str, int] = {}
    samples = [
        [frames.setdefault(frame, len(frames)) for frame in stack] for stack in folded.stacks
    ]
    weights = [*folded.stacks.values()]
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
        f"{printable(';'.join(frame.replace(';', ':') for frame in stack))} {1e6 * seconds:.3f}\n"
        for stack, seconds in folded.stacks.items()
    ]
    return {".folded": "".join(lines), ".speedscope.json": json.dumps(scope)}


def own_times(profiles: Sequence[Folded]) -> list[tuple[str, float, float]]:
    """Return frames by own time of the trainer: those that differ most, or that take most."""
    times: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for place, folded in enumerate(profiles):
        for stack, seconds in folded.stacks.items():
            if stack[0] == stacks.TRAINER:
                times[stack[-1]][place] += seconds
    rows = [(frame, a_s, b_s) for frame, (a_s, b_s) in times.items()]
    rows.sort(key=lambda row: (-abs(row[2] - row[1]), row[0]))
    return rows[:TABLE_ROWS]


def say_coarse(samples: int) -> str:
    """Say how inexact a tenth of the time is with so few samples; empty with enough samples.

    The interval is Wilson's (1927, Journal of the American Statistical Association 22:209).
    """
    if samples >= ENOUGH_SAMPLES:
        return ""
    square = NORMAL**2 / max(1, samples)
    center = COARSE_SHARE + square / 2
    reach = (square * (COARSE_SHARE * (1 - COARSE_SHARE) + square / 4)) ** 0.5
    low, high = ((center + side * reach) / (1 + square) for side in (-1, 1))
    return (
        f" Coarse: with {format_count(samples, 'sample')}, {COARSE_SHARE:.0%} of the time may be "
        f"{low:.0%} to {high:.0%}."
    )


def _caption(profiles: Sequence[Folded], labels: Sequence[str]) -> str:
    """Write the numbers of samples, and what limits the flamegraph."""
    parts = [
        f"{label}: {format_count(folded.samples, 'sample')}, a step "
        f"{format_seconds(folded.sampled_step_s)} ({format_seconds(folded.step_s)} unsampled)"
        for label, folded in zip(labels, profiles, strict=True)
    ]
    text = f"{'; '.join(parts)}." + say_coarse(min(folded.samples for folded in profiles))
    if not all(folded.native for folded in profiles):
        text += " Frames of libraries are missing: the sampler could not unwind them."
    return text


class _StackPoint(Point, frozen=True, kw_only=True):
    """A profiled point with its stacks; ``key`` is its part of the names of files."""

    key: str
    folded: Folded


class Flames:
    """The flamegraphs of one machine.

    Args:
        manifests: those of ``profiles.read_manifests``.
        suffix: suffix of the figures' names, ``""`` for the first machine.

    Attributes:
        shown: those in the page: comparisons, and the points of launches that have only one.
        files: texts of files by name: the stacks of all points.
        notes: stacks that could not be read, as sentences.
    """

    def __init__(self, manifests: Sequence[Profiled], *, suffix: str = "") -> None:
        self.shown: list[Flame] = []
        self.files: dict[str, str] = {}
        points, self.notes = _read_points(manifests)
        for kind, a, b in choose_pairs(manifests, points):
            name, title = _name(f"{a.key}-against-{b.key}", suffix), name_pair(kind, a, b)
            labels = name_sides(kind, a, b)
            self.shown.append(Flame(name, title, a.folded, b.folded, labels=labels))
        for by_count in points.values():
            for point in by_count.values():
                name, title = _name(point.key, suffix), f"{point.label}, {processes(point.n)}"
                for end, text in to_files(title, point.folded).items():
                    self.files[f"stacks-{name}{end}"] = text
                if len(by_count) == 1:
                    self.shown.append(Flame(name, title, point.folded))


class PointError(Exception):
    """No such point was profiled; the message lists those that were."""


def view_points(manifests: Sequence[Profiled], point: str, other: str | None = None) -> Flame:
    """Show the stacks of any profiled point, or the difference between two.

    Args:
        manifests: those of ``profiles.read_manifests``.
        point: its target and process count, such as ``recommended/64``.
        other: a point to compare with it.

    Raises:
        PointError: there are no stacks of a point.
    """
    points, notes = _read_points(manifests)
    known = {
        f"{manifest.target}/{n}": entry
        for manifest in manifests
        for n, entry in points.get(manifest.launch or "", {}).items()
    }
    names = [point] if other is None else [point, other]
    for name in names:
        if name not in known:
            allowed = ", ".join(known) or "none"
            raise PointError(" ".join([f"no stacks of {name}; there are: {allowed}", *notes]))
    titles = [f"{known[name].label}, {processes(known[name].n)}" for name in names]
    return Flame("points", " against ".join(titles), *(known[name].folded for name in names))


def _read_points(
    manifests: Sequence[Profiled],
) -> tuple[dict[str, dict[int, _StackPoint]], list[str]]:
    """Read the stacks of every launch and process count, with a note on each unreadable one."""
    points: dict[str, dict[int, _StackPoint]] = {}
    notes = []
    for manifest in manifests:
        for point in manifest.points:
            profile, n, launch = point.profile("stacks"), point.n, manifest.launch or ""
            if profile is None or n in points.get(launch, {}):
                continue
            try:
                folded = stacks.read_point(
                    manifest.place(n),
                    profile.turns,
                    step_s=profile.unprofiled_step_s or point.unprofiled_step_s or 0.0,
                    label=f"{manifest.label}, n = {n}",
                )
            except (OSError, stacks.StackError) as error:
                notes.append(f"No flamegraph of {manifest.label}, n = {n}: {error}.")
                continue
            key, label = f"{manifest.target}-{n}", manifest.label or ""
            points.setdefault(launch, {})[n] = _StackPoint(key=key, label=label, n=n, folded=folded)
    return points, notes


def _name(key: str, suffix: str) -> str:
    """Return a name for a figure and for files."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", f"{key}{suffix}")
