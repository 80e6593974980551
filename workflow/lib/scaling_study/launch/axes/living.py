"""Live objects of a kind in this process, from which axes read which value holds."""

from __future__ import annotations

import gc
from typing import NamedTuple, TypeVar

T = TypeVar("T")
V = TypeVar("V", int, str)


def living(kind: type[T]) -> list[T]:
    """Return all objects of a class and its subclasses, also those that no collection looks at."""
    frozen = gc.get_freeze_count() > 0
    if frozen:
        gc.unfreeze()
    # isinstance would ask objects of any kind for their __class__, which may do anything.
    found = [one for one in gc.get_objects() if issubclass(type(one), kind)]
    if frozen:
        gc.freeze()
    return found


class Loading(NamedTuple):
    """How a DataLoader of torch's prepares batches."""

    num_workers: int
    prefetch_factor: int | None
    persistent_workers: bool


def loaders() -> set[Loading]:
    """Return the settings of all live loaders and iterators: a loop may hold the iterator alone."""
    from torch.utils.data import DataLoader
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    known = {
        Loading(one.num_workers, one.prefetch_factor, one.persistent_workers)
        for one in living(DataLoader)
    }
    # One without workers prepares nothing ahead.
    return known | {
        Loading(
            one._num_workers,  # noqa: SLF001 (torch tells it nowhere else)
            getattr(one, "_prefetch_factor", None),
            getattr(one, "_persistent_workers", False),
        )
        for one in living(_BaseDataLoaderIter)
    }


def the_one(values: set[V], without: str) -> V | str:
    """Return the one value; several as one text; ``without`` if there is none."""
    if len(values) == 1:
        return next(iter(values))
    return ", ".join(map(str, sorted(values))) or without
