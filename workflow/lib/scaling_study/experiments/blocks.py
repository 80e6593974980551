"""Conditions that take their windows in randomised blocks: the one loop of every experiment.

In each block every condition takes a window, in a new order, so machine drift affects all of them
equally. A window that another program disturbed is taken again while attempts are left. Windows
that an interrupted run has taken are not repeated.
"""

import logging
import statistics
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Literal

from msgspec import structs

from scaling_study.config.efforts import Effort, LoaderEffort
from scaling_study.records.experiment import VMSTAT, Window
from scaling_study.records.window import Taken
from scaling_study.runner import windows
from scaling_study.runner.cohort import Cohort, WindowSettings
from scaling_study.runner.member_processes import MemberEndedError

# Further attempts of a job. A machine that is never quiet must not make the study endless: its
# disturbed windows are evidence of that.
ATTEMPTS = 10

# The next attempt would have such a flag too: others use the quota, or bursts outlast it.
LASTING = frozenset({"throttled_burst"})

# A step that takes this many times the median is a long one. Steps are irregular if long ones take
# this share of the time.
LONG_STEP = 3.0
IRREGULAR_SHARE = 0.2

Key = tuple[str, str, float | None, int, int]
Added = dict[str, float | None]
"""Fields of a record that are known only when its window has ended."""
Around = Callable[[], AbstractContextManager[Added]]
Kind = Literal["reference", "intervention", "stressor", "data_loader", "kernel"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Condition:
    """The condition of a window.

    Attributes:
        experiment: kind of its experiment, in records.
        name: its name in records.
        cohort: the members.
        n: how many of them train.
        dose: dose of a stressor, in records.
        count: number of a stressor's processes, in records.
        asked: the number that is set for the members before each attempt; None for none.
        timing: timing of its windows, if it differs from the experiment's.
        frozen: whether the cohort is stopped between its windows.
        rotates: whether each block trains other members, if not all of them train. So one process
            with a favourable memory layout does not bias the result.
        optional: whether the experiment goes on without the cohort once a member has ended.
        around: makes a context that lasts as long as an attempt, and yields what to add to the
            record. A frozen cohort runs only inside it.
    """

    experiment: Kind
    name: str
    cohort: Cohort
    n: int
    dose: float | None = None
    count: int | None = None
    asked: int | None = None
    timing: WindowSettings | None = None
    frozen: bool = False
    rotates: bool = False
    optional: bool = False
    around: Around = lambda: nullcontext({})


@dataclass(slots=True)
class Blocks:
    """Takes the windows of conditions.

    Attributes:
        write: takes the record of each attempt.
        timing: timing of a window.
        attempts: retries that are left.
        further: most retries of one window.
        block: number of the next block.
        done: keys of the windows that an interrupted run has taken (see ``key``).
    """

    write: Callable[[Window], None]
    timing: WindowSettings
    attempts: int = ATTEMPTS
    further: int = ATTEMPTS
    block: int = 0
    done: set[Key] = field(default_factory=set)

    def run(
        self,
        conditions: Sequence[Condition],
        blocks: int,
        shuffle: Random,
        lost: Callable[[Condition], None] | None = None,
    ) -> None:
        """Take a window of each condition in every block.

        Args:
            conditions: the conditions.
            blocks: number of blocks.
            shuffle: orders each block.
            lost: called with an optional condition when a member of its cohort has ended. All
                conditions of that cohort are left out from then on.

        Raises:
            MemberEndedError: a member of a condition that is not optional died or hung.
        """
        left = list(conditions)
        for at in range(blocks):
            log.info("block %d of %d, %d conditions", at + 1, blocks, len(left))
            for one in shuffle.sample(left, len(left)):
                if one not in left:  # its cohort was lost in this block
                    continue
                try:
                    self._take(one, one.rotates * self.block * max(1, one.cohort.size // blocks))
                except MemberEndedError:
                    if not one.optional or lost is None:
                        raise
                    lost(one)
                    left = [each for each in left if each.cohort is not one.cohort]
            self.block += 1

    def _take(self, one: Condition, first: int) -> None:
        """Take a window; retry until it is valid, another attempt cannot help, or none is left."""
        if (one.experiment, one.name, one.dose, one.n, self.block) in self.done:
            return
        timing = one.timing or self.timing
        attempt = 0
        while True:
            if one.asked is not None:
                one.cohort.tell(one.asked)
            with one.around() as added:
                if one.frozen:
                    one.cohort.thaw()
                before = read_vmstat()
                taken = one.cohort.take(windows.Window(0, self.block, one.n), timing, first)
                after = read_vmstat()
                if one.frozen:
                    one.cohort.freeze()
            record = Window(
                **structs.asdict(taken),
                experiment=one.experiment,
                name=one.name,
                dose=one.dose,
                count=one.count,
                rate_share=None,
                attempt=attempt,
                vmstat={name: after[name] - before[name] for name in after},
            )
            self.write(structs.replace(record, **added))
            lasting = LASTING.intersection(record.flags)
            if record.valid or lasting or attempt == self.further or not self.attempts:
                return
            attempt += 1
            self.attempts -= 1


def window_of(effort: Effort | LoaderEffort) -> WindowSettings:
    """Return the timing of an effort's windows."""
    return WindowSettings(effort.steps, effort.shortest_s, effort.longest_s, effort.settle_s)


def key(window: Window) -> Key:
    """Return the key of a window within its job, the same for all its attempts."""
    return window.experiment, window.name, window.dose, window.n, window.block


def irregular(window: Taken) -> bool:
    """Return whether a few long steps take much of a window: their number is then up to chance."""
    for member in window.members:
        median_us = statistics.median(member.step_us) if member.step_us else 0.0
        long_us = sum(one for one in member.step_us if one > LONG_STEP * median_us)
        if long_us > IRREGULAR_SHARE * sum(member.step_us):
            return True
    return False


def mean_step_s(windows: Iterable[Taken]) -> float | None:
    """Return the mean counted step (s) of all members of some windows; None without any."""
    steps = [us for one in windows for member in one.members for us in member.step_us]
    return statistics.fmean(steps) / 1e6 if steps else None


def read_vmstat() -> dict[str, int]:
    """Return the counters of /proc/vmstat on memory pages and disks."""
    rows = (line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    counts = {name: int(value) for name, value in rows}
    return {name: counts[name] for name in (*VMSTAT, "pgpgin") if name in counts}
