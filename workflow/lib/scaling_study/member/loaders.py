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
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from scaling_study.member import after_torch
from scaling_study.member.loader_arguments import LOADERS, shares_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from torch.utils.data import DataLoader

    Makes = Callable[..., Iterator[object]]
    Takes = Callable[..., object]
    Fetch = Callable[[object], object]

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


class Taken(Protocol):
    """A batch in memory."""

    def take(self) -> object:
        """Return it, as it was."""


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


def wrap(around: Callable[[Makes], Makes], further: Sequence[str]) -> None:
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


def _replace(around: Callable[[Makes], Makes], kind: Kind) -> None:
    owner = getattr(sys.modules[kind.module], kind.name, None)
    method = getattr(owner, kind.method, None)  # another release may have neither
    if method is not None:
        setattr(owner, kind.method, around(method))


def _replace_in_script(around: Callable[[Makes], Makes], kind: Kind) -> None:
    """Replace the method of a class of the script itself, whenever that is run and makes it."""
    build = builtins.__build_class__

    def builds(*args: Any, **kwargs: Any) -> Any:
        made = build(*args, **kwargs)
        if (made.__module__, made.__qualname__) == (SCRIPT, kind.name):
            setattr(made, kind.method, around(getattr(made, kind.method)))
        return made

    builtins.__build_class__ = builds


class Facts(NamedTuple):
    """What is known of a loader; one that a config names has no workers, unless it says how many.

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
    try:
        return len(loader)  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001 (the script's own: no length, or whatever it raises)
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


class Fetcher(Protocol):
    """What makes a batch of a data set's rows."""

    dataset: object
    fetch: Fetch


def around_fetch(wrap: Callable[[Fetcher, Fetch], Fetch]) -> None:
    """Put something around the fetching of every batch, here and in processes forked from here.

    Args:
        wrap: takes a fetcher and its method, and returns what takes the method's place.
    """
    from torch.utils.data import _DatasetKind  # noqa: PLC0415 (the script's to import first)

    create = _DatasetKind.create_fetcher

    def created(*args: Any, **kwargs: Any) -> Fetcher:
        fetcher: Fetcher = create(*args, **kwargs)
        fetcher.fetch = wrap(fetcher, fetcher.fetch)
        return fetcher

    _DatasetKind.create_fetcher = staticmethod(created)


@dataclass
class Notes:
    """What is noted of a data set.

    Attributes:
        gives_whole: whether it takes a list of indices in place of one; None before that was tried.
        whole: whether its next batches are read so.
        batches: its first batches, in memory.
    """

    gives_whole: bool | None = None
    whole: bool = False
    batches: list[Taken] = field(default_factory=list)


def notes(dataset: object) -> Notes:
    """Return what is noted of a data set, to be read and written: workers get what is there now."""
    found: Notes = getattr(dataset, "__dict__", {}).setdefault("_study", Notes())
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

    def _ask(self, kind: Any) -> None:
        """Tell what workers needed whenever their batches are waited for."""
        inner = kind._next_data  # noqa: SLF001 (what waits)

        def next_data(iterator: Any) -> object:
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
