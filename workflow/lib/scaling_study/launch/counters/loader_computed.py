"""What making batches computes, in the training thread or in worker processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaling_study.common.counter import Counter
from scaling_study.member import loaders

if TYPE_CHECKING:
    from collections.abc import Callable


def _time(add: Callable[[int], None]) -> None:
    loaders.watch(loaders.COMPUTED, add)


COUNTER = Counter("CPU time in which torch's loaders make batches.", time=_time)
