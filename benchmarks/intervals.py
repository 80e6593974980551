"""Do 95% intervals hold the truth in 95 of 100 studies? Simulated machines whose truth is known.

    python benchmarks/intervals.py                 # all rows, ten minutes on two CPUs
    python benchmarks/intervals.py --worlds 100 --table docs/evidence/intervals.md

A quick study is a race: launches run side by side in jobs, and the machine drifts between them. A
full one is a grid: each start of a launch is a job of its own, so drift is part of what starts
differ by. Starts of a launch differ by 4% in throughput, times a factor of its own (log-normal,
0.3), half of which all counts of a start share; a window by 1% more. Processes of different
launches take times to start that differ by 3% in the mean. What is compared with the
truth: throughput, its ratio to another launch and to another count, models/hour with the start of a
process, and the ratio of two launches in these. The status is 0 if all kinds are covered in 93 to
97% of the studies.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from scaling_study.analysis.model_times import drawn
from scaling_study.common.doc_tables import fill, update, write_table
from scaling_study.stats.throughputs import Start, fit

if TYPE_CHECKING:
    from scaling_study.stats.intervals import Floats

COUNTS = (1, 2, 4, 8)
SPREAD, SCATTER, SHARED, WINDOW = 0.04, 0.3, 0.5, 0.01
BATCH = 4
"""Launches that run beside the first one in a job of a race."""
STEPS, STEP_S, START_S, UNLIKE = 500, 0.01, 5.0, 0.03
RIGHT = (0.93, 0.97)
KINDS = (
    *("throughput", "ratio of launches", "ratio of counts"),
    *("models/hour", "ratio of models/hour"),
)


@dataclass(frozen=True, slots=True)
class Design:
    """A study, and the world that it measures.

    Attributes:
        kind: `quick` or `full`.
        launches: how many it has.
        replicates: starts of each.
        windows: of each count in a start.
        drift: between the fastest and the slowest time of the machine.
        starts: by how much the times of starts differ.
        changed: what the second launch is: `alike`, `tenfold` (its starts differ ten times as much)
            or `modes` (each start has one of two speeds, a factor of 5 apart).
    """

    kind: str
    launches: int
    replicates: int
    windows: int
    drift: float
    starts: float
    changed: str = "alike"


DESIGNS = (
    *(
        Design("quick", 11, replicates, 2, drift, starts)
        for replicates, drift, starts in itertools.product(
            (2, 4), (0.0, 0.03, 0.06, 0.1), (0.0, 0.1, 0.2)
        )
    ),
    *(
        Design("full", launches, replicates, windows, drift, 0.1)
        for launches in (3, 10)
        for replicates, windows in ((2, 1), (3, 3), (6, 3))
        for drift in (0.0, 0.1)
    ),
    *(
        Design("full", 10, replicates, 2, 0.0, 0.1, changed)
        for changed in ("tenfold", "modes")
        for replicates in (2, 3)
    ),
)


def study(
    design: Design, rng: np.random.Generator
) -> tuple[list[Start], list[list[float]], Floats]:
    """Return starts of launches with the same throughput, times of starts, and their true means."""
    spreads = SPREAD * np.exp(SCATTER * rng.standard_normal(design.launches))
    if design.changed == "tenfold":
        spreads[1] = 10 * SPREAD
    found: list[Start] = []
    times: list[list[float]] = [[] for _ in range(design.launches)]
    means_s = START_S * np.exp(UNLIKE * rng.standard_normal(design.launches))

    def start(launch: int, job: int, drift: float) -> None:
        shared = rng.normal(0, spreads[launch] * np.sqrt(SHARED))
        if design.changed == "modes" and launch == 1:
            shared += rng.choice([-0.5, 0.5]) * np.log(5)
        apart = np.hypot(spreads[launch] * np.sqrt(1 - SHARED), WINDOW / np.sqrt(design.windows))
        logs = drift + shared + rng.normal(0, apart, len(COUNTS))
        rates = {n: n / STEP_S * float(np.exp(log)) for n, log in zip(COUNTS, logs, strict=True)}
        found.append(Start(f"{launch}", job, rates))
        times[launch].append(means_s[launch] * float(np.exp(rng.normal(0, design.starts))))

    job = 0
    for _ in range(design.replicates):
        others = rng.permutation(np.arange(1, design.launches))
        size = BATCH if design.kind == "quick" else 1
        groups = (
            [[0], *([launch] for launch in others)]
            if size == 1
            else [[0, *others[at : at + size]] for at in range(0, len(others), size)]
        )
        for group in groups:
            drift = design.drift / 2 * np.sin(rng.uniform(0, 2 * np.pi))
            for launch in group:
                start(int(launch), job, float(drift))
            job += 1
    return found, times, means_s


def covered(design: Design, seed: int) -> list[tuple[bool, float]]:
    """Return, by kind, whether an interval holds the truth, and half its width on the log scale."""
    rng = np.random.default_rng(seed)
    starts, times, means_s = study(design, rng)
    rates = fit(starts, seed)
    starts_s = drawn([[np.log(launch_s) for launch_s in times]])
    beside_s = {f"{launch}": np.exp(starts_s[:, launch]) for launch in range(design.launches)}
    models = rates.models_per_hour(STEPS, lambda name, _: beside_s[name])
    n, launch, rival = COUNTS[2], "1", "2"
    model_rate, rival_rate = 3600 * n / ((STEPS - 1) * STEP_S + means_s[1:3])
    estimates = (
        (rates.level((launch, n)), n / STEP_S),
        (rates.ratio((launch, n), (rival, n)), 1.0),
        (rates.ratio((launch, n), (launch, 1)), n),
        (models.level((launch, n)), model_rate),
        (models.ratio((launch, n), (rival, n)), model_rate / rival_rate),
    )
    return [
        (bool(ours.low <= truth <= ours.high), float(np.log(ours.high / ours.low) / 2))
        for ours, truth in estimates
        if ours.low is not None and ours.high is not None
    ]


def row(design: Design, worlds: int) -> tuple[list[str], bool]:
    """Return a row of the table, and whether all its kinds are covered as they should be."""
    found = np.array([covered(design, seed) for seed in range(worlds)])
    shares, widths = found[:, :, 0].mean(axis=0), np.median(found[:, :, 1], axis=0)
    chance = 2 * np.sqrt(0.95 * 0.05 / worlds)
    right = all(RIGHT[0] - chance <= share <= RIGHT[1] + chance for share in shares)
    texts = [f"{share:.1%}, ±{width:.1%}" for share, width in zip(shares, widths, strict=True)]
    about = [getattr(design, one.name) for one in fields(design)]
    shown = [f"{one:.0%}" if isinstance(one, float) else f"{one}" for one in about]
    return [*shown, *texts], right or design.changed == "modes"


def main() -> int:
    """Simulate all designs, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=1000)
    parser.add_argument("--table", type=Path, help="fill the table into this file too")
    options = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # workers, one on each CPU
    with ProcessPoolExecutor() as pool:
        rows = [*pool.map(row, DESIGNS, itertools.repeat(options.worlds))]
    heads = (
        *("study", "launches", "starts of each", "windows", "drift", "starts differ by"),
        *("changed launch", *KINDS),
    )
    text = write_table(heads, [texts for texts, _ in rows])
    text = (
        f"Printed by `python benchmarks/intervals.py`, {options.worlds:,} studies per row: how"
        f" often the interval holds the truth, and half its width (median).\n\n{text}"
    )
    print(text)
    if options.table:
        update([str(options.table)], lambda page: fill(page, {"intervals": lambda: text}))
    return 0 if all(right for _, right in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
