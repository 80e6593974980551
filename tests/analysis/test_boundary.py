"""Knees of known scaling laws: boundaries are named where they are, and nowhere else."""

import numpy as np
import pandas as pd
import pytest
from msgspec import structs

import synthetic
from scaling_study.analysis.laws import SHARP, choose, coinciding, read_law
from scaling_study.analysis.points import joint
from scaling_study.config import process_counts
from scaling_study.records.analysis import ChosenLaw, LaunchLaws, Machines, Scaling
from scaling_study.records.codec import write_file
from scaling_study.records.verdict import Boundary
from scaling_study.stats.interval import Interval

DRAWS = 20
REPLICATES = 3
COHORT_NOISE = 0.03
"""Between cohorts: level only."""


MACHINES = {
    2: synthetic.described(cpus=2),
    16: synthetic.described(cpus=16, cpus_per_l3=8, cpus_per_node=16),
    192: synthetic.described(cpus=192, cpus_per_l3=16, cpus_per_node=48),
}
COUNTS_OF = {
    size: process_counts.resolve("auto", one.topology, None) for size, one in MACHINES.items()
}
COUNTS_OF[2] = (1, 2, 3, 4, 5, 6)  # the automatic one has three counts


def points_of(counts):
    """Rows of the table of points of a launch whose members keep a CPU busy each."""
    return pd.DataFrame({"n": counts, "cpu_use": np.array(counts, dtype=float)})


def found(bend, size, seed):
    """The boundary that is named where a step takes longer from `bend` processes on."""
    rng = np.random.default_rng(seed)
    n = np.array(COUNTS_OF[size])
    levels = rng.normal(0, COHORT_NOISE, (REPLICATES, 1))
    noise = rng.normal(0, 0.01, (REPLICATES, len(n)))
    logs = np.log(n / np.maximum(1.0, n / bend)) - levels - noise
    rates = pd.DataFrame(np.exp(logs), columns=n).melt(var_name="n", value_name="steps_per_s")
    rates["replicate"] = np.tile(np.arange(REPLICATES), len(n))
    known = joint(rates.assign(launch="a"), [], None, 1).steps_per_s
    throughput = np.exp([known.mean(("a", count)) for count in n])
    law = choose(n, throughput, known.scatter("a"))
    return law.knee and coinciding(law, points_of(n), MACHINES[size])


@pytest.mark.parametrize(
    ("size", "knee", "name"),
    [(2, 2, "CPUs"), (16, 8, "L3"), (192, 16, "L3"), (192, 48, "NUMA node")],
)
def test_a_knee_at_a_boundary_names_it(size, knee, name):
    named = [found(knee, size, seed) for seed in range(DRAWS)]
    assert sum(one is not None for one in named) >= 0.7 * DRAWS
    assert {one.name for one in named if one} == {name}


def knee(low, high, *, sharp=True):
    ends = Interval((low * high) ** 0.5, low, high)
    return ChosenLaw(best=SHARP[0] if sharp else "usl", knee=ends)


POINTS = points_of([1, 2, 4])


@pytest.mark.parametrize(
    ("where", "name"),
    [
        (knee(7.8, 8.3), "L3"),
        (knee(15.5, 16.5), "CPUs"),
        (knee(7.8, 8.3, sharp=False), None),
        (knee(6.5, 8.3), None),
        (knee(7.8, 9.5), None),
        (knee(7.8, 16.5), None),
        (knee(9.0, 9.5), None),
    ],
    ids=["at", "at the last", "a slow bend", "wide below", "wide above", "two", "elsewhere"],
)
def test_a_boundary_is_named_only_by_a_sharp_knee_close_around_it(where, name):
    named = coinciding(where, POINTS, MACHINES[16])
    assert (named and named.name) == name


def test_a_quota_is_a_boundary_where_it_stands():
    limited = structs.replace(MACHINES[16], quota_cpus=5.5)
    assert coinciding(knee(5.4, 5.6), POINTS, limited) == Boundary("CPU quota", 5.5)
    assert coinciding(knee(7.8, 8.3), POINTS, limited) is None


def test_a_knee_is_read_from_the_analysis(tmp_path):
    assert read_law(tmp_path, "m", "a") is None
    ends = Interval(8.0, 7.8, 8.3)
    launches = tuple(
        LaunchLaws(launch=launch, laws=ChosenLaw(best=best, knee=knee))
        for launch, best, knee in (("a", "hard_saturation", ends), ("b", "linear", None))
    )
    scaling = Machines((Scaling(machine="m", launches=launches),))
    write_file(tmp_path / "analysis/scaling.json", scaling)
    assert read_law(tmp_path, "m", "a") == launches[0].laws
    assert read_law(tmp_path, "m", "b") is read_law(tmp_path, "other", "a") is None
