"""Time in torch.compile's compiler, whenever it runs."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING

from scaling_study.common.counter import Counter
from scaling_study.member import after_torch

if TYPE_CHECKING:
    from collections.abc import Callable


def _time(add: Callable[[int], None]) -> None:
    after_torch.call_back(lambda: _register(add), "torch._dynamo.callback")


def _register(add: Callable[[int], None]) -> None:
    # The compiler's own callbacks; the arguments that they get have changed between releases.
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


COUNTER = Counter("Time in torch.compile's compiler, in whatever phase.", time=_time)
