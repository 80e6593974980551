"""192 real members on this machine, however few CPUs it has: all gated, all accounted for."""

import pytest

import jobs
from scaling_study.runner import headroom
from small_cohort import FORKING

pytestmark = [pytest.mark.long, pytest.mark.alone]

MEMBERS = 192
COUNTS = (1, 96, MEMBERS)
WINDOWS = 2
STEPS = 5

# Forked members keep some 15 MiB each for themselves.
NEEDED_BYTES = 6 * 2**30


def test_all_members_are_gated_and_accounted_for_and_none_is_left(tmp_path, monkeypatch):
    if headroom.read_free_memory().free < NEEDED_BYTES:
        pytest.skip("192 members need 6 GiB of memory")
    monkeypatch.setenv("PYTHONPATH", str(FORKING))
    asked = jobs.config(
        jobs.WORKLOADS / "plain_loop.py", args=["--steps", "1000000000"], processes=COUNTS,
        windows=WINDOWS, steps=STEPS, window_s=[1.0, 60.0], warmup_steps=2, timeout_s=240.0,
    )  # fmt: skip
    found = jobs.run(asked, tmp_path, launcher="fork")
    assert jobs.processes(tmp_path) == []
    assert [end["status"] for end in found["end"]] == ["complete"]
    assert found["event"] == []
    assert [read_back["when"] for read_back in found["readback"]] == ["before", "after"]
    for read_back in found["readback"]:
        assert [member["slot"] for member in read_back["members"]] == list(range(MEMBERS))
        assert len({member["pid"] for member in read_back["members"]}) == MEMBERS
        assert [check for check in read_back["checks"] if not check["ok"]] == []
    assert sorted(window["n"] for window in found["window"]) == sorted(COUNTS * WINDOWS)
    for window in found["window"]:
        members = window["members"]
        assert [member["slot"] for member in members] == list(range(window["n"]))
        # However few CPUs they share, no member makes far fewer steps than most.
        steps = sorted(member["steps"] for member in members)
        assert steps[0] >= max(STEPS, steps[len(steps) // 2] / 30)
        assert "sleeping_member_ran" not in window["flags"]
        used_s = sum(one["cpu_user_s"] + one["cpu_system_s"] for one in members)
        assert window["machine"]["sleeping_cpu_s"] < 0.1 * used_s
        assert window["machine"]["coordinator_cpu_s"] < 0.25 * used_s
