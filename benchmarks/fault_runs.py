"""The runs of the self-test: workloads under faults, their experiments, and the verdict on them.

The workload scripts stay as they are.
"""

from __future__ import annotations

import functools
import shutil
import sys
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from child_processes import OverdueError, run
from fault_list import FAULTS, FOLDER, NOTHING
from ledger import ROOT, Entry, machine

from scaling_study.analysis.experiment_runs import read_run
from scaling_study.common import code_digest
from scaling_study.config.config import load_config
from scaling_study.config.plan import make_plan
from scaling_study.diagnosis import cause_file
from scaling_study.experiments import microbenchmarks
from scaling_study.records import codec
from scaling_study.records.experiment import Microbenchmarks
from scaling_study.runner import measure
from scaling_study.runner.supervisor import supervised

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from scaling_study.records.verdict import Target

LONGEST_S = 3600.0
"""A job takes one to four minutes; one that takes this has gone wrong, and the others go on."""
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
        own: causes that it has without any fault, each with how that is known: naming one is true.
            `own_causes` has those of the processor too.
        axes: of its launch, unless the fault sets them.
    """

    title: str
    script: str
    args: tuple[str, ...]
    step_s: float
    multiplies: int = 1
    own: Mapping[str, str] = field(default_factory=dict)
    axes: Mapping[str, str] = field(default_factory=dict)


OWN_ON_AMD = {
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
        own=dict.fromkeys(("data_loading", "too_few_workers", "loader_preparation"), DRAWING),
    ),
    "plain": Workload(
        "plain loop",
        "benchmarks/injected_faults/plain_loop.py",
        (),
        0.009,
        own={
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
        own=dict.fromkeys(("too_few_workers", "loader_preparation"), DECODING),
        # With malloc as it is, its steps take none or 1,800 page faults, now and then.
        axes={"allocator": "glibc-large-thresholds"},
    ),
}


def own_causes(workload: str, machine: str) -> dict[str, str]:
    """Return the causes that a workload has of itself on a machine, as its entries name it."""
    return {**WORKLOADS[workload].own, **(OWN_ON_AMD if "AMD" in machine else {})}


@dataclass(frozen=True, slots=True)
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
        part = f"{self.fault}-control" if self.control else self.fault
        return f"{self.workload}/{part}/{self.run}"

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
        job = measure.job_text(measure.job_sections(plan, "why"), plan.by_id[plan.baseline])
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
    own = FAULTS[case.fault].controlled
    return Case(case.workload, case.fault if own else NOTHING, case.run, control=own)


def case_of(entry: Mapping[str, Any]) -> Case:
    """Return the case that an entry is of."""
    return Case(entry["workload"], entry["fault"], entry["run"], entry["control"])


def not_possible(names: Iterable[str]) -> dict[str, str]:
    """Return the faults that cannot be injected here, with the reason."""
    reasons = {name: FAULTS[name].missing() for name in names}
    return {name: reason for name, reason in reasons.items() if reason}


def experiment(case: Case, results: Path) -> Entry:
    """Do a case's experiments; return its entry, with what the verdict names or why it failed."""
    folder = results / case.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    began, at = time.monotonic(), datetime.now(UTC)
    try:
        run(case.command(folder), folder, ROOT, LONGEST_S)
        found = diagnose(case, results)
    except (OverdueError, RuntimeError) as error:
        found = {"status": "failed", "reason": str(error)}
    return {
        **asdict(case),
        **found,
        "started": at.isoformat(timespec="seconds"),
        "wall_s": time.monotonic() - began,
        "machine": machine(),
    }


def diagnose(case: Case, results: Path) -> Entry:
    """Ask the verdict about the records of a case."""
    own = results / "microbenchmarks.json"
    known = codec.read_file(own, Microbenchmarks) if own.exists() else None
    try:
        found = cause_file.judge([read_run(results / case.name / "0.jsonl")], known, None)
    except Exception as error:  # noqa: BLE001 (hours of records wait behind it: `--again` asks anew)
        return {"status": "failed", "reason": f"the verdict: {error!r}"}
    codec.write_file(results / case.name / "verdict.json", found)
    return {**summarise(found), "rules": rules()}


@functools.cache
def rules() -> str:
    """Return the digest of the code that gives verdicts."""
    return code_digest.of_modules("diagnosis")[:12]


def summarise(found: Target) -> Entry:
    """Return what of a target of causes.json the table needs; times in s."""
    step_1, step_n = (one.value if one else None for one in (found.step_1_s, found.step_n_s))
    named: list[dict[str, Any]] = []
    if step_1 is not None and step_n is not None:
        losses = {"scaling_loss": step_n - step_1, "single_process_loss": step_1}
        named = [
            {
                "part": part,
                "cause": one.cause,
                "share": one.value,
                "seconds": (one.value or 0.0) * loss_s,
            }
            for part, loss_s in losses.items()
            for one in getattr(found, part).named
        ]
    stolen = [one for one in found.counts if one.name == "steal_cpus"]
    return {
        "status": found.status,
        "reason": found.reason,
        "n": found.n,
        "step_1_s": step_1,
        "step_n_s": step_n,
        # With one process or with all.
        "stolen_cpus": max(
            (side or 0.0 for one in stolen for side in (one.low, one.high)), default=0.0
        ),
        "named": sorted(named, key=lambda one: -one["seconds"]),
    }


def measure_microbenchmarks(results: Path) -> None:
    """Measure the machine's microbenchmarks, or take those that an earlier call has kept."""
    folder = results / "microbenchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        *(sys.executable, "-m", "scaling_study", "microbenchmarks"),
        *("--code", measure.harness_digest(*microbenchmarks.MODULES), "--kept", str(folder)),
        *("--log", str(folder / "log"), "--output", str(results / "microbenchmarks.json")),
    ]
    run(command, folder, ROOT, LONGEST_S)
