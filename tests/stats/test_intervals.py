import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from scaling_study.stats import intervals

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from intervals import simulate


def rows(**launches):
    """Rows of the table of replicates, of one machine: by launch, replicates times points.

    Process counts are 1, 2, ...; NaN is a replicate that lacks a point.
    """
    return pd.DataFrame(
        [
            {"machine": "m", "launch": launch, "n": n, "replicate": replicate, "steps_per_s": rate}
            for launch, matrix in launches.items()
            for replicate, rates in enumerate(matrix)
            for n, rate in enumerate(np.atleast_1d(rates), 1)
            if np.isfinite(rate)
        ]
    )


def means(**launches):
    return intervals.Means(rows(**launches))


def calm(rng, count, replicates=3, spread=0.01, points=2):
    """Launches that are alike."""
    return {
        f"calm{index}": 100.0 * np.exp(rng.normal(0.0, spread, (replicates, points)))
        for index in range(count)
    }


@pytest.mark.parametrize(("replicates", "narrower"), [(2, 0.5), (3, 0.7)])
def test_intervals_cover_the_truth_and_are_narrower_than_students(replicates, narrower):
    covered, reach, students = simulate(10, replicates, 0.5, "alike", 120)
    assert (
        0.93 <= covered[:, 1:].mean() <= 0.985
    )  # of 120 machines: 0.97 give or take what they share
    assert np.median(reach[:, 1:]) <= narrower * np.median(students[:, 1:])


@pytest.mark.parametrize("stray", [1.0, 10.0])
def test_intervals_of_a_ratio_of_launches_cover_the_truth(stray):
    rng = np.random.default_rng(7)
    covered = []
    for _ in range(150):
        launches = calm(rng, 10, spread=0.04)
        launches["stray"] = 200.0 * np.exp(rng.normal(0.0, 0.04 * stray, (3, 2)))
        found = means(**launches)
        for n in (1, 2):
            ratio = found.ratio(("stray", n), ("calm0", n))
            covered.append(ratio.low <= 2.0 <= ratio.high)
    assert np.mean(covered) >= 0.92


@pytest.mark.parametrize(("replicates", "least"), [(2, 0.85), (3, 0.9)])
def test_a_launch_with_tenfold_spread_keeps_its_own_and_widens_no_other(replicates, least):
    covered, reach, students = simulate(10, replicates, 0.5, "tenfold", 120)
    assert covered[:, 0].mean() >= least
    assert 0.93 <= covered[:, 1:].mean() <= 0.985
    assert np.median(reach[:, 1:]) <= 0.7 * np.median(students[:, 1:])
    assert np.median(reach[:, 0]) > 4 * np.median(reach[:, 1:])


def test_one_replicate_among_others_has_the_spread_of_these_and_more():
    rng = np.random.default_rng(5)
    found = means(lone=[[100.0, 100.0]], **calm(rng, 12))
    lone, other = (found.of(launch, 1).interval() for launch in ("lone", "calm0"))
    assert lone.high / lone.value > (other.high / other.value) ** 1.5


def test_what_was_not_measured_is_nan():
    found = means(a=[[1.0], [2.0]])
    assert np.isnan(found.of("a", 7).interval().value)
    assert np.isnan(found.of("b", 1).interval().value)
    assert np.isnan(found.ratio(("a", 7), ("a", 1)).value)
    assert np.isnan(found.ratio(("a", 1), ("b", 1)).value)


def test_the_ratio_of_two_counts_of_a_launch_is_free_of_what_a_replicate_shares():
    rng = np.random.default_rng(6)
    launches = {}
    for name in "abcdef":
        shared = 100.0 * np.exp(rng.normal(0.0, 0.5, (3, 1)))
        launches[name] = shared * np.array([1.0, 2.0]) * np.exp(rng.normal(0, 0.001, (3, 2)))
    found = means(**launches)
    paired = found.ratio(("a", 2), ("a", 1))
    assert paired.value == pytest.approx(2.0, rel=0.005)
    assert paired.high / paired.low < 1.02
    unpaired = found.ratio(("a", 2), ("b", 1))
    assert unpaired.high / unpaired.low > 1.5


def test_machines_are_never_pooled():
    one = rows(a=[[100.0], [101.0]])
    other = rows(a=[[100.0], [300.0]]).assign(machine="other")
    both = intervals.pooled_means(
        pd.concat([one, other]), ["machine", "launch", "n"], "steps_per_s"
    )
    for each in (one, other):
        alone = intervals.pooled_means(each, ["machine", "launch", "n"], "steps_per_s")
        pd.testing.assert_series_equal(both.loc[alone.index[0]], alone.iloc[0])


@pytest.mark.parametrize("seed", range(12))
def test_probabilities_never_contradict_the_intervals(seed):
    rng = np.random.default_rng(seed)
    spread = np.exp(rng.uniform(np.log(0.01), np.log(1.0)))
    found = means(
        a=np.exp(rng.normal(0.3, spread, (2, 1))),
        b=np.exp(rng.normal(0.0, spread, (2, 1))),
        **calm(rng, 4, 2, points=1),
    )
    shown = {"a": 1, "b": 1}
    sure = found.probabilities_of_best(shown, tolerance=0.0, seed=seed)["a"]
    ratio = found.ratio(("a", 1), ("b", 1))
    deviation = np.log(ratio.high / ratio.low) / (2 * norm.ppf(0.975))
    assert sure == pytest.approx(norm.cdf(np.log(ratio.value) / deviation), abs=0.03)
    if ratio.low < 1 < ratio.high:
        assert 0.01 < sure < 0.99


def test_the_winner_is_within_the_tolerance_as_often_as_its_probability_says():
    rng = np.random.default_rng(4)
    sure, right = [], []
    for trial in range(120):
        truths = rng.normal(0.0, 0.1, 10)
        launches = {
            str(index): np.exp(truth + rng.normal(0.0, 0.03, (3, 1)))
            for index, truth in enumerate(truths)
        }
        winner = max(launches, key=lambda name: np.log(launches[name]).mean())
        found = means(**launches).probabilities_of_best(
            dict.fromkeys(launches, 1), tolerance=0.02, seed=trial
        )
        sure.append(found[winner])
        right.append(truths[int(winner)] >= truths.max() + np.log(0.98))
    sure, right = np.array(sure), np.array(right)
    assert sure.mean() == pytest.approx(right.mean(), abs=0.05)
    doubtful = sure < 0.9
    assert doubtful.sum() > 10
    assert right[doubtful].mean() < right[~doubtful].mean()
