"""The rates of a launch from its steps, with what lies between them, against the truth."""

import numpy as np
import pandas as pd
import pytest

from scaling_study.analysis import rates
from scaling_study.member.channel import Step
from scaling_study.runner import windows

USUAL_US = 6_000
SETTLED_US, CLOSED_US = 200_000, 1_200_000


class Script:
    """A script's members: an ordinary step, and a phase after every so many of them."""

    def __init__(self, every, phase_us, seed):
        self.every, self.phase_us = every, phase_us
        self.rng = np.random.default_rng(seed)
        self.at = {}

    def window(self, slot, n):
        """What a member records of a window; it goes on where its last one ended."""
        first = at = self.at.get(slot, int(self.rng.integers(self.every)))
        now, steps = 0, []
        while now < CLOSED_US or len(steps) < 2:
            now += int(n * USUAL_US * self.rng.lognormal(0, 0.1))
            now += n * self.phase_us if at % self.every == self.every - 1 else 0
            steps.append(Step(1000 * now, 0, 0, 0, 0))
            at += 1
        self.at[slot] = at
        one = windows.Activity(slot, 0, 1000 * now, len(steps), 0, steps, earlier=first)
        span = 1000 * SETTLED_US, 1000 * CLOSED_US
        return windows.member_record(one, *span).step_us, windows.life_record(one, *span)

    def true_us(self, n):
        return n * (USUAL_US * np.exp(0.1**2 / 2) + self.phase_us / self.every)


def rows_of(script, *, replicates=3, number=12):
    """Rows of the members of a script, as they are read."""
    made = []
    for replicate in range(replicates):
        script.at = {}
        for window in range(number):
            for n, slot in [(1, 0), (2, 0), (2, 1)]:
                counted, life = script.window(slot, n)
                made.append((n, replicate, window, slot, len(counted), np.array(counted), life))
    names = ["n", "replicate", "window", "slot", "steps", "step_us", "life"]
    return pd.DataFrame(made, columns=names).assign(cohort=0, attempt=0, valid=True, work=1.0)


def test_without_anything_between_a_rate_is_steps_over_time():
    given = rates.rates(rows_of(Script(10**9, 0, 1)))
    assert given["between"].empty
    for n, rows in given["replicates"].groupby("n"):
        assert rows["steps_per_s"].to_numpy() == pytest.approx(n / (n * 6_030e-6), rel=0.02)
        assert rows["step_s"].to_numpy() == pytest.approx(n * 6_030e-6, rel=0.02)
        assert rows["non_step_share"].to_numpy() == pytest.approx(0.0, abs=1e-9)


def test_a_validation_that_takes_half_the_time_is_in_the_rate_and_not_in_the_step():
    script = Script(400, 3_000_000, 2)
    given = rates.rates(rows_of(script))
    for n, rows in given["replicates"].groupby("n"):
        true = n * 1e6 / script.true_us(n)
        assert rows["steps_per_s"].to_numpy() == pytest.approx(true, rel=0.02)
        assert rows["step_s"].to_numpy() == pytest.approx(n * 6_030e-6, rel=0.02)
    (kind,) = given["between"]["kind"].unique()
    assert kind == 1
    one = given["between"].set_index("n")
    assert one["every_steps"].tolist() == [400, 400]
    assert one["duration_s"].to_numpy() == pytest.approx([3.0, 6.0], rel=0.02)
    assert one["share"].to_numpy() == pytest.approx(7_500 / 13_530, rel=0.02)


def test_a_count_that_has_seen_no_phase_takes_the_nearest_ones():
    script = Script(400, 3_000_000, 3)
    rows = rows_of(script, replicates=2)
    rows.loc[(rows["n"] == 2) & (rows["window"] > 0), "valid"] = False
    lone = rates.rates(rows)["replicates"].set_index(["n", "replicate"])["steps_per_s"]
    assert lone[2].to_numpy() == pytest.approx(2 * 1e6 / script.true_us(2), rel=0.1)


def test_no_valid_window_gives_no_rate():
    given = rates.rates(rows_of(Script(400, 0, 5), number=1).assign(valid=False))
    assert given["replicates"].empty
    assert given["between"].empty
