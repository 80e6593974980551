"""Profile one launch: where its steps' time goes at some process counts.

A cohort is started as for measuring. One member at a time is profiled while the others train as
usual, and windows without a profiler come before and after every profile: their step time against
the profiled one is what the profiler cost. Nothing here is a measurement of speed.
"""

from __future__ import annotations

import json
import logging
import math
import os
import shutil
import statistics
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scaling_study.common import private, storage
from scaling_study.common.unavailable import UnavailableError
from scaling_study.config.estimate import SAMPLED_MEMBERS, chosen_counts
from scaling_study.config.plan import RECOMMENDED
from scaling_study.host import probe
from scaling_study.launch.axes import axis_table
from scaling_study.member import channel
from scaling_study.profiling import stacks
from scaling_study.runner import cohort, member_processes, resolve, windows
from scaling_study.runner.cohort_windows import WARM_UP_LONGEST_S

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence

    from scaling_study.config.launches import Launch
    from scaling_study.records.window import Slot
    from scaling_study.runner.measure import Job

SCHEMA_VERSION = 3
"""2: stacks of several members, in turns. 1: of one member."""

OPERATORS_LONGEST_S = 60.0
"""Steps under an operator profiler are few; this ends them in a launch that crawls."""

WRITING_LONGEST_S = 600.0
"""torch takes about half a second to work up each profiled step of some thousand operators."""

SPY_START_LONGEST_S = 120.0
"""py-spy reads the symbols of all libraries first; those of torch take it one to three seconds."""

KINDS = {
    "operators": (channel.PROFILE_OPERATORS, ("operators.json", "operators.txt", "trace.json.gz")),
    "calls": (channel.PROFILE_CALLS, ("calls.prof",)),
}
"""Profiles that a member takes of itself: order and files."""

SHORTEST_TURN_S = 1
"""py-spy samples for whole seconds."""

LONGEST_FACTOR = 3.0
"""The sampler falls behind where unwinding takes long; after this many times the time that the
samples should take, what there is must do."""

NO_TRACING = (
    "sudo sysctl kernel.yama.ptrace_scope=0",
    "docker run --cap-add=SYS_PTRACE",
)

log = logging.getLogger("profile")

Json = dict[str, Any]


def profile_launch(job: Job, target: str, folder: Path, builds: Path) -> None:
    """Profile a launch and leave ``profile.json`` and its files in a folder.

    Args:
        job: the launch, as for measuring; its plan has the section ``profile``.
        target: what the plan calls it: an id, or ``recommended``.
        folder: gets the files; made when missing.
        builds: folder of the environments that were made from requirements.
    """
    machine = probe.read_machine().to_dict()
    content: Json = {
        "schema_version": SCHEMA_VERSION,
        "machine": machine["hash"],
        "target": target,
        **_names(job.launch),
        "same_as": None,
        "points": [],
    }
    try:
        process_counts = resolve.counts(job.plan, machine)
        resolved = resolve.resolve(job.plan, job.launch.axes, machine, builds, process_counts)
    except UnavailableError as error:
        content |= {"status": "skipped", "reason": error.reason, "remedy": error.remedy}
    else:
        with private.folder() as own, private.part(own, "profile") as part:
            launch = replace(resolved.launch, folder=part)
            counts = chosen_counts(job.plan.profile.processes, resolved.counts)
            specs = resolved.members[: max(counts)]
            with cohort.Cohort(launch, specs, resolve.host(machine)) as one:
                content |= _Profiling(job, one, part, folder).run(counts, resolved.slots)
    storage.write_json(folder / "profile.json", content)


def _names(launch: Launch | None) -> Json:
    if launch is None:
        return dict.fromkeys(("launch", "label", "role"))
    return {"launch": launch.id, "label": launch.label, "role": launch.role}


def without_profile(launch: Launch | None, machine: str) -> Json:
    """Return profile.json for a recommended launch that needs no profile of its own.

    Args:
        launch: one that is profiled by its own name already; None where nothing is recommended.
        machine: the machine's hash.
    """
    nothing = _status("skipped", "no launch is recommended on this machine")
    return {
        "schema_version": SCHEMA_VERSION,
        "machine": machine,
        "target": RECOMMENDED,
        **_names(launch),
        "same_as": launch.id if launch else None,
        "points": [],
        **(_status("complete", None) if launch else nothing),
    }


class _Profiling:
    """The profiles of one running cohort."""

    def __init__(self, job: Job, one: cohort.Cohort, private_folder: Path, output: Path) -> None:
        self._job = job
        self._settings = job.plan.profile
        self._cohort = one
        self._private = private_folder
        self._output = output

    def run(self, counts: Sequence[int], slots: Sequence[Slot]) -> Json:
        """Start the cohort and profile each count; return status, reason and points."""
        measure = self._job.plan.measure
        one = self._cohort
        if not counts:
            return _status("skipped", "no process count is among those in profile.processes")
        one.start([slot.slot for slot in slots[: one.size]], measure.start_timeout_s)
        reports = one.read_back(measure.start_timeout_s)
        if len(reports) < max(counts):
            return _status("failed", self._last_event() or "a member did not come to its gate")
        wrong = axis_table.failed(axis_table.checks(self._job.launch.axes, slots, reports))
        if wrong:
            return _status("failed", wrong)
        one.warm_up(measure.warmup_steps, WARM_UP_LONGEST_S)
        points: list[Json] = []
        try:
            for n in counts:
                log.info("n = %d", n)
                points.append(self._point(n))
        except member_processes.MemberEndedError:
            return _status("failed", self._last_event() or "a member ended") | {"points": points}
        return _status("complete", None) | {"points": points}

    def _last_event(self) -> str | None:
        return self._cohort.events[-1].reason if self._cohort.events else None

    def _point(self, n: int) -> Json:
        """Take all profiles of one count, with windows without a profiler around each."""
        folder = self._output / str(n)
        folder.mkdir(parents=True, exist_ok=True)
        before = self._unprofiled(n)
        bare_s = [before[0]]
        kinds = []
        for kind in ("operators", "calls", "stacks"):
            if not getattr(self._settings, kind):
                continue
            found = self._stacks(n) if kind == "stacks" else self._own(n, kind)
            after = self._unprofiled(n)
            if found["status"] == "ok":
                found |= _overhead(found.pop("turns_s"), before, after)
                log.info("n = %d: %s, step time %.3f of unprofiled", n, kind, found["overhead"])
            else:
                log.info("n = %d: no %s (%s)", n, kind, found["reason"])
            kinds.append({"kind": kind, **found})
            before = after
            bare_s.append(after[0])
        return {
            "n": n,
            "unprofiled_step_s": statistics.fmean(bare_s),
            "unprofiled_windows": bare_s,
            "kinds": kinds,
        }

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
        record = self._cohort.take(windows.Window(0, 0, n), settings)
        return [
            statistics.fmean(member.step_us) / 1e6 if member.step_us else float("nan")
            for member in record.members
        ]

    def _own(self, n: int, kind: str) -> Json:
        """Take a profile that the member takes of itself."""
        order, names = KINDS[kind]
        asked = self._settings.steps
        activities = self._cohort.profile(n, order, asked, OPERATORS_LONGEST_S)
        slot = activities[0].slot
        if not self._cohort.ask(slot, channel.WRITE_PROFILE, WRITING_LONGEST_S):
            raise member_processes.MemberEndedError([slot])
        noted = self._private / f"{kind}.json"
        if not noted.exists():
            return _status("failed", f"no whole step within {OPERATORS_LONGEST_S:g} s")
        covered = json.loads(noted.read_text())["steps"]
        for name in names:
            shutil.move(self._private / name, self._output / str(n) / name)
        return {
            **_status("ok", None),
            "steps": covered,
            "turns_s": [(0, _step_times(activities, last=covered))],
            "files": [f"{n}/{name}" for name in names],
        }

    def _stacks(self, n: int) -> Json:
        """Sample members' stacks from outside, in turn, until there are as many as asked for."""
        spy = shutil.which("py-spy", path=f"{Path(sys.executable).parent}:{os.defpath}")
        if spy is None:
            return {"status": "skipped", "reason": "py-spy is not installed",
                    "remedy": "pip install py-spy"}  # fmt: skip
        asked, rate_hz = self._settings.samples, self._settings.rate_hz
        slots = self._cohort.alive[: min(n, SAMPLED_MEMBERS)]
        for slot in slots:
            self._cohort.ask(slot, channel.ALLOW_TRACING)
        found: Json = {**_status("ok", None), "rate_hz": rate_hz, "native": True}
        turns: list[Json] = []
        while (missing := asked - sum(turn["samples"] for turn in turns)) > 0:
            spent_s = sum(turn["seconds"] for turn in turns)
            if spent_s >= LONGEST_FACTOR * max(SHORTEST_TURN_S, asked / rate_hz):
                break
            left = len(slots) - len(turns) % len(slots)
            seconds = max(SHORTEST_TURN_S, math.ceil(missing / rate_hz / left))
            turn = self._turn(
                n, len(turns), [spy, *(["--native"] if found["native"] else [])], seconds
            )
            if turn["status"] == "failed" and found["native"] and not turns:
                found |= {"native": False, "native_failed": turn["reason"]}
            elif turn["status"] != "ok":
                if not turns:
                    return turn
                log.info("n = %d: no more stacks (%s)", n, turn["reason"])
                break
            else:
                turns.append(turn)
        return found | {
            "turns_s": [turn.pop("times_s") for turn in turns],
            "samples": sum(turn["samples"] for turn in turns),
            "steps": sum(turn["steps"] for turn in turns),
            "seconds": sum(turn["seconds"] for turn in turns),
            "members": len({turn["slot"] for turn in turns}),
            "turns": turns,
            "files": [f"{n}/{turn['file']}" for turn in turns],
        }

    def _turn(self, n: int, number: int, spy: Sequence[str], seconds: int) -> Json:
        """Sample one member for a while; the members take turns by the number.

        Args:
            n: members that train.
            number: of the turn, from 0.
            spy: py-spy and what it is given.
            seconds: how long.
        """
        at = number % min(n, SAMPLED_MEMBERS)
        slot = self._cohort.alive[at]
        file = f"stacks-{number}.raw"
        raw = self._output / str(n) / file
        pid, trainer_tid = self._cohort.trainer(slot)
        command = [
            *(spy[0], "record", "--pid", str(pid)),
            *("--format", "raw", "--output", str(raw)),
            *("--rate", str(self._settings.rate_hz), "--duration", str(seconds)),
            *("--threads", "--idle", "--subprocesses", "--full-filenames", *spy[1:]),
        ]
        done, ended_ns, activities = self._cohort.run_beside(
            n, command, seconds + SPY_START_LONGEST_S
        )
        if done.returncode or not raw.exists():
            return _not_sampled(done)
        since_ns = ended_ns - seconds * 10**9
        ordered = [activities[at], *activities[:at], *activities[at + 1 :]]
        steps_s = _step_times(ordered, since_ns=since_ns)
        if not steps_s[0]:
            return _status("failed", f"no whole step within {seconds} s")
        taken: Json = {
            "seconds": seconds,
            "steps": len(steps_s[0]),
            "trainer_tid": trainer_tid,
        }
        try:
            samples = stacks.read(raw, step_s=0.0, **taken).samples
        except stacks.StackError as error:
            return _status("failed", str(error))
        found = {"slot": slot, "pid": pid, "samples": samples}
        return {**_status("ok", None), **found, **taken, "file": file, "times_s": (at, steps_s)}


def _status(status: str, reason: str | None) -> Json:
    return {"status": status, "reason": reason, "remedy": None}


def _not_sampled(done: subprocess.CompletedProcess[str]) -> Json:
    """Say why py-spy gave nothing: a machine that forbids tracing is no failure of the study."""
    said = (done.stderr or done.stdout).strip().splitlines()
    reason = f"py-spy: {said[-1] if said else f'status {done.returncode}'}"
    if any("ermission" in line for line in said):
        return {"status": "skipped", "reason": reason, "remedy": " or ".join(NO_TRACING)}
    return _status("failed", reason)


def _step_times(
    activities: Sequence[windows.Activity], *, last: int | None = None, since_ns: int = 0
) -> list[list[float]]:
    """Return each member's step times (s), the profiled member's first.

    Args:
        activities: what the members did, the profiled one first.
        last: take only so many of the profiled member's steps, and those of others beside them.
        since_ns: take steps that began after this time.
    """
    first = activities[0]
    if last is not None:
        since_ns = first.steps[-1 - last].end_ns
    times = []
    for one in activities:
        durations, steps = windows.counted_steps(one, since_ns, first.parked_ns)
        times.append(
            [
                duration / 1e9
                for duration, step in zip(durations, steps, strict=True)
                if step.end_ns <= first.parked_ns  # others may rest later than the first
            ]
        )
    return times


def _overheads(steps_s: Sequence[Sequence[float]], *around: Sequence[float]) -> Json:
    """Compare profiled step times with those in the windows around them.

    Args:
        steps_s: step times (s) of each member while the first was profiled.
        around: of each unprofiled window, the mean step time (s) of each member.

    Returns:
        ``step_s`` and ``overhead`` of the profiled member, and ``others_overhead``, the mean of
        the others (None where there is none).
    """
    bare = [statistics.fmean(times) for times in zip(*around, strict=True)]
    ratios = [
        statistics.fmean(times) / usual if times else None
        for times, usual in zip(steps_s, bare, strict=True)
    ]
    others = [ratio for ratio in ratios[1:] if ratio is not None]
    return {
        "step_s": statistics.fmean(steps_s[0]),
        "unprofiled_step_s": bare[0],
        "overhead": ratios[0],
        "others_overhead": statistics.fmean(others) if others else None,
    }


def _overhead(
    turns_s: Sequence[tuple[int, Sequence[Sequence[float]]]], *around: Sequence[float]
) -> Json:
    """The same over turns, in each of which another member may be profiled.

    Args:
        turns_s: of each turn, the profiled member's place, and step times as for ``_overheads``.
        around: of each unprofiled window, the mean step time (s) of each member, in order.
    """
    each = [
        _overheads(steps_s, *([bare[at], *bare[:at], *bare[at + 1 :]] for bare in around))
        for at, steps_s in turns_s
    ]
    weights = [len(steps_s[0]) for _, steps_s in turns_s]
    step_s, bare_s = (
        statistics.fmean((one[name] for one in each), weights)
        for name in ("step_s", "unprofiled_step_s")
    )
    others = [one["others_overhead"] for one in each if one["others_overhead"] is not None]
    return {
        "step_s": step_s,
        "unprofiled_step_s": bare_s,
        "overhead": step_s / bare_s,
        "others_overhead": statistics.fmean(others) if others else None,
    }
