"""The workloads of the self-test, and the jobs that its faults make of them.

The workload scripts stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fault_list import FAULTS, FOLDER, NOTHING, ROOT, Dose

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from fault_list import Options

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
        dose = self.dose(folder)
        wrap = fault.control(dose) if self.control else fault.wrapper(dose)
        axes = (fault.control_axes if self.control else None) or fault.axes
        command = [str(ROOT / workload.script), *workload.args, "--seed", "{member}"]
        if wrap:
            command = [str(FOLDER / wrap[0]), *wrap[1:], "--", *command]
        return {
            "study": "faults",
            "workload": {
                "script": command[0],
                "args": command[1:],
                "env": dict(fault.env(dose)),
            },
            "processes": fault.counts,
            "launches": {"baseline": {**workload.axes, **axes}},
            "why": "quick",
        }

    def outside(self, folder: Path) -> Options:
        """Return the options of injected_faults/outside.py."""
        return () if self.control else FAULTS[self.fault].outside(self.dose(folder))

    def dose(self, folder: Path) -> Dose:
        """Return how much of the fault this run gets."""
        strength = STRENGTHS[self.run % len(STRENGTHS)]
        workload = WORKLOADS[self.workload]
        return Dose(workload.step_s, strength, workload.multiplies, folder)


def clean_of(case: Case) -> Case:
    """Return what a run is compared with: its control, or the workload with no fault."""
    own = FAULTS[case.fault].controlled
    return Case(case.workload, case.fault if own else NOTHING, case.run, control=own)
