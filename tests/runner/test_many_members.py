"""192 real members on this machine, however few CPUs it has: all gated, all accounted for."""

import pytest

import jobs
from scaling_study.runner import headroom

pytestmark = pytest.mark.long

MEMBERS = 192
COUNTS = (1, 96, MEMBERS)
WINDOWS = 2
STEPS = 5

# Forked members keep some 15 MiB each for themselves.
NEEDED_BYTES = 6 * 2**30


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """One whole measuring job, and what is left of its processes."""
    if headroom.read_free_memory().free < NEEDED_BYTES:
        pytest.skip("192 members need 6 GiB of memory")
    folder = tmp_path_factory.mktemp("many")
    asked = jobs.config(
        jobs.WORKLOADS / "plain_loop.py",
        args=["--steps", "1000000000"],
        processes=COUNTS,
        launch={"launcher": "fork"},
        windows=WINDOWS,
        steps=STEPS,
        shortest_s=1.0,
        longest_s=60.0,
        warmup_steps=2,
        start_timeout_s=240.0,
    )
    return jobs.run(asked, folder), jobs.processes(folder)


@pytest.fixture
def found(job):
    return job[0]


def test_every_member_reports_what_it_got(found):
    assert [read_back["when"] for read_back in found["readback"]] == ["before", "after"]
    for read_back in found["readback"]:
        assert [member["slot"] for member in read_back["members"]] == list(range(MEMBERS))
        assert len({member["pid"] for member in read_back["members"]}) == MEMBERS
        assert [check for check in read_back["checks"] if not check["ok"]] == []


def test_every_window_is_taken_and_has_exactly_its_members(found):
    windows = found["window"]
    assert sorted(window["n"] for window in windows) == sorted(COUNTS * WINDOWS)
    for window in windows:
        assert [member["slot"] for member in window["members"]] == list(range(window["n"]))
        assert all(member["steps"] >= STEPS for member in window["members"])
    assert [end["status"] for end in found["end"]] == ["complete"]
    assert found["event"] == []


def test_who_is_not_in_a_window_sleeps(found):
    for window in found["window"]:
        assert "sleeping_member_ran" not in window["flags"]
        used_s = sum(one["cpu_user_s"] + one["cpu_system_s"] for one in window["members"])
        assert window["machine"]["sleeping_cpu_s"] < 0.1 * used_s


def test_no_member_of_a_window_is_left_out(found):
    """However few CPUs they share, none makes far less steps than most."""
    for window in found["window"]:
        steps = sorted(member["steps"] for member in window["members"])
        assert steps[0] * 30 >= steps[len(steps) // 2]


def test_the_coordinator_takes_far_less_than_its_members(found):
    costs = {
        window["n"]: window["machine"]["coordinator_cpu_s"]
        / sum(one["cpu_user_s"] + one["cpu_system_s"] for one in window["members"])
        for window in found["window"]
    }
    assert max(costs.values()) < 0.25, costs


def test_no_process_is_left(job):
    assert job[1] == []
