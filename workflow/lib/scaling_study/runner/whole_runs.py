"""Windows of whole runs: n copies of a program at once, each started again when it has ended.

Nothing looks into the program, so it may be any: a shell script, a notebook, a script with threads
or processes of its own. A window begins with the first runs of its n slots and keeps all slots busy
until each run that began within its shortest time has ended; these count, however long they take
(see ``windows.counted_steps``). What runs beyond that is ended. A program that starts n processes
itself (``{n}`` among its words) has one slot.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from scaling_study.common import private
from scaling_study.common.quantities import format_bytes
from scaling_study.host import machine_counters, perf_events
from scaling_study.launch.launchers.launcher import describe_exit
from scaling_study.member.channel import Step
from scaling_study.queues.model_queue import Ended
from scaling_study.records.window import NOT_COUNTED, ONE_PROGRAM, Taken, Usage
from scaling_study.runner import counter_snapshots, hangs, headroom, outside, windows
from scaling_study.runner.blocks import LostError
from scaling_study.runner.counter_snapshots import CounterSnapshot
from scaling_study.runner.free_run import ORPHANS_S, FreeRun, ProgramWindows, at_once
from scaling_study.runner.member_processes import FailedError, MemberEnd, ScriptEndedError

LOOK_S = 20.0
"""A window in which nothing has ended for so long is looked at: processes may hang. A look takes
0.1 ms for each process."""

READ_AT_S = 10.0
"""After the last window's runs, the next ones run for half a run, or this long, before their
settings are read: until then a program has loaded its libraries."""

MOST_READS = 8
"""A look at runs that have just ended is repeated this often, each time after half the time."""
TOO_SHORT = (
    "no run lives for long enough to read its settings: give a run more work, or start several"
    " models in it"
)
SKIPPED = 1 / 2
"""A later run takes more of the first one's CPU time than this share, if both do all."""

AGAIN = (
    "a first run took {first:.3g} s of CPU time, and a later one of the same arguments {later:.3g}"
    " s: it seems to find what the first has left. Set workload.fresh_folder: true, so that each"
    " run has a folder of its own, or let the program do all of its work each time"
)
SLOW = "{runs} at once did not end within {limit:.0f} s"

UNKNOWN = (
    *("runqueue_s", "trainer_user_s", "trainer_system_s", "trainer_runqueue_s"),
    *("migrations", "threads", "processes"),
)
"""Fields of a member's usage that nobody tells of a process that has ended."""


@dataclass(slots=True)
class _Slot:
    """The runs of a slot in a window.

    Attributes:
        first_s: when the first one began (s of the monotonic clock).
        latest_s: when the latest one began.
        ended: those that have ended, in order; each begins where the one before ended.
    """

    first_s: float
    latest_s: float
    ended: list[Ended] = field(default_factory=list)

    def counted(self, until_s: float) -> list[tuple[float, Ended]]:
        """Return the runs that began before a time, with the time that each took (s)."""
        begins = [self.first_s, *(run.ended_s for run in self.ended)]
        spans = zip(begins, self.ended, strict=False)
        return [(run.ended_s - began_s, run) for began_s, run in spans if began_s < until_s]

    def activity(self, slot: int, runs: int) -> windows.Activity:
        """Return the slot's activity, with a run as a step."""
        ends_ns = [round(run.ended_s * 1e9) for run in self.ended[:runs]]
        return windows.Activity(
            slot=slot,
            released_ns=round(self.first_s * 1e9),
            parked_ns=ends_ns[-1],
            steps_active=runs,
            restarts=0,
            steps=[Step(end_ns, 0, 0, 0, 0) for end_ns in ends_ns],
        )


@dataclass(slots=True)
class RunWindows(ProgramWindows):
    """The windows of whole runs at all process counts of a launch.

    Attributes:
        peak_bytes: the most memory that a run has taken.
        first_s: CPU time of the first run alone; None before it.
    """

    peak_bytes: int = field(init=False, default=0)
    first_s: float | None = field(init=False, default=None)

    def _start(self) -> None:
        """Begin with few runs: their memory shows whether there is room for more."""
        self.blocks.begin_with_few()

    def _attempt(self, window: windows.WindowPlan) -> Taken:
        """Keep n slots busy until each has done its runs."""
        workload = self.task.job.plan.workload
        members = at_once(workload, self.members, window.n)
        self._require_memory(len(members))
        if self.started_s is None:
            self._starts()
        before = self._snapshot()
        with private.part(self.launch.folder, f"run-{window.window}") as folder:
            run = FreeRun(replace(self.launch, folder=folder), members, self.program)
            try:
                until_s, slots = self._keep_busy(run)
                frequencies_mhz = counter_snapshots.read_frequencies_mhz(self.host.frequency)
                if not self.proven:
                    self._read_back(
                        run, min(slot.ended[0].ended_s - slot.first_s for slot in slots)
                    )
            finally:
                run.end(ORPHANS_S)
        after = self._snapshot()
        counted = [slot.counted(until_s) for slot in slots]
        used = [_usage([ended for _, ended in runs]) for runs in counted]
        self.peak_bytes = max(self.peak_bytes, *(usage.rss_bytes for usage in used))
        self.member = headroom.Footprint(self.peak_bytes, 0)
        activities = [state.activity(slot, len(counted[slot])) for slot, state in enumerate(slots)]
        opened_ns = min(activity.released_ns for activity in activities)
        record = counter_snapshots.taken(
            window,
            [windows.Stretch(opened_ns, round(until_s * 1e9), activities, frequencies_mhz)],
            before,
            after,
            usable_cpus=len(self.host.cpus),
            asked_steps=1,
            gated=False,
            used=used,
        )
        # Beside others, threads that spin may treble a run's CPU time.
        if window.n == 1 and (record.valid or self.task.job.launch.axes["intra_op"] == 1):
            self._compare_with_first([ended for _, ended in counted[0]])
        whole_s = (max(activity.parked_ns for activity in activities) - opened_ns) / 1e9
        flags = [*record.flags, *([ONE_PROGRAM] if workload.starts_processes else [])]
        return structs.replace(record, window_s=whole_s, flags=flags)

    def _snapshot(self) -> CounterSnapshot:
        """Read the machine's counters; what a run uses is known when it has ended."""
        snapshot = counter_snapshots.read({}, {}, self.host.cpus, perf_events.PerfEvents(1, ()))
        return replace(snapshot, throttled=machine_counters.read_throttled([os.getpid()]))

    def _require_memory(self, runs: int) -> None:
        need, free = runs * self.peak_bytes, headroom.read_free_memory().free
        if need > free:
            raise LostError(
                f"{runs} runs at once need {format_bytes(need)} of memory, and"
                f" {format_bytes(free)} are free"
            )

    def _keep_busy(self, run: FreeRun) -> tuple[float, list[_Slot]]:
        """Run the window.

        Returns:
            Until when counted runs begin (s of the monotonic clock), and all slots.

        Raises:
            LostError: a run failed, or they do not end in time.
            FailedError: their processes hang.
            ScriptEndedError: the study's first run failed (``first_decides``).
        """
        slots: dict[int, _Slot] = {}
        looks, began_s = hangs.Hangs(), time.monotonic()
        until_s = began_s + self.task.job.plan.measure.shortest_s
        while True:
            for slot in run.slots.free:
                run.start(slot)
                at_s = run.slots.begun[slot].at_s
                slots.setdefault(slot, _Slot(at_s, at_s)).latest_s = at_s
            if all(state.latest_s >= until_s for state in slots.values()):
                return until_s, [slots[slot] for slot in sorted(slots)]
            ended = run.slots.wait(LOOK_S)
            for ending in ended:
                if ending.status:
                    self._fail(run, ending)
                slots[ending.slot].ended.append(ending)
            if not ended:
                self._look(run, looks, time.monotonic() - began_s)

    def _look(self, run: FreeRun, looks: hangs.Hangs, passed_s: float) -> None:
        """Look at runs that take long: they may hang, or be longer than a window may be.

        Raises:
            FailedError: they hang, as all runs of the launch do.
            LostError: they are longer.
        """
        limit_s = self.task.job.plan.longest_run_s
        if how := looks.of(run.slots.begun[0].pid):
            raise FailedError(how)
        if passed_s > limit_s:
            raise LostError(SLOW.format(limit=limit_s, runs=len(run.slots.begun)))

    def _fail(self, run: FreeRun, ended: Ended) -> None:
        """Raise the error of a run that failed."""
        words = run.last_words(ended.slot)
        reason = f"a run {describe_exit(ended.status)}{f': {words}' if words else ''}"
        if self.task.first_decides and not self.proven:
            raise ScriptEndedError(MemberEnd(0, "died", reason, run.output(ended.slot)))
        raise LostError(reason)

    def _compare_with_first(self, runs: Sequence[Ended]) -> None:
        """Refuse runs that take a small part of what the first one took."""
        for used_s in map(cpu_s, runs):
            self.first_s = self.first_s or used_s
            if used_s < SKIPPED * self.first_s:
                reason = AGAIN.format(first=self.first_s, later=used_s)
                if self.task.first_decides:
                    raise ScriptEndedError(MemberEnd(0, NOT_COUNTED, reason, ""))
                raise FailedError(reason)

    def _read_back(self, run: FreeRun, run_s: float) -> None:
        """Read settings from outside, while further runs that do not count are under way.

        Raises:
            LostError: no run lives for long enough.
        """
        states: dict[int, outside.SlotState] = {}
        for number in range(MOST_READS):
            for slot in run.slots.free:
                run.start(slot)
            if run.slots.wait(min(READ_AT_S, run_s / 2 ** (number + 1))):
                continue
            if states := outside.read({slot: begun.pid for slot, begun in run.slots.begun.items()}):
                break
        else:
            raise LostError(TOO_SHORT)
        axes = self.task.job.launch.axes
        self._write_readbacks("before", outside.checks(axes, run.launch, self.members, states), [])
        self.proven = True


def cpu_s(ended: Ended) -> float:
    """Return the CPU time (s) of a run, with all children that it waited for."""
    if ended.usage is None:
        return 0.0
    used_s: float = ended.usage.ru_utime + ended.usage.ru_stime
    return used_s


def _usage(runs: Sequence[Ended]) -> Usage:
    """Return what runs used, with all children that they waited for (wait4(2))."""
    used = [run.usage for run in runs if run.usage]

    def total(name: str) -> float:
        return float(sum(getattr(usage, name) for usage in used))

    return Usage(
        cpu_user_s=total("ru_utime"),
        cpu_system_s=total("ru_stime"),
        minor_faults=int(total("ru_minflt")),
        major_faults=int(total("ru_majflt")),
        voluntary_switches=int(total("ru_nvcsw")),
        involuntary_switches=int(total("ru_nivcsw")),
        rss_bytes=1024 * max((usage.ru_maxrss for usage in used), default=0),
        **dict.fromkeys(UNKNOWN),
    )
