"""The scripts of the truth benchmark, and the number of each that is compared."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scaling_study.config.workload import RUN

if TYPE_CHECKING:
    from collections.abc import Sequence

SCRIPTS = Path("benchmarks/truth")
"""Relative to the project."""


@dataclass(frozen=True, slots=True)
class Row:
    """A script and how it is compared.

    Attributes:
        what: The script, in a few words.
        script: Its path in the project.
        counts: What the number counts on both sides.
        args: The script's arguments.
        steps: Steps of a whole process, where whole processes are compared.
        confirm_s: Time of the confirmation, where whole processes are compared: three models or
            more in each of its rounds.
        step: What the study counts as a step (`workload.step`).
        block: Iterations of a turn, where the cost of being measured is taken; 0 for none.
        period: Whether these are a whole period, so that their mean counts; else their median does.
    """

    what: str
    script: Path
    counts: str
    args: tuple[str, ...] = ()
    steps: int | None = None
    confirm_s: int = 120
    step: str = "optimizer"
    block: int = 16
    period: bool = False

    @property
    def whole(self) -> bool:
        """Whether whole processes per hour are compared, and not iterations per second."""
        return self.steps is not None

    def studies(self, counts: Sequence[int]) -> list[list[int]]:
        """Return the process counts of each study that these counts need.

        A study confirms whole processes at one count only.
        """
        return [[n] for n in counts] if self.whole else [[*counts]]


DENSE, LOADER = SCRIPTS / "dense.py", SCRIPTS / "loader.py"
ITERATIONS = "iterations/s"
PROCESSES = "whole processes/h"
ROWS = {
    "plain": Row("plain loop", DENSE, ITERATIONS),
    "validation": Row(
        "some seconds of validation after every 400 steps",
        DENSE,
        ITERATIONS,
        ("--validate-every", "400"),
    ),
    "checkpoints": Row(
        "a checkpoint of 100 MB every 300 steps", SCRIPTS / "checkpoints.py", ITERATIONS
    ),
    "slow_storage": Row(
        "two loader workers that are the bottleneck",
        LOADER,
        "batches/s",
        ("--item-seconds", "0.025", "--batch-size", "16", "--batches", "6250"),
        block=8,
        period=True,
    ),
    "short_epochs": Row(
        "epochs of 60 steps, new workers in each", LOADER, ITERATIONS, block=60, period=True
    ),
    "gan": Row("GAN, two optimizers in turn", SCRIPTS / "gan.py", "rounds of both optimizers/s"),
    "accumulation": Row(
        "gradients of 4 batches accumulated", DENSE, "optimizer steps/s", ("--accumulate", "4")
    ),
    "by_hand": Row(
        "parameters updated by hand", DENSE, ITERATIONS, ("--by-hand",), step="backward"
    ),
    "lbfgs": Row("LBFGS with a closure", SCRIPTS / "lbfgs.py", "optimizer steps/s", block=4),
    "lengths": Row(
        "lengths that differ 40-fold", SCRIPTS / "lengths.py", "batches/s", block=40, period=True
    ),
    "compiled": Row("torch.compile, empty caches", DENSE, ITERATIONS, ("--compile",)),
    "ends": Row("300 steps and an end", DENSE, PROCESSES, ("--steps", "300"), 300),
    "runs": Row(
        "episodes of unequal lengths, as whole runs",
        SCRIPTS / "episodes.py",
        PROCESSES,
        steps=1,
        step=RUN,
        block=0,
    ),
    "tsmixerx": Row(
        "TSMixerx as shipped",
        SCRIPTS / "shipped.py",
        PROCESSES,
        ("scripts/workloads/tsmixerx.py",),
        500,
        confirm_s=220,
    ),
}
