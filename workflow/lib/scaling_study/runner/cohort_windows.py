"""The windows of one cohort: from its start to the last one, with those that are needed besides.

What is planned is taken first. Where the script had not settled from the beginning, the windows of
that time are taken anew and do not count (``settling``). Where too little was seen of what comes
back between steps, further ones are taken (``non_step``).

Cohorts of several launches can take their windows in turns: whoever takes a cohort's windows can
pause after each of them.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from msgspec import structs

from scaling_study.launch.axes import axis_table
from scaling_study.records.window import Event, Readbacks, Settled, Window
from scaling_study.runner import (
    cohort,
    foreign,
    headroom,
    member_processes,
    non_step,
    settling,
    windows,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from scaling_study.records.readback import Readback
    from scaling_study.records.window import Record, Slot, Status, Taken
    from scaling_study.runner.journal import Journal
    from scaling_study.runner.measure import Job

MEMBER_RESTARTS = 2
"""A member that ended is started again this often in a cohort; then its points are given up."""

MORE_LONGEST_S = 120.0
"""Windows that are taken anew take no longer than this, and further ones begin within it."""

SETTLING_ROUNDS = 2
"""Windows are taken anew at most this often."""

FEWEST_BLOCKS = 3
"""Whether the last windows have settled by themselves is asked of so many blocks at least."""

log = logging.getLogger("measure")


@dataclass(slots=True)
class CohortLog:
    """The log of a cohort: the records of its windows, and where its time went.

    Attributes:
        job: what is measured: a job's ``plan``, ``launch`` and ``seed``.
        number: the cohort's, in the record file.
        journal: of the record file.
        lookout: for other programs.
        first_decides: of its members, as ``Cohort.wait_started`` has it.
        began_s: when the cohort's time began (of the performance counter).
        started_s: from the beginning to the first window; None before that.
        in_windows_s: time in windows.
        paused_s: time between windows in which others had the machine.
        member: what each member takes of the memory, once all have started.
    """

    job: Job
    number: int
    journal: Journal[Record]
    lookout: foreign.Lookout
    first_decides: bool = False
    began_s: float = field(default_factory=time.perf_counter)
    started_s: float | None = None
    in_windows_s: float = 0.0
    paused_s: float = 0.0
    member: headroom.Footprint | None = None

    def starts(self) -> None:
        """Note that the first window is about to be taken."""
        self.started_s = time.perf_counter() - self.began_s

    def pause(self) -> Iterator[None]:
        """Let others have the machine."""
        began_s = time.perf_counter()
        yield
        self.paused_s += time.perf_counter() - began_s

    def now_s(self) -> float:
        """Return the time since the beginning, without pauses."""
        return time.perf_counter() - self.began_s - self.paused_s

    def keep(self, record: Taken, attempt: int) -> None:
        """Write a window down; look who takes the CPUs where several were lost to others."""
        self.in_windows_s += record.window_s
        self.journal.write(Window(cohort=self.number, attempt=attempt, **structs.asdict(record)))
        seen = self.lookout.after_window(record.flags)
        if seen is not None:
            told = foreign.describe(seen) or "whoever took it is not at it any more"
            log.warning("windows keep being lost to others' CPU time: %s", told)
        if not record.valid:
            log.info("n = %d: invalid (%s)", record.n, ", ".join(record.flags))


class CohortWindows:
    """The windows of one cohort.

    Args:
        one: the cohort, not started yet.
        kept: of the cohort.
        counts: its process counts.
        before: records of an interrupted run.
    """

    def __init__(
        self, one: cohort.Cohort, kept: CohortLog, counts: Sequence[int], before: Sequence[Record]
    ) -> None:
        self._cohort, self._kept, self._counts = one, kept, counts
        self._settings = own = kept.job.plan.measure
        self._timing = cohort.WindowSettings(own.steps, own.shortest_s, own.longest_s, own.settle_s)
        self._steps: list[tuple[int, non_step.Steps]] = []
        self._lost: set[int] = set()
        self._last_end: str | None = None
        # Where windows begin that are not planned.
        taken = [one for one in before if isinstance(one, Window) and one.n in counts]
        planned = self._settings.windows
        self._block = max([planned, *(one.block + 1 for one in taken)])
        self._window = max([planned * len(counts), *(one.window + 1 for one in taken)])

    def take(
        self,
        slots: Sequence[Slot],
        todo: Sequence[windows.Window],
        unsettled: float | None = None,
    ) -> Generator[None, None, tuple[Status, str | None]]:
        """Start the cohort and take its windows; return its status and the reason.

        Pauses when it is about to take a window, except the first.

        Args:
            slots: of the launch, by process count.
            todo: windows that are left to take.
            unsettled: how all windows changed that an interrupted run has taken; they are taken
                anew. None where they had settled, or some are left to take.

        Raises:
            ScriptEndedError: the first member's script ended without a step, and that decides.
        """
        timeout_s = self._settings.start_timeout_s
        memory = headroom.Meter()
        started = [spec.slot for spec in slots[: self._cohort.size]]
        try:
            self._cohort.start(started, timeout_s, first_decides=self._kept.first_decides)
            reports = self._cohort.read_back(timeout_s)
        finally:
            self._write_events()
        if not reports:
            return "failed", f"no member came as far as its first step{self._because()}"
        wrong = self._readbacks("before", slots, reports)
        if wrong:
            return "failed", wrong
        self._cohort.warm_up(self._settings.warmup_steps)
        self._kept.member = memory.each(len(self._cohort.alive))
        self._kept.starts()
        yield from self._take_all(todo)
        yield from self._take_more(unsettled)
        wrong = self._read_back_again(slots, reports)
        self._write_events()
        if wrong:
            return "failed", f"{wrong}, after the last window"
        if not self._lost:
            return "complete", None
        text = ", ".join(map(str, sorted(self._lost)))
        reason = f"members ended, so that windows of {text} processes could not be taken"
        status: Status = "partial" if self._lost < set(self._counts) else "failed"
        return status, f"{reason}{self._because()}"

    def _take_all(
        self, todo: Sequence[windows.Window], *, pause_first: bool = False
    ) -> Iterator[None]:
        counts = len({window.n for window in todo})
        for at, window in enumerate(todo):
            if at % counts == 0:
                log.info("window %d of %d", at + 1, len(todo))
            if at or pause_first:
                yield from self._kept.pause()
            if not self._take(window):
                self._lost.add(window.n)

    def _take_more(self, change: float | None) -> Iterator[None]:
        """Take windows anew, or further ones, until what was seen is settled and enough.

        Args:
            change: how windows of an interrupted run changed.
        """
        counts = sorted(set(self._counts) - self._lost)
        further = dict.fromkeys(counts, 0)
        until_s = self._kept.now_s() + MORE_LONGEST_S
        anew = 0
        if change is None:
            change = self._change()
        while change is not None and anew < SETTLING_ROUNDS and not self._lost:
            anew += 1
            change = yield from self._take_anew(change, until_s)
        until_s = self._kept.now_s() + MORE_LONGEST_S
        while self._kept.now_s() < until_s:
            steps = non_step.Steps.concat(self._by_window())
            short = non_step.lacking(steps, non_step.find(steps), counts)
            if not short:
                return
            # Each in its turn: what one count never shows another may.
            n = min(short, key=lambda each: further[each])
            further[n] += 1
            log.info("n = %d: another window, for what comes back between steps", n)
            yield from self._kept.pause()
            if not all(map(self._take, self._further([n], 1))):
                return

    def _change(self, block: int = 0) -> float | None:
        """Return how windows from a block on change with the age of their members."""
        seen = self._by_window(block)
        return settling.change(seen, non_step.find(non_step.Steps.concat(seen)))

    def _take_anew(self, change: float, until_s: float) -> Generator[None, None, float | None]:
        """Replace the windows in which the script had not settled; return how all change then.

        These are the first blocks, where the others have settled by themselves, or else all; as
        many of them as there is time for. Where too few would be left, all stay as they are.
        """
        blocks = sorted({block for block, _ in self._steps})
        enough = blocks[1 : 1 - FEWEST_BLOCKS]
        first = next((block for block in enough if self._change(block) is None), self._block)
        left = [block for block in blocks if block >= first]
        planned = self._settings.windows
        again = planned - len(left)
        if blocks:
            room_s = max(0.0, until_s - self._kept.now_s())
            block_s = max(0.01, self._kept.in_windows_s / len(blocks))
            again = min(again, int(room_s / block_s))
        log.info("the script has not settled (%+.0f%% of all time)", 100 * change)
        if len(left) + again < min(planned, FEWEST_BLOCKS):
            return None
        self._steps = [one for one in self._steps if one[0] >= first]
        log.info("windows are taken anew")
        yield from self._take_all(self._further(self._counts, again), pause_first=True)
        still = self._change()
        self._kept.journal.write(
            Settled(cohort=self._kept.number, block=first, change=change, left=still)
        )
        return still

    def _further(self, counts: Sequence[int], blocks: int) -> list[windows.Window]:
        """Return further windows, after all those that were planned or taken."""
        found = [
            windows.Window(self._window + one.window, self._block + one.block, one.n)
            for one in windows.schedule(counts, blocks, self._kept.job.seed + self._block)
        ]
        self._window, self._block = self._window + len(found), self._block + blocks
        return found

    def _by_window(self, block: int = 0) -> list[non_step.Steps]:
        """Steps of the windows that count from a block on, each with those of all its members."""
        return [steps for own, steps in self._steps if own >= block]

    def _readbacks(
        self, when: Literal["before", "after"], slots: Sequence[Slot], reports: Sequence[Readback]
    ) -> str:
        """Write what members have; say what of the launch does not hold."""
        checks = axis_table.checks(self._kept.job.launch.axes, slots, reports)
        self._kept.journal.write(
            Readbacks(
                cohort=self._kept.number,
                when=when,
                checks=checks,
                members=list(reports),
                shared_files=self._cohort.shared_files() or None,
            )
        )
        return axis_table.failed(checks)

    def _read_back_again(self, slots: Sequence[Slot], before: Sequence[Readback]) -> str:
        """Have members report again what they have; say what of the launch does not hold any more.

        A script may set threads, CPUs or types while it trains.
        """
        kernels = {report.slot: report.sgemm_kernel for report in before}
        found = self._cohort.read_back(self._settings.start_timeout_s, with_kernel=False)
        reports = [structs.replace(one, sgemm_kernel=kernels.get(one.slot)) for one in found]
        return self._readbacks("after", slots, reports) if reports else ""

    def _take(self, window: windows.Window) -> bool:
        """Take a window until it is valid or has been taken often enough.

        A member that ends while it is taken costs none of its takes, but one of the member's
        restarts.

        Returns:
            Whether it was taken; False when one of its members is left no more.
        """
        attempt = 0
        while attempt <= self._settings.retries:
            self._revive()
            # The first n members, no others: a slot has CPUs and memory of its own.
            if not set(range(window.n)) <= set(self._cohort.alive):
                return False
            try:
                record = self._cohort.take(window, self._timing)
            except member_processes.MemberEndedError:
                self._write_events()
                continue
            self._kept.keep(record, attempt)
            if record.valid:
                self._steps.append((window.block, non_step.window_steps(record)))
                return True
            attempt += 1
        return True

    def _revive(self) -> None:
        """Start ended members again, as often as that is allowed."""
        missing = self._cohort.restartable(MEMBER_RESTARTS)
        if missing:
            self._cohort.start(missing, self._settings.start_timeout_s)
            self._cohort.warm_up(self._settings.warmup_steps)
            self._write_events()

    def _write_events(self) -> None:
        for event in self._cohort.events:
            log.warning("member %s: %s", event.slot, event.reason)
            self._last_end = event.reason
            self._kept.journal.write(Event(cohort=self._kept.number, **event._asdict()))
        self._cohort.events.clear()

    def _because(self) -> str:
        return f" (the last one: {self._last_end})" if self._last_end else ""
