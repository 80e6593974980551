"""Windows of conditions in randomised blocks: the one loop of everything that is measured.

In each block every condition takes a window, in a new order, so machine drift affects all of them
equally. A window that another program disturbed is taken again while attempts are left. Windows
that an interrupted run has taken are not repeated.
"""

import logging
import math
from collections import deque
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Generic, Protocol, TypeVar

from scaling_study.records.window import Taken
from scaling_study.runner.windows import WindowPlan

LASTING = frozenset({"throttled_burst"})
"""The next attempt would have such a flag, too: others use the quota, or bursts outlast it."""

log = logging.getLogger("measure")


class LostError(Exception):
    """No window of this condition can be taken any more; the text says why."""


class BlockCondition(Protocol):
    """The condition of windows: how many members train, and which."""

    @property
    def n(self) -> int:
        """The number of members that train."""

    @property
    def group(self) -> Hashable:
        """What the condition depends on: conditions of one group are lost together."""

    def key(self, block: int) -> Hashable:
        """Return the key of the condition's window in a block, the same in every run of the job."""


C = TypeVar("C", bound=BlockCondition)


@dataclass(slots=True)
class Blocks(Generic[C]):
    """Takes the windows of conditions.

    Attributes:
        attempt: takes a window once and writes it down, given how often it was taken before; raises
            LostError if no window of the condition can be taken any more.
        retries: most retries of one window.
        retries_left: retries that are left for all windows together; None for no limit.
        done: keys of the windows that an interrupted run has taken.
        block: number of the next block.
        window: number of the next window.
        lost: why conditions were lost, by their group.
    """

    attempt: Callable[[C, WindowPlan, int], Taken]
    retries: int
    retries_left: int | None = None
    done: Collection[Hashable] = ()
    block: int = 0
    window: int = 0
    lost: dict[Hashable, str] = field(default_factory=dict)
    _waiting: deque[tuple[C, WindowPlan]] = field(default_factory=deque)

    def add(self, conditions: Sequence[C], blocks: int, shuffle: Random) -> None:
        """Add blocks, each with a window of every condition, in an order of its own."""
        for _ in range(blocks):
            for condition in shuffle.sample(conditions, len(conditions)):
                window = WindowPlan(self.window, self.block, condition.n)
                if condition.key(self.block) not in self.done:
                    self._waiting.append((condition, window))
                self.window += 1
            self.block += 1

    def begin_with_few(self) -> None:
        """Take the first block in the order of its numbers of members."""
        first = self._waiting[0][1].block if self._waiting else 0

        def place(waiting: tuple[C, WindowPlan]) -> float:
            return waiting[1].n if waiting[1].block == first else math.inf

        self._waiting = deque(sorted(self._waiting, key=place))

    def take_next(self) -> bool:
        """Take the next window, until it is valid or has been taken often enough.

        Returns:
            Whether there was one.
        """
        while self._waiting:
            condition, window = self._waiting.popleft()
            if condition.group in self.lost:
                continue
            log.info("block %d of %d: %d processes", window.block + 1, self.block, window.n)
            try:
                self._take(condition, window)
            except LostError as error:
                self.lost[condition.group] = str(error)
            return True
        return False

    def run(self, conditions: Sequence[C], blocks: int, shuffle: Random) -> None:
        """Take a window of each condition in every block."""
        self.add(conditions, blocks, shuffle)
        while self.take_next():
            pass

    def _take(self, condition: C, window: WindowPlan) -> None:
        for attempt in range(self.retries + 1):
            taken = self.attempt(condition, window, attempt)
            if taken.valid or LASTING.intersection(taken.flags) or self.retries_left == 0:
                return
            if self.retries_left is not None and attempt < self.retries:
                self.retries_left -= 1
