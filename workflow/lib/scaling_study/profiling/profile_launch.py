"""Profile one launch: where its steps' time goes at some process counts.

A cohort is started as for measuring. One member at a time is profiled while the others train as
usual. Windows without a profiler come before and after every profile: the ratio of the step times
is the profiler's overhead. Nothing here is a measurement of speed.
"""

import json
import logging
import math
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace as with_changed
from pathlib import Path

from msgspec.structs import replace

from scaling_study.common import private
from scaling_study.common.unavailable import UnavailableError
from scaling_study.config.efforts import PROFILE_EFFORTS
from scaling_study.config.estimate import SAMPLED_MEMBERS, chosen_counts
from scaling_study.config.launches import Launch
from scaling_study.config.plan import RECOMMENDED
from scaling_study.host import probe
from scaling_study.member import channel
from scaling_study.profiling import stacks
from scaling_study.records import codec
from scaling_study.records.profile import Kind, PointProfile, Profiled, ProfiledPoint, Turn
from scaling_study.runner import cohort, member_processes, pool, resolve, windows
from scaling_study.runner.blocks import LostError
from scaling_study.runner.free_run import program_of
from scaling_study.runner.jobs import Job
from scaling_study.runner.member_processes import FailedError

OPERATORS_LONGEST_S = 60.0
"""An operator profile covers few steps; this ends it in a launch that crawls."""

WRITING_LONGEST_S = 600.0
"""torch takes about half a second to work up each profiled step of some thousand operators."""

SPY_START_LONGEST_S = 120.0
"""py-spy reads the symbols of all libraries first; those of torch take it one to three seconds."""

KINDS: tuple[Kind, ...] = ("operators", "calls", "stacks")
OWN = {
    "operators": (channel.PROFILE_OPERATORS, ("operators.json", "operators.txt", "trace.json.gz")),
    "calls": (channel.PROFILE_CALLS, ("calls.prof",)),
}
"""Profiles that a member takes of itself: the order that starts each, and its files."""

SHORTEST_TURN_S = 1
"""py-spy samples for whole seconds."""

LONGEST_FACTOR = 3.0
"""The sampler falls behind if unwinding is slow. Sampling ends after this many times the planned
time, with the samples so far."""

FAILURES = (FailedError, stacks.StackError)
INSIDE = "only a process that the study starts can be profiled from inside"
NO_TRACING = "sudo sysctl kernel.yama.ptrace_scope=0 or docker run --cap-add=SYS_PTRACE"

TurnTimes = tuple[int, list[float]]
"""The place of the member that is profiled, and its step times (s)."""

log = logging.getLogger("profile")


def profile_launch(job: Job, target: str, folder: Path, builds: Path) -> None:
    """Profile a launch and leave ``profile.json`` and its files in a folder.

    Args:
        job: the launch, as for measuring; its plan has the section ``profile``.
        target: the launch's name in the plan: an id, or ``recommended``.
        folder: folder for the files; created if missing.
        builds: folder of the environments that were built from requirements.
    """
    machine = probe.read_machine()
    content = _of(job.launch, machine=machine.hash, target=target)
    points: list[ProfiledPoint] = []
    try:
        process_counts = resolve.counts(job.plan, machine)
        resolved = resolve.resolve(job.plan, job.launch.axes, machine, builds, process_counts)
        counts = _chosen(job.plan.profile.processes, resolved.counts)
        with private.folder() as private_folder:
            taken = _of_pool if job.plan.workload.pool else _of_members
            points.extend(taken(job, resolved, counts, private_folder, folder))
    except UnavailableError as error:
        content = replace(content, status="skipped", reason=error.reason, remedy=error.remedy)
    except FailedError as error:
        content = replace(content, status="failed", reason=str(error))
    codec.write_file(folder / "profile.json", replace(content, points=tuple(points)))


def _of_members(
    job: Job, resolved: resolve.Resolved, counts: Sequence[int], private_folder: Path, folder: Path
) -> Iterator[ProfiledPoint]:
    """Profile members that rest between windows, in one cohort for all counts."""
    launch = with_changed(resolved.launch, folder=private_folder)
    specs = resolved.members[: max(counts)]
    with cohort.Cohort(launch, specs, resolve.host(probe.read_machine())) as members:
        members.launch([spec.slot for spec in specs])
        members.prove(job.launch.axes, resolved.slots, job.plan.measure)
        profiling = _MemberProfiling(job, members, private_folder, folder)
        for n in counts:
            log.info("n = %d", n)
            yield profiling.point(n)


def _of_pool(
    job: Job, resolved: resolve.Resolved, counts: Sequence[int], private_folder: Path, folder: Path
) -> Iterator[ProfiledPoint]:
    """Profile the processes of a program that starts them itself; it starts anew for each count."""
    program = program_of(job.plan.workload, job.launch.axes, private_folder)
    for n in counts:
        log.info("n = %d", n)
        with private.part(private_folder, str(n)) as part:
            launch = with_changed(resolved.launch, folder=part)
            with pool.PoolRun(launch, resolved.members, program, n, read_back=False) as run:
                try:
                    run.start(0)
                    run.all_train(job.plan.measure)
                except LostError as error:
                    raise FailedError(str(error)) from None
                yield _Profiling(job, run, part, folder).point(n)


def _chosen(choice: str | Sequence[int], process_counts: Sequence[int]) -> list[int]:
    """Return the process counts to profile.

    Raises:
        UnavailableError: there are none.
    """
    counts = chosen_counts(choice, process_counts)
    if not counts:
        raise UnavailableError(
            "no process count is among those in profile.processes",
            f"add one of {', '.join(map(str, process_counts))}",
        )
    return counts


def _of(launch: Launch | None, machine: str, target: str) -> Profiled:
    """Return a profile of a launch, as if it were complete, without points."""
    return Profiled(
        schema_version=3,
        status="complete",
        machine=machine,
        target=target,
        launch=launch.id if launch else None,
        label=launch.label if launch else None,
        role=launch.role if launch else None,
    )


def without_profile(launch: Launch | None, machine: str) -> Profiled:
    """Return profile.json for a recommended launch that needs no profile of its own.

    Args:
        launch: the launch, already profiled under its id; None if nothing is recommended.
        machine: the machine's hash.
    """
    content = _of(launch, machine=machine, target=RECOMMENDED)
    if launch:
        return replace(content, same_as=launch.id)
    return replace(content, status="skipped", reason="no launch is recommended on this machine")


class _Profiling:
    """The profiles of what trains, as far as they are taken from outside."""

    def __init__(
        self, job: Job, members: cohort.Cohort | pool.PoolRun, private_folder: Path, output: Path
    ) -> None:
        self._job = job
        self._settings = PROFILE_EFFORTS[job.plan.profile.effort]
        self._cohort = members
        self._private = private_folder
        self._output = output

    def point(self, n: int) -> ProfiledPoint:
        """Take all profiles at a process count, each between windows without a profiler.

        Raises:
            FailedError: a member ended.
        """
        (self._output / str(n)).mkdir(parents=True, exist_ok=True)
        try:
            around = [self._unprofiled(n)]
            profiles = [self._profile(n, kind, around) for kind in KINDS]
        except member_processes.MemberEndedError:
            reasons = [event.reason for event in self._cohort.events]
            raise FailedError(reasons[-1] if reasons else "a member ended") from None
        bare_s = tuple(first for first, *_ in around)
        return ProfiledPoint(
            n=n,
            unprofiled_step_s=statistics.fmean(bare_s),
            unprofiled_windows=bare_s,
            kinds=tuple(profiles),
        )

    def _profile(self, n: int, kind: Kind, around: list[list[float]]) -> PointProfile:
        """Take one profile, and a window without a profiler after it."""
        turns_s: list[TurnTimes] = []
        try:
            profile, turns_s = self._stacks(n) if kind == "stacks" else self._own(n, kind)
        except UnavailableError as error:
            profile = PointProfile(
                kind=kind, status="skipped", reason=error.reason, remedy=error.remedy
            )
        except FAILURES as error:
            profile = PointProfile(kind=kind, status="failed", reason=str(error))
        around.append(self._unprofiled(n))
        if not turns_s:
            log.info("n = %d: no %s (%s)", n, kind, profile.reason)
            return profile
        profile = _with_cost(profile, turns_s, *around[-2:])
        log.info("n = %d: %s, step time %.3f of unprofiled", n, kind, profile.overhead)
        return profile

    def _unprofiled(self, n: int) -> list[float]:
        """Return the mean step time (s) of each member without a profiler."""
        with self._cohort.training(n) as activities:
            time.sleep(self._settings.unprofiled_s)
        return [statistics.fmean(_step_times(activity, 0) or [math.nan]) for activity in activities]

    def _own(self, n: int, kind: Kind) -> tuple[PointProfile, list[TurnTimes]]:  # noqa: ARG002 (below)
        """Take a profile that the member takes of itself."""
        raise UnavailableError(INSIDE, "workload.script with one model in each process")

    def _stacks(self, n: int) -> tuple[PointProfile, list[TurnTimes]]:
        """Sample members' stacks from outside, in turn, until there are enough samples."""
        spy = shutil.which("py-spy", path=f"{Path(sys.executable).parent}:{os.defpath}")
        if spy is None:
            raise UnavailableError("py-spy is not installed", "pip install py-spy")
        samples, rate_hz = self._settings.samples, self._settings.rate_hz
        slots = self._cohort.alive[: min(n, SAMPLED_MEMBERS)]
        for slot in slots:
            self._cohort.ask(slot, channel.ALLOW_TRACING)
        native_failed: str | None = None
        turns: list[Turn] = []
        turns_s: list[TurnTimes] = []
        while (missing := samples - sum(turn.samples for turn in turns)) > 0:
            spent_s = sum(turn.seconds for turn in turns)
            if spent_s >= LONGEST_FACTOR * max(SHORTEST_TURN_S, samples / rate_hz):
                break
            at = len(turns) % len(slots)
            left = len(slots) - at
            seconds = max(SHORTEST_TURN_S, math.ceil(missing / rate_hz / left))
            words = [spy] if native_failed else [spy, "--native"]
            try:
                turn, steps_s = self._turn(n, at, f"stacks-{len(turns)}.raw", words, seconds)
            except (UnavailableError, *FAILURES) as error:
                if turns:
                    log.info("n = %d: no more stacks (%s)", n, error)
                    break
                if native_failed or isinstance(error, UnavailableError):
                    raise
                native_failed = str(error)
                continue
            turns.append(turn)
            turns_s.append((at, steps_s))
        profile = PointProfile(
            kind="stacks",
            status="ok",
            rate_hz=rate_hz,
            native=native_failed is None,
            native_failed=native_failed,
            samples=sum(turn.samples for turn in turns),
            steps=sum(turn.steps for turn in turns),
            seconds=sum(turn.seconds for turn in turns),
            members=len({turn.slot for turn in turns}),
            turns=tuple(turns),
            files=tuple(f"{n}/{turn.file}" for turn in turns),
        )
        return profile, turns_s

    def _turn(
        self, n: int, at: int, file: str, spy: Sequence[str], seconds: int
    ) -> tuple[Turn, list[float]]:
        """Sample one member for a while; also return its step times (s).

        Args:
            n: members that train.
            at: place of the member among them.
            file: name of py-spy's output, in the point's folder.
            spy: path of py-spy, and further options.
            seconds: duration.

        Raises:
            UnavailableError: this machine forbids it.
            FailedError: nothing was sampled.
            StackError: the samples have no stacks.
        """
        slot = self._cohort.alive[at]
        raw = self._output / str(n) / file
        pid, trainer_tid = self._cohort.trainer(slot)
        command = [
            *(spy[0], "record", "--pid", str(pid)),
            *("--format", "raw", "--output", str(raw)),
            *("--rate", str(self._settings.rate_hz), "--duration", str(seconds)),
            *("--threads", "--idle", "--subprocesses", "--full-filenames", *spy[1:]),
        ]
        longest_s = seconds + SPY_START_LONGEST_S
        with self._cohort.training(n) as activities:
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, check=False, timeout=longest_s
                )
            except subprocess.TimeoutExpired:
                reason = f"not done after {longest_s:g} s"
                done = subprocess.CompletedProcess(command, 1, "", reason)
            ended_ns = time.perf_counter_ns()
        if done.returncode or not raw.exists():
            raise _not_sampled(done)
        steps_s = _step_times(activities[at], ended_ns - seconds * 10**9)
        if not steps_s:
            raise FailedError(f"no whole step within {seconds} s")
        turn = Turn(
            slot=slot, pid=pid, samples=0, seconds=seconds, steps=len(steps_s),
            trainer_tid=trainer_tid, file=file,
        )  # fmt: skip
        samples = stacks.read_point(raw.parent, [turn], step_s=0.0).samples
        return replace(turn, samples=samples), steps_s


class _MemberProfiling(_Profiling):
    """The profiles of a cohort, whose members rest between windows and profile themselves."""

    _cohort: cohort.Cohort

    def _unprofiled(self, n: int) -> list[float]:
        """Return the mean step time (s) of each member in a window without a profiler."""
        measure = self._job.plan.measure
        shortest_s = self._settings.unprofiled_s
        settings = cohort.WindowSettings(
            steps=windows.FEWEST_STEPS,
            shortest_s=shortest_s,
            longest_s=max(shortest_s, measure.longest_s),
            settle_s=min(measure.settle_s, shortest_s / 2),
        )
        record = self._cohort.take(windows.WindowPlan(0, 0, n), settings)
        return [
            statistics.fmean(member.step_us) / 1e6 if member.step_us else float("nan")
            for member in record.members
        ]

    def _own(self, n: int, kind: Kind) -> tuple[PointProfile, list[TurnTimes]]:
        """Take a profile that the member takes of itself."""
        order, names = OWN[kind]
        first, *_ = self._cohort.profile(n, order, self._settings.steps, OPERATORS_LONGEST_S)
        if not self._cohort.ask(first.slot, channel.WRITE_PROFILE, WRITING_LONGEST_S):
            raise member_processes.MemberEndedError([first.slot])
        noted = self._private / f"{kind}.json"
        if not noted.exists():
            raise FailedError(f"no whole step within {OPERATORS_LONGEST_S:g} s")
        covered = json.loads(noted.read_text())["steps"]
        for name in names:
            shutil.move(self._private / name, self._output / str(n) / name)
        files = tuple(f"{n}/{name}" for name in names)
        profile = PointProfile(kind=kind, status="ok", steps=covered, files=files)
        return profile, [(0, _step_times(first, first.steps[-1 - covered].end_ns))]


def _not_sampled(done: subprocess.CompletedProcess[str]) -> UnavailableError | FailedError:
    """Return why py-spy sampled nothing; if the machine forbids tracing, it is no failure."""
    said = (done.stderr or done.stdout).strip().splitlines()
    reason = f"py-spy: {said[-1] if said else f'status {done.returncode}'}"
    if any("ermission" in line for line in said):
        return UnavailableError(reason, NO_TRACING)
    return FailedError(reason)


def _step_times(activity: windows.Activity, since_ns: int) -> list[float]:
    """Return the times (s) of a profiled member's steps that began after some time."""
    durations, _ = windows.counted_steps(activity, since_ns, activity.parked_ns)
    return [duration / 1e9 for duration in durations]


def _with_cost(
    profile: PointProfile, turns_s: Sequence[TurnTimes], *around: Sequence[float]
) -> PointProfile:
    """Return a profile with its overhead, from the windows around it.

    Args:
        profile: without overhead.
        turns_s: member and step times of each turn; turns may profile different members.
        around: for each unprofiled window, the mean step time (s) of each member, in order.
    """
    bare = [statistics.fmean(times) for times in zip(*around, strict=True)]
    weights = [len(steps_s) for _, steps_s in turns_s]
    step_s = statistics.fmean(duration for _, steps_s in turns_s for duration in steps_s)
    bare_s = statistics.fmean((bare[at] for at, _ in turns_s), weights)
    return replace(profile, step_s=step_s, unprofiled_step_s=bare_s, overhead=step_s / bare_s)
