"""Conditions of experiments: which members train, and what is done around their windows."""

import statistics
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from msgspec import structs

from scaling_study.config.efforts import Effort, LoaderEffort
from scaling_study.records.experiment import VMSTAT, ExperimentWindow
from scaling_study.records.window import Taken
from scaling_study.runner import windows
from scaling_study.runner.cohort import Cohort, WindowSettings

# A step that takes this many times the median is a long one. Steps are irregular if long ones take
# this share of the time.
LONG_STEP = 3.0
IRREGULAR_SHARE = 0.2

Key = tuple[str, str, float | None, int, int]
Added = dict[str, float | None]
"""Fields of a record that are known only when its window has ended."""
Around = Callable[[], AbstractContextManager[Added]]
Kind = Literal["reference", "intervention", "stressor", "data_loader", "kernel"]


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
        rotates: by how many members each block moves on to others, if not all of them train. So one
            process with a favourable memory layout does not bias the result.
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
    rotates: int = 0
    optional: bool = False
    around: Around = lambda: nullcontext({})

    @property
    def group(self) -> Cohort:
        """The cohort: all conditions are lost with it."""
        return self.cohort

    def key(self, block: int) -> Key:
        """Return the key of its window in a block, the same for all attempts."""
        return self.experiment, self.name, self.dose, self.n, block

    def attempt(
        self, window: windows.WindowPlan, number: int, timing: WindowSettings
    ) -> ExperimentWindow:
        """Take a window once.

        Args:
            window: the window.
            number: how often it was taken before.
            timing: its timing, unless the condition has its own.

        Raises:
            MemberEndedError: a member died or hung.
        """
        if self.asked is not None:
            self.cohort.tell(self.asked)
        with self.around() as added:
            if self.frozen:
                self.cohort.thaw()
            before = read_vmstat()
            taken = self.cohort.take(window, self.timing or timing, self.rotates * window.block)
            after = read_vmstat()
            if self.frozen:
                self.cohort.freeze()
        record = ExperimentWindow(
            **structs.asdict(taken),
            experiment=self.experiment,
            name=self.name,
            dose=self.dose,
            count=self.count,
            rate_share=None,
            attempt=number,
            vmstat={name: after[name] - before[name] for name in after},
        )
        return structs.replace(record, **added)


def window_of(effort: Effort | LoaderEffort) -> WindowSettings:
    """Return the timing of an effort's windows."""
    return WindowSettings(effort.steps, effort.shortest_s, effort.longest_s, effort.settle_s)


def key(window: ExperimentWindow) -> Key:
    """Return the key of a recorded window (`Condition.key`)."""
    return window.experiment, window.name, window.dose, window.n, window.block


def irregular(window: Taken) -> bool:
    """Return whether a few long steps take much of a window: their number is then up to chance."""
    for member in window.members:
        median_us = statistics.median(member.step_us) if member.step_us else 0.0
        long_us = sum(us for us in member.step_us if us > LONG_STEP * median_us)
        if long_us > IRREGULAR_SHARE * sum(member.step_us):
            return True
    return False


def mean_step_s(windows: Iterable[Taken]) -> float | None:
    """Return the mean counted step (s) of all members of some windows; None without any."""
    steps = [us for window in windows for member in window.members for us in member.step_us]
    return statistics.fmean(steps) / 1e6 if steps else None


def read_vmstat() -> dict[str, int]:
    """Return the counters of /proc/vmstat on memory pages and disks."""
    rows = (line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    counts = {name: int(value) for name, value in rows}
    return {name: counts[name] for name in (*VMSTAT, "pgpgin") if name in counts}
