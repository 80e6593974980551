"""Processes that a loader prepares its batches in."""

from __future__ import annotations

from typing import Any

from scaling_study.axes.axis import Axis
from scaling_study.axes.living import living, the_one
from scaling_study.axes.values import counts


def apply(value: int) -> None:
    """Set their number for every torch DataLoader.

    More than one would give batches of an iterable dataset several times, unless it shards itself:
    such a loader is left as it is where nothing in the dataset's class asks for its worker.
    """
    import inspect
    import sys

    from torch.utils.data import IterableDataset

    from scaling_study.member.loader_arguments import change_arguments

    def shards(dataset: object) -> bool:
        if not isinstance(dataset, IterableDataset):
            return True
        module = sys.modules.get(type(dataset).__module__)
        try:
            return "get_worker_info" in inspect.getsource(module or type(dataset))
        except (OSError, TypeError):  # typed in, or compiled
            return False

    def change(given: dict[str, Any]) -> None:
        if value in {0, 1} or given.get("worker_init_fn") or shards(given["dataset"]):
            given["num_workers"] = value
            if value == 0:
                for name in ("prefetch_factor", "persistent_workers", "multiprocessing_context"):
                    given.pop(name, None)
                given["timeout"] = 0

    change_arguments(change)


def observe() -> int | str:
    """Return the number of all loaders that live."""
    from torch.utils.data import DataLoader

    found = {one.num_workers for one in living(DataLoader)}
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
