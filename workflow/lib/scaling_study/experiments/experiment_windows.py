"""Taking the windows of an experiment: several cohorts, one journal, one budget of retakes."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scaling_study.records.codec import plain
from scaling_study.runner import windows
from scaling_study.runner.cohort import WindowSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from scaling_study.config.efforts import Effort, FeedEffort
    from scaling_study.runner.cohort import Cohort
    from scaling_study.runner.journal import Journal

# A window that another program disturbed is taken again, but a machine that is never quiet must not
# make the study endless: its windows are evidence of that.
RETAKES = 10

VMSTAT = (
    *("pswpin", "pswpout", "pgmajfault", "numa_hint_faults", "numa_pages_migrated"),
    *("thp_fault_alloc", "thp_split_page", "compact_stall", "pgpgin"),
)

# A window with such a flag would have it again: others use the quota too, or there is no telling
# for how long it lasts.
LASTING = frozenset({"throttled_burst"})

# A step that takes this many times as long as most is a long one …
LONG_STEP = 3.0
# … and steps are irregular where long ones take this part of the time.
IRREGULAR_SHARE = 0.2

Json = dict[str, Any]
Key = tuple[Any, ...]
Given = Callable[[], AbstractContextManager[Json]]


def window_of(effort: Effort | FeedEffort) -> WindowSettings:
    """Return how long an experiment's windows last."""
    return WindowSettings(effort.steps, effort.shortest_s, effort.longest_s, effort.settle_s)


@contextmanager
def nothing() -> Iterator[Json]:
    """Give nothing beside the window."""
    yield {}


def key(window: Mapping[str, Any]) -> Key:
    """Return what tells a window of a job from all others, but for its retakes."""
    return tuple(window[name] for name in ("experiment", "name", "dose", "n", "block"))


def irregular(window: Mapping[str, Any]) -> bool:
    """Whether few steps hold much of a window, so that it depends on chance how many it has."""
    for member in window["members"]:
        step_us = member["step_us"]
        usual_us = statistics.median(step_us) if step_us else 0.0
        long_us = sum(one for one in step_us if one > LONG_STEP * usual_us)
        if long_us > IRREGULAR_SHARE * sum(step_us):
            return True
    return False


def mean_step_s(windows: Iterable[Mapping[str, Any]]) -> float | None:
    """Return the mean counted step of all members of some windows; None without one."""
    steps = [us for one in windows for member in one["members"] for us in member["step_us"]]
    return statistics.fmean(steps) / 1e6 if steps else None


@dataclass(slots=True)
class Taker:
    """Takes windows and writes their records.

    Attributes:
        journal: gets the records.
        timing: of a window.
        retakes: how many are left.
        block: the randomised block that is being taken.
        done: the windows that an interrupted run has taken, as ``key`` names them.
    """

    journal: Journal[Json]
    timing: WindowSettings
    retakes: int = RETAKES
    block: int = 0
    done: set[Key] = field(default_factory=set)

    def take(
        self,
        one: Cohort,
        n: int,
        labels: Mapping[str, Any],
        given: Given = nothing,
        *,
        first: int = 0,
        timing: WindowSettings | None = None,
    ) -> Json | None:
        """Take a window until it is valid, or the retakes of this job are used up.

        Args:
            one: the cohort.
            n: its members that train.
            labels: what the record says of the experiment.
            given: makes what lasts as long as the window, and yields what to add to the record.
            first: the members that train are those from this one on.
            timing: of this window, where it is another one.

        Returns:
            Its record; None where an interrupted run has taken it.

        Raises:
            MemberEndedError: a member died or hung.
        """
        if key({**labels, "n": n, "block": self.block}) in self.done:
            return None
        take = 0
        while True:
            with given() as added:
                before = read_vmstat()
                taken = one.take(windows.Window(0, self.block, n), timing or self.timing, first)
                after = read_vmstat()
            record = plain(taken)
            vmstat = {key: after[key] - before[key] for key in after}
            whole = {"kind": "window", **labels, **added, "take": take, **record, "vmstat": vmstat}
            self.journal.write(whole)
            if record["valid"] or self.retakes == 0 or LASTING.intersection(record["flags"]):
                return whole
            take += 1
            self.retakes -= 1


def read_vmstat(proc: Path = Path("/proc")) -> dict[str, int]:
    """Return those counters of /proc/vmstat that tell of memory pages and disks."""
    rows = (line.split() for line in (proc / "vmstat").read_text().splitlines())
    counts = {name: int(value) for name, value in rows}
    return {name: counts[name] for name in VMSTAT if name in counts}
