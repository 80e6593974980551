"""How long making a batch takes, wherever that is done.

torch's loaders make a batch by a fetcher of the data set, in the training thread or in worker
processes. It is reached where it is created. Workers that are forked inherit what is put around
it; those that are spawned do not, and are not seen. Standard library and torch only.
"""

from __future__ import annotations

import mmap
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from scaling_study.member import after_torch

if TYPE_CHECKING:
    from collections.abc import Callable

    Fetch = Callable[[Any], Any]

STATEFUL = "torchdata.stateful_dataloader.stateful_dataloader"


def around(wrap: Callable[[Any, Fetch], Fetch]) -> None:
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

        around(self._timed)
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
