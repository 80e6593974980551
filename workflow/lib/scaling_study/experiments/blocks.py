"""Conditions that take their windows in randomised blocks: the one loop of every experiment.

In each block every condition takes a window, in a new order, so machine drift affects all of them
equally. A window that another program disturbed is taken again while attempts are left. Windows
that an interrupted run has taken are not repeated.
"""

from __future__ import annotations

import logging
import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scaling_study.records.codec import plain
from scaling_study.runner import windows
from scaling_study.runner.cohort import WindowSettings
from scaling_study.runner.member_processes import MemberEndedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from random import Random

    from scaling_study.config.efforts import Effort, LoaderEffort
    from scaling_study.runner.cohort import Cohort

# Further attempts of a job. A machine that is never quiet must not make the study endless: its
# disturbed windows are evidence of that.
ATTEMPTS = 10

VMSTAT = (
    *("pswpin", "pswpout", "pgmajfault", "numa_hint_faults", "numa_pages_migrated"),
    *("thp_fault_alloc", "thp_split_page", "compact_stall", "pgpgin"),
)

# The next attempt would have such a flag too: others use the quota, or nobody knows for how long.
LASTING = frozenset({"throttled_burst"})

# A step that takes this many times the median is a long one. Steps are irregular where long ones
# take this share of the time.
LONG_STEP = 3.0
IRREGULAR_SHARE = 0.2

Json = dict[str, Any]
Key = tuple[Any, ...]
Around = Callable[[], AbstractContextManager[Json]]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Condition:
    """What a window is taken under.

    Attributes:
        experiment: what it belongs to, in records.
        name: its own, in records.
        cohort: the members.
        n: how many of them train.
        dose: of a stressor, in records.
        count: of a stressor's processes, in records.
        asked: the number that members are told before each attempt; None for none.
        timing: of its windows, where it differs from the experiment's.
        frozen: whether the cohort is stopped between its windows.
        rotates: whether other members train in each block where not all do. So one process with a
            favourable memory layout does not bias the result.
        optional: whether the experiment goes on without the cohort once a member has ended.
        around: lasts as long as an attempt, and yields what to add to the record. The cohort goes
            on inside of it.
    """

    experiment: str
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

    @property
    def labels(self) -> Json:
        """What its records say of it."""
        names = ("experiment", "name", "dose", "count")
        return {name: getattr(self, name) for name in names} | {"rate_share": None}


@dataclass(slots=True)
class Blocks:
    """Takes the windows of conditions.

    Attributes:
        write: gets the record of each attempt.
        timing: of a window.
        attempts: further ones that are left.
        further: attempts of one window, at most, after the first.
        block: number of the next block.
        done: windows of an interrupted run, as ``key`` names them.
    """

    write: Callable[[Json], None]
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
            conditions: what to take windows of.
            blocks: how many.
            shuffle: orders each block.
            lost: is told of an optional condition when a member of its cohort has ended. All
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
        """Take a window until it is valid, or no attempt is left."""
        if key({**one.labels, "n": one.n, "block": self.block}) in self.done:
            return
        timing = one.timing or self.timing
        attempt = 0
        while True:
            if one.asked is not None:
                one.cohort.tell(one.cohort.alive, one.asked)
            with one.around() as added:
                if one.frozen:
                    one.cohort.thaw()
                before = read_vmstat()
                taken = one.cohort.take(windows.Window(0, self.block, one.n), timing, first)
                after = read_vmstat()
                if one.frozen:
                    one.cohort.freeze()
            record = plain(taken)
            vmstat = {name: after[name] - before[name] for name in after}
            self.write(
                {"kind": "window", **one.labels, **added, "attempt": attempt, **record,
                 "vmstat": vmstat}
            )  # fmt: skip
            lasting = LASTING.intersection(record["flags"])
            if record["valid"] or lasting or attempt == self.further or not self.attempts:
                return
            attempt += 1
            self.attempts -= 1


def window_of(effort: Effort | LoaderEffort) -> WindowSettings:
    """Return how long an experiment's windows last."""
    return WindowSettings(effort.steps, effort.shortest_s, effort.longest_s, effort.settle_s)


def key(window: Mapping[str, Any]) -> Key:
    """Return what tells a window of a job from all others, but for its attempts."""
    return tuple(window[name] for name in ("experiment", "name", "dose", "n", "block"))


def irregular(window: Mapping[str, Any]) -> bool:
    """Whether few steps hold much of a window, so that it depends on chance how many it has."""
    for member in window["members"]:
        step_us = member["step_us"]
        median_us = statistics.median(step_us) if step_us else 0.0
        long_us = sum(one for one in step_us if one > LONG_STEP * median_us)
        if long_us > IRREGULAR_SHARE * sum(step_us):
            return True
    return False


def mean_step_s(windows: Iterable[Mapping[str, Any]]) -> float | None:
    """Return the mean counted step of all members of some windows; None without one."""
    steps = [us for one in windows for member in one["members"] for us in member["step_us"]]
    return statistics.fmean(steps) / 1e6 if steps else None


def read_vmstat(proc: Path = Path("/proc")) -> dict[str, int]:
    """Return those counters of /proc/vmstat that tell of memory pages and disks."""
    rows = (line.split() for line in (proc / "vmstat").read_text().splitlines())
    counts = {name: int(value) for name, value in rows}
    return {name: counts[name] for name in VMSTAT if name in counts}
