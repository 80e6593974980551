"""The twelve scripts of the truth benchmark, and the number of each that is compared."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
SCRIPTS = Path("benchmarks/truth")
"""Relative to the project, as a study's config names it."""

THROUGHPUT = "throughput"
"""Iterations per second of all processes, with what lies between steps: `steps_per_s`."""
PROCESSES = "processes"
"""Whole processes per hour, from start to end: confirmed, or else predicted models/hour."""


@dataclass(frozen=True, slots=True)
class Row:
    """A script and how it is compared.

    Attributes:
        what: The script, in a few words.
        script: Its path in the project.
        compares: THROUGHPUT or PROCESSES.
        counts: What the number counts on both sides.
        loop_s: How long a shell loop is counted, after each slot's first iteration, or its first
            whole process.
        steps: Steps of a whole process, where those are compared.
    """

    what: str
    script: Path
    compares: str
    counts: str
    loop_s: float
    steps: int | None = None

    def studies(self, counts: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Return the process counts of each study that these counts need.

        One study measures all throughputs. It confirms the recommended launch at one count only,
        so whole processes need a study for each count.
        """
        return [(n,) for n in counts] if self.compares == PROCESSES else [counts]

    def of_default(self, n: int) -> bool:
        """Whether the default launch is compared, and not one thread per process.

        Whole processes are compared with what a study has confirmed. That is the recommended launch
        and the default one: alone on a machine the default may be the recommended one, and at
        larger counts it may take minutes for a model.
        """
        return self.compares == PROCESSES and n == 1


def _steps(name: str, what: str, loop_s: float, counts: str = "iterations/s") -> Row:
    return Row(what, SCRIPTS / f"{name}.py", THROUGHPUT, counts, loop_s)


# A loop is long enough for ten periods where the script has some, for five where they take seconds.
# It counts from the first iteration on. Plain loops whose steps become slower after some 600 (units
# of a ReLU die, and Adam's averages of their gradients become denormal numbers) run longer.
ROWS = {
    "plain": _steps("plain", "plain loop", 30),
    "validation": _steps("validation", "some seconds of validation after every 400 steps", 30),
    "checkpoints": _steps("checkpoints", "a checkpoint of 100 MB every 300 steps", 25),
    "slow_storage": _steps(
        "slow_storage", "two loader workers that are the bottleneck", 25, "batches/s"
    ),
    "short_epochs": _steps("short_epochs", "epochs of 60 steps, new workers in each", 30),
    "gan": _steps("gan", "GAN, two optimizers in turn", 15, "rounds of both optimizers/s"),
    "accumulation": _steps(
        "accumulation", "gradients of 4 batches accumulated", 30, "optimizer steps/s"
    ),
    "lbfgs": _steps("lbfgs", "LBFGS with a closure", 15, "optimizer steps/s"),
    "lengths": _steps("lengths", "lengths that differ 40-fold", 15, "batches/s"),
    "compiled": _steps(
        "compiled", "torch.compile, empty caches", 15, "iterations/s, both sides after compiling"
    ),
    "ends": Row(
        "300 steps and an end", SCRIPTS / "ends.py", PROCESSES, "whole processes/h", 40, 300
    ),
    "tsmixerx": Row(
        "TSMixerx as shipped",
        Path("scripts/workloads/tsmixerx.py"),
        PROCESSES,
        "whole processes/h",
        60,
        500,
    ),
}
