"""Time in Python's garbage collector."""

from __future__ import annotations

import gc
from time import perf_counter_ns
from typing import TYPE_CHECKING

from scaling_study.common.counter import Counter

if TYPE_CHECKING:
    from collections.abc import Callable


def _time(add: Callable[[int], None]) -> None:
    now, began = perf_counter_ns, 0  # local: the last collection may outlive this module

    def collects(phase: str, _: object) -> None:
        nonlocal began
        if phase == "start":
            began = now()
        else:
            add(now() - began)

    gc.callbacks.append(collects)


COUNTER = Counter("Time in Python's garbage collector, in whatever phase.", time=_time)
