"""Conditions of experiments: which members train, and what is done around their windows.

A variant declares how a launch is changed. A condition is a variant with its started members.
"""

import statistics
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from msgspec import structs

from scaling_study.common.axis_values import Axes
from scaling_study.config.efforts import Windows
from scaling_study.records.experiment import VMSTAT, ExperimentWindow
from scaling_study.records.window import Taken
from scaling_study.runner import windows
from scaling_study.runner.cohort import Cohort, WindowSettings

# A step that takes this many times the median is a long one. Steps are irregular if long ones take
# this share of the time.
LONG_STEP = 3.0
IRREGULAR_SHARE = 0.2

REFERENCE = "reference"
"""The name of the launch itself, in records of experiments that explain a launch."""

Key = tuple[str, str, float | None, int, int]
Added = dict[str, float | None]
"""Fields of a record that are known only when its window has ended."""
Around = Callable[[], AbstractContextManager[Added]]
Kind = Literal["reference", "intervention", "stressor", "data_loader", "kernel"]


@dataclass(frozen=True, slots=True)
class Variant:
    """A launch as it is, or changed in one way.

    Attributes:
        name: Its name in records.
        title: Its name for readers.
        axes: The axes that it changes.
        change: The changes that it makes inside the members (see ``changes``).
        asked: The number that is set for the members before each attempt; None for none. For a
            loader it is the code of a request (``Ask``).
        of: The variant whose members it uses, with another request; empty for its own.
        timing: Timing of its windows, if it differs from the experiment's. Members of the launch
            itself take them.
    """

    name: str
    title: str = ""
    axes: Axes = field(default_factory=dict)
    change: tuple[str, ...] = ()
    asked: int | None = None
    of: str = ""
    timing: WindowSettings | None = None

    @property
    def members_of(self) -> str:
        """The name of the variant whose members take its windows."""
        return REFERENCE if self.timing else self.of or self.name


@dataclass(frozen=True, slots=True)
class Condition:
    """The condition of a window.

    Attributes:
        experiment: kind of its experiment, in records.
        variant: the variant of the launch, or of what members run.
        cohort: the members.
        n: how many of them train.
        dose: dose of a stressor, in records.
        count: number of a stressor's processes, in records.
        frozen: whether the cohort is stopped between its windows.
        rotates: by how many members each block moves on to others, if not all of them train. So one
            process with a favourable memory layout does not bias the result.
        optional: whether the experiment goes on without the cohort once a member has ended.
        around: makes a context that lasts as long as an attempt, and yields what to add to the
            record. A frozen cohort runs only inside it.
    """

    experiment: Kind
    variant: Variant
    cohort: Cohort
    n: int
    dose: float | None = None
    count: int | None = None
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
        return self.experiment, self.variant.name, self.dose, self.n, block

    def attempt(
        self, window: windows.WindowPlan, number: int, timing: WindowSettings
    ) -> ExperimentWindow:
        """Take a window once.

        Args:
            window: the window.
            number: how often it was taken before.
            timing: its timing, unless the variant has its own.

        Raises:
            MemberEndedError: a member died or hung.
        """
        variant = self.variant
        if variant.asked is not None:
            self.cohort.tell(variant.asked)
        with self.around() as added:
            if self.frozen:
                self.cohort.thaw()
            before = read_vmstat()
            taken = self.cohort.take(window, variant.timing or timing, self.rotates * window.block)
            after = read_vmstat()
            if self.frozen:
                self.cohort.freeze()
        record = ExperimentWindow(
            **structs.asdict(taken),
            experiment=self.experiment,
            name=variant.name,
            dose=self.dose,
            count=self.count,
            rate_share=None,
            attempt=number,
            vmstat={name: after[name] - before[name] for name in after},
        )
        return structs.replace(record, **added)


def window_of(effort: Windows) -> WindowSettings:
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
