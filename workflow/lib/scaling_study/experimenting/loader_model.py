"""How long a step would take with another number of loader workers, from parts that were measured.

Without workers the training thread makes each batch itself, before it trains on it. With some, a
step takes what the slowest of three takes: the loader, as alone; training, with what a batch that
is being made takes from it; or all of their CPU time, on the CPUs that there are. Each is a bound,
and the longest one is the prediction, as in a roofline (Williams et al. 2009, CACM 52(4)).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


TITLES = {
    "as_is": "as it is",
    "cached": "batches from memory, no loader",
    "beside": "batches from memory, the loader goes on beside",
    "only": "the loader alone, nobody trains",
    "warm": "as it is, its files in memory",
    "cold": "as it is, its files not in memory",
}
"""The variants by name, in the order in which they are shown."""


def alone_name(workers: int, now: int) -> str:
    """Return the name of the variant in which the loader is alone, with so many workers."""
    return "only" if workers == now else f"only@{workers}"


def as_is_name(workers: int, now: int) -> str:
    """Return the name of the variant in which the script trains, with so many workers."""
    return "as_is" if workers == now else f"as_is@{workers}"


def predicted_s(
    workers: int,
    now: int,
    cpus: float,
    step_s: Callable[[str], float | None],
    cpu_s: Callable[[str], float | None],
) -> float | None:
    """Return what a step should take; None where a part of it is not known.

    Args:
        workers: of the loader.
        now: as the script has them.
        cpus: that a process has.
        step_s: what a step of a variant takes, by its name.
        cpu_s: CPU time of a step, likewise.
    """
    name = alone_name(workers, now)
    training_s, loader_s = step_s("cached"), step_s(name)
    if training_s is None or loader_s is None:
        return None
    if not workers:
        return training_s + loader_s
    beside_s = step_s("beside") or training_s  # without workers now, nothing is known of it
    both_s = (cpu_s("cached") or 0.0) + (cpu_s(name) or 0.0)
    return max(loader_s, beside_s, both_s / cpus)
