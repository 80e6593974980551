"""Loaders: every kind whose iterators are timed, and can be replaced.

A loader is reached where it makes an iterator, as soon as the script has imported its module. A
loader inside another one (SPDL's loader over its pipeline) counts as part of that. Batches in other
threads than the training one are not those of a step.

torch's loaders make a batch by a fetcher of the data set, in the training thread or in worker
processes. It is reached where it is created. Workers that are forked inherit what is put around
it; those that are spawned do not, and are not seen. A data set that has no ``__getitems__`` may
take a list of indices in place of one, as those over tensors and arrays do: then all rows of a
batch can be read at once. Standard library only, and what is torch's.
"""

from __future__ import annotations

import builtins
import contextlib
import copy
import functools
import mmap
import os
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from scaling_study.member.after_torch import LOADERS, call_back, shares_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch.utils.data import DataLoader
    from torch.utils.data._utils.fetch import _BaseDatasetFetcher as Fetcher
    from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

    from scaling_study.member.loader_substitutes import Batch

    Makes = Callable[..., Iterator[object]]
    Takes = Callable[..., object]
    Fetch = Callable[[object], object]

STATEFUL = LOADERS[1][0]

effects: Counter[str] = Counter()
"""How often each change of loaders has taken effect in this process (see ``changes``)."""
refusals: dict[str, str | None] = {}
"""Why a change that was tried cannot be made here; None where it could be, at least once."""


class Kind(NamedTuple):
    """A class of loaders, and its method that makes an iterator."""

    module: str
    name: str
    method: str = "__iter__"


# Lightning's and Accelerate's iterate over torch's own. A pipeline is what every iterator of SPDL's
# in this process comes from.
KINDS = (
    *(Kind(module, name) for module, name in LOADERS),
    Kind("spdl.pipeline._pipeline", "Pipeline", "get_iterator"),
    Kind("spdl.pipeline._iter_utils._subprocess", "_SubprocessIterable"),
    Kind("spdl.dataloader._dataloader", "DataLoader"),
    Kind("spdl.dataloader._pytorch_dataloader", "PyTorchDataLoader"),
    Kind("spdl.dataloader._cache_dataloader", "CacheDataLoader"),
)

# The module of what the script itself defines.
SCRIPT = "__main__"

# How many batches may be ready in queues whose size is not known.
UNKNOWN_READY = 8


def named(text: str) -> Kind:
    """Return the kind that a config names as ``module:Class``."""
    module, _, name = text.partition(":")
    return Kind(module, name)


def wrap(around: Makes, further: Sequence[str]) -> None:
    """Put something around every loader's method that makes an iterator.

    What is put there last is outermost, in modules that are yet to be imported, too.

    Args:
        around: is called in the method's place, with the method, the loader and what else there is.
        further: kinds that a config names.
    """
    for kind in (*KINDS, *map(named, further)):
        if kind.module == SCRIPT:
            _replace_in_script(around, kind)
        else:
            call_back(functools.partial(_replace, around, kind), kind.module)


def _replace(around: Makes, kind: Kind) -> None:
    owner = getattr(sys.modules[kind.module], kind.name, None)
    if hasattr(owner, kind.method):  # another release may have neither
        _put_around(around, owner, kind)


def _put_around(around: Makes, owner: object, kind: Kind) -> None:
    inner = getattr(owner, kind.method)

    def makes(loader: object, *args: object, **kwargs: object) -> Iterator[object]:
        return around(inner, loader, *args, **kwargs)

    setattr(owner, kind.method, makes)


def _replace_in_script(around: Makes, kind: Kind) -> None:
    """Replace the method of a class of the script itself, whenever that is run and makes it."""
    build: Callable[..., type] = builtins.__build_class__

    def builds(*args: object, **kwargs: object) -> type:
        made = build(*args, **kwargs)
        if (made.__module__, made.__qualname__) == (SCRIPT, kind.name):
            _put_around(around, made, kind)
        return made

    builtins.__build_class__ = builds


class Facts(NamedTuple):
    """Facts about a loader; a class that a config names has no workers unless it says how many.

    Attributes:
        kind: its class, with the module.
        kinds: the names of that and of what it is derived from.
        workers: how many it has; None for threads or processes of its own.
        threads: whether those are threads of this process.
        settable: whether the number of workers can be set.
        shares_out: whether several of them give each batch once.
        by_row: whether it makes a batch row by row, as torch does from a data set without
            ``__getitems__``.
        batches: of a pass; None where it does not say.
        ready: how many batches may be ready while nobody takes any.
    """

    kind: str
    kinds: list[str]
    workers: int | None
    threads: bool
    settable: bool
    shares_out: bool
    by_row: bool
    batches: int | None
    ready: int


def facts(loader: object) -> Facts:
    """Return what is known of a loader."""
    from torch.utils.data import DataLoader  # noqa: PLC0415 (the script's to import first)

    kind = type(loader)
    own = kind.__module__.startswith("spdl.")
    workers = getattr(loader, "num_workers", None if own else 0)
    ahead = getattr(loader, "prefetch_factor", ...)
    if workers is None or ahead is ...:
        ready = UNKNOWN_READY + getattr(loader, "_buffer_size", 0)
    else:
        ready = workers * (ahead or 0)
    torchs = loader if isinstance(loader, DataLoader) and workers is not None else None
    return Facts(
        kind=f"{kind.__module__}.{kind.__qualname__}",
        kinds=[one.__name__ for one in kind.__mro__[:-1]],
        workers=workers,
        threads=workers is None and "Subprocess" not in kind.__name__,
        settable=torchs is not None,
        shares_out=torchs is not None and shares_out(torchs.dataset, torchs.worker_init_fn),
        by_row=isinstance(loader, DataLoader) and _by_row(loader),
        batches=length(loader),
        ready=ready,
    )


def length(loader: object) -> int | None:
    """Return how many batches a pass has; None where the loader does not say."""
    with contextlib.suppress(Exception):  # the script's own: no length, or whatever it raises
        return len(loader)  # type: ignore[arg-type]
    return None


def _by_row(loader: DataLoader[object]) -> bool:
    """Whether torch asks the data set for one row after the other, and puts them together."""
    from torch.utils.data import IterableDataset, default_collate  # noqa: PLC0415 (as above)

    return (
        loader.batch_sampler is not None
        and loader.collate_fn is default_collate
        and not isinstance(loader.dataset, IterableDataset)
        and not hasattr(loader.dataset, "__getitems__")
    )


def time_next(iterator: Iterator[object], around: Callable[[Takes], Takes]) -> Iterator[object]:
    """Return an iterator whose every ``__next__`` has something around it.

    Args:
        iterator: as a loader has made it.
        around: returns what takes the place of the method that it is given.
    """
    kind = type(iterator)
    if not hasattr(kind.__next__, "inner"):
        try:
            kind.__next__ = around(kind.__next__)  # type: ignore[method-assign]
        except TypeError:  # a generator's, and what is built in, cannot be replaced
            return Proxy(iterator, around(kind.__next__))
    return iterator


class Proxy:
    """Stands for an iterator whose class cannot be changed."""

    def __init__(self, iterator: Iterator[object], takes: Takes) -> None:
        self._iterator, self._takes = iterator, takes

    def __iter__(self) -> Proxy:
        """Return itself, as iterators do."""
        return self

    def __next__(self) -> object:
        """Return what the iterator gives next."""
        return self._takes(self._iterator)

    def __getattr__(self, name: str) -> object:
        """Return what else the iterator has."""
        return getattr(self._iterator, name)


# ---- the fetching of batches


def around_fetch(wrap: Callable[[Fetcher, Fetch], Fetch]) -> None:
    """Put something around the fetching of every batch, here and in processes forked from here.

    Args:
        wrap: takes a fetcher and its method, and returns what takes the method's place.
    """
    from torch.utils.data import _DatasetKind  # noqa: PLC0415 (the script's to import first)

    create = _DatasetKind.create_fetcher

    def created(*args: object, **kwargs: object) -> Fetcher:
        fetcher: Fetcher = create(*args, **kwargs)
        fetcher.fetch = wrap(fetcher, fetcher.fetch)
        return fetcher

    _DatasetKind.create_fetcher = staticmethod(created)


@dataclass
class Notes:
    """Notes on a data set.

    Attributes:
        gives_whole: whether it takes a list of indices in place of one; None before that was tried.
        whole: whether its next batches are read so.
        batches: its first batches, in memory.
    """

    gives_whole: bool | None = None
    whole: bool = False
    batches: list[Batch] = field(default_factory=list)


def notes(reader: object) -> Notes:
    """Return what is noted of the data set of a loader or a fetcher, to be read and written.

    Workers get what is there now.
    """
    dataset = getattr(reader, "dataset", None)
    found: Notes = getattr(dataset, "__dict__", {}).setdefault("_study", Notes())
    return found


# ---- all rows of a batch at once

WHOLE = "whole_batches"
"""The name of the change."""


def fetch_whole(_: object, further: Sequence[str]) -> None:
    """Have data sets asked for all rows of a batch at once, where these are the same ones."""

    def around(inner: Makes, loader: object, *args: object, **kwargs: object) -> Iterator[object]:
        can = whole_possible(loader)
        effects[WHOLE] += can
        notes(loader).whole = can
        return inner(loader, *args, **kwargs)

    allow_whole()
    wrap(around, further)


def allow_whole() -> None:
    """Let what is noted of a data set decide how its next batches are read."""
    from torch.utils.data import default_convert  # noqa: PLC0415 (the script's to import first)

    def at_once(fetcher: Fetcher, fetch: Fetch) -> Fetch:
        if not notes(fetcher).whole:
            return fetch
        return lambda indices: default_convert(fetcher.dataset[list(indices)])  # type: ignore[call-overload]

    around_fetch(at_once)


def whole_possible(loader: object) -> bool:
    """Whether a list of indices gives what its rows give one by one; looked at once."""
    own = notes(loader)
    if own.gives_whole is None:
        own.gives_whole = _gives_whole(loader)
        if own.gives_whole:
            refusals[WHOLE] = None
        else:
            refusals.setdefault(WHOLE, "the data set gives single rows only")
    return own.gives_whole


@contextlib.contextmanager
def reading(loader: object, *, whole: bool) -> Iterator[None]:
    """Have the iterators that are made meanwhile read whole batches or single rows."""
    own = notes(loader)
    before, own.whole = own.whole, whole and whole_possible(loader)
    try:
        yield
    finally:
        own.whole = before


def _gives_whole(loader: object) -> bool:
    from torch.utils.data import default_collate, default_convert  # noqa: PLC0415 (as above)

    if not facts(loader).by_row:
        return False
    with contextlib.suppress(Exception):  # the script's own code: whatever it raises, it cannot
        # A file that it opens to read a row must not be open when workers are forked.
        dataset = copy.copy(getattr(loader, "dataset"))  # noqa: B009 (by_row: a DataLoader)
        indices = sorted({0, len(dataset) // 2, len(dataset) - 1})
        whole = default_convert(dataset[indices])
        return _equal(whole, default_collate([dataset[index] for index in indices]))
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


# ---- how long it takes

# How long each batch took to make, and for how much of that one CPU or several were used.
MADE, COMPUTED = range(2)
FIELDS = 2

# Processes that live at once have ids close to each other, and so places of their own.
PLACES = 512
WORD_BYTES = 8

_add: dict[int, Callable[[int], None]] = {}


def watch(field: int, add: Callable[[int], None]) -> None:
    """Call a function with what batches took (ns): one of MADE and COMPUTED.

    The times of a worker process are passed on when the training thread takes its next batch.
    """
    if not _add:
        _Watched().install()
    _add[field] = add


class _Watched:
    """The times of batches in this process and its workers."""

    def __init__(self) -> None:
        self._owner, self._trainer = os.getpid(), threading.get_ident()
        # Shared with processes that are forked: workers write, the training thread reads.
        self._took_ns = memoryview(mmap.mmap(-1, PLACES * FIELDS * WORD_BYTES)).cast("q")
        self._told_ns = [0] * (PLACES * FIELDS)

    def install(self) -> None:
        from torch.utils.data import dataloader  # noqa: PLC0415 (as above)

        around_fetch(self._timed)
        self._ask(dataloader._MultiProcessingDataLoaderIter)  # noqa: SLF001 (what has workers)
        call_back(
            lambda: self._ask(sys.modules[STATEFUL]._StatefulMultiProcessingDataLoaderIter),  # noqa: SLF001
            STATEFUL,
        )

    def _timed(self, _: Fetcher, fetch: Fetch) -> Fetch:
        worker = os.getpid() != self._owner
        at = os.getpid() % PLACES * FIELDS if worker else None
        now, thread = time.perf_counter_ns, threading.get_ident  # may be used after this module
        used = time.process_time_ns  # threads of the data set's own compute for it, too

        def timed(indices: object) -> object:
            began, used_ns = now(), used()
            try:
                return fetch(indices)
            finally:
                made_ns = now() - began
                computed_ns = min(made_ns, used() - used_ns)
                if at is not None:
                    self._took_ns[at + MADE] += made_ns
                    self._took_ns[at + COMPUTED] += computed_ns
                elif thread() == self._trainer:
                    _add[MADE](made_ns)
                    _add[COMPUTED](computed_ns)

        return timed

    def _ask(self, kind: type[_MultiProcessingDataLoaderIter]) -> None:
        """Tell what workers needed whenever their batches are waited for."""
        inner = kind._next_data  # noqa: SLF001 (what waits)

        def next_data(iterator: _MultiProcessingDataLoaderIter) -> object:
            try:
                return inner(iterator)
            finally:
                for worker in iterator._workers:  # noqa: SLF001
                    self._tell(worker.pid % PLACES * FIELDS)

        kind._next_data = next_data  # noqa: SLF001

    def _tell(self, at: int) -> None:
        for which in (MADE, COMPUTED):
            took_ns = self._took_ns[at + which]
            _add[which](took_ns - self._told_ns[at + which])
            self._told_ns[at + which] = took_ns
