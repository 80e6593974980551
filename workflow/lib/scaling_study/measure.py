"""Measure one (launch, replicate): from the plan to its record file.

What depends on the machine is resolved here, by a probe of the machine that measures: the ladder,
the CPUs of each slot, libraries, and what must be skipped. An expected failure is a stored status
with its reason, never a missing file.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import random
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scaling_study import (
    axes,
    cohort,
    environment,
    ladder,
    placeholders,
    placement,
    private,
    probe,
    windows,
)
from scaling_study.journal import Journal
from scaling_study.launchers import Launch, Member
from scaling_study.limits import read_hierarchy
from scaling_study.topology import format_cpu_list, parse_cpu_list
from scaling_study.unavailable import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scaling_study.topology import Topology

SCHEMA_VERSION = 1

# What decides what is measured and how: a change of any of them makes old windows another thing.
HARNESS = (
    *("attest", "axes", "bind", "channel", "cohort", "counters", "dask_host", "environment"),
    *("fork_server", "ladder", "launchers", "libraries", "limits", "measure", "members"),
    *("placement", "private", "topology", "windows", "worker"),
)

# A member that ended is started again this often in a cohort; then its points are given up.
MEMBER_RESTARTS = 2

# The warm-up ends after this time at the latest, however few steps were done.
WARM_UP_LONGEST_S = 30.0

log = logging.getLogger("measure")


@dataclass(frozen=True, slots=True)
class Job:
    """What one job measures.

    Attributes:
        plan: what of plan.json the measurement depends on (see ``job_text``).
        launch: the launch's entry in the plan.
        replicate: which fresh start of the launch this is.
    """

    plan: Mapping[str, Any]
    launch: Mapping[str, Any]
    replicate: int

    @property
    def seed(self) -> int:
        """The seed of this job's shuffles, from the study's seed and the job's name."""
        text = f"{self.plan['seed']} {self.launch['id']} {self.replicate}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def job_text(plan: Mapping[str, Any], launch: Mapping[str, Any], files: str = "") -> str:
    """Return, as JSON, all that measuring a launch depends on.

    What only names or counts afterwards is left out: changing it measures nothing anew.

    Args:
        plan: the content of plan.json.
        launch: one of its launches.
        files: a digest of all files that count; with other files it is another measurement.
    """
    return json.dumps(
        {
            **{key: plan[key] for key in ("study", "seed", "processes")},
            "measure": _without(plan["measure"], "replicates"),
            "workload": _without(plan["workload"], "steps_per_model"),
            "launch": launch,
            "files": files,
        },
        sort_keys=True,
    )


def read_job(text: str, replicate: int) -> Job:
    """Return the job of a text that ``job_text`` made."""
    plan = json.loads(text)
    return Job(plan, plan.pop("launch"), replicate)


def _without(section: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in section.items() if name != key}


def digest(*parts: object) -> str:
    """Return 12 hexadecimal digits for anything that JSON can hold."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def workload_digest(workload: Mapping[str, Any]) -> str:
    """Return a digest of a workload's files.

    A script counts by its content. Inputs may be large, so they count by their names, sizes and
    times of modification, with everything below a folder.
    """
    script = hashlib.sha256(Path(workload["script"]).read_bytes()).hexdigest()
    files = [
        file
        for path in map(Path, workload["inputs"])
        for file in ([path, *path.rglob("*")] if path.is_dir() else [path])
    ]
    states = {str(file): file.stat() for file in files}
    return digest(
        script, sorted((name, state.st_size, state.st_mtime_ns) for name, state in states.items())
    )


def measured_digest(workload: Mapping[str, Any], python: str) -> str:
    """Return the digest of what is measured: files, arguments, environment and build."""
    return digest(
        workload_digest(workload),
        *(workload[key] for key in ("script", "args", "env", "step")),
        build_versions(python),
    )


def harness_digest() -> str:
    """Return the digest of the code that measures."""
    folder = Path(__file__).parent
    return digest([(folder / f"{name}.py").read_text() for name in HARNESS])


def build_versions(python: str) -> str:
    """Return the versions of an interpreter and of its torch.

    Raises:
        UnavailableError: the interpreter does not run, or has no torch.
    """
    code = "import sys, importlib.metadata as m; print(sys.version, m.version('torch'))"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    except OSError as error:
        raise UnavailableError(f"{python}: {error.strerror}", "name another build") from error
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:]
        raise UnavailableError(
            f"{python} has no torch ({''.join(last)})", f"{python} -m pip install torch"
        )
    return done.stdout.strip()


def build_python(build: str, folder: Path) -> str:
    """Return the interpreter of a build: this one, a path, or one made from requirements."""
    if build == "default":
        return sys.executable
    if build.endswith(".txt"):
        return str((folder / Path(build).stem / "bin" / "python").absolute())
    return build


def intel_path_library(folder: Path) -> str | None:
    """Compile the library for ``blas: bundled-intel-path``; None where there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "libintel_path.so"
    source = Path(__file__).with_name("intel_path.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return str(library)


def members(
    job: Job, topology: Topology, counts: Sequence[int]
) -> tuple[list[Member], list[dict[str, Any]]]:
    """Return the members of the largest cohort, and their slots as they are recorded.

    Raises:
        UnavailableError: the machine has no such CPUs or nodes.
    """
    asked = job.launch["axes"]
    width = asked["intra_op"] if isinstance(asked["intra_op"], int) else 1
    workload = job.plan["workload"]
    specs, records = [], []
    for slot in placement.slots(asked["placement"], topology, max(counts), width):
        policy = placement.memory_policy(asked["membind"], slot, topology)
        cpus = None if slot.cpus is None else format_cpu_list(slot.cpus)
        mempolicy = str(policy)
        arguments = [placeholders.fill(text, slot.slot) for text in workload["args"]]
        command = (str(Path(workload["script"]).resolve()), *arguments)
        specs.append(Member(slot.slot, cpus, mempolicy, command))
        records.append(
            {"slot": slot.slot, "cpus": cpus, "policy": mempolicy,
             "oversubscribed": slot.oversubscribed}
        )  # fmt: skip
    return specs, records


def placement_checks(
    slots: Sequence[Mapping[str, Any]], reports: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Compare each slot's CPUs and memory policy with what its member reports."""
    asked = {slot["slot"]: slot for slot in slots}
    rows = []
    for axis, requested, got in (
        ("placement", "cpus", lambda report: format_cpu_list(report["cpus"])),
        ("membind", "policy", lambda report: report["policy"]),
    ):
        wrong = [
            report
            for report in reports
            if asked[report["slot"]][requested] not in {None, got(report)}
        ]
        shown = (wrong or list(reports))[0]
        wanted = asked[shown["slot"]][requested]
        rows.append(
            {
                "axis": axis,
                "requested": "not bound" if wanted is None else f"slot {shown['slot']}: {wanted}",
                "effective": f"slot {shown['slot']}: {got(shown)}",
                "ok": not wrong,
            }
        )
    return rows


class Measurement:
    """The running of one job."""

    def __init__(self, job: Job, path: Path, builds: Path) -> None:
        self._job = job
        self._journal = Journal(path)
        self._builds = builds
        self._settings = job.plan["measure"]
        self.machine = probe.read_machine().to_dict()
        self._cohort = 0
        self._started_s: float | None = None
        self._in_windows_s = 0.0

    def run(self) -> None:
        """Measure, and leave a whole record file."""
        with private.folder() as self._folder:
            self._run()

    def _run(self) -> None:
        head = self._head()
        records: list[dict[str, Any]] = []
        try:
            launch = self._prepare(head)
            records = self._journal.resume(head)
            if records:
                log.info("goes on after %d records of an interrupted run", len(records))
            self._cohort = sum(record["kind"] == "cohort" for record in records)
            for counts in self._cohorts(head["ladder"]):
                self._measure(launch, head, counts, records)
        except UnavailableError as error:
            log.info("skipped: %s (%s)", error.reason, error.remedy)
            self._journal.resume(head)
            self._journal.write({**head, "cohort": self._cohort, "slots": []})
            self._journal.write(self._end("skipped", error.reason, error.remedy))
        self._journal.finish()

    def _head(self) -> dict[str, Any]:
        plan, launch = self._job.plan, self._job.launch
        return {
            "kind": "cohort",
            "schema_version": SCHEMA_VERSION,
            "study": plan["study"],
            **{key: launch[key] for key in ("arm", "label", "axes")},
            "launch": launch["id"],
            "replicate": self._job.replicate,
            "ladder": [],
            "seed": self._job.seed,
            "measured_hash": "",
            "harness_hash": harness_digest(),
            "machine_hash": self.machine["hash"],
            "machine": self.machine,
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "slots": [],
            "requested_env": {},
        }

    def _prepare(self, head: dict[str, Any]) -> Launch:
        """Resolve the launch on this machine, and complete the head of its records."""
        plan, asked = self._job.plan, self._job.launch["axes"]
        topology = probe.usable_topology(self.machine)
        head["ladder"] = list(
            ladder.resolve(plan["processes"], topology, self.machine["quota_cpus"])
        )
        if asked["launcher"] == "dask" and asked["membind"] != "none":
            raise UnavailableError(
                "Dask starts its workers itself: a memory policy cannot be set before",
                "exclude: [{launcher: dask, membind: " + str(asked["membind"]) + "}]",
            )
        if asked["membind"] != "none":
            axes.library("numa", self.machine)  # py-libnuma loads it
        python = build_python(asked["build"], self._builds)
        head["measured_hash"] = measured_digest(plan["workload"], python)
        if asked["blas"] == "bundled-intel-path":
            built = intel_path_library(self._builds)
            self.machine["libraries"]["intel-path"] = built
        effects = axes.prepare(asked, self.machine)
        head["requested_env"] = effects.environment() | plan["workload"]["env"]
        self._members, head["slots"] = members(self._job, topology, head["ladder"])
        inter_op = asked["inter_op"]
        return Launch(
            folder=Path(),
            python=python,
            env=environment.member_environment(
                os.environ, effects.environment(), plan["workload"]["env"]
            ),
            by_mark=plan["workload"]["step"] == "mark",
            inter_op=inter_op if isinstance(inter_op, int) else None,
        )

    def _cohorts(self, counts: Sequence[int]) -> list[list[int]]:
        """Return the ladders to measure, each in a fresh cohort."""
        # Dask's workers do not rest: each of them samples its own stack a hundred times a second.
        if self._settings["isolated"] or self._job.launch["axes"]["launcher"] == "dask":
            shuffle = random.Random(self._job.seed)  # noqa: S311 (an order, no secret)
            return [[count] for count in shuffle.sample(counts, len(counts))]
        return [list(counts)]

    def _measure(
        self,
        launch: Launch,
        head: Mapping[str, Any],
        counts: Sequence[int],
        before: Sequence[Mapping[str, Any]],
    ) -> None:
        """Measure one cohort's windows, without those that an interrupted run has taken."""
        todo = self._todo(counts, before)
        if not todo:
            if before[-1]["kind"] != "end":  # the last window was taken, the end not yet written
                self._journal.write(self._end("complete", None, None))
            return
        began = time.perf_counter()
        self._started_s, self._in_windows_s = None, 0.0
        self._journal.write({**head, "cohort": self._cohort})
        status, reason = "failed", None
        with private.part(self._folder, f"cohort-{self._cohort}") as folder:
            running = Launch(folder, launch.python, launch.env, launch.by_mark, launch.inter_op)
            name = self._job.launch["axes"]["launcher"]
            specs = self._members[: max(counts)]
            with cohort.Cohort(running, name, specs, self._host()) as one:
                status, reason = self._take_all(one, head["slots"], todo, began)
        self._journal.write(self._end(status, reason, None, time.perf_counter() - began))
        log.info("%s%s", status, f": {reason}" if reason else "")
        self._cohort += 1

    def _todo(
        self, counts: Sequence[int], before: Sequence[Mapping[str, Any]]
    ) -> list[windows.Window]:
        schedule = windows.schedule(counts, self._settings["windows"], self._job.seed)
        done = {
            (record["window"], record["n"])
            for record in before
            if record["kind"] == "window"
            and (record["valid"] or record["take"] >= self._settings["retakes"])
        }
        return [window for window in schedule if (window.window, window.n) not in done]

    def _take_all(
        self,
        one: cohort.Cohort,
        slots: Sequence[Mapping[str, Any]],
        todo: Sequence[windows.Window],
        began: float,
    ) -> tuple[str, str | None]:
        """Start the cohort and take its windows; return its status and the reason."""
        settings = self._settings
        one.start([spec["slot"] for spec in slots[: one.size]], settings["start_timeout_s"])
        reports = one.attest()
        self._write_events(one)
        if not reports:
            return "failed", "no member came as far as its first step"
        checks = [
            *axes.checks(self._job.launch["axes"], reports),
            *placement_checks(slots, reports),
        ]
        self._journal.write(
            {"kind": "attestation", "cohort": self._cohort, "checks": checks, "members": reports}
        )
        wrong = [check for check in checks if not check["ok"]]
        if wrong:
            return "failed", "; ".join(
                f"{check['axis']} {check['requested']} did not take effect: {check['effective']}"
                for check in wrong
            )
        one.warm_up(settings["warmup_steps"], WARM_UP_LONGEST_S)
        self._started_s = time.perf_counter() - began
        lost: set[int] = set()
        for at, window in enumerate(todo):
            if at % len({each.n for each in todo}) == 0:
                log.info("window %d of %d", at + 1, len(todo))
            if not self._take(one, window):
                lost.add(window.n)
        self._write_events(one)
        if not lost:
            return "complete", None
        kept = "some" if lost < {window.n for window in todo} else "no"
        text = ", ".join(map(str, sorted(lost)))
        return (
            "partial" if kept == "some" else "failed",
            f"members ended, so that windows of {text} processes could not be taken",
        )

    def _take(self, one: cohort.Cohort, window: windows.Window) -> bool:
        """Take a window until it is valid or has been taken often enough; False: it never was."""
        timing = cohort.WindowSettings(
            **{key: self._settings[key] for key in ("steps", "shortest_s", "longest_s", "settle_s")}
        )
        for take in range(self._settings["retakes"] + 1):
            self._revive(one)
            if len(one.alive) < window.n:
                return False
            try:
                record = one.take(window, timing)
            except cohort.MemberEndedError:
                self._write_events(one)
                continue
            self._in_windows_s += record["window_s"]
            self._journal.write({"kind": "window", "cohort": self._cohort, "take": take, **record})
            if record["valid"]:
                return True
            log.info("n = %d: invalid (%s)", window.n, ", ".join(record["flags"]))
        return True

    def _revive(self, one: cohort.Cohort) -> None:
        """Start ended members again, as often as that is allowed."""
        missing = one.restartable(MEMBER_RESTARTS)
        if missing:
            one.start(missing, self._settings["start_timeout_s"])
            one.warm_up(self._settings["warmup_steps"], WARM_UP_LONGEST_S)
            self._write_events(one)

    def _write_events(self, one: cohort.Cohort) -> None:
        for event in one.events:
            log.info("member %s: %s", event["slot"], event["reason"])
            self._journal.write({"kind": "event", "cohort": self._cohort, **event})
        one.events.clear()

    def _host(self) -> cohort.Host:
        cpus = parse_cpu_list(self.machine["allowed_cpus"])
        hierarchy = read_hierarchy("cpu")
        files = [Path(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq") for cpu in cpus]
        return cohort.Host(
            cpus=frozenset(cpus),
            memory_bytes=self.machine["memory_limit_bytes"] or self.machine["memory_bytes"],
            cpu_stat=hierarchy.folders[0] / "cpu.stat" if hierarchy else None,
            frequency=tuple(file for file in files if os.access(file, os.R_OK)),
        )

    def _end(
        self, status: str, reason: str | None, remedy: str | None, wall_s: float = 0.0
    ) -> dict[str, Any]:
        return {
            "kind": "end",
            "cohort": self._cohort,
            "status": status,
            "reason": reason,
            "remedy": remedy,
            "wall_s": wall_s,
            "start_s": self._started_s if status in {"complete", "partial"} else None,
            "in_windows_s": self._in_windows_s,
        }
