"""Measure one (launch, replicate): from the plan to its record file.

A probe of the measuring machine resolves all that depends on it: process counts, the CPUs of each
slot, libraries, and what must be skipped. An expected failure is a stored status with its reason,
never a missing file.
"""

import contextlib
import hashlib
import json
import logging
import os
import random
import shutil
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from msgspec import structs

from scaling_study.common import code_digest, entries, private
from scaling_study.common.axis_values import Axes
from scaling_study.common.unavailable import UnavailableError
from scaling_study.config import launches as planned
from scaling_study.config import work
from scaling_study.config.config import Measure
from scaling_study.config.plan import Plan, Planned
from scaling_study.config.workload import Workload
from scaling_study.host import probe
from scaling_study.launch.launchers.launcher_table import LAUNCHERS
from scaling_study.records.codec import write_file
from scaling_study.records.window import DECODER, Cohort, End, Record, Status, Stopped, Window
from scaling_study.runner import cohort, foreign, headroom, member_processes, resolve, windows
from scaling_study.runner.cohort_windows import CohortRun, CohortWindows
from scaling_study.runner.free_run import program_of
from scaling_study.runner.journal import Journal
from scaling_study.runner.pool import PoolWindows
from scaling_study.runner.whole_runs import RunWindows

# A change of any of these modules invalidates old windows.
HARNESS = (
    *("runner/measure", "member/worker", "member/hook/sitecustomize"),
    *("launch/axes", "launch/counters", "launch/launchers"),
)
"""The modules and folders that measure, with all that they import."""

OUTSIDE = ("axes", "counters", "launchers")
"""Kinds of extensions; a user's own files of these kinds belong to the harness."""

FAILED, SKIPPED = "failed", "skipped"
"""Reasons to measure a record file again: it lacks results, or the machine lacks something."""
STOPPED = "stopped.json"
"""In measure/: the end of the default launch's script, if it came before the first step."""

log = logging.getLogger("measure")

ROOM = 1.5
"""Another cohort starts only if this many times the memory of the largest one so far is left."""

_ENDED = object()


@dataclass(frozen=True, slots=True)
class Job:
    """One (launch, replicate) to measure.

    Attributes:
        plan: the part of plan.json that the measurement depends on (see ``job_text``).
        launch: a launch of the plan; `NO_LAUNCH` if the job itself finds out which.
        replicate: which fresh start of the launch this is.
    """

    plan: Planned
    launch: planned.Launch
    replicate: int

    @property
    def seed(self) -> int:
        """The seed of this job's shuffles, from the study's seed and the job's name."""
        text = f"{self.plan.seed} {self.launch.id} {self.replicate}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def job_sections(plan: Plan, *sections: str) -> dict[str, object]:
    """Return the parts of a plan that measuring or profiling depends on, as JSON data.

    Fields that matter only after measuring are left out: changing them measures nothing anew.

    Args:
        plan: The plan.
        sections: Further sections to include, without their lists of launches.
    """
    afterwards = {"steps_per_model", "samples_per_step", "samples_per_epoch"}
    return plan.model_dump(
        mode="json",
        include={"study", "seed", "processes", "measure", "workload", *sections},
        exclude={
            "measure": {"replicates"},
            "workload": afterwards,
            **{name: {"launches"} for name in ("profile", "why")},
        },
    )


def job_text(sections: Mapping[str, object], launch: planned.Launch | None, files: str = "") -> str:
    """Return, as JSON, all that a job depends on.

    Args:
        sections: The result of `job_sections`.
        launch: One of the plan's; None if the job itself finds out which.
        files: A digest of all files that the job depends on.
    """
    own = None if launch is None else asdict(launch)
    return json.dumps({**sections, "launch": own, "files": files}, sort_keys=True)


def read_job(text: str, replicate: int) -> Job:
    """Return the job from a text that ``job_text`` made."""
    data = json.loads(text)
    launch = data.pop("launch")
    return Job(
        Planned.model_validate(data),
        planned.Launch(**launch) if launch else planned.NO_LAUNCH,
        replicate,
    )


def each_alone(settings: Measure, axes: Axes) -> bool:
    """Return whether each process count of a launch has a cohort of its own.

    Members that do not rest would take CPU time from those that train.

    Args:
        settings: the plan's ``measure`` section.
        axes: the launch's values.
    """
    return settings.isolated or not LAUNCHERS[str(axes["launcher"])].rests


def digest(*parts: object) -> str:
    """Return 12 hexadecimal digits for anything that JSON can hold."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def workload_digest(workload: Workload) -> str:
    """Return a digest of a workload's files.

    The content of a script is hashed. For a module, it is the content of all modules of its package
    below the working directory. Inputs may be large, so only their names, sizes and times of
    modification are hashed, with those of everything below a folder.
    """
    folder = Path(work.folder(workload))
    script = [hashlib.sha256(file.read_bytes()).hexdigest() for file in _program(workload, folder)]
    inputs = [folder / name for name in workload.inputs]
    files = {file for path in inputs for file in (path, *path.rglob("*"))}
    states = sorted((str(file), file.stat()) for file in files)
    return digest(script, [(name, one.st_size, one.st_mtime_ns) for name, one in states])


def _program(workload: Workload, folder: Path) -> list[Path]:
    """Return the files of the program: the script, or all modules of the module's package."""
    if workload.command:
        return [path for path in map(folder.joinpath, workload.command) if path.is_file()]
    if not workload.module:
        return [folder / str(workload.script)]
    top = folder / workload.module.partition(".")[0]
    return sorted(top.rglob("*.py")) if top.is_dir() else [*top.parent.glob(f"{top.name}.py")]


def measured_digest(workload: Workload, python: str) -> str:
    """Return the digest of what is measured: files, arguments, environment and build.

    Args:
        workload: the workload of a job.
        python: the interpreter of the build.
    """
    return digest(
        workload_digest(workload),
        workload.cwd,
        work.program(workload),
        *(workload.args, workload.step, workload.env, workload.fresh_folder),
        *([workload.command] if workload.command else []),
        asdict(resolve.versions(python, runs=workload.runs)),
    )


def harness_digest(*further: str) -> str:
    """Return the digest of the code that measures, and of further modules with their imports."""
    outside = [file for kind in OUTSIDE for file in entries.files_outside(kind)]
    return code_digest.of_modules(*HARNESS, *further, further=outside)[:12]


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
        self._cohort = 0
        self._lookout = foreign.Lookout(frozenset(self._machine.cpus))

    def run(self) -> None:
        """Measure, and leave a complete record file."""
        in_turns([self])

    def pausing(self, folder: Path) -> Generator[None]:
        """Measure, and leave a complete record file; pause between windows, with members asleep.

        Args:
            folder: a private folder.
        """
        try:
            resolved = resolve.resolve(
                self._job.plan, self._job.launch.axes, self._machine, self._builds,
                self._process_counts, member=headroom.known(self._folder, self._job.launch.id),
            )  # fmt: skip
            head = self._head(resolved)
        except UnavailableError as error:
            log.warning("skipped: %s (%s)", error.reason, error.remedy)
            self._journal.restart()
            self._journal.write(self._head(None))
            self._journal.write(_end(self._cohort, "skipped", error.reason, error.remedy))
            left = SKIPPED
        else:
            yield from self._measure_all(resolved, head, folder)
            left = FAILED if self._lacks(resolved.counts) else ""
        self._journal.finish(left)

    def _lacks(self, counts: Sequence[int]) -> bool:
        """Return whether a count has no result; in a race, whether none of the counts has one.

        A race asks for missing counts again by itself.
        """
        records = self._journal.read()
        failed = _failed(records)
        seen = {
            one.n
            for one in records
            if isinstance(one, Window) and one.valid and one.cohort not in failed
        }
        return not (seen if self._batch else seen.issuperset(counts))

    def _measure_all(
        self, resolved: resolve.Resolved, head: Cohort, folder: Path
    ) -> Iterator[None]:
        records = self._journal.resume(head)
        if records:
            log.info("goes on after %d records of an earlier run", len(records))
        failed = _failed(records)
        if failed:
            log.info("what failed before is measured again")
            records = self._journal.keep([one for one in records if one.cohort not in failed])
        self._cohort = max((one.cohort + 1 for one in records), default=0)
        if resolved.missing is not None:
            log.info("not tried above %d processes: %s", max(resolved.counts), resolved.missing)
        cohorts = [list(resolved.counts)]  # the process counts of each
        if each_alone(self._settings, self._job.launch.axes):
            shuffle = random.Random(self._job.seed)  # noqa: S311 (an order, no secret)
            cohorts = [[n] for n in shuffle.sample(resolved.counts, len(resolved.counts))]
        for counts in cohorts:
            yield from self._measure(resolved, head, counts, records, folder)

    def _head(self, resolved: resolve.Resolved | None) -> Cohort:
        """Return a cohort's first record.

        Args:
            resolved: the launch on this machine; None if the machine cannot run it.

        Raises:
            UnavailableError: the interpreter does not run, or has no torch.
        """
        plan, launch = self._job.plan, self._job.launch
        python = resolved.launch.python if resolved else None
        return Cohort(
            schema_version=2,
            study=plan.study,
            role=launch.role,
            label=launch.label,
            axes=dict(launch.axes),
            launch=launch.id,
            replicate=self._job.replicate,
            cohort=self._cohort,
            process_counts=self._process_counts,
            batch=self._batch or None,
            seed=self._job.seed,
            measure=self._settings.model_dump(mode="json", exclude={"replicates"}),
            measured_hash=measured_digest(plan.workload, python) if python else "",
            harness_hash=harness_digest(),
            machine_hash=self._machine.hash,
            machine=self._machine,
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            slots=list(resolved.slots) if resolved else [],
            requested_env=dict(resolved.requested_env) if resolved else {},
        )

    def _compiling_anew(self, folder: Path) -> dict[str, str]:
        """Return the variable of an empty torch.compile cache, for a launch's first replicate.

        Later replicates find what the first has compiled, so both kinds of start are seen.
        """
        asked = self._job.launch.axes["compile"] != "off"
        if self._job.replicate or not asked or resolve.COMPILE_CACHE in self._job.plan.workload.env:
            return {}
        return {resolve.COMPILE_CACHE: str(folder / "compiled")}

    def _measure(
        self,
        resolved: resolve.Resolved,
        head: Cohort,
        counts: Sequence[int],
        before: Sequence[Record],
        private_folder: Path,
    ) -> Iterator[None]:
        """Measure one cohort's windows, without those that an interrupted run has taken.

        If that run was killed after the last of them, they stay as they are, settled or not.
        """
        todo = self._todo(counts, before)
        if not todo:
            interrupted = _interrupted(counts, before)
            if interrupted is not None:
                self._journal.write(_end(interrupted, "complete"))
            return
        first_decides = is_first(self._job.launch, self._job.replicate) and not any(
            isinstance(record, Window) for record in before
        )
        began_s = time.perf_counter()
        own = self._job, self._cohort, self._journal, self._lookout, counts, first_decides, began_s
        self._journal.write(structs.replace(head, cohort=self._cohort))
        workload, host = self._job.plan.workload, resolve.host(self._machine)
        ended: member_processes.ScriptEndedError | None = None
        with private.part(private_folder, f"cohort-{self._cohort}") as folder:
            compiled = self._compiling_anew(folder)
            env = {**resolved.launch.env, **compiled}
            launch = replace(resolved.launch, folder=folder, env=env)
            with contextlib.ExitStack() as stack:
                if workload.runs or workload.pool:
                    whole = program_of(workload, self._job.launch.axes, folder)
                    kind = RunWindows if workload.runs else PoolWindows
                    run: CohortRun = kind(*own, launch, resolved.members, whole, host)
                else:
                    specs, hang_s = resolved.members[: max(counts)], self._settings.timeout_s
                    one = stack.enter_context(cohort.Cohort(launch, specs, host, hang_s=hang_s))
                    run = CohortWindows(*own, one, resolved.slots, before)
                try:
                    status, reason = yield from run.take(todo)
                except member_processes.ScriptEndedError as error:
                    status, reason, ended = "failed", str(error), error
            for name, place in compiled.items():
                _keep(Path(place), Path(resolved.launch.env[name]))
        remedy = None
        if status == "complete" and resolved.missing is not None:
            status, reason, remedy = "partial", resolved.missing.reason, resolved.missing.remedy
        self._journal.write(run.end(status, reason, remedy))
        level = logging.WARNING if reason else logging.INFO
        log.log(level, "%s%s", status, f": {reason}" if reason else "")
        self._cohort += 1
        if ended is not None:
            end = ended.end
            script = work.name(workload)
            story = Stopped(script=script, reason=end.reason, log=end.log)
            write_file(self._folder / STOPPED, story)
            raise ended

    def _todo(self, counts: Sequence[int], before: Sequence[Record]) -> list[windows.Window]:
        schedule = windows.schedule(counts, self._settings.windows, self._job.seed)
        done = {
            (record.window, record.n)
            for record in before
            if isinstance(record, Window) and record.valid
        }
        return [window for window in schedule if (window.window, window.n) not in done]


def _end(cohort: int, status: Status, reason: str | None = None, remedy: str | None = None) -> End:
    """Return the last record of a cohort that took no time here."""
    return End(
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
    return {one.cohort for one in records if isinstance(one, End) and one.status == "failed"}


def _keep(made: Path, place: Path) -> None:
    """Copy compiled files to where later starts look for them; each file appears as a whole."""

    def put(source: str, target: str) -> None:
        part = f"{target}.{os.getpid()}"
        shutil.copy2(source, part)
        os.replace(part, target)  # noqa: PTH105 (as copytree gives them)

    if made.exists():
        shutil.copytree(made, place, dirs_exist_ok=True, copy_function=put)


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
    waiting, taken = list(measurements), 0
    left: list[Generator[None]] = []
    with private.folder() as folder, contextlib.ExitStack() as stack:
        while waiting or left:
            before = free_bytes()
            if waiting and (not left or before > ROOM * taken):
                own = stack.enter_context(private.part(folder, f"launch-{len(waiting)}"))
                run = stack.enter_context(contextlib.closing(waiting.pop(0).pausing(own)))
                left += [run] if next(run, _ENDED) is not _ENDED else []
                taken = max(taken, before - free_bytes())
            else:
                left = [run for run in left if next(run, _ENDED) is not _ENDED]


def _interrupted(counts: Sequence[int], before: Sequence[Record]) -> int | None:
    """Return the last cohort of these counts if an interrupted run left it without its end."""
    windows_of = [
        record.cohort for record in before if isinstance(record, Window) and record.n in counts
    ]
    ended = {record.cohort for record in before if isinstance(record, End)}
    return windows_of[-1] if windows_of and windows_of[-1] not in ended else None
