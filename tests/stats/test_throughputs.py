"""What starts say together: drift cancels, luck does not, and each launch keeps its own spread."""

import numpy as np
import pytest

from scaling_study.stats.throughputs import Start, Throughputs


def start(launch, batch, rates):
    return Start(launch, batch, rates, max(rates), start_s=10.0, windows_s=10.0)


def difference(known, over, under):
    """Mean and standard deviation of the log ratio of two points."""
    draws = known.draws(4000, seed=1)
    columns = [known.points.index(point) for point in (over, under)]
    ratio = draws[:, columns[0]] - draws[:, columns[1]]
    return known.mean(over) - known.mean(under), float(ratio.std())


def drifting(batches, drift):
    """Each batch has one launch of its own, as fast as the one that all have."""
    return [
        start(launch, batch, {4: rate, 8: 2 * rate})
        for batch in range(batches)
        for rate in [100 * np.exp(drift * batch)]
        for launch in ("common", f"own-{batch}")
    ]


def test_what_a_batch_has_in_common_is_no_difference_between_launches():
    mean, deviation = difference(Throughputs(drifting(5, 0.05)), ("own-0", 8), ("own-4", 8))
    assert abs(mean) < 0.25 * 0.2  # of the drift between both batches
    assert deviation > abs(mean)


def test_where_nothing_drifts_launches_compare_across_batches():
    known = Throughputs(drifting(5, 0.0))
    assert known.drift < 0.02
    mean, _ = difference(known, ("own-0", 8), ("own-4", 8))
    assert mean == pytest.approx(0, abs=1e-9)


def test_more_windows_of_one_start_are_no_replicates():
    few = [start(name, 0, {8: 100.0}) for name in "ab"]
    many = [start(name, 0, dict.fromkeys(range(1, 40), 100.0)) for name in "ab"]
    deviations = [difference(Throughputs(starts), ("a", 8), ("b", 8))[1] for starts in (few, many)]
    assert deviations[1] > 0.6 * deviations[0]


def test_a_launch_with_two_speeds_keeps_its_spread_and_leaves_the_others_theirs():
    rng = np.random.default_rng(5)
    starts = [
        start(name, batch, {8: 100 * np.exp(spread * sign + 0.01 * rng.standard_normal())})
        for batch in range(4)
        for sign in [(-1) ** batch]
        for name, spread in [("wild", 0.5), ("a", 0), ("b", 0), ("c", 0)]
    ]
    known = Throughputs(starts)
    calm = difference(known, ("a", 8), ("b", 8))[1]
    wild = difference(known, ("wild", 8), ("b", 8))[1]
    assert calm < 0.03
    assert wild > 5 * calm
