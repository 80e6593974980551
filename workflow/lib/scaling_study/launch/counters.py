"""Times that are counted inside members, beside the kernel's counters, by the counter's name.

``common/counter`` imports this module and has all counters: import that one. A further counter is a
module with a ``COUNTER`` in a folder ``scaling_study_counters`` on PYTHONPATH.
"""

from __future__ import annotations

import gc
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING

from scaling_study.common.counter import Counter
from scaling_study.member import after_torch, loaders

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    T = TypeVar("T")


def _time_collections(add: Callable[[int], None]) -> None:
    now, began = perf_counter_ns, 0  # local: the last collection may outlive this module

    def collects(phase: str, _: object) -> None:
        nonlocal began
        if phase == "start":
            began = now()
        else:
            add(now() - began)

    gc.callbacks.append(collects)


def _time_compiler(add: Callable[[int], None]) -> None:
    """Register the compiler's own callbacks; their arguments have changed between releases."""
    from torch._dynamo.callback import callback_handler  # noqa: PLC0415

    began = 0
    clear = callback_handler.clear

    def starts(*_: object) -> None:
        nonlocal began
        began = perf_counter_ns()

    def ends(*_: object) -> None:
        add(perf_counter_ns() - began)

    def register() -> None:
        callback_handler.register_start_callback(starts)
        callback_handler.register_end_callback(ends)

    def clear_others() -> None:  # torch._dynamo.reset() clears all callbacks
        clear()
        register()

    register()
    callback_handler.clear = clear_others


def _time_loader_starts(add: Callable[[int], None]) -> None:
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


COUNTERS = {
    "collect": Counter(
        "Time in Python's garbage collector, in whatever phase.", time=_time_collections
    ),
    "compile": Counter(
        "Time in torch.compile's compiler, in whatever phase.",
        time=lambda add: after_torch.call_back(
            lambda: _time_compiler(add), "torch._dynamo.callback"
        ),
    ),
    "loader_computed": Counter(
        "CPU time in which torch's loaders make batches.",
        time=partial(loaders.watch, loaders.COMPUTED),
    ),
    "loader_made": Counter(
        "Time in which torch's loaders make batches: that of all worker processes together.",
        time=partial(loaders.watch, loaders.MADE),
    ),
    "loader_starts": Counter(
        "Time in which a loader's workers are started and ended.", time=_time_loader_starts
    ),
}
