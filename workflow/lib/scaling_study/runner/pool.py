"""Windows of a program that trains in processes of its own, run as a whole and without gates.

For each window the program starts anew, as its user would start it. The window opens once n of its
processes train and have warmed up, and closes once each has done the config's number of steps,
within its shortest and longest time; then the program is stopped. Each process counts its own steps
(``iterations``), and the kernel's counters are read at the window's edges. Nobody knows in advance
when a process will end, so the second edge is read several times, at growing intervals. The last
reading at which all n still trained closes the window.
"""

import json
import math
import os
import select
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Self

from msgspec import convert, structs

from scaling_study.common import private
from scaling_study.config.config import Measure
from scaling_study.host import kernel_counters, perf_events
from scaling_study.launch.axes import axis_table
from scaling_study.launch.launchers.launcher import LaunchSpec, MemberSpec
from scaling_study.member import channel, iterations
from scaling_study.records.readback import Readback
from scaling_study.records.window import Slot, Taken
from scaling_study.runner import counter_snapshots, hangs, windows
from scaling_study.runner.blocks import LostError
from scaling_study.runner.counter_snapshots import CounterSnapshot
from scaling_study.runner.free_run import FreeRun, Program, ProgramWindows, with_processes
from scaling_study.runner.member_processes import MemberEnd, MemberEndedError, ScriptEndedError

LOOK_S = 0.25
"""Interval at which processes are looked at before and after a window."""
LAST_STEP_S = 5.0
"""After a window, its processes have this long to end the step in which it closed."""
UNSEEN = (
    ". Steps are seen in processes that inherit the program's environment (subprocess's env) and"
    " heed PYTHONPATH (not python -E or -I). Whole runs need none (workload.step: run)"
)


class PoolWindows(ProgramWindows):
    """The windows of a pool at all its process counts; its first member is the program."""

    def _attempt(self, window: windows.WindowPlan) -> Taken:
        """Start the program, take a window of it, and end it."""
        read_back = not self.proven
        with (
            private.part(self.launch.folder, f"run-{window.window}") as folder,
            PoolRun(
                replace(self.launch, folder=folder), self.members, self.program, window.n,
                read_back=read_back,
            ) as run,
        ):  # fmt: skip
            run.start(0)
            try:
                run.all_train(self.task.job.plan.measure, read_back=read_back)
            except NoStepError as error:
                if self.task.first_decides and read_back:
                    end = MemberEnd(0, "died", str(error), run.output(0))
                    raise ScriptEndedError(end) from None
                raise
            if read_back:
                self._readbacks(run)
                self.proven = True
                self._starts()
            return self._window(run, window)

    def _readbacks(self, run: "PoolRun") -> None:
        answers = run.reports(run.counted.values())
        reports = [convert({"slot": at, **answer}, Readback) for at, answer in enumerate(answers)]
        slots = [
            Slot(slot=at, cpus=None, policy="default", oversubscribed=False) for at in run.counted
        ]
        axes = self.task.job.launch.axes
        # Settings that the program makes itself, as Dask does, fail only launches that set them.
        usual = {name for name, axis in axis_table.AXES.items() if axes.get(name) == axis.default}
        checks = [
            structs.replace(row, ok=row.ok or row.axis in usual)
            for row in axis_table.checks(axes, slots, reports)
        ]
        self._write_readbacks("before", checks, reports)

    def _window(self, run: "PoolRun", window: windows.WindowPlan) -> Taken:
        """Let the window pass, and return its record.

        Raises:
            LostError: a process ended before the shortest time of a window, or more than n train.
        """
        settings, cpus = self.task.job.plan.measure, self.host.cpus
        before, after = run.snapshot(cpus), None
        span_s = settings.shortest_s
        while span_s <= settings.longest_s:
            if run.sleep(before.wall_ns + round(span_s * 1e9)):
                break
            with suppress(FileNotFoundError, ProcessLookupError):
                after = run.snapshot(cpus)
                if run.fewest_steps(before.wall_ns, after.wall_ns) >= settings.steps:
                    break
            last = settings.longest_s
            span_s = last if span_s < last < 2 * span_s else 2 * span_s
        if after is None:
            raise LostError(
                f"{run.n} processes train together for less than {settings.shortest_s:g} s"
                " (measure.window_s): give the program more models, or longer ones"
            )
        frequencies_mhz = counter_snapshots.read_frequencies_mhz(self.host.frequency)
        until_ns = after.wall_ns + round(LAST_STEP_S * 1e9)
        while (now_ns := time.perf_counter_ns()) < until_ns and not run.stepped(after.wall_ns):
            if run.sleep(now_ns + round(LOOK_S * 1e9)):
                break
        # One process too many may have begun after the others. One that exits disturbs nothing.
        pages = iterations.read_pages(run.pages[0])
        edges_ns = before.wall_ns, after.wall_ns
        run.refuse_more([page for page in pages if _inside(page.ends_ns(), *edges_ns)[1]])
        done = [activity(*entry, *edges_ns) for entry in run.counted.items()]
        return counter_snapshots.taken(
            window,
            [windows.Stretch(before.wall_ns, after.wall_ns, done, frequencies_mhz)],
            before,
            after,
            usable_cpus=len(cpus),
            asked_steps=settings.steps,
            gated=False,
        )


def _inside(ends_ns: Sequence[int], opened_ns: int, closed_ns: int) -> tuple[int, int]:
    """Return how many steps ended before a window, and how many in it."""
    earlier = bisect_right(ends_ns, opened_ns)
    return earlier, bisect_right(ends_ns, closed_ns) - earlier


def activity(slot: int, page: iterations.Page, opened_ns: int, closed_ns: int) -> windows.Activity:
    """Return a process's activity from the step in which a window opened to that of its close."""
    ends = page.ends_ns()
    earlier, inside = _inside(ends, opened_ns, closed_ns)
    return windows.Activity(
        slot=slot,
        released_ns=ends[earlier - 1],
        parked_ns=closed_ns,
        steps_active=inside,
        restarts=0,
        steps=[channel.Step(end, 0, 0, 0, 0) for end in ends[earlier : earlier + inside + 1]],
        earlier=earlier,
    )


class NoStepError(LostError):
    """The program has ended without a step."""


class PoolRun(FreeRun):
    """One run of the program.

    Args:
        launch: the launch; its folder is private to this run.
        members: the first one is the program, with ``{n}`` for the number of its processes.
        program: the same without its arguments.
        n: how many of its processes are to train.
        read_back: as for ``FreeRun``.

    Attributes:
        counted: the pages of n processes that train at once, numbered as if by slot.
        events: none, unlike a cohort's: the program tells how it ended.
    """

    def __init__(
        self,
        launch: LaunchSpec,
        members: Sequence[MemberSpec],
        program: Program,
        n: int,
        *,
        read_back: bool,
    ) -> None:
        super().__init__(launch, with_processes(members, n), program, read_back=read_back)
        self.n = n
        self.counted: dict[int, iterations.Page] = {}
        self.events: Sequence[MemberEnd] = ()

    def __enter__(self) -> Self:
        """Return itself; leaving it ends the program with all that it has started."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the program with all that it has started."""
        self.end(0.0)

    def why(self) -> str:
        """Return the line that says why the program ended."""
        return self.last_words(0) or "it has printed nothing"

    def all_train(self, settings: Measure, *, read_back: bool = False) -> None:
        """Wait until n processes train and have warmed up.

        Args:
            settings: the plan's ``measure`` section.
            read_back: whether to wait for the settings that they write down.

        Raises:
            NoStepError: the program has ended without a step.
            LostError: it has ended before or is too slow, or more than n processes train.
        """
        warm = max(settings.warmup_steps, iterations.READ_BACK_AFTER) + 1
        deadline = time.monotonic() + settings.timeout_s
        most, looks = 0, hangs.Hangs()
        while time.monotonic() < deadline:
            pages = self.living()
            self.refuse_more(pages)
            most = max(most, len(pages))
            warmed = all(page.iterations >= warm for page in pages)
            if len(pages) == self.n and warmed and (not read_back or self.reports(pages)):
                self.counted = dict(enumerate(sorted(pages, key=lambda page: page.pid)))
                return
            if how := looks.of(self.slots.begun[0].pid):
                raise LostError(how)
            if ended := self.slots.wait(LOOK_S):
                # Processes that train for less than LOOK_S may never have been seen alive.
                if not iterations.read_pages(self.pages[0]):
                    hint = "" if ended[0].status else UNSEEN
                    raise NoStepError(f"the program ended without a step: {self.why()}{hint}")
                raise LostError(
                    f"the program ended before {self.n} of its processes trained at once"
                    f" (at most {max(most, 1)} did); give it work for so many"
                )
        raise LostError(
            f"no {self.n} processes train after {settings.timeout_s:g} s (at most {most}"
            f" did): {self.why()}"
        )

    def snapshot(self, cpus: frozenset[int]) -> CounterSnapshot:
        """Read the kernel's counters."""
        pids = {slot: page.pid for slot, page in self.counted.items()}
        trainers = {slot: page.trainer_tid for slot, page in self.counted.items()}
        return counter_snapshots.read(pids, trainers, cpus, perf_events.PerfEvents(self.n, ()))

    def fewest_steps(self, opened_ns: int, closed_ns: int) -> int:
        """Return the fewest steps that a process has done between two edges."""
        edges_ns = opened_ns, closed_ns
        return min(_inside(page.ends_ns(), *edges_ns)[1] for page in self.counted.values())

    def stepped(self, since_ns: int) -> bool:
        """Return whether each process has ended a step after a time."""
        return all(page.ends_ns()[-1] > since_ns for page in self.counted.values())

    def living(self) -> list[iterations.Page]:
        """Return the pages of the program's living processes."""
        living = set(kernel_counters.descendants(os.getpid()))
        return [page for page in iterations.read_pages(self.pages[0]) if page.pid in living]

    def refuse_more(self, pages: Sequence[iterations.Page]) -> None:
        """Raise LostError if more than n processes train, or several threads of one."""
        if any(page.several for page in pages):
            raise LostError(iterations.THREADS)
        if len(pages) > self.n:
            raise LostError(
                f"{len(pages)} processes train at once, not {self.n}: in workload.args, {{n}} must"
                " be the number of processes that train"
            )

    def reports(self, pages: Iterable[iterations.Page]) -> list[dict[str, object]]:
        """Return the settings that processes have written down; nothing until all have."""
        paths = [self.pages[0] / f"{iterations.READBACK}{page.pid}" for page in pages]
        if not all(path.exists() for path in paths):
            return []
        return [json.loads(path.read_text(encoding="utf-8")) for path in paths]

    def sleep(self, until_ns: int) -> bool:
        """Sleep until a time; return whether one of the processes has ended before."""
        poll = select.poll()
        with ExitStack() as opened:
            try:
                for page in self.counted.values():
                    descriptor = os.pidfd_open(page.pid)
                    opened.callback(os.close, descriptor)
                    poll.register(descriptor, select.POLLIN)
            except ProcessLookupError:
                return True
            left_ms = (until_ns - time.perf_counter_ns()) / 1e6
            return bool(poll.poll(max(1, math.ceil(left_ms))))

    # ---- in the place of a cohort, whose members do not rest

    @property
    def alive(self) -> list[int]:
        """The numbers of its processes."""
        return [*self.counted]

    def ask(self, slot: int, order: int) -> bool:  # noqa: ARG002 (as a cohort's)
        """Take no orders."""
        return False

    def trainer(self, slot: int) -> tuple[int, int]:
        """Return a process and its training thread."""
        return self.counted[slot].pid, self.counted[slot].trainer_tid

    @contextmanager
    def training(self, n: int) -> Iterator[list[windows.Activity]]:
        """Watch the first n processes for as long as the context lasts; as ``Cohort.training``.

        Raises:
            MemberEndedError: one has ended.
        """
        done: list[windows.Activity] = []
        opened_ns = time.perf_counter_ns()
        yield done
        closed_ns = time.perf_counter_ns()
        if self.sleep(closed_ns):
            raise MemberEndedError(self.alive)
        counted = [*self.counted.items()][:n]
        done += [activity(*entry, opened_ns, closed_ns) for entry in counted]
