"""Whether a script has settled, from steps that are made up."""

import numpy as np
import pytest

from scaling_study.runner import non_step, settling
from scaling_study.runner.non_step import LaunchSteps

USUAL_US = 5000


def cohort(pace=lambda at: 1.0, phase=None, *, every=50, windows=6, counts=(1, 2), seed=1,
           noise=0.01, of_window=0.005):  # fmt: skip
    """Windows of 100 steps in a shuffled order of counts.

    Args:
        pace: what a step takes by its place in the member's life, in usual steps.
        phase: the same of what comes back every so many steps; None for nothing.
        every: steps from one to the next.
        windows: of each count.
        counts: the process counts.
        seed: of the draws.
        noise: of a step.
        of_window: of a window.
    """
    draw = np.random.default_rng(seed)
    done = [0] * max(counts)
    taken = []
    for n in np.concatenate([draw.permutation(counts) for _ in range(windows)]):
        shift = draw.normal(0, of_window)
        members = []
        for slot in range(n):
            at = np.arange(done[slot], done[slot] + 100)
            done[slot] += 100
            us = USUAL_US * n * np.array([pace(k) for k in at])
            us = us * np.exp(draw.normal(shift, noise, len(at)))
            if phase is not None:
                us += [USUAL_US * n * phase(k) if k % every == every - 1 else 0.0 for k in at]
            own = np.full(100, slot), np.full(100, n), at, us.astype(np.int64)
            members.append(LaunchSteps(*own, np.zeros(100, dtype=bool)))
        taken.append(LaunchSteps.concat(members))
    return taken


def change(windows):
    return settling.change(windows, non_step.find(LaunchSteps.concat(windows)))


SLOW = np.random.default_rng(2).random(2000) < 0.2


@pytest.mark.parametrize(
    ("least", "same"),
    [
        (0.95, {"windows": 3}),
        (0.95, {"phase": lambda _: 40.0}),
        (0.90, {"windows": 3, "noise": 0.3, "of_window": 0.1}),
        # phases that differ without order
        (0.83, {"phase": lambda at: 50.0 if SLOW[at] else 20.0}),
        # members of a window share what disturbs it
        (0.95, {"windows": 3, "counts": (4, 16), "of_window": 0.04}),
    ],
)
def test_a_script_that_keeps_its_pace_has_settled(least, same):
    settled = [change(cohort(seed=seed, **same)) is None for seed in range(60)]
    assert np.mean(settled) >= least


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("slower", [0.8, 1.2])
def test_steps_that_change_are_noticed(seed, slower):
    found = change(cohort(lambda at: slower if at > 140 else 1.0, seed=seed, windows=3))
    assert found is not None
    assert (found > 0) == (slower > 1)


@pytest.mark.parametrize("seed", range(10))
def test_phases_that_become_shorter_are_noticed(seed):
    windows = cohort(phase=lambda at: 60.0 if at < 200 else 20.0, seed=seed, windows=3)
    assert change(windows) < 0


def test_a_change_of_little_time_is_none():
    windows = cohort(phase=lambda at: 8.0 if at < 200 else 6.0, every=100)
    assert change(windows) is None


def test_few_windows_say_nothing():
    assert change(cohort(lambda at: 1.0 + at, windows=1)) is None
    assert settling.change([], non_step.find(LaunchSteps.concat([]))) is None
