"""Loaders: every kind whose iterators are timed, and can be replaced.

The method of a class that makes an iterator is wrapped as soon as the script has imported its
module. A loader inside another one (SPDL's loader over its pipeline) counts as part of the outer
one. Batches that threads other than the training one take belong to no step.

torch's loaders make a batch with a fetcher of the data set, in the training thread or in worker
processes. The fetcher is wrapped where it is created. Forked workers inherit the wrapper; spawned
ones do not, and are not seen. Standard library and torch only.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import mmap
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from scaling_study.member.after_torch import LOADERS, call_back, shares_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch.utils.data import DataLoader
    from torch.utils.data._utils.fetch import _BaseDatasetFetcher as Fetcher
    from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

    Makes = Callable[..., Iterator[object]]
    Takes = Callable[..., object]
    Fetch = Callable[[object], object]

STATEFUL = LOADERS[1][0]


class LoaderClass(NamedTuple):
    """A class of loaders, and its method that makes an iterator."""

    module: str
    name: str
    method: str = "__iter__"


# Loaders of Lightning and Accelerate iterate over torch's own. Every iterator of SPDL in this
# process comes from a pipeline.
KINDS = (
    *(LoaderClass(module, name) for module, name in LOADERS),
    LoaderClass("spdl.pipeline._pipeline", "Pipeline", "get_iterator"),
    LoaderClass("spdl.pipeline._iter_utils._subprocess", "_SubprocessIterable"),
    LoaderClass("spdl.dataloader._dataloader", "DataLoader"),
    LoaderClass("spdl.dataloader._pytorch_dataloader", "PyTorchDataLoader"),
    LoaderClass("spdl.dataloader._cache_dataloader", "CacheDataLoader"),
)

# The module of the script's own classes.
SCRIPT = "__main__"

# How many batches may be ready in queues whose size is not known.
UNKNOWN_READY = 8


def wrap(around: Makes, further: Sequence[str]) -> None:
    """Wrap the method of every kind of loader that makes an iterator.

    The last wrapper is outermost, also in modules that are imported later.

    Args:
        around: called in the method's place, with the method, the loader and further arguments.
        further: kinds that a config names as ``module:Class``.
    """
    for kind in (*KINDS, *(LoaderClass(*text.split(":")) for text in further)):
        if kind.module == SCRIPT:
            _replace_in_script(around, kind)
        else:
            call_back(functools.partial(_replace, around, kind), kind.module)


def _replace(around: Makes, kind: LoaderClass) -> None:
    owner = getattr(sys.modules[kind.module], kind.name, None)
    if hasattr(owner, kind.method):  # another release may have neither
        _put_around(around, owner, kind)


def _put_around(around: Makes, owner: object, kind: LoaderClass) -> None:
    inner = getattr(owner, kind.method)

    def makes(loader: object, *args: object, **kwargs: object) -> Iterator[object]:
        return around(inner, loader, *args, **kwargs)

    setattr(owner, kind.method, makes)


def _replace_in_script(around: Makes, kind: LoaderClass) -> None:
    """Wrap the method of a class of the script itself, each time the script defines it."""
    build: Callable[..., type] = builtins.__build_class__

    def builds(*args: object, **kwargs: object) -> type:
        new_class = build(*args, **kwargs)
        if (new_class.__module__, new_class.__qualname__) == (SCRIPT, kind.name):
            _put_around(around, new_class, kind)
        return new_class

    builtins.__build_class__ = builds


class Facts(NamedTuple):
    """Facts about a loader; a class that a config names has no workers without ``num_workers``.

    Attributes:
        kind: its class, with the module.
        kinds: the names of its class and of the base classes.
        workers: number of its workers; None if SPDL's own threads or process make batches.
        threads: whether it has such threads in this process.
        settable: whether the number of workers can be set.
        shares_out: whether several workers together give each batch once.
        by_row: whether it makes a batch row by row, as torch does from a data set without
            ``__getitems__``.
        batches: number of batches in a pass; None if it has no length.
        ready: how many batches may be ready while none is taken.
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
    """Return the facts about a loader."""
    from torch.utils.data import DataLoader  # noqa: PLC0415 (the script's to import first)

    kind = type(loader)
    is_spdl = kind.__module__.startswith("spdl.")
    workers = getattr(loader, "num_workers", None if is_spdl else 0)
    ahead = getattr(loader, "prefetch_factor", ...)
    if workers is None or ahead is ...:
        ready = UNKNOWN_READY + getattr(loader, "_buffer_size", 0)
    else:
        ready = workers * (ahead or 0)
    torchs = loader if isinstance(loader, DataLoader) and workers is not None else None
    return Facts(
        kind=f"{kind.__module__}.{kind.__qualname__}",
        kinds=[base.__name__ for base in kind.__mro__[:-1]],
        workers=workers,
        threads=workers is None and "Subprocess" not in kind.__name__,
        settable=torchs is not None,
        shares_out=torchs is not None and shares_out(torchs.dataset, torchs.worker_init_fn),
        by_row=isinstance(loader, DataLoader) and _by_row(loader),
        batches=length(loader),
        ready=ready,
    )


def length(loader: object) -> int | None:
    """Return how many batches a pass has; None if the loader has no length."""
    with contextlib.suppress(Exception):  # the script's own: no length, or whatever it raises
        return len(loader)  # type: ignore[arg-type]
    return None


def _by_row(loader: DataLoader[object]) -> bool:
    """Return whether torch asks the data set for single rows, and collates them itself."""
    from torch.utils.data import IterableDataset, default_collate  # noqa: PLC0415 (as above)

    return (
        loader.batch_sampler is not None
        and loader.collate_fn is default_collate
        and not isinstance(loader.dataset, IterableDataset)
        and not hasattr(loader.dataset, "__getitems__")
    )


def time_next(iterator: Iterator[object], around: Callable[[Takes], Takes]) -> Iterator[object]:
    """Return an iterator whose ``__next__`` is wrapped.

    Args:
        iterator: the iterator that a loader has made.
        around: takes the method and returns its replacement.
    """
    kind = type(iterator)
    if not hasattr(kind.__next__, "inner"):
        try:
            kind.__next__ = around(kind.__next__)  # type: ignore[method-assign]
        except TypeError:  # the class is built in, a generator's for one
            return Proxy(iterator, around(kind.__next__))
    return iterator


class Proxy:
    """Wraps an iterator whose class cannot be changed."""

    def __init__(self, iterator: Iterator[object], takes: Takes) -> None:
        self._iterator, self._takes = iterator, takes

    def __iter__(self) -> Proxy:
        """Return itself, as iterators do."""
        return self

    def __next__(self) -> object:
        """Return the iterator's next batch."""
        return self._takes(self._iterator)

    def __getattr__(self, name: str) -> object:
        """Return another attribute of the iterator."""
        return getattr(self._iterator, name)


# ---- the fetching of batches


def around_fetch(wrap: Callable[[Fetcher, Fetch], Fetch]) -> None:
    """Wrap the fetching of every batch, in this process and in those forked from it.

    Args:
        wrap: takes a fetcher and its method, and returns the method's replacement.
    """
    from torch.utils.data import _DatasetKind  # noqa: PLC0415 (the script's to import first)

    create = _DatasetKind.create_fetcher

    def created(*args: object, **kwargs: object) -> Fetcher:
        fetcher: Fetcher = create(*args, **kwargs)
        fetcher.fetch = wrap(fetcher, fetcher.fetch)
        return fetcher

    _DatasetKind.create_fetcher = staticmethod(created)


# ---- how long fetching takes

# The time that a batch took to make, and its CPU time, which counts up to that time.
MADE, COMPUTED = range(2)
FIELDS = 2

# Workers that live at once have ids close to each other, so their places (id modulo 512) differ.
PLACES = 512
WORD_BYTES = 8

_add: dict[int, Callable[[int], None]] = {}


def watch(field: int, add: Callable[[int], None]) -> None:
    """Call a function with the time (ns) that batches took: MADE or COMPUTED.

    The times of worker processes are passed on when the training thread takes a batch.
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
        now, thread = time.perf_counter_ns, threading.get_ident  # calls may outlive this module
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
        """Pass on the workers' times each time the training thread waits for their batches."""
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
