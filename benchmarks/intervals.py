"""Coverage and width of the 95% intervals, on simulated machines whose truth is known.

A simulated machine has launches with four process counts each. The spread between starts of a
launch is 4%, times a factor that differs by launch (log-normal, 0.3). Deviations of two counts of a
launch are correlated, since a cohort measures both. Then one launch is changed: its spread is ten
times as large, or every start of it falls into one of two modes that are a factor of 5 apart.

Student's t from each point's own replicates is what the widths are compared with.

    python benchmarks/intervals.py --worlds 10000
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats as distributions

from scaling_study.stats import variances
from scaling_study.stats.thresholds import CONFIDENCE
from scaling_study.stats.variances import QUANTILE

if TYPE_CHECKING:
    from scaling_study.stats.intervals import Floats

SPREAD, SCATTER, COUNTS = 0.04, 0.3, 4
TENFOLD, MODES = 10.0, 5.0


@dataclass(frozen=True, slots=True)
class World:
    """What is simulated.

    Attributes:
        launches: of the machine.
        replicates: of each.
        correlation: between two counts of a launch.
        changed: what the first launch is: ``alike``, ``tenfold`` or ``modes``.
    """

    launches: int
    replicates: int
    correlation: float = 0.5
    changed: str = "alike"


@dataclass(frozen=True, slots=True)
class Found:
    """Of many points, whether each interval holds the truth, and half its width; Student's too."""

    covered: Floats
    reach: Floats
    students: Floats

    def shares(self) -> tuple[float, float]:
        """Coverage, and the median width over Student's."""
        return float(self.covered.mean()), float(np.median(self.reach) / np.median(self.students))


def simulate(world: World, worlds: int, seed: int = 0) -> tuple[Found, Found]:
    """Draw machines and estimate every point.

    Returns:
        The first launch of all of them, and all others.
    """
    rng = np.random.default_rng(seed)
    shape = worlds, world.launches, world.replicates
    shared = rng.standard_normal((*shape, 1))
    apart = rng.standard_normal((*shape, COUNTS))
    normals = np.sqrt(world.correlation) * shared + np.sqrt(1 - world.correlation) * apart
    spreads = SPREAD * np.exp(SCATTER * rng.standard_normal(shape[:2]))
    if world.changed == "tenfold":
        spreads[:, 0] = SPREAD * TENFOLD
    logs = spreads[..., None, None] * normals
    if world.changed == "modes":
        logs[:, 0] += rng.choice([-0.5, 0.5], (worlds, world.replicates, 1)) * np.log(MODES)
    found = [
        variances.deviations({str(launch): values for launch, values in enumerate(one)})
        for one in logs
    ]
    reach = QUANTILE * np.array([list(deviations.values()) for deviations, _ in found])
    quantile = distributions.t.ppf((1 + CONFIDENCE) / 2, world.replicates - 1)
    students = quantile * logs.std(axis=2, ddof=1) / np.sqrt(world.replicates)
    covered = np.abs(logs.mean(axis=2)) <= reach
    first, rest = (
        Found(covered[:, part].ravel(), reach[:, part].ravel(), students[:, part].ravel())
        for part in (slice(0, 1), slice(1, None))
    )
    return first, rest


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=10_000)
    options = parser.parse_args()
    heads = (
        *("launches", "replicates", "correlation", "changed launch"),
        "ordinary launches: covered, width / Student's",
        "changed launch: covered, width / Student's",
        "changed launch, widest 1%: upper end / value, Student's",
    )
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}", flush=True)
    for changed in ("alike", "tenfold", "modes"):
        for launches, correlation in ((3, 0.5), (10, 0.5), (27, 0.5), (10, 0.9)):
            for replicates in (2, 3):
                print(row(World(launches, replicates, correlation, changed), options.worlds))
                sys.stdout.flush()


def row(world: World, worlds: int) -> str:
    """A row of the table."""
    first, rest = simulate(world, worlds)
    texts = ["{:.1%}, {:.2f}".format(*found.shares()) for found in (rest, first)]
    widest = [f"{np.exp(np.quantile(each, 0.99)):.3g}" for each in (first.reach, first.students)]
    facts = world.launches, world.replicates, world.correlation, world.changed
    return f"| {' | '.join([*map(str, facts), *texts, ', '.join(widest)])} |"


if __name__ == "__main__":
    main()
