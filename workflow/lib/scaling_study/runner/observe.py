"""One observed start of a program, which decides the unit of work (``workload.step: auto``).

The program runs alone, as its user would start it. Its processes count optimizers' rounds and
backward passes (``iterations``), and nothing else is done to it. Steps in one thread of its own
process that are equal work can be timed one by one. Whatever else ends in time is measured as whole
runs. A run that was seen to its end is begun again, since a program may skip what it has done. So
is a program that writes files, if no argument tells its copies apart: both may write the same.
"""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from scaling_study.common import private
from scaling_study.common.quantities import format_count
from scaling_study.config import work
from scaling_study.config.plan import Observed
from scaling_study.config.workload import RUN
from scaling_study.host import kernel_counters, probe
from scaling_study.launch.launchers.launcher import describe_exit
from scaling_study.member import files, iterations
from scaling_study.member.iterations import BACKWARD
from scaling_study.queues.model_queue import Ended
from scaling_study.runner import hangs, resolve
from scaling_study.runner.free_run import ORPHANS_S, FreeRun, at_once, program_of
from scaling_study.runner.jobs import Job
from scaling_study.runner.whole_runs import AGAIN, SKIPPED, cpu_s

LOOK_S = 0.25
WATCH_S = 10.0
"""Steps are watched for this long: a second thread, or a child process, may begin to make some."""
COPY_S = 60.0
"""A second start is watched for at most this long, for files that the first one wrote."""
OPTIMIZER, POOL = "optimizer", "pool"
PROCESSES = 2
"""Processes that a program is told to start, if it starts them itself."""

FEWEST_TIMES = 30
"""Fewer steps do not show whether they are equal work."""
MOST_TIMES = 2000
"""The latest steps show it; a pattern that recurs is looked for in few ms."""
WARM = 0.1
"""Share of the first steps that are left out of it."""
SPREAD = 4.0
"""The longest tenth of equal steps takes less than so many times the time of the shortest one."""
LATE_S = 2.5 * hangs.IDLE_S
"""A start is watched for at least this long, if it shows no steps: it may hang."""
PAUSES = 20.0
"""A process that has made no step for so many steps' time does something else."""
PERIODIC = 0.7
"""Correlation of the logarithms of step times at some distance, above which they recur."""
COMPUTES = 0.7
"""Share of its time for which a program computes, if its steps' times show their work."""

ENDLESS = (
    "{why}, and a run takes more than {limit:.0f} s, a tenth of search.budget_minutes: give it less"
    " work, or the study a larger budget. A program whose steps are not torch's can mark them"
    " (workload.step: mark)"
)
UNEQUAL = "; their times differ as those of unequal work"
SAID = "the config says so"
COMMAND = "nothing looks into a command"
NO_TORCH = "its interpreter has no torch"


class _Start:
    """What is known of a start, when it is made.

    Args:
        run: the start.
        looks: knows whether its child processes hang.
        ended: its end; None while it runs.

    Attributes:
        pid: its own process.
        passed_s: the time since it began.
        pages: counts of its processes.
        again: whether it has become another program (os.exec).
        hangs: how its child processes hang; empty if they do not.
        computes: share of its time for which its own process computes.
    """

    def __init__(self, run: FreeRun, looks: hangs.Hangs, ended: Ended | None) -> None:
        begun, folder = run.slots.begun[0], run.pages[0]
        self.ended, self.pid = ended, begun.pid
        self.passed_s = time.monotonic() - begun.at_s
        self.hangs = "" if ended else looks.of(self.pid)
        used_s = cpu_s(ended) if ended else kernel_counters.read_process(self.pid).cpu_s
        self.computes = used_s / max(self.passed_s, LOOK_S)
        self.pages = iterations.read_pages(folder)
        became = folder / f"{iterations.BEGAN}{self.pid}"
        self.again = became.exists() and became.stat().st_size > 1

    @property
    def own(self) -> iterations.Page | None:
        """The counts of its own process, if that makes steps."""
        return next((page for page in self.pages if page.pid == self.pid), None)

    def unit(self, *, starts_processes: bool) -> tuple[str, str]:
        """Return the unit of work, ``pool`` for steps in processes, and what was seen."""
        children = [page for page in self.pages if page.pid != self.pid]
        steps, own_page = sum(page.iterations for page in children), self.own
        several = format_count(len(children), "process", "processes")
        if self.hangs:
            unit = RUN, self.hangs
        elif any(page.several for page in self.pages):
            unit = RUN, "several threads of a process make steps"
        elif self.again:
            unit = RUN, "the program becomes another one (os.exec)"
        elif own_page is not None and children:
            unit = RUN, f"it makes steps of its own, and so do {several} that it starts"
        elif children:
            kind = POOL if steps and starts_processes else RUN
            unit = kind, f"{steps:,} steps of torch optimizers in {several} that it starts"
        elif own_page is None:
            unit = RUN, "no step of a torch optimizer and no backward pass was seen"
        else:
            unit = OPTIMIZER, f"{own_page.iterations:,} steps of torch optimizers, in one thread"
            if not own_page.iterations:
                passes = f"{own_page.backwards:,} backward passes, and no step of a torch optimizer"
                unit = BACKWARD, passes
            if starts_processes:
                unit = RUN, f"{unit[1]} of its own process, and none in those that it starts"
        return unit

    @property
    def goes_on(self) -> bool:
        """Whether the process that made steps still does."""
        page = max(self.pages, key=lambda candidate: candidate.span_ns[1])
        first_ns, latest_ns = page.span_ns
        mean_ns = (latest_ns - first_ns) / max(1, page.iterations - 1)
        return bool(time.monotonic_ns() - latest_ns < PAUSES * mean_ns + LOOK_S * 1e9)

    def unequal(self) -> bool:
        """Return whether its steps are of unequal work."""
        ends = self.own.ends_ns() if self.own else []
        return self.computes >= COMPUTES and unequal(ends)


def unequal(ends_ns: Sequence[int]) -> bool:
    """Return whether steps take different times without a pattern that recurs.

    Args:
        ends_ns: when steps ended. A phase that recurs, such as a validation, is no unequal work.
    """
    times = np.log(np.maximum(1, np.diff(ends_ns)))
    times = times[int(WARM * times.size) :][-MOST_TIMES:]
    if times.size < FEWEST_TIMES:
        return False
    short, long = np.quantile(times, [0.1, 0.9])
    if long - short < np.log(SPREAD):
        return False
    rest = times - times.mean()
    recurs = max(
        float(np.dot(rest[lag:], rest[:-lag]) / np.dot(rest, rest) * rest.size / (rest.size - lag))
        for lag in range(1, rest.size // 3)
    )
    return recurs < PERIODIC


class Observer:
    """Observes starts of a job's program.

    Args:
        job: its launch is the default one.
        builds: folder of built environments.
        limit_s: longest time of a whole run.

    Raises:
        UnavailableError: this machine cannot run it.
    """

    def __init__(self, job: Job, builds: Path, limit_s: float) -> None:
        self._workload, self._axes, self._limit_s = job.plan.workload, job.launch.axes, limit_s
        machine = probe.read_machine()
        # Threads that spin would take CPU time for nothing, and more of it on a busy machine.
        passive = {**self._axes, "wait_policy": "passive"}
        self._resolved = resolve.resolve(job.plan, passive, machine, builds, [1])
        if self._workload.runs:
            self._uncounted = COMMAND if self._workload.command else SAID
        else:
            torch = resolve.versions(self._resolved.launch.python, runs=True).torch
            self._uncounted = "" if torch else NO_TORCH

    def observe(self) -> Observed:
        """Return the unit of work."""
        with private.folder() as folder:
            with self._started(folder) as run:
                observed, start = self._watch(run)
                written = _written(run)
            alike = work.alike(self._workload) and not self._workload.fresh_folder
            ended = observed.run_s is not None and start.ended
            if not ended and not (written and alike):
                return observed
            with self._started(folder) as run:
                if ended:
                    used_s = cpu_s(ended)
                    later_s = _skips(run, math.inf if start.pages else SKIPPED * used_s)
                    if later_s is not None:
                        return Observed("", AGAIN.format(first=used_s, later=later_s))
                until_s = time.monotonic() + min(start.passed_s, COPY_S)
                while alike and not written <= _written(run) and time.monotonic() < until_s:
                    run.slots.wait(LOOK_S)
                both = sorted(written & _written(run)) if alike else []
        return replace(observed, shared=tuple(both))

    @contextmanager
    def _started(self, outer: Path) -> Iterator[FreeRun]:
        """Start the program, and end it with all that it has started."""
        with private.part(outer, "observed") as folder:
            launch = replace(self._resolved.launch, folder=folder, step=iterations.OBSERVE)
            program = program_of(self._workload, self._axes, folder)
            program = replace(program, runs=bool(self._uncounted))
            members = at_once(self._workload, self._resolved.members, PROCESSES)[:1]
            run = FreeRun(launch, members, program)
            try:
                run.start(0)
                yield run
            finally:
                run.end(ORPHANS_S)

    def _watch(self, run: FreeRun) -> tuple[Observed, _Start]:
        """Watch a start until its unit is known; return what is known of it, too."""
        looks = hangs.Hangs()
        while True:
            start = _Start(run, looks, next(iter(run.slots.wait(LOOK_S)), None))
            late = start.passed_s > max(self._limit_s, LATE_S)
            if start.ended or start.hangs or late or self._is_clear(start):
                return self._decide(run, start), start

    def _is_clear(self, start: _Start) -> bool:
        """Return whether a running start has shown steps that can be timed one by one."""
        if not start.pages or time.monotonic_ns() - start.pages[0].made_ns < WATCH_S * 1e9:
            return False
        unit, _ = start.unit(starts_processes=self._workload.starts_processes)
        if unit == OPTIMIZER:
            return start.goes_on and not start.unequal()
        return unit != RUN

    def _decide(self, run: FreeRun, start: _Start) -> Observed:
        unit, why = start.unit(starts_processes=self._workload.starts_processes)
        why = self._uncounted or why
        run_s = start.passed_s if start.ended else None
        if start.ended and start.ended.status and not start.pages:
            words, output = run.last_words(0), run.output(0)
            how = f"the program {describe_exit(start.ended.status)}"
            return Observed("", f"{how}{f': {words}' if words else ''}\n{output}")
        if unit == OPTIMIZER and start.unequal():
            why += UNEQUAL
            unit = RUN if start.ended else unit
        if unit == RUN and not start.hangs and start.passed_s > self._limit_s:
            return Observed("", ENDLESS.format(why=why, limit=self._limit_s))
        if unit == POOL:
            return Observed(OPTIMIZER, why, pool=True)
        return Observed(unit, why, run_s=run_s)


def _written(run: FreeRun) -> set[str]:
    """Return the files that the processes of a start have written."""
    return files.written(run.pages[0].glob(f"{files.WRITTEN}*"))


def _skips(run: FreeRun, enough_s: float) -> float | None:
    """Return the CPU time of a start that ends early; None if it makes a step, or takes enough."""
    pid, used_s = run.slots.begun[0].pid, 0.0
    while used_s < enough_s and not iterations.read_pages(run.pages[0]):
        if ended := run.slots.wait(LOOK_S):
            used_s = cpu_s(ended[0])
            return None if used_s >= enough_s or iterations.read_pages(run.pages[0]) else used_s
        used_s = kernel_counters.tree_cpu_s(pid)
    return None
