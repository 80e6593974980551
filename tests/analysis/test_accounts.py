"""The training thread's accounts: they add up, and a quota's part is split off run_delay."""

import os

import numpy as np
import pandas as pd
import pytest

from jobs import WORKLOADS, baseline_job, command, config, succeed
from quotas import divided_group, inside, set_quota
from scaling_study.analysis import accounts
from scaling_study.analysis.record_rows import read_rows
from scaling_study.diagnosis.cause_file import ACCOUNTS
from scaling_study.records.columns import PER_STEP
from scaling_study.records.window import MemberWindow, WindowMachine

ONE = np.zeros(1, dtype=np.int64)
FIELDS = [*WindowMachine.__struct_fields__, *MemberWindow.__struct_fields__]


def rows(**changed):
    """Counts of a member whose step takes 10 ms, 100 of them in a second."""
    usual = {
        **dict.fromkeys(FIELDS, 0.0), "steps": 96, "steps_active": 100,
        "active_s": 1.0, "step_mean_s": 0.010, "throttled_s": np.nan, "cycles": np.nan,
        "instructions": np.nan,
    }  # fmt: skip
    return {name: np.array([value]) for name, value in (usual | changed).items()}


def shares(ran_s, waited_s, held_s, foreign_s=0.0):
    spent = {"cpu_user_s": ran_s, "runqueue_s": waited_s, "throttled_s": held_s}
    return accounts.throttled_share(rows(**spent, foreign_cpu_s=foreign_s), ONE)[0]


# ---- throttling


@pytest.mark.parametrize(
    ("ran_s", "waited_s", "held_s", "expected_s"),
    [
        (0.499, 0.501, 0.501, 0.50),  # one program, half a CPU
        (1.000, 1.000, 0.992, 1.00),  # two programs, one CPU's worth on two
        (0.499, 1.498, 1.494, 1.50),  # two programs, half a CPU's worth on two
        (0.999, 2.997, 0.997, 2.00),  # four programs, one CPU's worth on two
        (0.500, 1.487, 0.493, 1.00),  # two programs on one CPU, half of it
        (0.499, 3.499, 0.500, 2.00),  # four programs on one CPU, half of it
        (0.250, 0.493, 0.493, 0.49),  # one program that would sleep half of the time
        (0.749, 0.962, 0.961, 0.96),  # such a one beside a busy one
    ],
)
def test_a_quota_holds_back_all_that_wait_on_a_throttled_cpu(ran_s, waited_s, held_s, expected_s):
    """Seconds of each second, measured on Linux 6.18 with nothing else running."""
    assert shares(ran_s, waited_s, held_s) * waited_s == pytest.approx(expected_s, abs=0.02)


@pytest.mark.parametrize(
    ("seconds", "share"),
    [
        ({"ran_s": 2.0, "waited_s": 2.0, "held_s": 0.0}, 0),
        ({"ran_s": 1.0, "waited_s": 0.0, "held_s": 0.0}, 0),
        # The cgroup's other programs were held back, too.
        ({"ran_s": 1.0, "waited_s": 0.2, "held_s": 3.0}, 1),
        # A quarter of a CPU each for the program, the quota and nobody; half of it for another one.
        ({"ran_s": 0.25, "waited_s": 0.75, "held_s": 0.25, "foreign_s": 0.5}, 1 / 3),
        ({"ran_s": 1.0, "waited_s": 1.0, "held_s": np.nan}, np.nan),
    ],
    ids=["not throttled", "not waiting", "other programs", "a foreign program", "not counted"],
)
def test_the_part_of_waiting_that_a_quota_causes(seconds, share):
    assert shares(**seconds) == pytest.approx(share, nan_ok=True)


# ---- accounts


BUSY = {
    "trainer_user_s": 0.5, "trainer_system_s": 0.1, "trainer_runqueue_s": 0.3,
    "cpu_user_s": 0.5, "cpu_system_s": 0.1, "runqueue_s": 0.3,
}  # fmt: skip


def derived(**changed):
    return accounts.accounts(rows(**BUSY | changed), ONE)


def account(**changed):
    frame = derived(**changed)
    return {name: frame[f"trainer_{name}_s_per_step"][0] * 1e3 for name in ACCOUNTS}


def test_accounts_add_up_to_the_step_and_the_rest_is_shown():
    found = account(throttled_s=0.2, foreign_cpu_s=0.1, step_mean_s=0.0102)
    # One thread on one CPU: 0.2 s of the 0.3 s are the quota's, 0.1 s the foreign program's.
    assert found == pytest.approx(
        {"user": 5, "system": 1, "runqueue": 1, "throttled": 2, "blocked": 1, "residual": 0.2}
    )
    assert sum(found.values()) == pytest.approx(10.2)


def test_an_unknown_quota_leaves_waiting_whole():
    found = account()
    assert np.isnan(found.pop("throttled"))
    assert found == pytest.approx(
        {"user": 5, "system": 1, "runqueue": 3, "blocked": 1, "residual": 0}, abs=1e-9
    )


def test_what_was_measured_over_no_step_is_missing():
    frame = derived(steps=0, steps_active=0, step_mean_s=np.nan)
    assert all(np.isnan(frame[column.name]) for column in PER_STEP)


def test_phases_are_of_counted_steps_and_the_rest_of_all():
    frame = derived(load_s=0.96, minor_faults=300)
    assert frame["load_s_per_step"][0] == pytest.approx(0.01)
    assert frame["minor_faults_per_step"][0] == 3


# ---- hardware counters


def test_counted_cycles_give_the_clock():
    frame = derived(cycles=1.6e9, instructions=4e9)
    assert frame["clock_mhz"][0] == pytest.approx(3200)
    assert frame["instructions_per_step"][0] == pytest.approx(4e7)
    assert frame["cycles_per_step"][0] == pytest.approx(1.6e7)


def test_windows_with_new_starts_count_only_where_there_are_no_others():
    columns = {name: [1.0, 3.0, 3.0] for name in (*accounts.OF_ALL_STEPS, "load_s_per_step")}
    rows = pd.DataFrame({"n": [1, 1, 2], "restarts": [0, 1, 1], **columns})
    found = accounts.without_restarts(rows, ["n"])
    assert found["minor_faults_per_step"].fillna(0.0).tolist() == [1.0, 0.0, 3.0]
    assert found["load_s_per_step"].tolist() == [1.0, 3.0, 3.0]  # no script starts in these


# ---- a real job


def measured(folder, group, cpus):
    """Rows of windows of 1 and 2 members under a quota that stands one group above them."""
    set_quota(group, cpus)
    # A script that ends is started again, which takes time that belongs to no step.
    endless = ("--steps", "1000000")
    mapping = config(WORKLOADS / "plain_loop.py", args=endless, window_s=[1.0, 3.0], steps=20)
    succeed(inside(group / "inner", command(baseline_job(mapping), folder)), folder)
    return read_rows(folder / "0.jsonl").rows


@pytest.mark.long
@pytest.mark.parametrize("cpus", [None, 0.5])
def test_a_quota_that_stands_above_the_members_is_found_in_their_steps(tmp_path, cpus):
    with divided_group() as group:
        found = measured(tmp_path, group, cpus)
    columns = [f"trainer_{name}_s_per_step" for name in ACCOUNTS]
    assert found[columns].notna().all(axis=None)
    sums_s = found[columns].sum(axis=1)
    assert sums_s.to_numpy() == pytest.approx(found["step_mean_s"].to_numpy())
    assert (found["trainers_cpus"] == len(os.sched_getaffinity(0))).all()
    if found["flags"].str.contains("foreign_cpu").any():
        pytest.skip("other programs run")
    share = found[columns].div(found["step_mean_s"], axis=0)
    if cpus is None:
        assert (share["trainer_throttled_s_per_step"] == 0).all()
        assert (share["trainer_residual_s_per_step"].abs() < 0.1).all()
    else:  # each of two members that would use a CPU gets a quarter of one
        two = share[found["n"] == 2]
        assert (two["trainer_throttled_s_per_step"] > 0.5).all()
        assert (two["trainer_runqueue_s_per_step"] < 0.2).all()
