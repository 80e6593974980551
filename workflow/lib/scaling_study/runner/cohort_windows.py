"""The windows of one cohort: those that are planned, and others that turn out to be needed.

The planned windows are taken first. If the script had not settled from the beginning, the windows
of that time do not count and are taken anew (``settling``). If too few non-step phases were seen,
further windows are taken (``non_step``).

Cohorts of several launches can take their windows in turns, because a cohort pauses between its
windows.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from msgspec import structs

from scaling_study.common.topology import format_cpu_list
from scaling_study.host import gpus
from scaling_study.launch.axes import axis_table
from scaling_study.member.member import SKIPS
from scaling_study.records.window import (
    CHILDREN_HANG,
    NOT_COUNTED,
    End,
    Event,
    Readbacks,
    Settled,
    Window,
)
from scaling_study.runner import foreign, headroom, non_step, settling, windows
from scaling_study.runner.cohort import Cohort, WindowSettings
from scaling_study.runner.member_processes import MemberEnd, MemberEndedError, ScriptEndedError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from scaling_study.records.readback import Check, Readback
    from scaling_study.records.window import Record, Slot, Status, Taken
    from scaling_study.runner.journal import Journal
    from scaling_study.runner.measure import Job

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


class FailedError(Exception):
    """Members cannot be measured, or their windows do not count; the text says why."""


class LostError(Exception):
    """No window of this process count can be taken any more; the text says why."""


@dataclass(slots=True)
class CohortRun:
    """Takes the planned windows of one cohort, writes them down, and keeps the time.

    A subclass defines how a window is taken: from members with gates (``CohortWindows``), or from a
    program as a whole (``pool.PoolWindows``).

    Attributes:
        job: what is measured.
        number: the cohort's number in the record file.
        journal: the journal of the record file.
        lookout: the lookout for other programs.
        counts: the cohort's process counts.
        first_decides: whether the study stops if the first member's script ends without a step.
        began_s: when the cohort's time began (of the performance counter).
        started_s: from the beginning to the first window; None before that.
        in_windows_s: time in windows.
        paused_s: time between windows in which other cohorts had the machine.
        member: the memory that each member takes; None until all have started.
        counted: whether a window was valid.
        lost: process counts of which no window can be taken any more.
        why_lost: the reason for the first of them.
    """

    job: Job
    number: int
    journal: Journal[Record]
    lookout: foreign.Lookout
    counts: Sequence[int]
    first_decides: bool
    began_s: float
    started_s: float | None = field(init=False, default=None)
    in_windows_s: float = field(init=False, default=0.0)
    paused_s: float = field(init=False, default=0.0)
    member: headroom.Footprint | None = field(init=False, default=None)
    counted: bool = field(init=False, default=False)
    lost: set[int] = field(init=False, default_factory=set)
    why_lost: str = field(init=False, default="")

    # ---- for subclasses to define

    def _run(self, todo: Sequence[windows.Window]) -> Iterator[None]:
        """Take the planned windows that are left, and any others that are needed.

        Raises:
            FailedError: the cohort's windows do not count.
        """
        raise NotImplementedError

    def _attempt(self, window: windows.Window) -> Taken:
        """Take a window once.

        Raises:
            LostError: neither this window nor another of its process count can be taken.
        """
        raise NotImplementedError

    # ---- running it

    def take(
        self, todo: Sequence[windows.Window]
    ) -> Generator[None, None, tuple[Status, str | None]]:
        """Take a cohort's windows; return its status and the reason.

        It pauses before each window except the first.

        Args:
            todo: windows that are left to take.

        Raises:
            ScriptEndedError: the first member's script ended without a step (``first_decides``).
        """
        try:
            yield from self._run(todo)
        except FailedError as error:
            return "failed", str(error)
        if not self.lost:
            return "complete", None
        some = self.counted or self.lost < set(self.counts)
        return "partial" if some else "failed", self.why_lost

    def end(self, status: Status, reason: str | None, remedy: str | None) -> End:
        """Return the cohort's last record."""
        return End(
            cohort=self.number,
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

    def _take_each(
        self, todo: Sequence[windows.Window], *, pause_first: bool = False
    ) -> Iterator[None]:
        """Take windows in their order, without those of a process count that is lost."""
        counts = len({window.n for window in todo})
        for at, window in enumerate(todo):
            if at % counts == 0:
                log.info("window %d of %d", at + 1, len(todo))
            if window.n in self.lost:
                continue
            if at or pause_first:
                yield from self._pause()
            if not self._take_one(window):
                self.lost.add(window.n)

    def _pause(self) -> Iterator[None]:
        """Let other cohorts have the machine."""
        began_s = time.perf_counter()
        yield
        self.paused_s += time.perf_counter() - began_s

    def _starts(self) -> None:
        """Note that the first window is about to be taken."""
        self.started_s = time.perf_counter() - self.began_s

    def _take_one(self, window: windows.Window) -> bool:
        """Take a window until it is valid or has been taken often enough.

        Returns:
            Whether it could be taken.
        """
        try:
            for attempt in range(self.job.plan.measure.retries + 1):
                record = self._attempt(window)
                self._keep(record, attempt)
                if record.valid:
                    break
        except LostError as error:
            log.warning("n = %d: %s", window.n, error)
            self.why_lost = self.why_lost or f"n = {window.n}: {error}"
            return False
        return True

    def _keep(self, record: Taken, attempt: int) -> None:
        """Write a window down; if several in a row were lost to other programs, look which ones."""
        self.in_windows_s += record.window_s
        self.counted |= record.valid
        self.journal.write(Window(cohort=self.number, attempt=attempt, **structs.asdict(record)))
        seen = self.lookout.after_window(record.flags)
        if seen is not None:
            told = foreign.describe(seen) or "nobody takes it now"
            log.warning("windows keep being lost to others' CPU time: %s", told)
        if not record.valid:
            log.info("n = %d: invalid (%s)", record.n, ", ".join(record.flags))

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
        self.journal.write(
            Readbacks(
                cohort=self.number,
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
        next_block: the number of the next block beyond the plan.
        next_window: the number of the next window beyond the plan.
    """

    cohort: Cohort
    slots: Sequence[Slot]
    before: Sequence[Record]
    steps: list[tuple[int, non_step.Steps]] = field(init=False, default_factory=list)
    last_end: str | None = field(init=False, default=None)
    skips: MemberEnd | None = field(init=False, default=None)
    reports: Sequence[Readback] = field(init=False, default=())
    trainers_cpus: dict[int, int | None] = field(init=False, default_factory=dict)
    next_block: int = field(init=False)
    next_window: int = field(init=False)

    def __post_init__(self) -> None:
        """Number further windows after all that are planned or were taken."""
        taken = [one for one in self.before if isinstance(one, Window) and one.n in self.counts]
        planned = self.job.plan.measure.windows
        self.next_block = max([planned, *(one.block + 1 for one in taken)])
        self.next_window = max([planned * len(self.counts), *(one.window + 1 for one in taken)])

    def _run(self, todo: Sequence[windows.Window]) -> Iterator[None]:
        self._start()
        yield from self._take_each(todo)
        yield from self._take_more()
        self._read_back_again()
        if self.lost:
            text = ", ".join(map(str, sorted(self.lost)))
            self.why_lost = f"members ended, so that windows of {text} processes could not be taken"
            self.why_lost += self._because()

    def _start(self) -> None:
        """Start the members and let them warm up.

        Raises:
            FailedError: no member started, or a setting of the launch does not hold.
        """
        settings, free = self.job.plan.measure, headroom.read_free()
        started = [spec.slot for spec in self.slots[: self.cohort.size]]
        try:
            self.cohort.start(started, settings.timeout_s, first_decides=self.first_decides)
            reports = self.cohort.read_back(settings.timeout_s)
        finally:
            self._write_events()
        if not reports:
            raise FailedError(f"no member came as far as its first step{self._because()}")
        self.reports = reports
        if self.first_decides:
            if device := gpus.opened(self.cohort.members.pids.values()):
                log.warning(GPU, device)
            if own := self.cohort.script_sets(reports[0]):
                log.warning(SETS, ", ".join(f"{name}={value}" for name, value in own.items()))
        self._check("before", reports)
        self.cohort.warm_up(settings.warmup_steps)
        self.member = headroom.footprint(free, len(self.cohort.alive))
        self._starts()

    def _read_back_again(self) -> None:
        """Have members report again: a script may set threads, CPUs or types while it trains.

        Raises:
            FailedError: a setting of the launch no longer holds.
        """
        try:
            found = self.cohort.read_back(self.job.plan.measure.timeout_s)
        finally:
            self._write_events()
        first = {report.slot: report for report in self.reports}
        for report in found:
            for name, what in CHANGEABLE.items():
                then, now = getattr(first.get(report.slot, report), name), getattr(report, name)
                if then != now:
                    raise FailedError(CHANGED.format(what, _shown(then), _shown(now)))
        if found:
            self._check("after", found)

    def _check(self, when: Literal["before", "after"], reports: list[Readback]) -> None:
        checks = axis_table.checks(self.job.launch.axes, self.slots, reports)
        self._write_readbacks(when, checks, reports, self.cohort.shared_files() or None)

    def _take_more(self) -> Iterator[None]:
        """Take windows anew, or further ones, until the script has settled and enough was seen."""
        counts = sorted(set(self.counts) - self.lost)
        further = dict.fromkeys(counts, 0)
        until_s = self.now_s() + MORE_LONGEST_S
        anew = 0
        change = self._change()
        while change is not None and anew < SETTLING_ROUNDS and not self.lost:
            anew += 1
            change = yield from self._take_anew(change, until_s)
        until_s = self.now_s() + MORE_LONGEST_S
        while self.now_s() < until_s:
            steps = non_step.Steps.concat(self._by_window())
            short = non_step.lacking(steps, non_step.find(steps), counts)
            if not short:
                return
            # In turns: a phase that one count never shows may be seen at another.
            n = min(short, key=lambda each: further[each])
            further[n] += 1
            log.info("n = %d: another window, for what comes back between steps", n)
            yield from self._pause()
            if not all(map(self._take_one, self._further([n], 1))):
                return

    def _change(self, block: int = 0) -> float | None:
        """Return the change with members' age (``settling.change``) in windows from a block on."""
        seen = self._by_window(block)
        return settling.change(seen, non_step.find(non_step.Steps.concat(seen)))

    def _take_anew(self, change: float, until_s: float) -> Generator[None, None, float | None]:
        """Replace the windows in which the script had not settled; return the remaining change.

        If the later blocks have settled by themselves, only the first ones are replaced, otherwise
        all of them, as far as time allows. If too few would be left, all stay as they are.
        """
        blocks = sorted({block for block, _ in self.steps})
        enough = blocks[1 : 1 - FEWEST_BLOCKS]
        first = next((block for block in enough if self._change(block) is None), self.next_block)
        left = [block for block in blocks if block >= first]
        planned = self.job.plan.measure.windows
        again = planned - len(left)
        if blocks:
            room_s = max(0.0, until_s - self.now_s())
            block_s = max(0.01, self.in_windows_s / len(blocks))
            again = min(again, int(room_s / block_s))
        log.info("the script has not settled (%+.0f%% of all time)", 100 * change)
        if len(left) + again < min(planned, FEWEST_BLOCKS):
            return None
        self.steps = [one for one in self.steps if one[0] >= first]
        log.info("windows are taken anew")
        yield from self._take_each(self._further(self.counts, again), pause_first=True)
        still = self._change()
        self.journal.write(Settled(cohort=self.number, block=first, change=change, left=still))
        return still

    def _further(self, counts: Sequence[int], blocks: int) -> list[windows.Window]:
        """Return further windows, numbered after all that were planned or taken."""
        found = [
            windows.Window(self.next_window + one.window, self.next_block + one.block, one.n)
            for one in windows.schedule(counts, blocks, self.job.seed + self.next_block)
        ]
        self.next_window += len(found)
        self.next_block += blocks
        return found

    def _by_window(self, block: int = 0) -> list[non_step.Steps]:
        """Return the steps of all members in each window that counts, from a block on."""
        return [steps for own, steps in self.steps if own >= block]

    def _attempt(self, window: windows.Window) -> Taken:
        """Take a window once; if a member ends meanwhile, restart it and begin the window again."""
        own = self.job.plan.measure
        timing = WindowSettings(own.steps, own.shortest_s, own.longest_s, own.settle_s)
        while True:
            if self.skips is not None:  # as later starts will
                if self.first_decides:
                    raise ScriptEndedError(self.skips)
                raise LostError(self.skips.reason)
            if missing := self.cohort.restartable(MEMBER_RESTARTS):
                self.cohort.start(missing, own.timeout_s)
                self.cohort.warm_up(own.warmup_steps)
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
                what = f"the number of its CPUs ({window.n} processes, window {window.window})"
                raise FailedError(CHANGED.format(what, then, cpus))
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
            self.journal.write(Event(cohort=self.number, **event._asdict()))
        events = [*self.cohort.events]
        self.cohort.events.clear()
        for event in events:
            if event.what == NOT_COUNTED and self.first_decides:
                raise ScriptEndedError(event)
            if event.what in {NOT_COUNTED, CHILDREN_HANG}:
                raise FailedError(event.reason)

    def _because(self) -> str:
        return f" (the last one: {self.last_end})" if self.last_end else ""


def _shown(setting: object) -> object:
    return format_cpu_list(setting) if isinstance(setting, list) else setting
