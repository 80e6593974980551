"""What comes back between steps is found by the number of steps between."""

from dataclasses import replace

import numpy as np
import pytest

from scaling_study.member.channel import Step
from scaling_study.runner import non_step, windows

USUAL_US = 6_000


def life(n, steps, *, member=0, start=0, every=400, us=3_000_000, seed=1):
    """A member's steps, with a phase after every so many of them."""
    rng = np.random.default_rng(seed)
    at = np.arange(start, start + steps)
    took = (n * USUAL_US * rng.lognormal(0, 0.1, steps)).astype(np.int64)
    took[at % every == every - 1] += n * us
    return non_step.LaunchSteps(
        np.full(steps, member), np.full(steps, n), at, took, np.zeros(steps, dtype=bool)
    )


def test_a_phase_that_comes_back_is_found_with_all_counts_together():
    steps = non_step.LaunchSteps.concat(
        [life(1, 900), life(2, 700, start=900), life(2, 700, member=1)]
    )
    found = non_step.find(steps)
    (kind,) = found.kinds
    assert (kind.every, kind.seen) == (400, 5)
    assert (steps.us[found.labels == 1] > 2_000_000).all()
    assert (steps.us[found.labels == 0] < 100_000).all()
    assert non_step.lacking(steps, found, [1, 2]) == []


def test_long_steps_at_no_regular_distance_stay_in_the_steps():
    rng = np.random.default_rng(1)
    steps = life(1, 3_000, every=10_000)
    steps.us[rng.choice(3_000, 60, replace=False)] += 200_000
    found = non_step.find(steps)
    assert found.kinds == ()
    assert not found.suspect  # their distances are known, and differ


def test_long_steps_that_come_in_bursts_do_not_come_back():
    """OpenMP threads that spin: now and then two steps in a row take thirty times as long."""
    one, two = life(1, 250, every=10_000), life(2, 250, every=10_000, member=1)
    two.us[[40, 41, 150, 151]] *= 30
    steps = non_step.LaunchSteps.concat([one, two])
    pairs = steps.us > 200_000
    assert non_step._distances(steps, pairs).tolist() == [1, 109, 1]
    assert non_step.find(steps).kinds == ()
    # Windows that know nothing of the steps between: one pair in each.
    apart = steps.at >= 100
    steps = replace(steps, at=steps.at + 1_000 * apart, fresh=steps.fresh | (steps.at == 100))
    assert non_step._distances(steps, pairs).tolist() == [1, 1]
    found = non_step.find(steps)
    assert found.kinds == ()
    assert non_step.lacking(steps, found, [1, 2]) == []


def test_two_kinds_are_told_apart():
    one = life(1, 3_000, every=500, us=4_000_000)
    two = life(1, 3_000, every=100, us=100_000)
    kinds = non_step.find(replace(one, us=one.us + two.us)).kinds
    assert [kind.every for kind in kinds] == [500, 100]
    # Each fifth of the shorter ones goes with a longer one.
    assert [kind.per_step for kind in kinds] == pytest.approx([1 / 500, 1 / 100 - 1 / 500])


@pytest.mark.parametrize("slow", [1, 2, 3, 5])
def test_first_phases_that_take_longer_are_of_the_same_kind(slow):
    """Files that are made for the first time, memory that is touched for the first time."""
    steps = life(1, 4_000, every=300, us=90_000)
    phases = np.flatnonzero(steps.at % 300 == 299)
    steps.us[phases[:slow]] += 400_000
    found = non_step.find(steps)
    (kind,) = found.kinds
    assert (kind.every, kind.seen) == (300, 13)
    assert (found.labels[phases] == 1).all()
    assert found.labels.sum() == 13


def test_two_kinds_of_one_distance_are_two_where_they_take_turns():
    one = life(1, 3_000, every=300, us=2_000_000)
    two = life(1, 3_000, start=150, every=300, us=100_000)
    kinds = non_step.find(replace(one, us=one.us + two.us)).kinds
    assert [kind.every for kind in kinds] == [300, 300]


def test_long_steps_of_one_count_ask_for_windows_of_that_count():
    """Threads that spin make steps of seconds with two processes, and none with one."""
    two = life(2, 300, start=1_300, every=10_000)
    two.us[150] += 2_000_000
    steps = non_step.LaunchSteps.concat([life(1, 1_300), two])
    assert 1 not in non_step.lacking(steps, non_step.find(steps), [1, 2])


def test_a_count_that_has_seen_none_yet_is_lacking():
    steps = non_step.LaunchSteps.concat([life(1, 1_300), life(2, 100, start=1_300)])
    found = non_step.find(steps)
    assert non_step.lacking(steps, found, [1, 2, 4]) == [2, 4]


def test_a_new_start_of_the_script_is_no_phase():
    steps = life(1, 1_000, every=300)
    found = non_step.find(replace(steps, fresh=steps.at % 300 == 299))
    assert (found.kinds, found.suspect) == ((), frozenset())


@pytest.mark.parametrize("fresh", [(), (1,), (3,), (4,), (0, 5)])
def test_the_steps_of_a_window_stand_in_their_order(fresh):
    ends_ms = [8, 20, 30, 44, 60, 70, 90]
    made = [Step(end * 1_000_000, 0, 0, 0, int(at in fresh)) for at, end in enumerate(ends_ms)]
    one = windows.Activity(0, 0, 90_000_000, 7, 0, made, earlier=50)
    span = 10_000_000, 50_000_000
    life, counted = windows.life_record(one, *span), windows.member_record(one, *span)
    steps, inside = non_step.member_steps(0, 1, life, counted.step_us)
    assert steps.at.tolist() == [50, 51, 52, 53, 54, 55, 56]
    assert steps.us.tolist() == [8_000, 12_000, 10_000, 14_000, 16_000, 10_000, 20_000]
    assert np.flatnonzero(steps.fresh).tolist() == [*fresh]
    assert [*range(*inside.indices(7))] == [2, 3, 4]


def test_steps_of_windows_that_follow_each_other_have_no_gap():
    """A phase is met in one window and the next one in another: the distance is known."""
    first, parts, rng = 0, [], np.random.default_rng(1)
    while first < 1_500:
        now, made = 0, []
        while now < 1_200_000_000:
            at = first + len(made)
            now += int(rng.normal(6e6, 3e5)) + (3_000_000_000 if at % 400 == 399 else 0)
            made.append(Step(now, 0, 0, 0, 0))
        one = windows.Activity(0, 0, now, len(made), 0, made, earlier=first)
        span = 200_000_000, 1_000_000_000
        life, counted = windows.life_record(one, *span), windows.member_record(one, *span)
        parts.append(non_step.member_steps(0, 1, life, counted.step_us)[0])
        first += len(made)
    found = non_step.find(non_step.LaunchSteps.concat(parts))
    assert [kind.every for kind in found.kinds] == [400]
    assert not found.suspect
