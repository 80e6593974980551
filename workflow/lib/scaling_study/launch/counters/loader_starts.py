"""Time to start and end a loader's worker processes: in each epoch, if they do not outlive it."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING

from scaling_study.common.counter import Counter

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    T = TypeVar("T")


def _time(add: Callable[[int], None]) -> None:
    from torch.utils.data import dataloader  # noqa: PLC0415 (the script's to import first)

    workers = dataloader._MultiProcessingDataLoaderIter  # noqa: SLF001 (what starts them)
    for name in ("__init__", "_shutdown_workers"):
        setattr(workers, name, _timed(getattr(workers, name), add))


def _timed(inner: Callable[P, T], add: Callable[[int], None]) -> Callable[P, T]:
    now = perf_counter_ns  # local: an iterator may outlive this module

    def timed(*args: P.args, **kwargs: P.kwargs) -> T:
        began = now()
        try:
            return inner(*args, **kwargs)
        finally:
            add(now() - began)

    return timed


COUNTER = Counter("Time in which a loader's workers are started and ended.", time=_time)
