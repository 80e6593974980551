"""A job: one launch and replicate of a study, as text for a command line, and its digests.

Records of an interrupted run are kept if all that they depend on is the same: the launch, the
program with its files, and the code that measures.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from scaling_study.common import code_digest, entries
from scaling_study.config import launches as planned
from scaling_study.config import work
from scaling_study.config.plan import JobPlan, Plan
from scaling_study.config.workload import Workload
from scaling_study.records.window import MeasuredLaunch
from scaling_study.runner import resolve

MEASURING_VERSION = 1
"""Raised by hand when a change outside of `MEASURING` lets the same launch measure differently:
another variable in its environment, another place for its members, another warm-up."""

MEASURING = (
    *("runner/cohort", "runner/windows", "runner/counter_snapshots", "runner/member_processes"),
    *("runner/members", "runner/pool", "runner/whole_runs"),
    *("host/kernel_counters", "host/machine_counters", "host/perf_events", "host/limits"),
    *("host/system", "member/member", "member/channel", "member/iterations", "member/loaders"),
    "member/after_torch",
    *("common/counter", "launch/counters"),
)
"""The modules that run between a window's start and its record: if one changes, the study measures
again."""

OUTSIDE = ("axes", "counters", "launchers")
"""Kinds of extensions; a change of a user's own files of these kinds measures again, too."""


@dataclass(frozen=True, slots=True)
class Job:
    """One (launch, replicate) to measure.

    Attributes:
        plan: the part of plan.json that the measurement depends on (see ``job_text``).
        launch: a launch of the plan; `NO_LAUNCH` if the job itself finds out which.
        replicate: which fresh start of the launch this is.
    """

    plan: JobPlan
    launch: planned.Launch
    replicate: int

    @property
    def seed(self) -> int:
        """The seed of this job's shuffles, from the study's seed and the job's name."""
        return self.seed_of(self.launch.id)

    def seed_of(self, name: str) -> int:
        """Return the seed of the shuffles of an experiment with this name."""
        text = f"{self.plan.seed} {name} {self.replicate}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")

    def measured(self, seed: int, python: str | None, *modules: str) -> MeasuredLaunch:
        """Return the fields of a first record that say what is measured, and by which code.

        Args:
            seed: seed of all shuffles.
            python: the interpreter; None if the machine cannot run the launch.
            modules: modules that measure besides the harness (see `harness_digest`).

        Raises:
            UnavailableError: the interpreter does not run, or has no torch.
        """
        launch = self.launch
        return MeasuredLaunch(
            launch=launch.id,
            role=launch.role,
            label=launch.label,
            axes=dict(launch.axes),
            replicate=self.replicate,
            seed=seed,
            measured_hash=measured_digest(self.plan.workload, python) if python else "",
            harness_hash=harness_digest(*modules),
            started=datetime.now(UTC).isoformat(timespec="seconds"),
        )


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
    section = None if launch is None else asdict(launch)
    return json.dumps({**sections, "launch": section, "files": files}, sort_keys=True)


def read_job(text: str, replicate: int) -> Job:
    """Return the job from a text that ``job_text`` made."""
    data = json.loads(text)
    launch = data.pop("launch")
    return Job(
        JobPlan.model_validate(data),
        planned.Launch(**launch) if launch else planned.NO_LAUNCH,
        replicate,
    )


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
    return digest(script, [(name, state.st_size, state.st_mtime_ns) for name, state in states])


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
    """Return the digest of the code that measures, and of further modules."""
    outside = [file for kind in OUTSIDE for file in entries.files_outside(kind)]
    code = code_digest.of_modules(*MEASURING, *further, further=outside)
    return digest(MEASURING_VERSION, code)
