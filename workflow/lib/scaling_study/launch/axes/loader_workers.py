"""Processes that a loader prepares its batches in."""

from __future__ import annotations

from scaling_study.launch.axes.axis import Axis
from scaling_study.launch.axes.living import loaders, the_one
from scaling_study.launch.axes.values import counts


def apply(value: int) -> None:
    """Set their number for every torch DataLoader.

    A loader that would give batches several times is left as it is.
    """
    from scaling_study.member.after_torch import change_arguments, shares_out

    def change(given: dict[str, object]) -> None:
        if value in {0, 1} or shares_out(given["dataset"], given.get("worker_init_fn")):
            given["num_workers"] = value
            if value == 0:
                for name in ("prefetch_factor", "persistent_workers", "multiprocessing_context"):
                    given.pop(name, None)
                given["timeout"] = 0

    change_arguments(change)


def observe() -> int | str:
    """Return the number of all loaders that live."""
    found: set[int] = {one.num_workers for one in loaders()}
    return the_one(found, "no torch DataLoader lives")


AXIS = Axis(
    "processes that a torch DataLoader prepares its batches in",
    {"script": "as the script says"},
    counts(0),
    order=200,
    apply=apply,
    lines="loader = DataLoader(..., num_workers={})".format,
    observe=observe,
)
