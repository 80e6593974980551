"""The runs of the self-test: workloads under faults, their experiments, and the verdict on them.

The workload scripts stay as they are. A run keeps all that its verdict is made of, the machine's
microbenchmarks and the records of its experiments, so that later rules can judge it again.
"""

from __future__ import annotations

import lzma
import math
import shutil
import sys
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import child_processes
from fault_list import FAULTS, FOLDER, NOTHING, SCRATCH
from ledger import ROOT

from scaling_study.analysis.experiment_runs import read_run
from scaling_study.common import storage
from scaling_study.config.config import load_config
from scaling_study.config.plan import make_plan
from scaling_study.diagnosis import cause_file
from scaling_study.experiments import microbenchmarks
from scaling_study.records import codec
from scaling_study.records.experiment import Microbenchmarks
from scaling_study.runner import jobs
from scaling_study.runner.supervisor import supervised

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scaling_study.records.machine import Machine

LONGEST_S = 3600.0
"""A job takes one to four minutes; one that takes this has gone wrong, and the others go on."""
MICROBENCHMARKS = SCRATCH / "microbenchmarks.json"
SUFFIX = ".jsonl.xz"
CONTROL = "-control"
"""Ends the name of a control's folder."""
STRENGTHS = (1.0, 0.85, 1.15, 0.9, 1.1)
"""How much of a fault a run gets, in turn: a rule that fits one dose only would show."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A training script whose tensors are large enough that every fault can bite.

    Attributes:
        title: for people.
        script: relative to the project.
        args: of it.
        step_s: about what a step takes alone (s): doses are chosen by it, nothing is judged by it.
        multiplies: a slow multiply is this much slower still, where a step has few of them.
        inherent: causes that it has without any fault, each with how that is known: naming one is
            true. `Run.inherent` has those of the processor too.
        axes: of its launch, unless the fault sets them.
    """

    title: str
    script: str
    args: tuple[str, ...]
    step_s: float
    multiplies: int = 1
    inherent: Mapping[str, str] = field(default_factory=dict)
    axes: Mapping[str, str] = field(default_factory=dict)


INHERENT_ON_AMD = {
    "slow_blas": "on AMD, torch's MKL takes a kernel for older CPUs: OpenBLAS multiplies faster"
}
"""As of a workload, of each of them where the processor is AMD's."""

DRAWING = "drawing negatives takes a fifth of a step (of its CPU time, alone)"
DECODING = "decoding images takes a good part of a step"

WORKLOADS = {
    "tsmixerx": Workload(
        "TSMixerx",
        "scripts/workloads/tsmixerx.py",
        ("--ff-dim", "64", "--batch-size", "64", "--steps", "2000"),
        0.014,
        multiplies=4,
    ),
    "ncf": Workload(
        "NCF",
        "scripts/workloads/ncf.py",
        ("--batch-size", "8", "--negatives", "511"),
        0.006,
        inherent=dict.fromkeys(("data_loading", "too_few_workers", "loader_preparation"), DRAWING),
    ),
    "plain": Workload(
        "plain loop",
        "benchmarks/injected_faults/plain_loop.py",
        (),
        0.009,
        inherent={
            "page_faults": "its tensors are allocated anew in each step, with some hundred faults"
        },
    ),
    "images": Workload(
        "images",
        "scripts/workloads/images.py",
        (
            *("--size", "64", "--files", "512", "--epochs", "50"),
            *("--data", str(ROOT / "results/.images")),
        ),
        0.008,
        inherent=dict.fromkeys(("too_few_workers", "loader_preparation"), DECODING),
        # With malloc as it is, its steps take none or 1,800 page faults, now and then.
        axes={"allocator": "glibc-large-thresholds"},
    ),
}


@dataclass(frozen=True, slots=True, order=True)
class Case:
    """One job to run: a workload under a fault, or under the fault's control.

    Attributes:
        workload: key of WORKLOADS.
        fault: key of FAULTS.
        run: which repetition.
        control: without what makes it slow.
    """

    workload: str
    fault: str
    run: int
    control: bool = False

    @property
    def name(self) -> str:
        """Its folder below the results."""
        return f"{self.workload}/{self.fault}{CONTROL * self.control}/{self.run}"

    @property
    def file(self) -> str:
        """The file that keeps it."""
        return f"{self.name}{SUFFIX}"

    @property
    def strength(self) -> float:
        """How much of the fault this run gets."""
        return STRENGTHS[self.run % len(STRENGTHS)]

    @property
    def seconds(self) -> float:
        """About how much longer the fault's own code makes a step."""
        return FAULTS[self.fault].dose * self.strength * WORKLOADS[self.workload].step_s

    def config(self, folder: Path) -> dict[str, Any]:
        """Return a study's config for it.

        Args:
            folder: of this run, for files that members share.

        Raises:
            RuntimeError: it cannot be injected here.
        """
        workload, fault = WORKLOADS[self.workload], FAULTS[self.fault]
        if reason := fault.missing():
            raise RuntimeError(f"{fault.title}: {reason}")
        axes = (fault.control_axes if self.control else None) or fault.axes
        command = [str(ROOT / workload.script), *workload.args, "--seed", "{member}"]
        if fault.inject:
            dose = ["--seconds", f"{self.seconds:.5f}", "--folder", str(folder)]
            control = ["--control"] if self.control else []
            inject = [str(FOLDER / "inject.py"), fault.inject, *dose, *control]
            command = [*inject, "--", *command]
        passes = str(round(workload.multiplies * self.strength))
        return {
            "study": "faults",
            "workload": {
                "script": command[0],
                "args": command[1:],
                "env": {"SLOW_GEMM_PASSES": passes} if self.fault == "slow_blas" else {},
            },
            "processes": fault.counts,
            "launches": {"baseline": {**workload.axes, **axes}},
            "why": "quick",
        }

    def command(self, folder: Path) -> list[str]:
        """Return the command that does its experiments, under its fault."""
        plan = make_plan(load_config(self.config(folder)))
        job = jobs.job_text(jobs.job_sections(plan, "why"), plan.by_id[plan.baseline])
        outside = () if self.control else FAULTS[self.fault].outside(self.strength)
        return [
            *(sys.executable, str(FOLDER / "outside.py"), *outside, "--"),
            *supervised(),
            *(sys.executable, "-m", "scaling_study", "why"),
            *("--job", job, "--target", plan.baseline, "--replicate", "0"),
            *("--builds", str(folder / "builds"), "--study-folder", str(folder)),
            *("--log", str(folder / "log"), "--output", str(folder / "0.jsonl")),
        ]


def clean_of(case: Case) -> Case:
    """Return what a run is compared with: its control, or the workload with no fault."""
    control = FAULTS[case.fault].controlled
    return Case(case.workload, case.fault if control else NOTHING, case.run, control)


@dataclass(frozen=True, slots=True)
class Named:
    """A cause that a verdict names.

    Attributes:
        part: of the step's time: `scaling_loss` or `single_process_loss`.
        cause: its id.
        seconds: that it takes of a step.
    """

    part: str
    cause: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Run:
    """A run, and the verdict on it.

    Attributes:
        case: what was run.
        started: when its experiments began.
        host: hash of the machine without the fault, which may be a quota.
        machine: as members found it.
        status: of the verdict.
        reason: why it is incomplete, or None.
        step_1_s: step of one process (s); NaN without a usable window.
        step_n_s: step with all of them (s); likewise.
        lost_cpus: CPUs that the hypervisor or programs that are not injected took, with one process
            or with all.
        named: causes, the largest first.
    """

    case: Case
    started: datetime
    host: str
    machine: Machine
    status: str
    reason: str | None
    step_1_s: float
    step_n_s: float
    lost_cpus: float
    named: tuple[Named, ...]

    @property
    def inherent(self) -> dict[str, str]:
        """Causes that its workload has of itself on its machine, each with the reason."""
        amd = INHERENT_ON_AMD if self.machine.cpu_vendor == "AuthenticAMD" else {}
        return {**WORKLOADS[self.case.workload].inherent, **amd}


def measure_case(case: Case, kept: Path) -> Run:
    """Do a case's experiments, keep what they recorded, and judge it.

    Args:
        case: what to run.
        kept: folder of all kept runs.

    Raises:
        OverdueError: they take too long.
        RuntimeError: they fail, or the fault cannot be injected here.
    """
    folder = SCRATCH / case.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    child_processes.run(case.command(folder), folder, ROOT, LONGEST_S)
    known = codec.read_file(MICROBENCHMARKS, Microbenchmarks)
    keep(kept / case.file, known, (folder / "0.jsonl").read_bytes())
    return judge(case, kept)


def keep(path: Path, known: Microbenchmarks, records: bytes) -> None:
    """Pack what a verdict is made of; paths below the project become relative to it.

    Args:
        path: the file to write.
        known: the machine's microbenchmarks.
        records: of the experiments.
    """
    content = (codec.encode(known) + records).replace(str(ROOT).encode(), b".")
    storage.write_whole(path, lambda new: new.write_bytes(lzma.compress(content)))


def kept_runs(kept: Path) -> list[Run]:
    """Judge all runs that a folder keeps."""
    runs = []
    for path in kept.rglob(f"*{SUFFIX}"):
        workload, fault, name = path.relative_to(kept).parts
        number, control = int(name.removesuffix(SUFFIX)), fault.endswith(CONTROL)
        runs.append(judge(Case(workload, fault.removesuffix(CONTROL), number, control), kept))
    return runs


def judge(case: Case, kept: Path) -> Run:
    """Judge a kept run.

    Args:
        case: what was run.
        kept: folder of all kept runs.

    Raises:
        UnusableError: another version wrote it.
    """
    with TemporaryDirectory() as folder:
        head, records = (Path(folder) / name for name in ("microbenchmarks.json", "0.jsonl"))
        first, _, rest = lzma.decompress((kept / case.file).read_bytes()).partition(b"\n")
        head.write_bytes(first)
        records.write_bytes(rest)
        known, run = codec.read_file(head, Microbenchmarks), read_run(records)
    target = cause_file.judge([run], known, None)
    step_1_s, step_n_s = (
        step.value if step else math.nan for step in (target.step_1_s, target.step_n_s)
    )
    losses = {"scaling_loss": step_n_s - step_1_s, "single_process_loss": step_1_s}
    named = [
        Named(part, cause.cause, (cause.value or 0.0) * loss_s)
        for part, loss_s in losses.items()
        for cause in getattr(target, part).named
    ]
    hog = not case.control and "foreign_load" in FAULTS[case.fault].causes
    taken = {"steal_cpus"} if hog else {"steal_cpus", "foreign_cpus"}
    lost = [count for count in target.counts if count.name in taken]
    lost_cpus = (cpus or 0.0 for count in lost for cpus in (count.low, count.high))
    return Run(
        case=case,
        started=datetime.fromisoformat(run.head.started),
        host=known.machine,
        machine=run.head.machine,
        status=target.status,
        reason=target.reason,
        step_1_s=step_1_s,
        step_n_s=step_n_s,
        lost_cpus=max(lost_cpus, default=0.0),
        named=tuple(sorted(named, key=lambda cause: -cause.seconds)),
    )


def measure_microbenchmarks() -> str:
    """Measure this machine's microbenchmarks, or take kept ones; return the machine's hash."""
    folder = SCRATCH / "microbenchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        *(sys.executable, "-m", "scaling_study", "microbenchmarks"),
        *("--code", jobs.harness_digest(*microbenchmarks.MODULES), "--kept", str(folder)),
        *("--log", str(folder / "log"), "--output", str(MICROBENCHMARKS)),
    ]
    child_processes.run(command, folder, ROOT, LONGEST_S)
    return codec.read_file(MICROBENCHMARKS, Microbenchmarks).machine
