"""How long a step would take with another loader, from parts that were measured.

Without workers the training thread makes each batch itself, before it trains on it. With some, a
step takes what the slowest of three takes: the loader, as alone; training, with what a batch that
is being made takes from it; or all of their CPU time, on the CPUs that there are. Each is a bound,
and the longest one is the prediction, as in a roofline (Williams et al. 2009, CACM 52(4)).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


TITLES = {
    "as_is": "as it is",
    "cached": "batches from memory, no loader",
    "beside": "batches from memory, the loader goes on beside",
    "only": "the loader alone, nobody trains",
    "warm": "as it is, its files in memory",
    "cold": "as it is, its files not in memory",
}
"""The variants by name, in the order in which they are shown."""

NEIGHBOURS = {
    "neighbour_threads": "threads in the process",
    "neighbour_elsewhere": "threads in a process beside",
    "neighbour_processes": "processes beside",
}
"""Variants of training from memory beside work that does what loaders do."""

WORKERS = (0, 1, 2, 4)
"""Numbers of loader workers that are looked at, up to one more than a process has CPUs."""
FURTHER_AHEAD = 4
"""So many times the batches that a worker prepares ahead."""


@dataclass(frozen=True, slots=True)
class Way:
    """A way to load batches.

    Attributes:
        name: after the variants' own; empty for the script as it is.
        title: for a person.
        workers: of the loader.
        axes: of the launch that are other ones.
        change: the change inside members that it needs.
        as_fast: whether the loader alone is as fast as it is now.
    """

    name: str
    title: str
    workers: int
    axes: Mapping[str, Any] = field(default_factory=dict)
    change: str | None = None
    as_fast: bool = False

    @property
    def alone(self) -> str:
        """The name of the variant in which the loader is alone."""
        return "only" if self.as_fast else f"only@{self.name}"

    @property
    def trains(self) -> str:
        """The name of the variant in which the script trains."""
        return f"as_is@{self.name}" if self.name else "as_is"


def now(loader: Mapping[str, Any]) -> Way:
    """Return the way in which the script loads as it is.

    Args:
        loader: what a member reports of it (see ``loaders``).
    """
    return Way("", TITLES["as_is"], loader["workers"], as_fast=True)


def ways(loader: Mapping[str, Any], cpus: float) -> list[Way]:
    """Return other ways to load.

    Args:
        loader: what a member reports of it; the number of its workers can be set.
        cpus: that a process has.
    """
    workers = loader["workers"]
    found = [
        Way(f"workers-{each}", f"{each} worker{'s' * (each != 1)}", each, {"loader_workers": each})
        for each in WORKERS
        if each <= cpus + 1 and each != workers
    ]
    if loader["by_row"]:
        found.append(
            Way("whole", "all rows of a batch read at once", workers, change="whole_batches")
        )
    if workers:
        ahead = FURTHER_AHEAD * loader["ready"] // workers
        title = f"{ahead} batches of each worker ahead"
        found.append(Way("ahead", title, workers, {"prefetch": ahead}, as_fast=True))
    return found


def predicted_s(
    way: Way,
    cpus: float,
    step_s: Callable[[str], float | None],
    cpu_s: Callable[[str], float | None],
) -> float | None:
    """Return what a step should take; None where a part of it is not known.

    Args:
        way: how batches are loaded.
        cpus: that a process has.
        step_s: what a step of a variant takes, by its name.
        cpu_s: CPU time of a step, likewise.
    """
    training_s, loader_s = step_s("cached"), step_s(way.alone)
    if training_s is None or loader_s is None:
        return None
    if not way.workers:
        return training_s + loader_s
    beside_s = step_s("beside") or training_s  # without workers now, nothing is known of it
    both_s = (cpu_s("cached") or 0.0) + (cpu_s(way.alone) or 0.0)
    return max(loader_s, beside_s, both_s / cpus)
