"""What loaders are: every kind whose iterators are timed, and can be replaced.

A loader is reached where it makes an iterator, as soon as the script has imported its module. One
inside another (SPDL's loader over its pipeline) is the outer one's business, and what other threads
than the training one iterate over is no batch of a step.

torch's loaders make a batch by a fetcher of the data set, in the training thread or in worker
processes. It is reached where it is created. Workers that are forked inherit what is put around
it; those that are spawned do not, and are not seen. Standard library only, and what is torch's.
"""

from __future__ import annotations

import builtins
import functools
import mmap
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from scaling_study.member import after_torch
from scaling_study.member.loader_arguments import LOADERS, shares_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    Fetch = Callable[[Any], Any]

STATEFUL = "torchdata.stateful_dataloader.stateful_dataloader"


class Trainer(Protocol):
    """What changes inside a process need of its member (see ``member``)."""

    slot: int
    folder: Path

    def asked(self) -> int:
        """Return the number that the coordinator has put beside its order."""

    def asks(self) -> Callable[[], int]:
        """Return what reads that number, in processes that are forked from here too."""

    def step_end(self) -> None:
        """End a step."""

    def holds_ready(self, ready: int) -> None:
        """Note how many batches a loader may hold ready that is taken from."""


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


def wrap(
    around: Callable[[Callable[..., Any]], Callable[..., Any]], further: Sequence[str]
) -> None:
    """Put something around every loader's method that makes an iterator.

    What is put there last is outermost, in modules that are yet to be imported, too.

    Args:
        around: returns what takes the place of the method that it is given.
        further: kinds that a config names.
    """
    for kind in (*KINDS, *map(named, further)):
        if kind.module == SCRIPT:
            _replace_in_script(around, kind)
        else:
            after_torch.call_back(functools.partial(_replace, around, kind), kind.module)


def _replace(around: Callable[[Callable[..., Any]], Callable[..., Any]], kind: Kind) -> None:
    owner = getattr(sys.modules[kind.module], kind.name, None)
    method = getattr(owner, kind.method, None)  # another release may have neither
    if method is not None:
        setattr(owner, kind.method, around(method))


def _replace_in_script(
    around: Callable[[Callable[..., Any]], Callable[..., Any]], kind: Kind
) -> None:
    """Replace the method of a class of the script itself, whenever that is run and makes it."""
    build = builtins.__build_class__

    def builds(*args: Any, **kwargs: Any) -> Any:
        made = build(*args, **kwargs)
        if (made.__module__, made.__qualname__) == (SCRIPT, kind.name):
            setattr(made, kind.method, around(getattr(made, kind.method)))
        return made

    builtins.__build_class__ = builds


def facts(loader: Any) -> dict[str, Any]:
    """Return, as JSON data, what is known of a loader.

    Returns:
        Its ``kind``; ``kinds``, the names of that and of what it is derived from; how many
        ``workers`` it has (None: threads or processes of its own); whether those are ``threads`` of
        this process; whether the number is ``settable``, and whether it ``shares_out`` its batches
        among several; whether it makes a batch row ``by_row``, as torch does from a data set
        without ``__getitems__``; how many ``batches`` a pass has (None: it does not say); and how
        many may be ``ready`` while nobody takes any. One that a config names is taken to have no
        workers, unless it says how many.
    """
    kind = type(loader)
    name = f"{kind.__module__}.{kind.__qualname__}"
    own = kind.__module__.startswith("spdl.")
    workers = getattr(loader, "num_workers", None if own else 0)
    if workers is None or not hasattr(loader, "prefetch_factor"):
        ready = UNKNOWN_READY + getattr(loader, "_buffer_size", 0)
    else:
        ready = workers * (loader.prefetch_factor or 0)
    from torch.utils.data import DataLoader  # noqa: PLC0415 (the script's to import first)

    settable = isinstance(loader, DataLoader) and workers is not None
    kinds = [one.__name__ for one in kind.__mro__[:-1]]
    return {
        "kind": name,
        "kinds": kinds,
        "workers": workers,
        "threads": workers is None and "Subprocess" not in kind.__name__,
        "settable": settable,
        "shares_out": settable and shares_out(loader.dataset, loader.worker_init_fn),
        "by_row": isinstance(loader, DataLoader) and _by_row(loader),
        "batches": length(loader),
        "ready": ready,
    }


def length(loader: Any) -> int | None:
    """Return how many batches a pass has; None where the loader does not say."""
    try:
        return len(loader)
    except Exception:  # noqa: BLE001 (the script's own: no length, or whatever it raises)
        return None


def _by_row(loader: Any) -> bool:
    """Whether torch asks the data set for one row after the other, and puts them together."""
    from torch.utils.data import IterableDataset, default_collate  # noqa: PLC0415 (as above)

    return (
        loader.batch_sampler is not None
        and loader.collate_fn is default_collate
        and not isinstance(loader.dataset, IterableDataset)
        and not hasattr(loader.dataset, "__getitems__")
    )


def time_next(iterator: Iterator[Any], around: Callable[..., Any]) -> Iterator[Any]:
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

    def __init__(self, iterator: Iterator[Any], takes: Callable[[Iterator[Any]], Any]) -> None:
        self._iterator, self._takes = iterator, takes

    def __iter__(self) -> Proxy:
        """Return itself, as iterators do."""
        return self

    def __next__(self) -> Any:
        """Return what the iterator gives next."""
        return self._takes(self._iterator)

    def __getattr__(self, name: str) -> Any:
        """Return what else the iterator has."""
        return getattr(self._iterator, name)


# ---- the fetching of batches


def around_fetch(wrap: Callable[[Any, Fetch], Fetch]) -> None:
    """Put something around the fetching of every batch, here and in processes forked from here.

    Args:
        wrap: takes a fetcher and its method, and returns what takes the method's place.
    """
    from torch.utils.data import _DatasetKind  # noqa: PLC0415 (the script's to import first)

    create = _DatasetKind.create_fetcher

    def created(*args: Any, **kwargs: Any) -> Any:
        fetcher = create(*args, **kwargs)
        fetcher.fetch = wrap(fetcher, fetcher.fetch)
        return fetcher

    _DatasetKind.create_fetcher = staticmethod(created)


def notes(dataset: Any) -> dict[str, Any]:
    """Return what is noted of a data set, to be read and written: workers get what is there now."""
    found: dict[str, Any] = getattr(dataset, "__dict__", {}).setdefault("_study", {})
    return found


# ---- how long it takes

# Of each batch: how long it took to make, and for how much of that a CPU was used, or several.
MADE, COMPUTED = range(2)
FIELDS = 2

# Processes that live at once have ids close to each other, and so places of their own.
PLACES = 512
WORD_BYTES = 8

_add: dict[int, Callable[[int], None]] = {}


def watch(field: int, add: Callable[[int], None]) -> None:
    """Have a function told what batches took (ns): one of MADE and COMPUTED.

    What a worker process needed is told when the training thread takes its next batch.
    """
    if not _add:
        _Watched().install()
    _add[field] = add


class _Watched:
    """What batches have taken in this process and its workers."""

    def __init__(self) -> None:
        self._owner, self._trainer = os.getpid(), threading.get_ident()
        # Shared with processes that are forked: workers write, the training thread reads.
        self._took_ns = memoryview(mmap.mmap(-1, PLACES * FIELDS * WORD_BYTES)).cast("q")
        self._told_ns = [0] * (PLACES * FIELDS)

    def install(self) -> None:
        from torch.utils.data import dataloader  # noqa: PLC0415 (as above)

        around_fetch(self._timed)
        self._ask(dataloader._MultiProcessingDataLoaderIter)  # noqa: SLF001 (what has workers)
        after_torch.call_back(
            lambda: self._ask(sys.modules[STATEFUL]._StatefulMultiProcessingDataLoaderIter),  # noqa: SLF001
            STATEFUL,
        )

    def _timed(self, _: Any, fetch: Fetch) -> Fetch:
        worker = os.getpid() != self._owner
        at = os.getpid() % PLACES * FIELDS if worker else None
        now, thread = time.perf_counter_ns, threading.get_ident  # may be used after this module
        used = time.process_time_ns  # threads of the data set's own compute for it, too

        def timed(indices: Any) -> Any:
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

    def _ask(self, kind: Any) -> None:
        """Tell what workers needed whenever their batches are waited for."""
        inner = kind._next_data  # noqa: SLF001 (what waits)

        def next_data(iterator: Any) -> Any:
            try:
                return inner(iterator)
            finally:
                for worker in iterator._workers:  # noqa: SLF001
                    self._tell(worker.pid % PLACES * FIELDS)

        kind._next_data = next_data  # noqa: SLF001

    def _tell(self, at: int) -> None:
        for field in (MADE, COMPUTED):
            took_ns = self._took_ns[at + field]
            _add[field](took_ns - self._told_ns[at + field])
            self._told_ns[at + field] = took_ns
