"""Substitutes for a loader in the training thread: batches from memory, other ways to load.

A substitute wraps every loader of the script (see ``loaders``). The coordinator sets a number
(``Ask``) that chooses whether a switched loader gives new batches, batches from memory or none, and
how it makes new ones. Batches from memory are the loader's first ones. A data set without
``__getitems__`` may take a list of indices in place of one, as those over tensors and arrays do:
then all rows of a batch can be read at once. Standard library and torch only.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import os
import threading
from collections import Counter
from dataclasses import dataclass, field
from operator import methodcaller
from typing import TYPE_CHECKING, NamedTuple

from scaling_study.member import loaders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import TypeVar

    from torch.utils.data import DataLoader
    from torch.utils.data._utils.fetch import _BaseDatasetFetcher as Fetcher

    from scaling_study.member.loaders import Fetch, Makes
    from scaling_study.member.member import Member

    Gives = Callable[[Makes, Member, object], Iterator[object]]
    T = TypeVar("T")

# Enough for the batches to differ, few enough to stay in memory.
CACHED_BATCHES = 8

effects: Counter[str] = Counter()
"""How often each change has taken effect in this process (see ``changes``)."""
refusals: dict[str, str | None] = {}
"""Why a change that was tried cannot be made here; None if it could be, at least once."""
cached_facts: dict[str, object] = {}
"""Batches from memory, for the readback: how many, their bytes, whether they are copied."""
_own = threading.local()


def put(gives: Gives, member: Member, further: Sequence[str]) -> None:
    """Replace the iterators that loaders give to this thread.

    Args:
        gives: takes a function that makes a loader's own iterator, the member and the loader, and
            returns the iterator that the script gets.
        member: this process's.
        further: kinds that the config names (see ``loaders``).
    """
    here = _here()

    def around(inner: Makes, loader: object, *args: object, **kwargs: object) -> Iterator[object]:
        # A loader inside another one, or in one of its threads or processes, is part of it.
        if _here() != here or getattr(_own, "runs", False):
            return inner(loader, *args, **kwargs)

        def make(source: object) -> Iterator[object]:
            iterator = _alone(inner, source, *args, **kwargs)
            return map(functools.partial(_alone, next), itertools.repeat(iterator))

        return gives(make, member, loader)

    loaders.wrap(around, further)


def _here() -> tuple[int, int]:
    """Return this process and thread; a forked process keeps the number of its parent's thread."""
    return os.getpid(), threading.get_ident()


def _alone(call: Callable[..., T], *args: object, **kwargs: object) -> T:
    """Call a function of a loader itself; loaders inside it get no substitute meanwhile."""
    _own.runs = True
    try:
        return call(*args, **kwargs)
    finally:
        _own.runs = False


# ---- batches from memory


def _batches(make: Makes, loader: object) -> list[Batch]:
    """Return a loader's first batches, taken once; all pipelines of a class share theirs."""
    kind = type(loader)
    holder = loader if hasattr(kind, "__len__") else kind
    batches: list[Batch] | None = holder.__dict__.get("_study_batches")
    if batches is None:
        batches = [Batch(value) for value in itertools.islice(make(loader), CACHED_BATCHES)]
        setattr(holder, "_study_batches", batches)  # noqa: B010 (ours, wherever it lies)
        cached_facts["cached_batches"] = len(batches)
        cached_facts["cached_bytes"] = sum(batch.bytes for batch in batches)
        cached_facts.setdefault("copied", False)
    return batches


class Batch:
    """A batch in memory that keeps its values, whatever the script does to it.

    torch counts the changes of a tensor in place. Once any batch has been changed, the script gets
    copies. Arrays of other kinds are always copied.
    """

    def __init__(self, value: object) -> None:
        import torch  # noqa: PLC0415 (the script's to import first)
        from torch.utils import _pytree  # noqa: PLC0415 (likewise)

        parts = _pytree.tree_flatten(value)[0]
        self._value, self._kept = value, _copy(value)
        # Inference tensors have no such count, and training cannot change them.
        self._tensors = [
            part for part in parts if isinstance(part, torch.Tensor) and not part.is_inference()
        ]
        self._others = any(hasattr(part, "__array_interface__") for part in parts)
        self._versions = self._seen()
        self.bytes = sum(tensor.nbytes for tensor in self._tensors)

    def _seen(self) -> list[int]:
        return [tensor._version for tensor in self._tensors]  # noqa: SLF001 (autograd's own count)

    def take(self) -> object:
        """Return the batch, or a copy of it."""
        if self._others or self._seen() != self._versions:
            cached_facts["copied"] = True
        return _copy(self._kept) if cached_facts.get("copied") else self._value


def _copy(value: object) -> object:
    import torch  # noqa: PLC0415 (as above)
    from torch.utils import _pytree  # noqa: PLC0415 (likewise)

    def copied(part: object) -> object:
        if isinstance(part, torch.Tensor):
            return part.clone()
        return methodcaller("copy")(part) if hasattr(part, "__array_interface__") else part

    return _pytree.tree_map(copied, value)


@dataclass
class _Notes:
    """Notes on a data set.

    Attributes:
        gives_whole: whether it takes a list of indices in place of one; None before a trial.
        batches: its first batches, in memory.
    """

    gives_whole: bool | None = None
    batches: list[Batch] = field(default_factory=list)


def _notes(reader: object) -> _Notes:
    """Return the notes on the data set of a loader or a fetcher, to be read and written.

    Workers get a copy when they are forked.
    """
    dataset = getattr(reader, "dataset", None)
    record: _Notes = getattr(dataset, "__dict__", {}).setdefault("_study", _Notes())
    return record


# ---- all rows of a batch at once

WHOLE = "whole_batches"
"""The name of the change."""


def _by_batch(dataset: Mapping[object, object]) -> Mapping[object, object]:
    """Return a copy of a data set that gives torch all rows of a batch at once."""
    copied = copy.copy(dataset)
    setattr(copied, "__getitems__", functools.partial(_rows, copied))  # noqa: B010 (torch's name)
    return copied


def _rows(dataset: Mapping[object, object], indices: Iterable[object]) -> object:
    return dataset[list(indices)]


def whole_possible(loader: object) -> bool:
    """Return whether a list of indices gives the same as its rows one by one; tried once."""
    record = _notes(loader)
    if record.gives_whole is None:
        record.gives_whole = _gives_whole(loader)
        reason = refusals.get(WHOLE, "the data set gives single rows only")
        refusals[WHOLE] = None if record.gives_whole else reason
    return record.gives_whole


def _gives_whole(loader: object) -> bool:
    from torch.utils.data import default_collate, default_convert  # noqa: PLC0415 (as above)

    if not loaders.facts(loader).by_row:
        return False
    with contextlib.suppress(Exception):  # the script's code may raise anything: then it cannot
        # A file that the data set opens to read a row must not be open when workers are forked.
        dataset = _by_batch(getattr(loader, "dataset"))  # noqa: B009 (by_row: a DataLoader)
        indices = sorted({0, len(dataset) // 2, len(dataset) - 1})
        whole = default_convert(_rows(dataset, indices))
        return _equal(whole, default_collate([dataset[index] for index in indices]))
    return False


def _equal(row: object, other: object) -> bool:
    import torch  # noqa: PLC0415 (as above)

    if isinstance(row, torch.Tensor):
        of_kind = isinstance(other, torch.Tensor) and row.dtype == other.dtype
        return of_kind and torch.equal(row, other)
    if isinstance(row, dict) and isinstance(other, dict):
        return row.keys() == other.keys() and all(_equal(row[key], other[key]) for key in row)
    if isinstance(row, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(row) == len(other) and all(map(_equal, row, other))
    return bool(row == other)


# ---- a loader that the coordinator switches

# The script gets new batches, batches from memory or, with SWAPPED, batches from memory in place of
# new ones. With NOTHING it gets none, and the loader's batches are taken as fast as they come.
NEW, FROM_MEMORY, SWAPPED, NOTHING = range(4)

_BITS = 16
_MASK = (1 << _BITS) - 1


class Ask(NamedTuple):
    """A request to a switched loader.

    Attributes:
        gives: one of NEW, FROM_MEMORY, SWAPPED and NOTHING.
        workers: number of the loader's workers; None for its own number.
        ahead: batches that each worker prepares ahead; None for the loader's own number.
        whole: whether all rows of a batch are read at once.
    """

    gives: int = NEW
    workers: int | None = None
    ahead: int | None = None
    whole: bool = False

    @property
    def code(self) -> int:
        """The request as a number; 0 for new batches of the loader as it is."""
        counts = (0 if count is None else count + 1 for count in (self.workers, self.ahead))
        fields = (self.gives, *counts, int(self.whole))
        return sum(number << _BITS * at for at, number in enumerate(fields))

    @classmethod
    def of(cls, code: int) -> Ask:
        """Return the request that a number encodes."""
        gives, *counts, at_once = (code >> _BITS * at & _MASK for at in range(4))
        workers, ahead = (count - 1 if count else None for count in counts)
        return cls(gives, workers, ahead, bool(at_once))


AS_IT_IS = Ask()


def switch(member: Member, further: Sequence[str]) -> None:
    """Have every loader give, in each step, the batches that the coordinator asks for."""
    effects["loader_switched"] += 1  # a script without a loader has nothing to switch
    put(_switched, member, further)


def _switched(make: Makes, member: Member, loader: object) -> Iterator[object]:
    """Yield the batches that the coordinator asks for.

    A batch from memory replaces a new one that was waited for and thrown away, or none. So the same
    process, with the same memory layout, trains in all of these ways.
    """
    import torch  # noqa: PLC0415 (the script's to import first)

    again = itertools.cycle(_batches(make, loader))
    facts, sources = loaders.facts(loader), _Sources(make, loader, member.holds_ready)
    trains = torch.is_grad_enabled()
    if facts.by_row:
        whole_possible(loader)  # for the readback

    @functools.cache
    def asked(code: int) -> tuple[int, Ask]:
        """Return what the script gets, and the way to load."""
        ask = Ask.of(code)
        # A loader that runs without gradients is for validation: it gives batches in any case.
        gives = NEW if ask.gives == NOTHING and not trains else ask.gives
        return gives, ask._replace(gives=NEW) if facts.settable else AS_IT_IS

    batches = loaders.length(loader)
    for _ in itertools.repeat(None) if batches is None else range(batches):
        gives, way = asked(member.asked())
        while gives == NOTHING:
            if not sources.take(way):
                return
            member.step_end()
            gives, way = asked(member.asked())
        if gives != FROM_MEMORY:
            batch = sources.next(way)
            if batch is END:
                return
        if gives == NEW:
            yield batch
            del batch
        else:
            batch = None
            yield next(again).take()


END = object()
"""Stands for a batch that an epoch does not have."""


class _Sources:
    """The batches of a loader in the current epoch, loaded as it is and in other ways.

    Each way has an iterator of its own, made at its first use. The workers of an iterator that is
    not in use rest once their queues are full.

    Args:
        make: makes the iterator of a loader.
        loader: the script's.
        holds: called with the number of batches that a loader of another way may hold ready.
    """

    def __init__(self, make: Makes, loader: object, holds: Callable[[int], None]) -> None:
        self._make, self._loader, self._holds = make, loader, holds
        self._iterators: dict[Ask, Iterator[object]] = {}

    def next(self, way: Ask) -> object:
        """Return the next batch, or END if the epoch is over."""
        if way not in self._iterators:
            self._iterators[way] = self._made(way)
        return next(self._iterators[way], END)

    def take(self, way: Ask) -> bool:
        """Throw a batch away; return whether there was one, in this epoch or the way's next one."""
        for _ in range(2):
            if self.next(way) is not END:
                return True
            del self._iterators[way]
        return False

    def _made(self, way: Ask) -> Iterator[object]:
        from torch.utils.data import DataLoader  # noqa: PLC0415 (the script's to import first)

        # Only torch's loaders load in other ways.
        if way == AS_IT_IS or not isinstance(self._loader, DataLoader):
            return self._make(self._loader)
        other = _changed(self._loader, way)
        self._holds(loaders.facts(other).ready)
        return self._make(other)


def _changed(loader: DataLoader[object], way: Ask) -> DataLoader[object]:
    """Return a copy of a torch loader that loads in another way.

    If its workers persist, every epoch gets the same copy.
    """
    from torch.utils.data import default_convert  # noqa: PLC0415 (the script's to import first)

    workers = loader.num_workers if way.workers is None else way.workers
    kept: dict[Ask, DataLoader[object]] = loader.__dict__.setdefault("_study_others", {})
    other = kept.get(way) or object.__new__(type(loader))
    attributes: dict[str, object] = {
        "num_workers": workers,
        "prefetch_factor": (way.ahead or loader.prefetch_factor or 2) if workers else None,
        "persistent_workers": loader.persistent_workers and workers > 0,
        "timeout": loader.timeout if workers else 0,
        "_iterator": other.__dict__.get("_iterator"),
    }
    if attributes["persistent_workers"]:
        kept[way] = other
    if way.whole and whole_possible(loader):
        attributes |= {"dataset": _by_batch(loader.dataset), "collate_fn": default_convert}
    elif not workers:
        # A file that the data set opens to read a row must not be open when workers are forked.
        attributes["dataset"] = _copied(loader.dataset)
    # torch refuses to set some of these attributes on a loader that exists.
    other.__dict__.update(loader.__dict__ | attributes)
    return other


def _copied(dataset: T) -> T:
    try:
        return copy.copy(dataset)
    except Exception:  # noqa: BLE001 (the script's own: whatever it raises, there is no copy)
        return dataset


def fetch_whole(_: object, further: Sequence[str]) -> None:
    """Have all rows of a batch read at once, from data sets where this gives the same rows."""

    def around(inner: Makes, loader: object, *args: object, **kwargs: object) -> Iterator[object]:
        if whole_possible(loader):
            effects[WHOLE] += 1
            loader = _changed(loader, Ask(whole=True))
        return inner(loader, *args, **kwargs)

    loaders.wrap(around, further)


# ---- workers that make their batches and do not send them


class _Token:
    """Stands for a batch that a worker has made and not sent."""


def send_nothing(member: Member, further: Sequence[str]) -> None:
    """Have workers make their batches and keep them: the script trains on the loader's first ones.

    Only the transfer of batches from process to process is left out.
    """
    owner = os.getpid()

    def kept(fetcher: Fetcher, fetch: Fetch) -> Fetch:
        if os.getpid() == owner:
            return fetch
        # This worker was forked with the batches that the training process held then.
        held = len(_notes(fetcher).batches) == CACHED_BATCHES
        left = itertools.count(0 if held else CACHED_BATCHES, -1)

        def keep(indices: object) -> object:
            batch = fetch(indices)
            return batch if next(left) > 0 else _Token()

        return keep

    loaders.around_fetch(kept)
    put(_from_tokens, member, further)


def _from_tokens(make: Makes, _: Member, loader: object) -> Iterator[object]:
    """Yield the workers' first batches, then one from memory for each that they have made."""
    effects["no_copies"] += bool(loaders.facts(loader).workers)
    batches = _notes(loader).batches
    again = itertools.cycle(range(CACHED_BATCHES))
    for batch in make(loader):
        if isinstance(batch, _Token):
            yield batches[next(again)].take()
            continue
        if len(batches) < CACHED_BATCHES:
            batches.append(Batch(batch))
        yield batch
