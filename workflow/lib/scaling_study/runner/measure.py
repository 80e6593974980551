"""Measure one (launch, replicate): from the plan to its record file.

A probe of the measuring machine resolves all that depends on it: process counts, the CPUs of each
slot, libraries, and what must be skipped. An expected failure is a stored status with its reason,
never a missing file.
"""

import contextlib
import itertools
import logging
import os
import random
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from msgspec import structs

from scaling_study.common import private
from scaling_study.common.axis_values import Axes
from scaling_study.common.unavailable import UnavailableError
from scaling_study.config import launches as planned
from scaling_study.config import work
from scaling_study.config.config import Measure
from scaling_study.host import probe
from scaling_study.launch.axes.launcher import LAUNCHERS
from scaling_study.records.codec import write_file
from scaling_study.records.window import (
    DECODER,
    CohortEnd,
    CohortHead,
    Record,
    Status,
    Stopped,
    Window,
)
from scaling_study.runner import cohort, foreign, headroom, member_processes, resolve
from scaling_study.runner.cohort_windows import CohortRun, CohortTask, CohortWindows, Count
from scaling_study.runner.free_run import program_of
from scaling_study.runner.jobs import Job
from scaling_study.runner.journal import Journal
from scaling_study.runner.pool import PoolWindows
from scaling_study.runner.whole_runs import RunWindows

FAILED, SKIPPED = "failed", "skipped"
"""Reasons to measure a record file again: it lacks results, or the machine lacks something."""
STOPPED = "stopped.json"
"""In measure/: the end of the default launch's script, if it came before the first step."""

log = logging.getLogger("measure")

ROOM = 1.5
"""Another cohort starts only if this many times the memory of the largest one so far is left."""


def each_alone(settings: Measure, axes: Axes) -> bool:
    """Return whether each process count of a launch has a cohort of its own.

    Members that do not rest would take CPU time from those that train.

    Args:
        settings: the plan's ``measure`` section.
        axes: the launch's values.
    """
    return settings.isolated or not LAUNCHERS[str(axes["launcher"])].rests


class Measurement:
    """Measures one job.

    Args:
        job: the job.
        path: its record file.
        builds: folder of the environments that were made from requirements.
        counts: the process counts to measure; by default all of the plan's.
        batch: name of the group that is measured in turns; None outside of a race.
    """

    def __init__(
        self,
        job: Job,
        path: Path,
        builds: Path,
        counts: Sequence[int] | None = None,
        batch: str | None = None,
    ) -> None:
        self._job = job
        self._folder = path.parent.parent
        self._journal = Journal(path, DECODER)
        self._builds = builds
        self._settings = job.plan.measure
        self._machine = probe.read_machine()
        self._process_counts = sorted(counts) if counts else resolve.counts(job.plan, self._machine)
        self._batch = batch
        self._lookout = foreign.Lookout(frozenset(self._machine.cpus))
        self._cohort = 0
        self._resolved: resolve.Resolved | None = None
        self._before: list[Record] = []
        self._waiting: list[list[int]] = []  # process counts of each cohort that is to start
        self._running: CohortRun | None = None
        self._cohort_ends = contextlib.ExitStack()

    def run(self) -> None:
        """Measure, and leave a complete record file."""
        in_turns([self])

    def begin(self, folder: Path) -> None:
        """Find out what is left to measure.

        Args:
            folder: a private folder.
        """
        self._private = folder
        try:
            self._resolved = resolved = resolve.resolve(
                self._job.plan, self._job.launch.axes, self._machine, self._builds,
                self._process_counts, member=headroom.known(self._folder, self._job.launch.id),
            )  # fmt: skip
            self._head = self._first_record()
        except UnavailableError as error:
            log.warning("skipped: %s (%s)", error.reason, error.remedy)
            self._resolved = None
            self._journal.restart()
            self._journal.write(self._first_record())
            self._journal.write(_end(self._cohort, "skipped", error.reason, error.remedy))
            return
        self._before = self._journal.resume(self._head)
        if self._before:
            log.info("goes on after %d records of an earlier run", len(self._before))
        if failed := _failed(self._before):
            log.info("what failed before is measured again")
            kept = [record for record in self._before if record.cohort not in failed]
            self._before = self._journal.keep(kept)
        self._cohort = max((record.cohort + 1 for record in self._before), default=0)
        if resolved.missing is not None:
            log.info("not tried above %d processes: %s", max(resolved.counts), resolved.missing)
        self._waiting = [list(resolved.counts)]
        if each_alone(self._settings, self._job.launch.axes):
            shuffle = random.Random(self._job.seed)  # noqa: S311 (an order, no secret)
            counts = shuffle.sample(resolved.counts, len(resolved.counts))
            self._waiting = [[n] for n in counts]

    def take_next(self) -> bool:
        """Take the next window; members sleep until the one after it.

        Returns:
            Whether there was one. If not, the record file is complete.

        Raises:
            ScriptEndedError: the study's first script ended without a step that counts.
        """
        while self._running is not None or self._waiting:
            if self._running is None:
                self._start_cohort(self._waiting.pop(0))
            elif self._take_window(self._running):
                return True
        self._journal.finish(self._lacking())
        return False

    def close(self) -> None:
        """End the members of the cohort that lives now."""
        self._cohort_ends.close()
        self._running = None

    def _lacking(self) -> str:
        """Return why the record file is to be measured again; empty if nothing is missing.

        A race asks for missing counts again by itself, unless none of them has a result.
        """
        if self._resolved is None:
            return SKIPPED
        records = self._journal.read()
        failed = _failed(records)
        measured = {
            record.n
            for record in records
            if isinstance(record, Window) and record.valid and record.cohort not in failed
        }
        complete = measured if self._batch else measured.issuperset(self._resolved.counts)
        return "" if complete else FAILED

    def _first_record(self) -> CohortHead:
        """Return a cohort's first record.

        Raises:
            UnavailableError: the interpreter does not run, or has no torch.
        """
        resolved = self._resolved
        python = resolved.launch.python if resolved else None
        return CohortHead(
            **structs.asdict(self._job.measured(self._job.seed, python)),
            schema_version=2,
            study=self._job.plan.study,
            cohort=self._cohort,
            process_counts=self._process_counts,
            batch=self._batch or None,
            measure=self._settings.model_dump(mode="json", exclude={"replicates"}),
            machine_hash=self._machine.hash,
            machine=self._machine,
            slots=list(resolved.slots) if resolved else [],
            requested_env=dict(resolved.requested_env) if resolved else {},
        )

    def _compiling_anew(self, folder: Path) -> dict[str, str]:
        """Return the variable of an empty torch.compile cache, for a launch's first replicate.

        Later replicates find what the first has compiled, so both kinds of start are seen.
        """
        is_on = self._job.launch.axes["compile"] != "off"
        if self._job.replicate or not is_on or resolve.COMPILE_CACHE in self._job.plan.workload.env:
            return {}
        return {resolve.COMPILE_CACHE: str(folder / "compiled")}

    def _start_cohort(self, counts: Sequence[int]) -> None:
        """Prepare the cohort of some process counts, unless an interrupted run has measured it.

        If that run was killed after its last window, its windows stay as they are, settled or not.
        """
        resolved, before = self._resolved, self._before
        assert resolved is not None  # noqa: S101 (nothing waits otherwise)
        done = {
            Count(record.n).key(record.block)
            for record in before
            if isinstance(record, Window) and record.valid
        }
        planned = itertools.product(range(self._settings.windows), counts)
        if all(Count(n).key(block) in done for block, n in planned):
            interrupted = _interrupted(counts, before)
            if interrupted is not None:
                self._journal.write(_end(interrupted, "complete"))
            return
        windows_before = any(isinstance(record, Window) for record in before)
        task = CohortTask(
            self._job, self._cohort, self._journal, self._lookout, counts, done,
            first_decides=is_first(self._job.launch, self._job.replicate) and not windows_before,
        )  # fmt: skip
        self._journal.write(structs.replace(self._head, cohort=self._cohort))
        workload, host = self._job.plan.workload, resolve.host(self._machine)
        folder = private.part(self._private, f"cohort-{self._cohort}")
        place = self._cohort_ends.enter_context(folder)
        compiled = self._compiling_anew(place)
        for name, files in compiled.items():
            kept = Path(resolved.launch.env[name])
            self._cohort_ends.callback(_keep, Path(files), kept)
        env = {**resolved.launch.env, **compiled}
        launch = replace(resolved.launch, folder=place, env=env)
        if workload.runs or workload.pool:
            program = program_of(workload, self._job.launch.axes, place)
            kind = RunWindows if workload.runs else PoolWindows
            self._running = kind(task, launch, resolved.members, program, host)
        else:
            specs, hang_s = resolved.members[: max(counts)], self._settings.timeout_s
            members = cohort.Cohort(launch, specs, host, hang_s=hang_s)
            self._cohort_ends.enter_context(members)
            self._running = CohortWindows(task, members, resolved.slots, before)

    def _take_window(self, running: CohortRun) -> bool:
        """Take a window of the living cohort; if there is none left, end the cohort."""
        stopped = None
        try:
            if running.take_next():
                return True
            status, reason = running.outcome
        except member_processes.ScriptEndedError as error:
            status, reason, stopped = "failed", str(error), error
        self.close()
        missing = self._resolved.missing if self._resolved else None
        remedy = None
        if status == "complete" and missing is not None:
            status, reason, remedy = "partial", missing.reason, missing.remedy
        self._journal.write(running.end(status, reason, remedy))
        level = logging.WARNING if reason else logging.INFO
        log.log(level, "%s%s", status, f": {reason}" if reason else "")
        self._cohort += 1
        if stopped is not None:
            script = work.name(self._job.plan.workload)
            story = Stopped(script=script, reason=stopped.end.reason, log=stopped.end.log)
            write_file(self._folder / STOPPED, story)
            raise stopped
        return False


def _end(
    cohort: int, status: Status, reason: str | None = None, remedy: str | None = None
) -> CohortEnd:
    """Return the last record of a cohort that took no time here."""
    return CohortEnd(
        cohort=cohort,
        status=status,
        reason=reason,
        remedy=remedy,
        wall_s=0.0,
        start_s=None,
        in_windows_s=0.0,
    )


def is_first(launch: planned.Launch, replicate: int) -> bool:
    """Return whether a start is the study's first: if its script fails, all others would."""
    return bool(launch.role == "default" and replicate == 0)


def _failed(records: Iterable[Record]) -> set[int]:
    """Return the cohorts that failed: their windows, if there are any, do not count."""
    return {end.cohort for end in records if isinstance(end, CohortEnd) and end.status == "failed"}


def _keep(folder: Path, place: Path) -> None:
    """Copy compiled files to where later starts look for them; each file appears as a whole."""

    def put(source: str, target: str) -> None:
        part = f"{target}.{os.getpid()}"
        shutil.copy2(source, part)
        os.replace(part, target)  # noqa: PTH105 (as copytree gives them)

    if folder.exists():
        shutil.copytree(folder, place, dirs_exist_ok=True, copy_function=put)


def in_turns(
    measurements: Iterable[Measurement],
    free_bytes: Callable[[], int] = lambda: headroom.read_free_memory().free,
) -> None:
    """Run measurements side by side, one window of each in turn, so that drift affects all alike.

    Their cohorts start one after another, and each lives until its last window. Members outside a
    window sleep. If memory is short, the next cohort starts when another has ended.

    Args:
        measurements: the measurements, in the order in which they start.
        free_bytes: returns the memory that is left.
    """
    waiting, largest = deque(measurements), 0
    running: list[Measurement] = []
    with private.folder() as folder, contextlib.ExitStack() as stack:
        while waiting or running:
            before = free_bytes()
            if waiting and (not running or before > ROOM * largest):
                part = stack.enter_context(private.part(folder, f"launch-{len(waiting)}"))
                measurement = stack.enter_context(contextlib.closing(waiting.popleft()))
                measurement.begin(part)
                running += [measurement] if measurement.take_next() else []
                largest = max(largest, before - free_bytes())
            else:
                running = [measurement for measurement in running if measurement.take_next()]


def _interrupted(counts: Sequence[int], before: Sequence[Record]) -> int | None:
    """Return the last cohort of these counts if an interrupted run left it without its end."""
    windows_of = [
        record.cohort for record in before if isinstance(record, Window) and record.n in counts
    ]
    ended = {record.cohort for record in before if isinstance(record, CohortEnd)}
    return windows_of[-1] if windows_of and windows_of[-1] not in ended else None
