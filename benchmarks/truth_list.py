"""The scripts of the truth benchmark, and the number of each that is compared."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scaling_study.config.workload import RUN

SCRIPTS = Path("benchmarks/truth")
"""Relative to the project, as a study's config names it."""


@dataclass(frozen=True, slots=True)
class Row:
    """A script and how it is compared.

    Attributes:
        what: The script, in a few words.
        script: Its path in the project.
        counts: What the number counts on both sides.
        loop_s: How long a shell loop is counted, after each slot's first iteration, or its first
            whole process.
        args: The script's arguments.
        steps: Steps of a whole process, where those are compared.
        step: What the study counts as a step (`workload.step`).
    """

    what: str
    script: Path
    counts: str
    loop_s: float
    args: tuple[str, ...] = ()
    steps: int | None = None
    step: str = "optimizer"

    @property
    def whole(self) -> bool:
        """Whether whole processes per hour are compared, and not iterations per second."""
        return self.confirmed or self.step == RUN

    @property
    def confirmed(self) -> bool:
        """Whether they are compared with what a study has confirmed, not with its windows."""
        return self.steps is not None

    def studies(self, counts: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Return the process counts of each study that these counts need.

        One study measures all throughputs. It confirms the recommended launch at one count only,
        so confirmed whole processes need a study for each count.
        """
        return [(n,) for n in counts] if self.confirmed else [counts]

    def of_default(self, n: int) -> bool:
        """Whether the default launch is compared, and not one thread per process.

        A study confirms the recommended launch and the default one: alone on a machine the default
        may be the recommended one, and at larger counts it may take minutes for a model.
        """
        return self.confirmed and n == 1


DENSE, LOADER = SCRIPTS / "dense.py", SCRIPTS / "loader.py"
ITERATIONS = "iterations/s"
PROCESSES = "whole processes/h"
# A loop is long enough for ten periods where the script has some, for five where they take seconds.
# It counts from the first iteration on. Dense layers, whose steps become slower after some 600
# (units of a ReLU die, and Adam's averages of their gradients become denormal numbers), run longer.
ROWS = {
    "plain": Row("plain loop", DENSE, ITERATIONS, 30),
    "validation": Row(
        "some seconds of validation after every 400 steps",
        DENSE,
        ITERATIONS,
        30,
        ("--validate-every", "400"),
    ),
    "checkpoints": Row(
        "a checkpoint of 100 MB every 300 steps", SCRIPTS / "checkpoints.py", ITERATIONS, 25
    ),
    "slow_storage": Row(
        "two loader workers that are the bottleneck",
        LOADER,
        "batches/s",
        25,
        ("--item-seconds", "0.1", "--batch-size", "16", "--batches", "6250"),
    ),
    "short_epochs": Row("epochs of 60 steps, new workers in each", LOADER, ITERATIONS, 30),
    "gan": Row(
        "GAN, two optimizers in turn", SCRIPTS / "gan.py", "rounds of both optimizers/s", 15
    ),
    "accumulation": Row(
        "gradients of 4 batches accumulated", DENSE, "optimizer steps/s", 30, ("--accumulate", "4")
    ),
    "by_hand": Row(
        "parameters updated by hand", DENSE, ITERATIONS, 30, ("--by-hand",), step="backward"
    ),
    "lbfgs": Row("LBFGS with a closure", SCRIPTS / "lbfgs.py", "optimizer steps/s", 15),
    "lengths": Row("lengths that differ 40-fold", SCRIPTS / "lengths.py", "batches/s", 15),
    "compiled": Row(
        "torch.compile, empty caches",
        DENSE,
        "iterations/s, both sides after compiling",
        30,
        ("--compile",),
    ),
    "ends": Row("300 steps and an end", DENSE, PROCESSES, 40, ("--steps", "300"), 300),
    "runs": Row(
        "episodes of unequal lengths, as whole runs",
        SCRIPTS / "episodes.py",
        PROCESSES,
        40,
        step=RUN,
    ),
    "tsmixerx": Row(
        "TSMixerx as shipped", Path("scripts/workloads/tsmixerx.py"), PROCESSES, 60, steps=500
    ),
}
