"""Do 95% intervals hold the truth in 95 of 100 studies? Simulated machines whose truth is known.

    python benchmarks/intervals.py                 # all rows, ten minutes on two CPUs
    python benchmarks/intervals.py --worlds 100 --table docs/evidence/intervals.md

A quick study is a race: launches run side by side in jobs, and the machine drifts between them. A
full one is a grid: each start of a launch is a job of its own, so drift is part of what starts
differ by. Starts of a launch differ by 4% in throughput, times a factor of its own (log-normal,
0.3), half of which all counts of a start share; a window by 1% more. Processes of different
launches take times to start that differ by 3% in the mean, and each further process that starts
beside them adds 5%. A fresh and a forked model show the start of one alone, a forked start, and
their ends. What is compared with the truth: throughput, its ratio to another launch and to another
count; models/hour, fresh with many processes and with one, and forked, and their ratio between two
launches. A second table is of confirmations: the rate of an arm, and its ratio to another. A third
one is of the shares of one to three causes, which are compared with the same windows. The status is
0 if all kinds are covered in 93 to 97% of the studies.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from doc_tables import publish, write_table
from msgspec import structs
from search_worlds import from_tests

from scaling_study.analysis.model_times import model_times
from scaling_study.confirm.confirmation import STRAYS
from scaling_study.launch.axes.axis_table import DEFAULTS
from scaling_study.stats.ratios import Pairs, fit_prior, ratio_of_means
from scaling_study.stats.throughputs import Start, fit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scaling_study.stats.interval import Floats, Interval

made_records = from_tests("made_records")

COUNTS = (1, 2, 4, 8)
SPREAD, SCATTER, SHARED, WINDOW = 0.04, 0.3, 0.5, 0.01
BATCH = 4
"""Launches that run beside the first one in a job of a race."""
STEPS, STEP_S, START_S, UNLIKE, GROWTH = 500, 0.01, 5.0, 0.03, 0.05
FORKED_S, END_S, FORKED_END_S = 0.3, 0.5, 0.1
AXES = {"launcher": "exec", "intra_op": 1, "build": "current"}
RIGHT = (0.93, 0.97)
KINDS = (
    *("throughput", "ratio of launches", "ratio of counts"),
    *("models/hour", "with one process", "forked", "ratio of models/hour", "ratio, forked"),
)
TURNS, ARMS, ROUND, FORKED_ROUND = (3, 5, 10), 4, 0.015, 0.04
"""Turns and arms of a confirmation, and by how much the rounds of an arm differ; those of forked
models differ more."""
BLOCKS, TRIED, NOISES, BLOCK_NOISE = 6, 10, (0.02, 0.05, 0.1), 0.05
"""Blocks of an experiment, interventions in it, and the noise of a time as a part of the added one:
of the windows that all are compared with, and of those of an intervention."""
Covered = tuple[bool, float]
"""Whether an interval holds the truth, and half its width as a part of it."""


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
        crowd_s = means_s[launch] * _beside(max(COUNTS))
        times[launch].append(crowd_s * float(np.exp(rng.normal(0, design.starts))))

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


def _beside(n: int) -> float:
    """Return how many times as long a process takes to start beside others."""
    return 1 + GROWTH * (n - 1)


def covered(design: Design, seed: int) -> list[Covered]:
    """Return, by kind, whether an interval holds the truth, and half its width on the log scale."""
    rng = np.random.default_rng(seed)
    starts, times, means_s = study(design, rng)
    rates = fit(starts, seed)
    cohorts = [
        made_records.summary(
            launch=f"{launch}",
            axes={**DEFAULTS, **AXES},
            process_counts=COUNTS,
            readback=made_records.reported(start_s=(start_s,)),
        )
        for launch, launch_s in enumerate(times)
        for start_s in launch_s
    ]
    parts = np.array([means_s[0], END_S, FORKED_S, FORKED_END_S])
    fresh, end, forked, forked_end = parts * np.exp(rng.normal(0, design.starts, len(parts)))
    first = made_records.first_models(
        (0.0, fresh, fresh + 9.0, end), (0.0, forked, forked + 9.0, forked_end)
    )
    beside = model_times(cohorts, structs.replace(first, launch="0"))
    models = rates.models_per_hour(STEPS, beside.beside_s)
    further = rates.models_per_hour(STEPS, partial(beside.beside_s, forked=True))
    n, launch, rival = COUNTS[2], "1", "2"

    def truth(n: int, start_s: float, end_s: float) -> float:
        return 3600 * n / ((STEPS - 1) * STEP_S + (start_s + end_s) * _beside(n))

    ours, theirs, alone = (
        truth(count, means_s[int(name)], END_S)
        for name, count in ((launch, n), (rival, n), (launch, 1))
    )
    return [
        _covered(*one)
        for one in (
            (rates.level((launch, n)), n / STEP_S),
            (rates.ratio((launch, n), (rival, n)), 1.0),
            (rates.ratio((launch, n), (launch, 1)), n),
            (models.level((launch, n)), ours),
            (models.level((launch, 1)), alone),
            (further.level((launch, n)), truth(n, FORKED_S, FORKED_END_S)),
            (models.ratio((launch, n), (rival, n)), ours / theirs),
            (further.ratio((launch, n), (rival, n)), 1.0),
        )
    ]


def _covered(found: Interval | None, truth: float) -> Covered:
    if found is None or found.low is None or found.high is None:
        return True, np.inf
    return bool(found.low <= truth <= found.high), float(found.high - found.low) / 2 / truth


def confirmed(turns: int, drift: float, seed: int) -> list[Covered]:
    """Return the same of a confirmation: the rate of the forked arm, and its ratio to another."""
    rng = np.random.default_rng(seed)
    spreads = [*[ROUND] * (ARMS - 1), FORKED_ROUND]
    starts = []
    for turn in range(turns):
        shared = drift / 2 * np.sin(rng.uniform(0, 2 * np.pi))
        starts += [
            Start(f"{arm}", turn, {1: float(np.exp(shared + rng.normal(0, spread)))})
            for arm, spread in enumerate(spreads)
        ]
    found, forked = fit(starts, seed, strays=STRAYS), (f"{ARMS - 1}", 1)
    return [_covered(found.level(forked), 1.0), _covered(found.ratio(forked, ("0", 1)), 1.0)]


def shared(causes: int, noise: float, seed: int) -> list[Covered]:
    """Return the same of the share of causes that are compared with the same windows."""
    rng = np.random.default_rng(seed)
    whole = 1 + rng.normal(0, noise, BLOCKS)  # added time, of which each cause has the same share
    each = 0.75 / causes

    def pairs(share: float) -> Pairs:
        return Pairs(share + (whole - 1) + rng.normal(0, BLOCK_NOISE, BLOCKS), whole)

    found = [pairs(each if at < causes else 0.0) for at in range(TRIED)]
    sums = [  # as `shares.explained` adds them up
        Pairs(np.sum([one.over for one in found[at : at + causes]], axis=0), whole)
        for at in range(TRIED - causes + 1)
    ]
    return [_covered(ratio_of_means(sums[0], prior=fit_prior(sums)), each * causes)]


def row(measure: Callable[[int], list[Covered]], worlds: int) -> tuple[list[str], bool]:
    """Return a row's cells, and whether all its kinds are covered as they should be."""
    found = np.array([measure(seed) for seed in range(worlds)])
    shares, widths = found[:, :, 0].mean(axis=0), np.median(found[:, :, 1], axis=0)
    chance = 2 * np.sqrt(0.95 * 0.05 / worlds)
    right = all(RIGHT[0] - chance <= share <= RIGHT[1] + chance for share in shares)
    return [
        f"{share:.1%}, ±{width:.1%}" for share, width in zip(shares, widths, strict=True)
    ], right


def shown(values: Iterable[object]) -> list[str]:
    """Return the cells that name a row."""
    return [f"{one:.0%}" if isinstance(one, float) else f"{one}" for one in values]


def main() -> int:
    """Simulate all designs, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=1000)
    parser.add_argument("--table", type=Path, help="fill the tables into this file too")
    options = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # workers, one on each CPU
    rounds = [*itertools.product(TURNS, (0.0, 0.03, 0.1))]
    causes = [*itertools.product((1, 2, 3), NOISES)]
    names = [*map(shown, [*map(astuple, DESIGNS), *rounds, *causes])]
    kinds = [
        *(partial(covered, one) for one in DESIGNS),
        *(partial(confirmed, *one) for one in rounds),
        *(partial(shared, *one) for one in causes),
    ]
    with ProcessPoolExecutor() as pool:
        rows = [*pool.map(row, kinds, itertools.repeat(options.worlds))]
    lines = [[*name, *texts] for name, (texts, _) in zip(names, rows, strict=True)]
    heads = (
        ("study", "launches", "starts of each", "windows", "drift", "starts differ by",
         "changed launch", *KINDS),
        ("rounds of each arm", "drift", "forked models/hour, confirmed", "ratio to another arm"),
        ("causes", "windows differ by", "share of all of them"),
    )  # fmt: skip
    parts = np.cumsum([len(DESIGNS), len(rounds)])
    tables = [lines[: parts[0]], lines[parts[0] : parts[1]], lines[parts[1] :]]
    text = "\n\n".join(write_table(*both) for both in zip(heads, tables, strict=True))
    text = (
        f"Printed by `python benchmarks/intervals.py`, {options.worlds:,} studies per row: how"
        f" often the interval holds the truth, and half its width (median).\n\n{text}"
    )
    publish(text, "intervals", options.table)
    # No interval can hold what two starts with two speeds do not show.
    right = [met for name, (_, met) in zip(names, rows, strict=True) if "modes" not in name]
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
