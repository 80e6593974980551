"""Iterators of one loader that load in different ways, in one process.

Standard library and torch only.
"""

from __future__ import annotations

import contextlib
import copy
from typing import TYPE_CHECKING, Any

from scaling_study.member import batch_getitems, loaders
from scaling_study.member.loader_request import AS_IT_IS, Ask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Sources:
    """What a loader gives, as it is and in other ways, in the epoch that has begun.

    Each way has an iterator of its own, made when it is first asked for. One that is not asked
    rests: its workers have filled their queues.

    Args:
        make: makes the iterator of a loader.
        loader: the script's.
        holds: is told how many batches each loader of another way may hold ready.
    """

    def __init__(
        self,
        make: Callable[..., Iterator[Any]],
        loader: Any,
        holds: Callable[[int], None],
    ) -> None:
        self._make, self._loader, self._holds = make, loader, holds
        self._iterators: dict[Ask, Iterator[Any]] = {}

    def next(self, way: Ask) -> Any:
        """Return the next batch.

        Raises:
            StopIteration: the epoch is over.
        """
        iterator = self._iterators.get(way)
        if iterator is None:
            iterator = self._iterators[way] = self._made(way)
        return next(iterator)

    def again(self, way: Ask) -> None:
        """Begin that way's next epoch, whatever the others'."""
        self._iterators.pop(way, None)

    def _made(self, way: Ask) -> Iterator[Any]:
        if way == AS_IT_IS:
            return self._make(self._loader)
        other = _changed(self._loader, way)
        self._holds(loaders.facts(other)["ready"])
        with batch_getitems.asked(other) if way.whole else contextlib.nullcontext():
            return self._make(other)


def _changed(loader: Any, way: Ask) -> Any:
    """Return a loader of torch's that is like another one, with other workers.

    One that keeps its workers is the same one in every epoch.
    """
    workers = loader.num_workers if way.workers is None else way.workers
    kept: dict[Ask, Any] = loader.__dict__.setdefault("_study_others", {})
    other = kept.get(way) or object.__new__(type(loader))
    own = {
        "num_workers": workers,
        "prefetch_factor": (way.ahead or loader.prefetch_factor or 2) if workers else None,
        "persistent_workers": loader.persistent_workers and workers > 0,
        "timeout": loader.timeout if workers else 0,
        "_iterator": other.__dict__.get("_iterator"),
    }
    if own["persistent_workers"]:
        kept[way] = other
    if not workers:
        # What it opens to read a row is not to be there when other workers are forked.
        own["dataset"] = _copied(loader.dataset)
    # torch refuses to have some of these set, of a loader that has been made.
    other.__dict__.update(loader.__dict__ | own)
    return other


def _copied(dataset: Any) -> Any:
    try:
        return copy.copy(dataset)
    except Exception:  # noqa: BLE001 (the script's own: whatever it raises, there is no copy)
        return dataset
