import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaling_study.common import stats


def estimates(values):
    """Geometric means of the rows of a matrix."""
    rows, columns = values.shape
    logs = pd.Series(np.log(values).ravel())
    return stats.geometric_means(logs.groupby(np.repeat(np.arange(rows), columns)))


def covers(found, truth):
    return float(((found["low"] <= truth) & (truth <= found["high"])).mean())


def percentile_coverage(values, truth, rng):
    """Coverage of the plain percentile bootstrap of the mean."""
    picked = rng.integers(0, values.shape[1], (400, values.shape[1]))
    low, high = np.quantile(values[:, picked].mean(axis=2), [0.025, 0.975], axis=1)
    return ((low <= truth) & (truth <= high)).mean()


@pytest.mark.parametrize("replicates", [2, 3, 5, 10])
def test_intervals_cover_the_truth_19_times_in_20(replicates):
    rng = np.random.default_rng(replicates)
    values = 100.0 * np.exp(rng.normal(0.0, 0.05, (4000, replicates)))
    assert covers(estimates(values), 100.0) == pytest.approx(0.95, abs=0.012)


def test_percentile_intervals_of_three_replicates_would_not():
    rng = np.random.default_rng(0)
    values = 100.0 * np.exp(rng.normal(0.0, 0.05, (2000, 3)))
    assert 0.65 < percentile_coverage(values, 100.0, rng) < 0.80


@pytest.mark.parametrize("spread", [0.02, 0.2])
def test_intervals_of_a_ratio_of_launches_cover_the_truth(spread):
    rng = np.random.default_rng(1)
    over = 200.0 * np.exp(rng.normal(0.0, 0.02, (600, 3)))
    under = 100.0 * np.exp(rng.normal(0.0, spread, (600, 3)))
    found = [stats.ratio(*pair) for pair in zip(over, under, strict=True)]
    covered = np.mean([each.low <= 2.0 <= each.high for each in found])
    assert 0.925 <= covered <= 0.99


def test_one_replicate_has_a_value_and_no_interval():
    found = estimates(np.array([[3.0]])).iloc[0]
    assert found["value"] == pytest.approx(3.0)
    assert np.isnan(found["low"])
    assert np.isnan(found["high"])
    single = stats.ratio(np.array([6.0]), np.array([2.0, 2.1]))
    assert single.value == pytest.approx(6 / np.sqrt(4.2))
    assert np.isnan(single.low)
    assert np.isnan(stats.ratio(np.array([]), np.array([2.0])).value)


def test_replicates_without_spread_have_an_interval_without_width():
    same = np.array([2.0, 2.0])
    found = stats.ratio(3 * same, same)
    assert (found.value, found.low, found.high) == pytest.approx((3, 3, 3))


def test_a_paired_ratio_is_free_of_what_a_replicate_shares():
    rng = np.random.default_rng(2)
    shared = np.exp(rng.normal(0.0, 0.5, 4))
    noise = np.exp(rng.normal(0.0, 0.001, 4))
    paired = stats.paired_ratio(200.0 * shared * noise, 100.0 * shared)
    assert paired.value == pytest.approx(2.0, rel=0.003)
    assert paired.high / paired.low < 1.01
    unpaired = stats.ratio(200.0 * shared * noise, 100.0 * shared)
    assert unpaired.high / unpaired.low > 1.5


def test_a_paired_ratio_takes_the_replicates_that_have_both():
    found = stats.paired_ratio(np.array([4.0, np.nan, 6.0]), np.array([2.0, 5.0, 3.0]))
    assert found.value == pytest.approx(2.0)
    assert np.isnan(stats.paired_ratio(np.array([np.nan]), np.array([1.0])).value)


def probability(a, b, **options):
    """Probability of the only point of launch a being within 2% of the best."""
    rates = {"a": np.array(a)[:, None], "b": np.array(b)[:, None]}
    shown = {"a": 0, "b": 0}
    return stats.probabilities_of_best(rates, shown, tolerance=0.02, seed=1, **options)


def test_a_clear_winner_is_almost_sure_and_a_clear_loser_almost_never_best():
    found = probability([100.0, 101.0, 99.0], [80.0, 81.0, 79.0])
    assert found["a"] > 0.99
    assert found["b"] < 0.01


def test_launches_as_fast_are_each_likely_best_within_the_tolerance():
    found = probability([100.0, 101.0, 99.0], [100.5, 99.5, 100.0])
    assert found["a"] > 0.9
    assert found["b"] > 0.9


def test_noise_makes_it_unsure():
    found = probability([100.0, 130.0, 70.0], [95.0, 130.0, 75.0])
    assert 0.3 < found["a"] < 0.8


def test_probability_of_two_launches_is_that_of_their_difference():
    a, b = [100.0, 104.0, 97.0], [103.0, 99.0, 106.0]
    logs = np.log(a), np.log(b)
    spread = np.hypot(*(each.std(ddof=1) / np.sqrt(3) for each in logs))
    from scipy.stats import norm

    expected = norm.cdf((logs[0].mean() - logs[1].mean() - np.log(0.98)) / spread)
    assert probability(a, b)["a"] == pytest.approx(expected, abs=0.03)


def test_a_point_with_one_replicate_borrows_the_spread_of_the_others():
    found = probability([100.0, np.nan, np.nan], [100.0, 130.0, 77.0])
    assert 0.4 < found["a"] < 0.9
    assert probability([100.0], [90.0]) == {}


def test_distant_points_do_not_blur_a_clear_winner():
    rng = np.random.default_rng(3)
    rates = {
        str(index): (100.0 if index else 110.0) * np.exp(rng.normal(0, 0.01, (3, 11)))
        for index in range(200)
    }
    found = stats.probabilities_of_best(rates, dict.fromkeys(rates, 0), tolerance=0.02, seed=1)
    assert found["0"] > 0.9


def test_the_winner_is_within_the_tolerance_as_often_as_its_probability_says():
    rng = np.random.default_rng(4)
    sure, right = [], []
    for trial in range(250):
        truths = rng.normal(0.0, 0.1, 10)
        rates = {
            str(index): np.exp(truth + rng.normal(0.0, 0.03, (3, 1)))
            for index, truth in enumerate(truths)
        }
        winner = max(rates, key=lambda name: np.log(rates[name]).mean())
        found = stats.probabilities_of_best(
            rates,
            dict.fromkeys(rates, 0),
            tolerance=0.02,
            seed=trial,
        )
        sure.append(found[winner])
        right.append(truths[int(winner)] >= truths.max() + np.log(0.98))
    sure, right = np.array(sure), np.array(right)
    assert sure.mean() == pytest.approx(right.mean(), abs=0.03)
    doubtful = sure < 0.9
    assert doubtful.sum() > 20
    assert right[doubtful].mean() < right[~doubtful].mean()


def test_the_same_seed_gives_the_same_and_order_does_not_matter():
    a, b = np.array([[100.0], [110.0]]), np.array([[101.0], [104.0]])
    one, other = (
        stats.probabilities_of_best(each, {"a": 0, "b": 0}, tolerance=0.02, seed=5)
        for each in ({"a": a, "b": b}, {"b": b, "a": a})
    )
    assert one == other


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2**32 - 1)), max_size=60),
    st.lists(st.floats(0, 1), min_size=1, max_size=3),
)
def test_grouped_quantiles_are_those_of_numpy(pairs, quantiles):
    groups = np.array([group for group, _ in pairs], dtype=np.int64)
    values = np.array([value for _, value in pairs], dtype=np.int64)
    found = stats.grouped_quantiles(groups, values, 6, quantiles)
    for group in range(6):
        own = values[groups == group]
        if own.size:
            np.testing.assert_allclose(
                found[group], np.quantile(own, quantiles), rtol=1e-9, atol=1e-12
            )
        else:
            assert np.isnan(found[group]).all()
