import numpy as np
import pandas as pd
import pytest

from scaling_study.diagnosis import runqueue

BUSY = 10e-3


def window(n, *, wait=0.0, user=BUSY, helper=0.0, helper_wait=0.0, throttled=0.0, **other):
    """Return a row of tables/experiments: a step of the training thread, and its helpers."""
    return {
        "n": n,
        "trainer_user_s_per_step": user,
        "trainer_system_s_per_step": 0.0,
        "trainer_runqueue_s_per_step": wait,
        "trainer_throttled_s_per_step": throttled,
        "trainer_blocked_s_per_step": 0.0,
        "user_s_per_step": user + helper,
        "system_s_per_step": 0.0,
        "runqueue_s_per_step": wait + helper_wait + throttled,
        "foreign_cpus": 0.0,
        "steal_cpus": np.nan,
        "trainers_cpus": np.nan,
        **other,
    }


def parts(row, allowed=2, online=2):
    table = runqueue.split(pd.DataFrame([row]), allowed_cpus=allowed, online_cpus=online)
    found = {name: table[column].iloc[0] for name, column in runqueue.COLUMNS.items()}
    assert sum(found.values()) == pytest.approx(row["trainer_runqueue_s_per_step"])
    return {name: value for name, value in found.items() if abs(value) > 1e-9}


def test_twice_as_many_members_as_cpus_wait_for_each_other():
    assert parts(window(4, wait=BUSY)) == {"processes": pytest.approx(BUSY)}


def test_members_that_a_larger_machine_would_have_cpus_for_wait_for_the_cpuset():
    assert parts(window(4, wait=BUSY), online=8) == {"cpuset": pytest.approx(BUSY)}
    half = parts(window(4, wait=BUSY), online=3)
    # Of two CPUs of demand that are not served, one more CPU would serve one.
    assert half == {"cpuset": pytest.approx(BUSY / 2), "processes": pytest.approx(BUSY / 2)}


def test_waiting_while_cpus_are_idle_is_a_pile_up():
    assert parts(window(2, wait=BUSY)) == {"pileup": pytest.approx(BUSY)}


def test_idle_cpus_under_a_quota_are_no_pile_up_unless_the_masks_show_one():
    held = window(2, wait=1e-3, throttled=9e-3)
    assert "pileup" not in parts(held)
    assert "pileup" in parts(held | {"trainers_cpus": 1.0})


def test_a_hog_takes_exactly_what_it_used():
    # Two members and a hog share two CPUs: two thirds of a CPU each.
    row = window(2, wait=BUSY / 2, foreign_cpus=2 / 3)
    assert parts(row) == {"foreign": pytest.approx(BUSY / 2)}


def test_members_that_would_wait_anyway_are_not_charged_to_the_hog():
    # Four members and a hog on two CPUs: 0.4 each. Without the hog they would wait for two CPUs.
    row = window(4, wait=1.5 * BUSY, foreign_cpus=0.4)
    found = parts(row)
    assert found["processes"] == pytest.approx(1.5 * BUSY * 2 / 2.4)
    assert found["foreign"] == pytest.approx(1.5 * BUSY * 0.4 / 2.4)


def test_helper_threads_that_are_busy_are_charged_where_members_alone_would_fit():
    row = window(2, wait=BUSY, helper=BUSY, helper_wait=BUSY)
    assert parts(row) == {"threads": pytest.approx(BUSY)}


def test_waiting_that_nobody_is_to_blame_for_stays_unassigned():
    row = window(2, wait=0.5 * BUSY, user=BUSY, foreign_cpus=0.0)
    row["steal_cpus"] = 2.0  # no CPU is idle, and nobody else ran
    assert parts(row) == {"other": pytest.approx(0.5 * BUSY)}


def test_members_that_outnumber_the_cpus_queue_up_now_and_then():
    row = window(4, wait=0.2 * BUSY, user=0.4 * BUSY)
    row["trainer_blocked_s_per_step"] = 0.4 * BUSY
    row["steal_cpus"] = 0.4  # so that no CPU is idle
    assert parts(row) == {"processes": pytest.approx(0.2 * BUSY)}


def test_a_pile_up_is_seen_though_another_program_uses_the_free_cpu():
    # Two members and half of a hog on one of two CPUs, the other half of the hog on the other.
    row = window(2, wait=1.5 * BUSY, foreign_cpus=1.2, trainers_cpus=1.0)
    found = parts(row)
    assert found["pileup"] == pytest.approx(1.5 * BUSY / 1.2)
    assert found["foreign"] == pytest.approx(1.5 * BUSY * 0.2 / 1.2)
