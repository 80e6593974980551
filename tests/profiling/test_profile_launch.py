"""Profiling jobs: what they choose, what they say, and real ones with real members."""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from jobs import WORKLOADS, config, processes, profile
from scaling_study.common import private
from scaling_study.common.unavailable import UnavailableError
from scaling_study.config.launches import Launch
from scaling_study.config.plan import RECOMMENDED
from scaling_study.member.channel import Step
from scaling_study.profiling import profile_launch, stacks
from scaling_study.records.profile import Profile
from scaling_study.runner import windows

FEW = {"steps": 3, "samples": 6, "unprofiled_s": 0.5}


def activity(ends_ms, slot=0, released_ms=0, parked_ms=None):
    steps = [Step(round(end * 1e6), 0, 0, 0, 0) for end in ends_ms]
    parked = round((parked_ms or ends_ms[-1]) * 1e6)
    return windows.Activity(slot, round(released_ms * 1e6), parked, len(steps), 0, steps)


def test_step_times_are_those_of_the_profiled_steps_and_of_others_beside_them():
    first = activity([50, 60, 70, 80])  # a slow warm-up step, then three of 10 ms
    other = activity([20, 40, 55, 65, 75, 95], slot=1, parked_ms=95)
    own, beside = profile_launch._step_times([first, other], 0, last=3)
    assert own == pytest.approx([0.01] * 3)
    assert beside == pytest.approx([0.01] * 2)  # only steps that lie wholly between 50 and 80


def cost(turns_s, *around):
    return profile_launch._with_cost(Profile(kind="stacks", status="ok"), turns_s, *around)


def test_the_overhead_is_relative_to_the_windows_around():
    turn = (0, [[0.015, 0.025], [0.01], []])
    found = cost([turn], [0.01] * 3, [0.03, 0.01, 0.01])
    costs = (found.step_s, found.unprofiled_step_s, found.overhead, found.others_overhead)
    assert costs == pytest.approx((0.02, 0.02, 1.0, 1.0))


def test_the_cost_of_turns_is_that_of_the_member_whose_turn_it_is():
    # The second member is twice as slow as the first, and the sampler costs each a tenth.
    around = ([0.01, 0.02], [0.01, 0.02])
    first = (0, [[0.011] * 20, [0.02] * 10])
    second = (1, [[0.0105] * 20, [0.022] * 10])
    found = cost([first, second], *around)
    assert found.overhead == pytest.approx(1.1)
    assert found.step_s == pytest.approx(statistics.fmean([0.011] * 20 + [0.022] * 10))
    assert found.overhead == pytest.approx(found.step_s / found.unprofiled_step_s)
    assert found.others_overhead == pytest.approx((1.0 + 1.05) / 2)
    alone = cost([(0, [[0.011]])], [0.01], [0.01])
    assert (alone.overhead, alone.others_overhead) == (pytest.approx(1.1), None)


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


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    folder = tmp_path_factory.mktemp("profile")
    mapping = config(WORKLOADS / "closure_optimizer.py") | {"profile": {**FEW, "calls": True}}
    return folder, profile(mapping, folder)


@pytest.mark.slow
def test_every_kind_of_profile_is_taken_at_the_lowest_and_the_highest_count(real):
    folder, found = real
    assert found.status == "complete"
    assert [point.n for point in found.points] == [1, 2]
    for point in found.points:
        kinds = {kind.kind: kind for kind in point.kinds}
        assert set(kinds) == {"operators", "calls", "stacks"}
        for kind in kinds.values():
            assert kind.status == "ok", kind
            assert all((folder / "out" / name).stat().st_size for name in kind.files)
            assert kind.overhead == pytest.approx(kind.step_s / kind.unprofiled_step_s)
        # Beside the few steps of the others, another member may not have a whole step of its own.
        assert (kinds["stacks"].others_overhead is None) == (point.n == 1)
        assert kinds["operators"].steps == FEW["steps"]


@pytest.mark.slow
def test_a_profiling_job_leaves_nothing_behind(real):
    folder, _ = real
    assert [*folder.glob(f"{private.PREFIX}*"), *processes(folder)] == []


@pytest.mark.slow
def test_stacks_hold_native_and_python_frames(real):
    folder, _ = real
    text = (folder / "out/1/stacks-0.raw").read_text()
    assert "closure_optimizer.py" in text
    assert "libtorch" in text or "at::" in text


@pytest.mark.slow
def test_a_launch_that_the_machine_cannot_do_is_skipped_with_its_reason(tmp_path):
    mapping = config(WORKLOADS / "plain_loop.py", launch={"membind": "7"}) | {"profile": FEW}
    found = profile(mapping, tmp_path)
    assert found.status == "skipped"
    assert found.reason
    assert found.points == ()


def test_counts_that_no_launch_has_are_a_skip(tmp_path):
    asked = {"profile": {**FEW, "processes": [3]}}
    found = profile(config(WORKLOADS / "plain_loop.py") | asked, tmp_path)
    assert (found.status, found.points) == ("skipped", ())
    assert found.reason == "no process count is among those in profile.processes"


@pytest.mark.slow
def test_a_member_that_crashes_fails_the_profile_with_its_reason(tmp_path):
    found = profile(
        config(WORKLOADS / "fails.py", args=["--how", "message"]) | {"profile": FEW}, tmp_path
    )
    assert found.status == "failed"
    assert "status 1" in found.reason


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_what_py_spy_says_where_tracing_is_forbidden_is_understood():
    with tempfile.TemporaryDirectory() as name:
        # The environment, and pytest's folders, may lie where nobody else may look.
        folder = Path(name)
        folder.chmod(0o755)
        spy = shutil.copy(Path(sys.executable).with_name("py-spy"), folder / "py-spy")
        nobody = ["setpriv", "--reuid=65534", "--clear-groups", "--bounding-set=-all"]
        command = [spy, "record", "--pid", str(os.getpid()), "--format", "raw", "--duration", "1"]
        done = subprocess.run(
            [*nobody, *map(str, command), "--output", "/dev/null"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode != 0
    assert "ptrace_scope" in profile_launch._not_sampled(done).remedy, done.stderr


@pytest.mark.slow
def test_members_are_sampled_in_turn_until_there_are_samples_enough(tmp_path):
    mapping = config(WORKLOADS / "closure_optimizer.py", processes=[2])
    settings = {**FEW, "rate_hz": 20, "samples": 50, "operators": False}
    found = profile(mapping | {"profile": settings}, tmp_path)
    (kind,) = found.points[0].kinds
    assert kind.status == "ok", kind
    assert [turn.slot for turn in kind.turns] == [at % 2 for at in range(len(kind.turns))]
    # A machine that is busy gives fewer, after three times the time.
    assert kind.samples >= 50 or kind.seconds >= 3 * 50 / 20
    assert kind.members == 2
    assert all(turn.samples > 0 for turn in kind.turns)
    folded = stacks.read_point(tmp_path / "out/2", kind.turns, step_s=kind.unprofiled_step_s)
    assert folded.samples == kind.samples
