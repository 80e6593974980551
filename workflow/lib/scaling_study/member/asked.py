"""How a loader that is switched is asked to load: what the coordinator tells, as one number.

Standard library and torch only.
"""

from __future__ import annotations

import contextlib
import copy
from typing import TYPE_CHECKING, Any, NamedTuple

from scaling_study.member import whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# What the script gets: new batches, ones from memory, those in the place of new ones; or nothing,
# while batches are taken as fast as they come.
NEW, FROM_MEMORY, SWAPPED, NOTHING = range(4)

_BITS = 16
_MASK = (1 << _BITS) - 1


class Ask(NamedTuple):
    """What is asked for.

    Attributes:
        gives: one of NEW, FROM_MEMORY, SWAPPED and NOTHING.
        workers: of the loader; None as it is.
        ahead: batches that each of them prepares ahead; None as it is.
        whole: whether all rows of a batch are read at once.
    """

    gives: int = NEW
    workers: int | None = None
    ahead: int | None = None
    whole: bool = False

    @property
    def code(self) -> int:
        """A number that holds all of it; 0 for new batches of the loader as it is."""
        fields = (self.gives, _optional(self.workers), _optional(self.ahead), int(self.whole))
        return sum(one << _BITS * at for at, one in enumerate(fields))

    @classmethod
    def of(cls, code: int) -> Ask:
        """Return what a number holds."""
        gives, workers, ahead, at_once = (code >> _BITS * at & _MASK for at in range(4))
        return cls(gives, _known(workers), _known(ahead), bool(at_once))

    @property
    def way(self) -> Ask:
        """The same, but for what the script gets."""
        return self._replace(gives=NEW)


def _optional(count: int | None) -> int:
    return 0 if count is None else count + 1


def _known(field: int) -> int | None:
    return field - 1 if field else None


AS_IT_IS = Ask()


class Sources:
    """What a loader gives, as it is and in other ways, in the epoch that has begun.

    Each way has an iterator of its own, made when it is first asked for. One that is not asked
    rests: its workers have filled their queues.

    Args:
        make: makes the iterator of a loader.
        loader: the script's.
        holds: is told of each loader of another way.
    """

    def __init__(
        self,
        make: Callable[..., Iterator[Any]],
        loader: Any,
        holds: Callable[[Any], None],
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
        self._holds(other)
        with whole.asked(other) if way.whole else contextlib.nullcontext():
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
