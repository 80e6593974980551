"""The ways in which a loader can be asked to load, inside one process.

The coordinator asks for one by a number (``Ask``). Each way has iterators of its own over the
script's loader. One of them reads all rows of a batch at once, in place of one after the other: a
data set that has no ``__getitems__`` may take a list of indices in place of one, as those over
tensors and arrays do. Standard library only, and what is torch's.
"""

from __future__ import annotations

import contextlib
import copy
from typing import TYPE_CHECKING, NamedTuple

from scaling_study.member import loaders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeVar

    from torch.utils.data import DataLoader

    from scaling_study.member.loaders import Fetch, Fetcher, Makes, Trainer

    T = TypeVar("T")

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
        holds: is told how many batches each loader of another way may hold ready.
    """

    def __init__(
        self,
        make: Makes,
        loader: object,
        holds: Callable[[int], None],
    ) -> None:
        self._make, self._loader, self._holds = make, loader, holds
        self._iterators: dict[Ask, Iterator[object]] = {}

    def next(self, way: Ask) -> object:
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

    def _made(self, way: Ask) -> Iterator[object]:
        from torch.utils.data import DataLoader  # noqa: PLC0415 (the script's to import first)

        # Another one than torch's is asked for no other way.
        if way == AS_IT_IS or not isinstance(self._loader, DataLoader):
            return self._make(self._loader)
        other = _changed(self._loader, way)
        self._holds(loaders.facts(other).ready)
        with whole_asked(other) if way.whole else contextlib.nullcontext():
            return self._make(other)


def _changed(loader: DataLoader[object], way: Ask) -> DataLoader[object]:
    """Return a loader of torch's that is like another one, with other workers.

    One that keeps its workers is the same one in every epoch.
    """
    workers = loader.num_workers if way.workers is None else way.workers
    kept: dict[Ask, DataLoader[object]] = loader.__dict__.setdefault("_study_others", {})
    other = kept.get(way) or object.__new__(type(loader))
    own: dict[str, object] = {
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


def _copied(dataset: T) -> T:
    try:
        return copy.copy(dataset)
    except Exception:  # noqa: BLE001 (the script's own: whatever it raises, there is no copy)
        return dataset


# ---- all rows of a batch at once

_looked_at: list[bool] = []
_asked = 0


def fetch_whole(_: Trainer, further: Sequence[str]) -> None:
    """Have data sets asked for all rows of a batch at once, where these are the same ones."""
    allow_whole()
    loaders.wrap(_ask_everywhere, further)


def fetches_whole() -> bool:
    """Whether any data set is asked for whole batches."""
    return _asked > 0


def why_not_whole() -> str | None:
    """Say why none can be, where that was looked at."""
    return "the data set gives single rows only" if _looked_at and not any(_looked_at) else None


def allow_whole() -> None:
    """Let what is noted of a data set decide how its next batches are read."""
    from torch.utils.data import default_convert  # noqa: PLC0415 (the script's to import first)

    def at_once(fetcher: Fetcher, fetch: Fetch) -> Fetch:
        if not loaders.notes(fetcher.dataset).whole:
            return fetch
        return lambda indices: default_convert(fetcher.dataset[list(indices)])  # type: ignore[index, call-overload]

    loaders.around_fetch(at_once)


def whole_possible(loader: object) -> bool:
    """Whether a list of indices gives what its rows give one by one; looked at once."""
    notes = loaders.notes(getattr(loader, "dataset", None))
    if notes.gives_whole is None:
        notes.gives_whole = _gives_whole(loader)
        _looked_at.append(notes.gives_whole)
    return notes.gives_whole


@contextlib.contextmanager
def whole_asked(loader: DataLoader[object]) -> Iterator[None]:
    """Have the iterators that are made meanwhile read whole batches, where that is possible."""
    notes = loaders.notes(loader.dataset)
    before, notes.whole = notes.whole, whole_possible(loader)
    try:
        yield
    finally:
        notes.whole = before


def _ask_everywhere(inner: Makes) -> Makes:
    def makes(loader: object, *args: object, **kwargs: object) -> Iterator[object]:
        global _asked  # noqa: PLW0603
        can = whole_possible(loader)
        _asked += can
        loaders.notes(getattr(loader, "dataset", None)).whole = can
        return inner(loader, *args, **kwargs)

    return makes


def _gives_whole(loader: object) -> bool:
    from torch.utils.data import default_collate, default_convert  # noqa: PLC0415 (as above)

    if not loaders.facts(loader).by_row:
        return False
    try:
        # Whatever it opens to read a row is not to be there when workers are forked.
        dataset = copy.copy(getattr(loader, "dataset"))  # noqa: B009 (by_row: a DataLoader)
        indices = sorted({0, len(dataset) // 2, len(dataset) - 1})
        whole = default_convert(dataset[indices])
        return _equal(whole, default_collate([dataset[index] for index in indices]))
    except Exception:  # noqa: BLE001 (the script's own code: whatever it raises, it cannot)
        return False


def _equal(one: object, other: object) -> bool:
    import torch  # noqa: PLC0415 (as above)

    if isinstance(one, torch.Tensor):
        return (
            isinstance(other, torch.Tensor) and one.dtype == other.dtype and torch.equal(one, other)
        )
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other)
