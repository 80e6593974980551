"""How much starts of one launch differ, told from the members of its cohorts."""

import copy

import numpy as np
import pandas as pd
import pytest

from scaling_study.analysis import experiment_runs
from scaling_study.analysis.experiment_runs import WhyRun
from scaling_study.diagnosis.case import Measurements, make_case
from scaling_study.diagnosis.shares import recovered_share
from scaling_study.stats.ratios import START_SD, start_deviation
from synthetic_why import World, make_records

STEP_S = 0.01


def run(rng, *, between, noise, drift=0.0):
    """Members that differ by `between` from each other, in blocks that scatter by `noise`."""
    rows = []
    for cohort in range(5):
        own = rng.normal(0, between, 16)
        for block in range(10):
            common = rng.normal(0, drift)
            for slot in range(16):
                s = STEP_S * (1 + own[slot] + common + rng.normal(0, noise))
                rows.append((f"c{cohort}", 16, block, slot, s))
    return pd.DataFrame(rows, columns=experiment_runs.MEMBERS)


@pytest.mark.parametrize("noise", [0.0, 0.04, 0.1])
@pytest.mark.parametrize("between", [0.05, 0.2])
def test_what_members_differ_by_is_found_whatever_their_windows_scatter(between, noise):
    rng = np.random.default_rng(3)
    runs = [run(rng, between=between, noise=noise, drift=0.1) for _ in range(6)]
    found = [start_deviation([one], STEP_S) for one in runs]
    assert np.mean(found) == pytest.approx(between, rel=0.2)


def test_noise_alone_is_no_difference_of_starts():
    rng = np.random.default_rng(5)
    assert start_deviation([run(rng, between=0.0, noise=0.1)], STEP_S) < 1.5 * START_SD


def changed(case, **values):
    other = copy.copy(case)
    vars(other).update(values)
    return other


def made(world, **options):
    records = make_records(world, np.random.default_rng(2), **options)
    return WhyRun(records[0], records)


def test_a_run_holds_its_members_step_less_their_waiting_for_a_cpu():
    members = made(World(n=4), noise=0.0, start=0.1).members
    assert list(members.columns) == experiment_runs.MEMBERS
    assert set(members["n"]) == {1, 2, 4}
    members = members[members["n"] > 1]
    assert set(members["name"]) == {"reference", *World().interventions}
    assert members.groupby(["name", "n", "slot"])["unhindered_s"].std().max() < 1e-6
    # With four members on two CPUs half of a step is waiting.
    reference = members[members["name"] == "reference"].groupby(["n", "slot"])["unhindered_s"]
    means = reference.mean()
    assert means[4].to_numpy() == pytest.approx(means[2].to_numpy(), rel=1e-3)


def test_members_that_took_turns_alone_make_a_comparison_surer():
    """The same steps, and the same member in all of them: one layout counts for less."""
    case = make_case([made(World(n=4), noise=0.01)], None)
    assert case.alone["reference"] == case.alone["pinned"] == 4
    widths = []
    for alone in ({}, case.alone, case.alone | {"pinned": 1}):
        found = recovered_share(changed(case, alone=alone), "single_process_loss", "pinned")
        widths.append(found.high - found.low)
    assert widths[0] > widths[2] > widths[1]


def test_swapped_batches_are_not_waited_for():
    """Beside batches from memory new ones are made, and waited for; that wait is no training."""
    measured = {"step_s": np.array([0.010, 0.011]), "load_s_per_step": np.array([0.004, np.nan])}
    columns = {("loader_beside", 1): measured, ("cached_batches", 1): measured}
    case = changed(
        make_case([made(World(n=2))], None),
        measurements=Measurements(columns, np.array([0, 0]), "blocks"),
    )
    assert case.step(1, "loader_beside") == pytest.approx([0.006, 0.011])
    assert case.step(1, "cached_batches") == pytest.approx([0.010, 0.011])
