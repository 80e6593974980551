"""Processes that a loader prepares its batches in."""

from __future__ import annotations

from scaling_study.axes.axis import Axis, Others
from scaling_study.axes.living import living
from scaling_study.axes.values import MOST_THREADS
from scaling_study.common.problems import wrong


def apply(value: int) -> None:
    """Set their number for every torch DataLoader.

    More than one would give batches of an iterable dataset several times, unless it shards itself:
    such a loader is left as it is where nothing in the dataset's class asks for its worker.
    """
    import functools
    import inspect
    import sys

    from torch.utils.data import DataLoader, IterableDataset

    make = DataLoader.__init__
    signature = inspect.signature(make)

    def shards(dataset: object) -> bool:
        if not isinstance(dataset, IterableDataset):
            return True
        module = sys.modules.get(type(dataset).__module__)
        try:
            return "get_worker_info" in inspect.getsource(module or type(dataset))
        except (OSError, TypeError):  # typed in, or compiled
            return False

    @functools.wraps(make)
    def init(*args: object, **kwargs: object) -> None:
        given = signature.bind(*args, **kwargs).arguments
        if value in {0, 1} or given.get("worker_init_fn") or shards(given["dataset"]):
            given["num_workers"] = value
            if value == 0:
                for name in ("prefetch_factor", "persistent_workers", "multiprocessing_context"):
                    given.pop(name, None)
                given["timeout"] = 0
        make(**given)

    DataLoader.__init__ = init


def observe() -> int | str:
    """Return the number of all loaders that live."""
    from torch.utils.data import DataLoader

    found = {one.num_workers for one in living(DataLoader)}
    if not found:
        return "no torch DataLoader lives"
    return found.pop() if len(found) == 1 else ", ".join(map(str, sorted(found)))


def _read(value: object, _files: bool) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    if not 0 <= value <= MOST_THREADS:
        raise wrong(value, "is not allowed", WORKERS.allowed)
    return value


WORKERS = Others(f"a whole number from 0 to {MOST_THREADS}", _read)

AXIS = Axis(
    "processes that a torch DataLoader prepares its batches in",
    {"script": "as the script says"},
    WORKERS,
    order=200,
    apply=apply,
    lines="loader = DataLoader(..., num_workers={})".format,
    observe=observe,
)
