import numpy as np
import pytest
from scipy import stats

from scaling_study.stats import ratios
from scaling_study.stats.interval import Interval
from scaling_study.stats.ratios import Pairs


def pairs(over, under=None):
    over = np.asarray(over, float)
    return Pairs(over, np.ones_like(over) if under is None else np.asarray(under, float))


def test_a_denominator_that_may_be_zero_gives_no_interval():
    found = ratios.ratio_of_means(pairs([1.0, 2.0, 1.5], [0.1, -0.1, 0.15]))
    assert found.low is None
    assert found.high is None


def test_one_unit_has_no_interval_and_none_has_no_value():
    assert ratios.ratio_of_means(pairs([0.3])) == Interval(0.3, None, None)
    assert ratios.ratio_of_means(pairs([])) is None


def test_intervals_cover_a_share_of_a_noisy_whole():
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(2000):
        alone, together, relieved = (
            np.exp(rng.normal(0, 0.05, 6)) * time for time in (1.0, 1.6, 1.3)
        )
        found = ratios.ratio_of_means(pairs(together - relieved, together - alone))
        covered += found.low is not None and found.low < 0.5 < found.high
    assert covered / 2000 > 0.93


def test_the_ends_are_fiellers():
    """At both ends the numerators just cannot be told from that part of the denominators."""
    over, under = np.array([0.9, 1.3, 0.7, 1.2, 1.1]), np.array([2.0, 2.9, 1.1, 2.2, 2.6])
    found = ratios.ratio_of_means(pairs(over, under))
    for end in (found.low, found.high):
        assert stats.ttest_1samp(over - end * under, 0).pvalue == pytest.approx(0.05)
    for side in (-1, 1):
        inside = found.value + side * 0.01
        assert stats.ttest_1samp(over - inside * under, 0).pvalue > 0.05


def test_the_prior_of_equal_variances_is_that_variance():
    rng = np.random.default_rng(5)
    found = ratios.fit_prior([pairs(rng.normal(0, 0.1, 6)) for _ in range(40)])
    assert found.variance == pytest.approx(0.01, rel=0.3)
    assert found.degrees > 8


def test_variances_that_differ_much_are_not_pooled():
    rng = np.random.default_rng(5)
    sizes = np.geomspace(0.001, 10, 20)
    assert ratios.fit_prior([pairs(rng.normal(0, size, 6)) for size in sizes]).degrees < 1


def test_units_are_the_replicates_means_or_the_blocks_that_have_both_sides():
    over, replicates = np.arange(6.0), np.array([0, 0, 1, 1, 2, 2])
    under = np.array([1.0, 1.0, 1.0, 1.0, 1.0, np.nan])
    found = ratios.pair(over, under, replicates, "replicates")
    assert found.over.tolist() == [0.5, 2.5, 4.0]
    assert ratios.pair(over, under, replicates, "blocks").over.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_an_interval_turns_round_with_a_negative_factor():
    assert Interval(0.25, 0.125, 0.5, 0.1).times(-1.0, 1.0) == Interval(0.75, 0.5, 0.875)


def test_a_geometric_ratio_is_not_carried_away_by_one_block():
    found = ratios.geometric_ratio(pairs([20.0, 20.0, 20.0, 400.0], [10.0] * 4))
    assert found.value == pytest.approx(2 * 20**0.25)
