"""The workloads of the self-test, and the jobs that its plants make of them.

A plant is a launch, a wrapper around the script, something outside the study, or several of them;
each is in the file of the cause that it shows. The workload scripts stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scaling_study.diagnosis.causes.cause_table import CAUSES
from scaling_study.diagnosis.causes.plant import FOLDER, Dose, Plant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scaling_study.diagnosis.causes.plant import Options

ROOT = Path(__file__).parent.parent
NOTHING = "nothing"

STRENGTHS = (1.0, 0.85, 1.15, 0.9, 1.1)
"""How much of a plant a run gets, in turn: a rule that fits one dose only would show."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A training script whose tensors are large enough that every plant can bite.

    Attributes:
        title: for people.
        script: relative to the project.
        args: of it.
        step_s: about what a step takes alone (s): doses are chosen by it, nothing is judged by it.
        multiplies: a slow multiply is this much slower still, where a step has few of them.
        own: causes that it has without any plant, each with how that is known: naming one is true.
            `own_causes` has those of the processor too.
        axes: of its launch, unless the plant sets them.
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
        "benchmarks/plants/plain_loop.py",
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


def _all() -> dict[str, Plant]:
    planted = {name: plant for cause in CAUSES for name, plant in cause.plants.items()}
    # Those that have no control are compared with the run of nothing, so they come right after it:
    # the machine drifts.
    order = sorted(planted, key=lambda name: planted[name].controlled)
    return {NOTHING: Plant("nothing (A/A)", ()), **{name: planted[name] for name in order}}


PLANTS = _all()


@dataclass(frozen=True, slots=True)
class Case:
    """One job to run: a workload under a plant, or under the plant's control.

    Attributes:
        workload: key of WORKLOADS.
        plant: key of PLANTS.
        run: which repetition.
        control: without what makes it slow.
    """

    workload: str
    plant: str
    run: int
    control: bool = False

    @property
    def name(self) -> str:
        """Its folder below the results."""
        part = f"{self.plant}-control" if self.control else self.plant
        return f"{self.workload}/{part}/{self.run}"

    def config(self, folder: Path) -> dict[str, Any]:
        """Return a study's config for it.

        Args:
            folder: of this run, for files that members share.

        Raises:
            RuntimeError: it cannot be planted here.
        """
        workload, plant = WORKLOADS[self.workload], PLANTS[self.plant]
        if reason := plant.missing():
            raise RuntimeError(f"{plant.title}: {reason}")
        dose = self.dose(folder)
        wrap = plant.control(dose) if self.control else plant.around(self.plant, dose)
        axes = (plant.control_axes if self.control else None) or plant.axes
        command = [str(ROOT / workload.script), *workload.args, "--seed", "{member}"]
        if wrap:
            command = [str(FOLDER / wrap[0]), *wrap[1:], "--", *command]
        return {
            "study": "planted",
            "workload": {
                "script": command[0],
                "args": command[1:],
                "env": dict(plant.env(dose)),
            },
            "processes": plant.counts,
            "launches": {"baseline": {**workload.axes, **axes}},
            "why": "quick",
        }

    def outside(self, folder: Path) -> Options:
        """Return the options of plants/outside.py."""
        return () if self.control else PLANTS[self.plant].outside(self.dose(folder))

    def dose(self, folder: Path) -> Dose:
        """Return how much of the plant this run gets."""
        strength = STRENGTHS[self.run % len(STRENGTHS)]
        workload = WORKLOADS[self.workload]
        return Dose(workload.step_s, strength, workload.multiplies, folder)


def clean_of(case: Case) -> Case:
    """Return what a run is compared with: its control, or the workload with nothing planted."""
    own = PLANTS[case.plant].controlled
    return Case(case.workload, case.plant if own else NOTHING, case.run, control=own)
