"""The windows of one cohort: those that are planned, and others that turn out to be needed.

The planned windows are taken first. If the script had not settled from the beginning, the windows
of that time do not count and are taken anew (``settling``). If too few non-step phases were seen,
further windows are taken (``non_step``).

Cohorts of several launches can take their windows in turns: members sleep between windows.
"""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from msgspec import structs

from scaling_study.common.topology import format_cpu_list
from scaling_study.host import kernel_counters
from scaling_study.launch.axes import axis_table
from scaling_study.member.member import SKIPS
from scaling_study.records.window import (
    CHILDREN_HANG,
    NOT_COUNTED,
    CohortEnd,
    CohortEvent,
    Readbacks,
    Settled,
    Window,
)
from scaling_study.runner import foreign, headroom, non_step, settling
from scaling_study.runner.blocks import Blocks, LostError
from scaling_study.runner.cohort import Cohort, WindowSettings
from scaling_study.runner.member_processes import (
    FailedError,
    MemberEnd,
    MemberEndedError,
    ScriptEndedError,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Sequence

    from scaling_study.records.readback import Check, Readback
    from scaling_study.records.window import Record, Slot, Status, Taken
    from scaling_study.runner.jobs import Job
    from scaling_study.runner.journal import Journal
    from scaling_study.runner.windows import WindowPlan

MEMBER_RESTARTS = 2
"""A member that ended is started again at most this often in a cohort; then its points are lost."""

MORE_LONGEST_S = 120.0
"""Windows that are taken anew take no longer than this, and further ones begin within it."""

SETTLING_ROUNDS = 2
"""Windows are taken anew at most this often."""

FEWEST_BLOCKS = 3
"""A test of whether the last windows have settled by themselves takes at least this many blocks."""

CHANGEABLE = {
    "cpus": "its CPUs (os.sched_setaffinity)",
    "policy": "its memory policy",
    "intra_op": "its number of threads (torch.set_num_threads)",
    "inter_op": "its number of inter-op threads (torch.set_num_interop_threads)",
    "isa": "the vector instructions of torch",
    "default_dtype": "torch's default type",
}
"""Fields of a readback that a script can change while it trains, in words."""
CHANGED = (
    "the script changed {} from {} to {} while it trained: windows before and after that show two"
    " launches. Let it do so before its first step, or leave it to the launch"
)

SETS = "the script itself sets %s: that holds in all launches, whatever they ask for"
GPU = (
    "the script has a GPU open (%s), and this study compares launches on CPUs: to train on these"
    ' alone, set workload.env: {CUDA_VISIBLE_DEVICES: ""}'
)

log = logging.getLogger("measure")


@dataclass(frozen=True, slots=True)
class Count:
    """The condition that so many of a cohort's members train."""

    n: int

    @property
    def group(self) -> int:
        """The process count itself: the others go on without it."""
        return self.n

    def key(self, block: int) -> tuple[int, int]:
        """Return the key of its window in a block."""
        return self.n, block


@dataclass(frozen=True, slots=True)
class CohortTask:
    """What a cohort is to measure.

    Attributes:
        job: what is measured.
        number: the cohort's number in the record file.
        journal: the journal of the record file.
        lookout: the lookout for other programs.
        counts: the cohort's process counts.
        done: keys of the windows that an interrupted run has taken (``Count.key``).
        first_decides: whether the study stops if the first member's script ends without a step.
    """

    job: Job
    number: int
    journal: Journal[Record]
    lookout: foreign.Lookout
    counts: Sequence[int]
    done: Collection[Hashable]
    first_decides: bool


@dataclass(slots=True)
class CohortRun:
    """Takes the windows of one cohort, writes them down, and keeps the time.

    A subclass defines how a window is taken: from members with gates (``CohortWindows``), or from a
    program as a whole (``pool.PoolWindows``).

    Attributes:
        task: what is measured.
        blocks: the windows that are left.
        began_s: when the cohort's time began (of the performance counter).
        paused_s: time between windows in which other cohorts had the machine.
        started_s: from the beginning to the first window; None before that.
        in_windows_s: time in windows.
        member: the memory that each member takes; None until all have started.
        counted: whether a window was valid.
        failed: why none of the windows counts; None if they do.
        why_lost: why windows are missing, where the first lost count does not say it.
    """

    task: CohortTask
    blocks: Blocks[Count] = field(init=False)
    began_s: float = field(init=False, default_factory=time.perf_counter)
    paused_s: float = field(init=False, default=0.0)
    _left_s: float | None = field(init=False, default=None)
    started_s: float | None = field(init=False, default=None)
    in_windows_s: float = field(init=False, default=0.0)
    member: headroom.Footprint | None = field(init=False, default=None)
    counted: bool = field(init=False, default=False)
    failed: str | None = field(init=False, default=None)
    why_lost: str = field(init=False, default="")

    def __post_init__(self) -> None:
        """Plan the windows that the config asks for."""
        measure = self.task.job.plan.measure
        self.blocks = Blocks(self._take, measure.retries, done=self.task.done)
        shuffle = random.Random(self.task.job.seed)  # noqa: S311 (an order, no secret)
        self.blocks.add(self._conditions(), measure.windows, shuffle)

    # ---- for subclasses to define

    def _attempt(self, window: WindowPlan) -> Taken:
        """Take a window once.

        Raises:
            LostError: neither this window nor another of its process count can be taken.
            FailedError: the cohort's windows do not count.
        """
        raise NotImplementedError

    def _start(self) -> None:
        """Start what must live before the first window.

        Raises:
            FailedError: the cohort's windows do not count.
        """

    def _more(self) -> bool:
        """Add windows, if any are needed beyond those that are planned; return whether."""
        return False

    def _finish(self) -> None:
        """Look at what was measured, after the last window.

        Raises:
            FailedError: the cohort's windows do not count.
        """

    # ---- running it

    def take_next(self) -> bool:
        """Take the next window; return whether there was one.

        Raises:
            ScriptEndedError: the first member's script ended without a step (``first_decides``).
        """
        try:
            if self._left_s is None:
                self._start()
            else:
                self.paused_s += time.perf_counter() - self._left_s
            if self.blocks.take_next() or (self._more() and self.blocks.take_next()):
                return True
            self._finish()
        except FailedError as error:
            self.failed = str(error)
        finally:
            self._left_s = time.perf_counter()
        return False

    @property
    def lost(self) -> set[int]:
        """Process counts of which no window can be taken any more."""
        return set(self.task.counts) & self.blocks.lost.keys()

    @property
    def outcome(self) -> tuple[Status, str | None]:
        """The cohort's status and the reason."""
        if self.failed is not None:
            return "failed", self.failed
        if not self.blocks.lost:
            return "complete", None
        n, reason = next(iter(self.blocks.lost.items()))
        some = self.counted or self.lost < set(self.task.counts)
        return "partial" if some else "failed", self.why_lost or f"n = {n}: {reason}"

    def end(self, status: Status, reason: str | None, remedy: str | None) -> CohortEnd:
        """Return the cohort's last record."""
        return CohortEnd(
            cohort=self.task.number,
            status=status,
            reason=reason,
            remedy=remedy,
            wall_s=self.now_s(),
            start_s=self.started_s if status in {"complete", "partial"} else None,
            in_windows_s=self.in_windows_s,
            member_bytes=self.member.memory if self.member else None,
            member_shared_bytes=self.member.shared if self.member else None,
        )

    def now_s(self) -> float:
        """Return the time since the beginning, without pauses."""
        return time.perf_counter() - self.began_s - self.paused_s

    def _conditions(self) -> list[Count]:
        return [Count(n) for n in self.task.counts]

    def _starts(self) -> None:
        """Note that the first window is about to be taken."""
        self.started_s = time.perf_counter() - self.began_s

    def _take(self, condition: Count, window: WindowPlan, attempt: int) -> Taken:
        """Take a window once and write it down.

        If several in a row were lost to other programs, it looks which ones.

        Raises:
            LostError: no window of this process count can be taken any more.
        """
        try:
            record = self._attempt(window)
        except LostError as error:
            log.warning("n = %d: %s", condition.n, error)
            raise
        self.in_windows_s += record.window_s
        self.counted |= record.valid
        self.task.journal.write(
            Window(cohort=self.task.number, attempt=attempt, **structs.asdict(record))
        )
        programs = self.task.lookout.after_window(record.flags)
        if programs is not None:
            text = foreign.describe(programs) or "nobody takes it now"
            log.warning("windows keep being lost to others' CPU time: %s", text)
        if not record.valid:
            log.info("n = %d: invalid (%s)", record.n, ", ".join(record.flags))
        return record

    def _write_readbacks(
        self,
        when: Literal["before", "after"],
        checks: list[Check],
        reports: list[Readback],
        shared_files: dict[str, int] | None = None,
    ) -> None:
        """Write down the settings that members got.

        Raises:
            FailedError: a setting of the launch does not hold.
        """
        self.task.journal.write(
            Readbacks(
                cohort=self.task.number,
                when=when,
                checks=checks,
                members=reports,
                shared_files=shared_files,
            )
        )
        if wrong := axis_table.failed(checks):
            raise FailedError(wrong if when == "before" else f"{wrong}, after the last window")


@dataclass(slots=True)
class CohortWindows(CohortRun):
    """The windows of members with gates.

    Attributes:
        cohort: the members, not started yet.
        slots: the launch's slots, in order.
        before: records of an interrupted run.
        steps: the block and the steps of each valid window.
        last_end: the reason for the latest end of a member; None if none has ended.
        skips: the end of a member whose script no longer trains; None if there is none.
        reports: what members read back before the first window.
        trainers_cpus: how many CPUs training threads may run on, by process count.
        settling: whether windows may still have to be taken anew.
        rounds: how often windows were taken anew.
        settled: what is written once they have been.
        until_s: when no further windows begin (of ``now_s``).
        further: how many further windows each process count had.
    """

    cohort: Cohort
    slots: Sequence[Slot]
    before: Sequence[Record]
    steps: list[tuple[int, non_step.LaunchSteps]] = field(init=False, default_factory=list)
    last_end: str | None = field(init=False, default=None)
    skips: MemberEnd | None = field(init=False, default=None)
    reports: Sequence[Readback] = field(init=False, default=())
    trainers_cpus: dict[int, int | None] = field(init=False, default_factory=dict)
    settling: bool = field(init=False, default=True)
    rounds: int = field(init=False, default=0)
    settled: Settled | None = field(init=False, default=None)
    until_s: float = field(init=False, default=0.0)
    further: Counter[int] = field(init=False, default_factory=Counter)

    def __post_init__(self) -> None:
        """Number further windows after all that are planned or were taken."""
        CohortRun.__post_init__(self)  # (super() finds the class without slots)
        taken = [
            record
            for record in self.before
            if isinstance(record, Window) and record.n in self.task.counts
        ]
        self.blocks.block = max([self.blocks.block, *(record.block + 1 for record in taken)])
        self.blocks.window = max([self.blocks.window, *(record.window + 1 for record in taken)])

    def _start(self) -> None:
        """Start the members and let them warm up.

        Raises:
            FailedError: no member started, or a setting of the launch does not hold.
        """
        settings, free = self.task.job.plan.measure, headroom.read_free()
        started = [spec.slot for spec in self.slots[: self.cohort.size]]
        try:
            first_decides = self.task.first_decides
            self.cohort.start(started, settings.timeout_s, first_decides=first_decides)
            reports = self.cohort.read_back(settings.timeout_s)
        finally:
            self._write_events()
        if not reports:
            raise FailedError(f"no member came as far as its first step{self._because()}")
        self.reports = reports
        if self.task.first_decides:
            if device := kernel_counters.open_gpu(self.cohort.members.pids.values()):
                log.warning(GPU, device)
            if values := self.cohort.script_sets(reports[0]):
                log.warning(SETS, ", ".join(f"{name}={value}" for name, value in values.items()))
        self._check("before", reports)
        self.cohort.warm_up(settings.warmup_steps)
        self.member = headroom.footprint(free, len(self.cohort.alive))
        self._starts()

    def _finish(self) -> None:
        """Have members report again: a script may set threads, CPUs or types while it trains.

        Raises:
            FailedError: a setting of the launch no longer holds.
        """
        try:
            reports = self.cohort.read_back(self.task.job.plan.measure.timeout_s)
        finally:
            self._write_events()
        first = {report.slot: report for report in self.reports}
        for report in reports:
            for name, label in CHANGEABLE.items():
                then, now = getattr(first.get(report.slot, report), name), getattr(report, name)
                if then != now:
                    raise FailedError(CHANGED.format(label, _shown(then), _shown(now)))
        if reports:
            self._check("after", reports)
        if self.lost:
            text = ", ".join(map(str, sorted(self.lost)))
            self.why_lost = f"members ended, so that windows of {text} processes could not be taken"
            self.why_lost += self._because()

    def _check(self, when: Literal["before", "after"], reports: list[Readback]) -> None:
        checks = axis_table.checks(self.task.job.launch.axes, self.slots, reports)
        self._write_readbacks(when, checks, reports, self.cohort.shared_files() or None)

    def _more(self) -> bool:
        """Add windows until the script has settled and enough was seen."""
        if self.settling:
            if not self.rounds:
                self.until_s = self.now_s() + MORE_LONGEST_S
            self.settling = self._settle()
            if self.settling:
                return True
            self.until_s = self.now_s() + MORE_LONGEST_S
        steps = non_step.LaunchSteps.concat(self._by_window())
        counts = sorted(set(self.task.counts) - self.lost)
        short = non_step.lacking(steps, non_step.find(steps), counts)
        if not short or self.now_s() >= self.until_s:
            return False
        # In turns: a phase that one count never shows may be seen at another.
        n = min(short, key=lambda each: self.further[each])
        self.further[n] += 1
        log.info("n = %d: another window, for what comes back between steps", n)
        self._add([Count(n)], 1)
        return True

    def _settle(self) -> bool:
        """Add windows in the place of those in which the script had not settled; return whether.

        If the later blocks have settled by themselves, only the first ones are replaced, otherwise
        all of them, as far as time allows. If too few would be left, all stay as they are.
        """
        change = self._change()
        if self.settled is not None:
            self.task.journal.write(structs.replace(self.settled, left=change))
        if change is None or self.rounds == SETTLING_ROUNDS or self.lost:
            return False
        self.rounds += 1
        blocks = sorted({block for block, _ in self.steps})
        enough = blocks[1 : 1 - FEWEST_BLOCKS]
        first = next((block for block in enough if self._change(block) is None), self.blocks.block)
        left = [block for block in blocks if block >= first]
        planned = self.task.job.plan.measure.windows
        again = planned - len(left)
        if blocks:
            room_s = max(0.0, self.until_s - self.now_s())
            block_s = max(0.01, self.in_windows_s / len(blocks))
            again = min(again, int(room_s / block_s))
        log.info("the script has not settled (%+.0f%% of all time)", 100 * change)
        if len(left) + again < min(planned, FEWEST_BLOCKS):
            return False
        self.steps = [(block, steps) for block, steps in self.steps if block >= first]
        log.info("windows are taken anew")
        self._add(self._conditions(), again)
        self.settled = Settled(cohort=self.task.number, block=first, change=change, left=None)
        return True

    def _change(self, block: int = 0) -> float | None:
        """Return the change with members' age (``settling.change``) in windows from a block on."""
        windows = self._by_window(block)
        return settling.change(windows, non_step.find(non_step.LaunchSteps.concat(windows)))

    def _add(self, conditions: Sequence[Count], blocks: int) -> None:
        shuffle = random.Random(self.task.job.seed + self.blocks.block)  # noqa: S311 (an order)
        self.blocks.add(conditions, blocks, shuffle)

    def _by_window(self, block: int = 0) -> list[non_step.LaunchSteps]:
        """Return the steps of all members in each window that counts, from a block on."""
        return [steps for first, steps in self.steps if first >= block]

    def _attempt(self, window: WindowPlan) -> Taken:
        """Take a window once; if a member ends meanwhile, restart it and begin the window again."""
        config = self.task.job.plan.measure
        timing = WindowSettings(config.steps, config.shortest_s, config.longest_s, config.settle_s)
        while True:
            if self.skips is not None:  # as later starts will
                if self.task.first_decides:
                    raise ScriptEndedError(self.skips)
                raise LostError(self.skips.reason)
            while missing := self.cohort.restartable(MEMBER_RESTARTS):
                self.cohort.start(missing, config.timeout_s)
                self.cohort.warm_up(config.warmup_steps)
                self._write_events()
            # Only the first n members will do: each slot has its own CPUs and memory.
            if not set(range(window.n)) <= set(self.cohort.alive):
                raise LostError("its members ended too often")
            try:
                record = self.cohort.take(window, timing)
            except MemberEndedError:
                self._write_events()
                continue
            cpus = record.machine.trainers_cpus
            if (then := self.trainers_cpus.setdefault(window.n, cpus)) != cpus:
                label = f"the number of its CPUs ({window.n} processes, window {window.window})"
                raise FailedError(CHANGED.format(label, then, cpus))
            if record.valid:
                self.steps.append((window.block, non_step.window_steps(record)))
            return record

    def _write_events(self) -> None:
        """Write down how members have ended.

        Raises:
            FailedError: the steps of one cannot be counted, or its child processes hang.
            ScriptEndedError: they cannot be counted, with ``first_decides``.
        """
        for event in self.cohort.events:
            log.warning("member %s: %s", event.slot, event.reason)
            self.last_end = event.reason
            if SKIPS in event.reason:
                self.skips = event
            self.task.journal.write(CohortEvent(cohort=self.task.number, **event._asdict()))
        events = [*self.cohort.events]
        self.cohort.events.clear()
        for event in events:
            if event.what == NOT_COUNTED and self.task.first_decides:
                raise ScriptEndedError(event)
            if event.what in {NOT_COUNTED, CHILDREN_HANG}:
                raise FailedError(event.reason)

    def _because(self) -> str:
        return f" (the last one: {self.last_end})" if self.last_end else ""


def _shown(setting: object) -> object:
    return format_cpu_list(setting) if isinstance(setting, list) else setting
