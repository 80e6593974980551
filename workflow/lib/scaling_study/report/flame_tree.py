"""The tree of a flamegraph: stacks of one or two profiles, merged by their callers."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scaling_study.profiling import stacks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scaling_study.profiling.stacks import Folded

Path = tuple[str, ...]
Times = tuple[float, float]

LEAST_SHARE = 1 / 20_000
"""Narrower frames are left out: a tenth of a pixel of a screen, a pixel when zoomed in tenfold."""
MOST_NODES = 60_000
"""Frames in a page's flamegraph: about 1.3 MB. The widest are kept."""
PALE_SAMPLES = 4
"""A frame of so few samples stays pale however different: chance alone would give that."""


@dataclass(slots=True)
class Node:
    """A frame below its callers.

    Attributes:
        name: the frame's text.
        a: its time in the first profile, in seconds per step, callees included.
        b: the same in the second; 0 where there is none.
        children: its callees, the widest first.
    """

    name: str
    a: float = 0.0
    b: float = 0.0
    children: list[Node] = field(default_factory=list)

    @property
    def width(self) -> float:
        """The larger of both times: what decides whether the frame can be seen."""
        return max(self.a, self.b)


def merge(a: Folded, b: Folded | None = None) -> tuple[Node, float]:
    """Merge profiles into one tree.

    Returns:
        The root, whose children are the trainer, other threads and so on; and the share of all
        time in frames that are too narrow to be seen, which stays with their callers.
    """
    times: dict[Path, Times] = {}
    for stack in a.stacks:
        before = times.get(stack.path, (0.0, 0.0))
        times[stack.path] = (before[0] + stack.seconds, 0.0)
    for stack in b.stacks if b else ():
        before = times.get(stack.path, (0.0, 0.0))
        times[stack.path] = (before[0], before[1] + stack.seconds)
    root, hidden = _grow(times)
    least = least_share(root, MOST_NODES)
    if least > LEAST_SHARE:
        hidden += _prune(root, least)
    total = root.a + root.b
    return root, hidden / total if total else 0.0


def _grow(times: Mapping[Path, Times]) -> tuple[Node, float]:
    """A tree of all paths without what is too narrow, and the time of that in both profiles.

    In the paths' order a frame is complete as soon as another one follows: only one path is held
    at any time, however many there are.
    """
    groups: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for path, (a, b) in times.items():
        groups[path[0]][0] += a
        groups[path[0]][1] += b
    least = {name: LEAST_SHARE * max(both) for name, both in groups.items()}
    root = Node("all")
    open_nodes = [root]
    lost = [0.0]  # in frames left out below each open one

    def close(length: int) -> None:
        while len(open_nodes) > length:
            node, below = open_nodes.pop(), lost.pop()
            caller = open_nodes[-1]
            caller.a += node.a
            caller.b += node.b
            group = node.name if len(open_nodes) == 1 else open_nodes[1].name
            if node.width > least[group]:
                node.children.sort(key=_order)
                caller.children.append(node)
                lost[-1] += below
            else:
                lost[-1] += node.a + node.b

    before: Path = ()
    for path in sorted(times):
        same = 0
        for one, other in zip(before, path, strict=False):
            if one != other:
                break
            same += 1
        close(same + 1)
        for name in path[same:]:
            open_nodes.append(Node(name))
            lost.append(0.0)
        open_nodes[-1].a, open_nodes[-1].b = times[path]
        before = path
    close(1)
    root.children.sort(key=_order)
    return root, lost[0]


def least_share(root: Node, most: int) -> float:
    """The share of its group's width up to which a frame is left out, to keep about so many.

    A group is a child of the root: each is shown alone.
    """
    shares = [
        node.width / group.width for group in root.children if group.width for node in walk(group)
    ]
    if len(shares) <= most:
        return LEAST_SHARE
    return max(LEAST_SHARE, sorted(shares, reverse=True)[most])


def _prune(root: Node, least: float) -> float:
    """Drop frames up to a share of their group's width; return their time in both profiles."""
    hidden = 0.0
    for group in root.children:
        for node in walk(group):
            narrow = [child for child in node.children if child.width <= least * group.width]
            if narrow:
                hidden += sum(child.a + child.b for child in narrow)
                node.children = [
                    child for child in node.children if child.width > least * group.width
                ]
    return hidden


_PHASES = ("forward", "backward", "optimizer", "load", "other")
_FIRST = {
    name: place
    for place, name in enumerate(
        (
            *(stacks.TRAINER, stacks.WORKERS, stacks.THREADS, stacks.IDLE),
            *(f"phase: {phase}" for phase in _PHASES),
        )
    )
}


def _order(node: Node) -> tuple[int, float, str]:
    """Groups and phases in their usual order, frames by width."""
    return _FIRST.get(node.name, len(_FIRST)), -node.a - node.b, node.name


def walk(root: Node) -> Iterator[Node]:
    """A node and all below it, each before its children; children may change meanwhile."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(node.children))


def pale_seconds(a: Folded, b: Folded | None) -> float:
    """The time beside which a difference counts as small (``heat`` in flame.js)."""
    return PALE_SAMPLES * (a.sample_s + (b.sample_s if b else 0.0))
