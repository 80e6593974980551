"""Which flamegraphs a report has, and the stacks of every profiled point as files."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scaling_study.common.quantities import format_count
from scaling_study.profiling import stacks
from scaling_study.profiling.profiles import RECOMMENDED, choose_pairs
from scaling_study.report import flamegraph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scaling_study.profiling.stacks import Folded
    from scaling_study.records.profile import Profiled
    from scaling_study.report.flamegraph import Flame


@dataclass(frozen=True, slots=True)
class Flames:
    """The flamegraphs of one machine.

    Attributes:
        shown: in the page: the comparisons, and the points of launches that have only one.
        files: texts of files by name: the stacks of all points.
        kernels: what was profiled, and the BLAS kernel that its stacks name.
        notes: stacks that could not be read, as sentences.
    """

    shown: list[Flame] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    kernels: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Point:
    """A profiled point with its stacks; ``key`` is its part of the names of files."""

    key: str
    label: str
    n: int
    folded: Folded


def view_flames(manifests: Sequence[Profiled], *, suffix: str = "") -> Flames:
    """Draw the stacks of one machine's profiles.

    Args:
        manifests: of ``profiles.read_manifests``.
        suffix: of the figures' names, ``""`` for the first machine.
    """
    flames = Flames()
    points = _read_points(manifests, flames.notes)
    for own in points.values():
        for point in own.values():
            name, title = _name(point.key, suffix), f"{point.label}, {_processes(point.n)}"
            for end, text in flamegraph.to_files(title, point.folded).items():
                flames.files[f"stacks-{name}{end}"] = text
            if len(own) == 1:
                flames.shown.append(flamegraph.view(name, title, point.folded))
            kernel = stacks.blas_kernel(point.folded)
            if kernel is not None:
                flames.kernels.append((title, kernel))
    compared = []
    for kind, a, b in choose_pairs(manifests, points):
        title = f"{a.label} against {b.label}, with {_processes(b.n)}"
        labels = ("default", "recommended")
        if kind == "counts":
            title = f"{a.label}: {a.n} against {_processes(b.n)}"
            labels = (f"n = {a.n}", f"n = {b.n}")
        name = _name(f"{a.key}-against-{b.key}", suffix)
        compared.append(flamegraph.view(name, title, a.folded, b.folded, labels))
    flames.shown[:0] = compared
    return flames


class PointError(Exception):
    """No such point was profiled; the message has those that were."""


def view_points(manifests: Sequence[Profiled], point: str, other: str | None = None) -> Flame:
    """Show the stacks of any profiled point, or the difference between two.

    Args:
        manifests: of ``profiles.read_manifests``.
        point: its target and process count, such as ``recommended/64``.
        other: a point to compare with it.

    Raises:
        PointError: there are no stacks of a point.
    """
    notes: list[str] = []
    points = _read_points(manifests, notes)
    known = {
        f"{manifest.target}/{n}": found
        for manifest in manifests
        for n, found in points.get(manifest.launch or "", {}).items()
    }
    asked = [point] if other is None else [point, other]
    for name in asked:
        if name not in known:
            allowed = ", ".join(known) or "none"
            raise PointError(" ".join([f"no stacks of {name}; there are: {allowed}", *notes]))
    titles = [f"{known[name].label}, {_processes(known[name].n)}" for name in asked]
    second = known[other].folded if other is not None else None
    return flamegraph.view("points", " against ".join(titles), known[point].folded, second)


def _read_points(manifests: Sequence[Profiled], notes: list[str]) -> dict[str, dict[int, _Point]]:
    """Read the stacks of every launch and process count; say which could not be read."""
    points: dict[str, dict[int, _Point]] = {}
    for manifest in manifests:
        for point in manifest.points:
            profile, n, launch = point.profile("stacks"), point.n, manifest.launch or ""
            if profile is None or n in points.get(launch, {}):
                continue
            try:
                folded = stacks.read_point(
                    manifest.place(n),
                    profile,
                    step_s=profile.unprofiled_step_s or point.unprofiled_step_s or 0.0,
                    label=f"{manifest.label}, n = {n}",
                )
            except (OSError, stacks.StackError) as error:
                notes.append(f"No flamegraph of {manifest.label}, n = {n}: {error}.")
                continue
            name = RECOMMENDED if manifest.target == RECOMMENDED else launch
            found = _Point(f"{name}-{n}", manifest.label or "", n, folded)
            points.setdefault(launch, {})[n] = found
    return points


def _name(key: str, suffix: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", f"{key}{suffix}")


def _processes(n: int) -> str:
    return format_count(n, "process", "processes")
