"""What starts say together: drift cancels, luck does not, and each launch keeps its own spread."""

import numpy as np
import pytest
from intervals import Design, covered

from scaling_study.stats.throughputs import Start, fit


def start(launch, batch, rates):
    return Start(launch, batch, rates, max(rates), start_s=10.0, windows_s=10.0)


def alone(**launches):
    """By launch, replicates times points: each replicate a job of its own; NaN lacks a point."""
    return [
        start(launch, f"{launch} {at}", {n: rate for n, rate in enumerate(rates, 1) if rate > 0})
        for launch, matrix in launches.items()
        for at, rates in enumerate(map(np.atleast_1d, matrix))
    ]


def width(interval):
    return np.log(interval.high / interval.low)


def drifting(batches, drift):
    """Each batch has one launch of its own, as fast as those that all have."""
    return [
        start(launch, batch, {4: rate, 8: 2 * rate})
        for batch in range(batches)
        for rate in [100 * np.exp(drift * batch)]
        for launch in ("common", "another", f"own-{batch}")
    ]


def calm(rng, count, spread=0.01):
    """Launches that are alike."""
    return {f"calm{at}": 100.0 * np.exp(rng.normal(0.0, spread, (3, 2))) for at in range(count)}


def test_what_a_batch_has_in_common_is_no_difference_between_launches():
    ratio = fit(drifting(5, 0.05)).ratio(("own-0", 8), ("own-4", 8))
    assert abs(np.log(ratio.value)) < 0.25 * 0.2  # of the drift between both batches
    assert ratio.low < 1 < ratio.high


def test_where_nothing_drifts_launches_compare_across_batches():
    known = fit(drifting(5, 0.0))
    assert max(map(abs, known.drifts.values())) < 0.001
    assert known.ratio(("own-0", 8), ("own-4", 8)).value == pytest.approx(1, abs=1e-9)


def test_more_windows_of_one_start_are_no_replicates():
    def ratio(counts):
        matrix = np.outer([100.0, 105.0], np.ones(counts))
        return fit(alone(**dict.fromkeys("abcdef", matrix))).ratio(("a", 1), ("b", 1))

    assert width(ratio(39)) > 0.6 * width(ratio(1))


def test_a_launch_with_two_speeds_keeps_its_spread_and_leaves_the_others_theirs():
    rng = np.random.default_rng(5)
    starts = [
        start(name, batch, {8: 100 * np.exp(spread * sign + 0.01 * rng.standard_normal())})
        for batch in range(4)
        for sign in [(-1) ** batch]
        for name, spread in [("wild", 0.5), ("a", 0), ("b", 0), ("c", 0)]
    ]
    known = fit(starts)
    assert width(known.ratio(("a", 8), ("b", 8))) < 0.1
    assert width(known.ratio(("wild", 8), ("b", 8))) > 5 * width(known.ratio(("a", 8), ("b", 8)))


@pytest.mark.parametrize("drift", [0.0, 0.1])
def test_intervals_hold_the_truth_as_often_as_they_say(drift):
    design = Design("quick", 11, 2, 2, drift, 0.1)
    found = np.array([covered(design, seed) for seed in range(40)])[:, :, 0]
    assert (found.mean(axis=0) > 0.82).all()  # of 40: four deviations below 95%


def test_one_start_among_others_has_their_spread_and_more():
    rng = np.random.default_rng(5)
    known = fit(alone(lone=[[100.0, 100.0]], **calm(rng, 12)))
    assert width(known.level(("lone", 1))) > 1.5 * width(known.level(("calm0", 1)))


def test_without_a_launch_of_two_starts_nothing_has_an_interval():
    known = fit(alone(a=[[100.0, 200.0]], b=[[100.0, 150.0]]))
    assert known.level(("a", 2)).value == pytest.approx(200.0)
    assert not known.level(("a", 2)).sure
    assert not known.ratio(("a", 2), ("b", 2)).sure
    assert known.probabilities({"a": 1}, 0.02) == {}


def test_what_was_not_measured_is_nan():
    known = fit(alone(a=[[1.0], [2.0]]))
    assert np.isnan(known.level(("a", 7)).value)
    assert np.isnan(known.level(("b", 1)).value)
    assert np.isnan(known.ratio(("a", 1), ("b", 1)).value)


def test_the_ratio_of_two_counts_of_a_launch_is_free_of_what_a_start_shares():
    rng = np.random.default_rng(6)
    launches = {}
    for name in "abcdef":
        shared = 100.0 * np.exp(rng.normal(0.0, 0.5, (3, 1)))
        launches[name] = shared * np.array([1.0, 2.0]) * np.exp(rng.normal(0, 0.001, (3, 2)))
    known = fit(alone(**launches))
    paired = known.ratio(("a", 2), ("a", 1))
    assert paired.value == pytest.approx(2.0, rel=0.005)
    assert width(paired) < 0.02
    assert width(known.ratio(("a", 2), ("b", 1))) > 0.4


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
        known = fit(alone(**launches), trial)
        sure.append(known.probabilities(dict.fromkeys(launches, 1), 0.02)[winner])
        right.append(truths[int(winner)] >= truths.max() + np.log(0.98))
    sure, right = np.array(sure), np.array(right)
    assert sure.mean() == pytest.approx(right.mean(), abs=0.06)
    doubtful = sure < 0.9
    assert doubtful.sum() > 10
    assert right[doubtful].mean() < right[~doubtful].mean()


def test_models_per_hour_are_as_uncertain_as_starts():
    rng = np.random.default_rng(6)
    known = fit(alone(**calm(rng, 4, spread=0.001)))
    certain, doubtful = (
        known.models_per_hour(500, lambda *_: np.exp(rng.normal(np.log(5), spread, 4000)))  # noqa: B023
        for spread in (0.001, 0.1)
    )
    found = certain.level(("calm0", 1))
    assert found.value == pytest.approx(3600 / (5 + 5), rel=0.01)
    assert width(doubtful.level(("calm0", 1))) > 5 * width(found)


def test_the_time_of_one_model_is_compared_with_the_fewest_processes_of_each_launch():
    known = fit(alone(a=[[100.0, 300.0]] * 2, b=[[np.nan, 260.0]] * 2)).of_one_process()
    assert set(known.column) == {("a", 1), ("b", 2)}
    assert known.ratio(("b", 2), ("a", 1)).value == pytest.approx(1.3)


def test_the_same_starts_give_the_same_numbers():
    starts = drifting(3, 0.05)
    assert (fit(starts, 3).logs == fit(starts, 3).logs).all()
