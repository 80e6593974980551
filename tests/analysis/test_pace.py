"""Whether a step takes longer in a cohort's later windows than in its earlier ones."""

import numpy as np
import pandas as pd
import pytest

from scaling_study.analysis.analyse import PACE_COLUMNS, pace


def windows(slower, *, count=6, replicates=3, counts=(1, 2), noise=0.01, seed=1):
    """Windows of a launch whose last third takes `slower` times as long as its first."""
    draw = np.random.default_rng(seed)
    rows = [
        (
            replicate,
            n,
            window,
            0.01 * n * slower ** (window >= count / 2) * draw.lognormal(0, noise),
        )
        for replicate in range(replicates)
        for n in counts
        for window in range(count)
        for _ in range(n)
    ]
    frame = pd.DataFrame(rows, columns=["replicate", "n", "window", "step_median_s"])
    return frame.assign(machine="m", launch="b", cohort=0, attempt=0, valid=True)[PACE_COLUMNS]


@pytest.mark.parametrize("slower", [0.8, 1.0, 1.15])
@pytest.mark.parametrize("count", [2, 3, 12])
def test_the_change_is_found_with_its_interval(slower, count):
    found = pace(windows(slower, count=count))["b"]
    assert found.value == pytest.approx(slower, rel=0.02)
    assert found.low < slower < found.high


def test_invalid_windows_do_not_count():
    frame = windows(1.0)
    frame.loc[frame["window"] == 5, ["valid", "step_median_s"]] = [False, 9.0]
    assert pace(frame)["b"].value == pytest.approx(1.0, rel=0.02)


def test_one_replicate_has_no_interval_and_one_window_no_pace():
    assert pace(windows(1.1, replicates=1))["b"].low is None
    assert pace(windows(1.1, count=1)) == {}
    assert pace(windows(1.1).iloc[:0]) == {}
