"""Profiling jobs: what they choose, what they say, and real ones with real members."""

import subprocess
from collections import defaultdict

import pytest

from jobs import WORKLOADS, config, left_behind, profile
from scaling_study.analysis.inflation import compare_all, sum_operators
from scaling_study.common.unavailable import UnavailableError
from scaling_study.config.efforts import PROFILE_EFFORTS
from scaling_study.config.launches import Launch
from scaling_study.config.plan import RECOMMENDED
from scaling_study.profiling import profile_launch, stacks
from scaling_study.profiling.profiles import read_profiles
from scaling_study.records.profile import PointProfile

QUICK = PROFILE_EFFORTS["quick"]


def test_the_cost_of_turns_is_that_of_the_member_whose_turn_it_is():
    # The second member is twice as slow as the first, and the sampler costs each a tenth.
    turns_s = [(0, [0.011] * 20), (1, [0.022] * 10)]
    found = profile_launch._with_cost(
        PointProfile(kind="stacks", status="ok"), turns_s, [0.009, 0.02], [0.011, 0.02]
    )
    assert found.step_s == pytest.approx(0.44 / 30)
    assert found.unprofiled_step_s == pytest.approx(0.4 / 30)
    assert found.overhead == pytest.approx(1.1)


def test_a_machine_that_forbids_tracing_is_a_skip_with_a_remedy():
    said = "Error: Failed to suspend process\nReason: EPERM\nPermission Denied: try again as root"
    done = subprocess.CompletedProcess([], 1, "", said)
    assert "ptrace_scope" in profile_launch._not_sampled(done).remedy
    done = subprocess.CompletedProcess([], 1, "", "Error: No such process")
    assert not isinstance(profile_launch._not_sampled(done), UnavailableError)


def test_a_recommended_launch_that_is_profiled_already_refers_to_that():
    launch = Launch("a", "text", "grid", {})
    content = profile_launch.without_profile(launch, "m")
    assert (content.same_as, content.status, content.target) == ("a", "complete", RECOMMENDED)
    assert profile_launch.without_profile(None, "m").status == "skipped"


@pytest.mark.slow
def test_every_kind_of_profile_is_taken_at_the_lowest_and_the_highest_count(tmp_path):
    mapping = config(WORKLOADS / "closure_optimizer.py") | {"profile": "quick"}
    found = profile(mapping, tmp_path)
    assert found.status == "complete"
    assert [point.n for point in found.points] == [1, 2]
    for point in found.points:
        kinds = {kind.kind: kind for kind in point.kinds}
        assert set(kinds) == {"operators", "calls", "stacks"}
        for kind in kinds.values():
            assert kind.status == "ok", kind
            assert all((tmp_path / "out" / name).stat().st_size for name in kind.files)
            assert kind.overhead == pytest.approx(kind.step_s / kind.unprofiled_step_s)
        assert kinds["operators"].steps == QUICK.steps
    assert left_behind(tmp_path) == []
    text = (tmp_path / "out/1/stacks-0.raw").read_text()
    assert "closure_optimizer.py" in text
    assert "libtorch" in text or "at::" in text


def test_of_a_pools_processes_the_stacks_are_sampled_from_outside(tmp_path):
    args = ["--how", "fork", "--jobs", "{n}", "--steps", "1000000"]
    quick = {"effort": "quick", "processes": [2]}
    mapping = config(WORKLOADS / "pool.py", args=args) | {"profile": quick}
    found = profile(mapping, tmp_path)
    assert (found.status, [point.n for point in found.points]) == ("complete", [2])
    for point in found.points:
        assert len(point.unprofiled_windows) == 4
        operators, calls, sampled = point.kinds
        for kind in (operators, calls):
            assert (kind.status, kind.reason) == ("skipped", profile_launch.INSIDE)
        assert (sampled.status, sampled.members) == ("ok", min(point.n, len(sampled.turns)))
        assert sampled.overhead == pytest.approx(sampled.step_s / sampled.unprofiled_step_s)
        folded = stacks.read_point(tmp_path / f"out/{point.n}", sampled.turns, step_s=0.0)
        assert any("fit" in str(stack) for stack in folded.stacks)
    assert left_behind(tmp_path) == []


def test_counts_that_no_launch_has_are_a_skip(tmp_path):
    asked = {"profile": {"processes": [3]}}
    found = profile(config(WORKLOADS / "plain_loop.py") | asked, tmp_path)
    assert (found.status, found.points) == ("skipped", ())
    assert found.reason == "no process count is among those in profile.processes"


@pytest.mark.slow
def test_a_member_that_crashes_fails_the_profile_with_its_reason(tmp_path):
    found = profile(
        config(WORKLOADS / "fails.py", args=["--how", "message"]) | {"profile": "quick"}, tmp_path
    )
    assert found.status == "failed"
    assert "status 1" in found.reason


@pytest.mark.slow
def test_members_are_sampled_in_turn_until_there_are_samples_enough(tmp_path):
    mapping = config(WORKLOADS / "closure_optimizer.py", processes=[2])
    found = profile(mapping | {"profile": "quick"}, tmp_path)
    kind = found.points[0].profile("stacks")
    assert kind.status == "ok", kind
    assert [turn.slot for turn in kind.turns] == [at % 2 for at in range(len(kind.turns))]
    # A machine that is busy gives fewer, after three times the time.
    assert kind.samples >= QUICK.samples or kind.seconds >= 3 * QUICK.samples / QUICK.rate_hz
    assert kind.members == 2
    assert all(turn.samples > 0 for turn in kind.turns)
    folded = stacks.read_point(tmp_path / "out/2", kind.turns, step_s=kind.unprofiled_step_s)
    assert folded.samples == kind.samples


@pytest.mark.long
def test_the_injected_operator_and_its_caller_are_the_largest_changes(tmp_path):
    args = ["--folder", tmp_path / "members", "--member", "{member}"]
    mapping = config(WORKLOADS / "injected.py", args=map(str, args))
    found = profile(mapping | {"profile": "full"}, tmp_path)
    assert found.status == "complete", found
    added = defaultdict(float)  # seconds per step, by the innermost function of the script
    for point, sign in zip(found.points, (-1, 1), strict=True):
        kind = point.profile("stacks")
        folder = tmp_path / "out" / str(point.n)
        folded = stacks.read_point(folder, kind.turns, step_s=kind.unprofiled_step_s)
        for stack, seconds in folded.stacks.items():
            if stack[0] == stacks.TRAINER:
                own = [frame for frame in stack if "injected.py" in frame]
                added[own[-1].split(" ")[0] if own else ""] += sign * seconds
    assert max(added, key=added.get) == "injected_mul", added
    assert added["injected_mul"] > 0.5 * sum(own for own in added.values() if own > 0)
    (entry,) = compare_all(*read_profiles([tmp_path / "out"]))
    rows = entry.comparisons[0]
    assert rows.rows[0] == max(rows.rows, key=lambda row: row.difference_s)
    # The memory of `ones` is touched where it is filled, the result's where mul writes it.
    assert {row.operator for row in sum_operators(rows)[:2]} == {"aten::mul", "aten::fill_"}
    assert rows.rows[0].calls_a == rows.rows[0].calls_b
