"""Why the cost of operators' calls may be unknown: the experiments go on without it."""

import os
from types import SimpleNamespace

from scaling_study.experiments import why
from scaling_study.launch.launchers.launcher import LaunchSpec, MemberSpec
from scaling_study.runner.member_processes import MemberEndedError


def members(folder, python="/bin/ls", ended=False):
    """Members that were profiled, whose interpreter is another program."""

    def profile(*_):
        if ended:
            raise MemberEndedError([0])
        (folder / "operators.json").touch()

    return SimpleNamespace(
        launch_spec=LaunchSpec(folder=folder, python=python, env=dict(os.environ), step="mark"),
        alive=(0,),
        spec=lambda slot: MemberSpec(slot, None, "default", ()),
        profile=profile,
        ask=lambda *_: True,
    )


def test_a_member_that_ends_under_the_profiler_is_a_reason(tmp_path):
    reason = why.measure_calls(members(tmp_path, ended=True))
    assert reason == "the member ended under the profiler"


def test_the_last_line_of_a_failure_is_a_reason(tmp_path):
    assert "cannot access" in why.measure_calls(members(tmp_path))


def test_what_takes_too_long_is_a_reason(tmp_path, monkeypatch):
    sleeper = tmp_path / "sleeps"
    sleeper.write_text("#!/bin/sh\necho working >&2\nexec sleep 60\n")
    sleeper.chmod(0o755)
    monkeypatch.setattr(why, "COSTS_LONGEST_S", 1.0)
    assert why.measure_calls(members(tmp_path, str(sleeper))) == "not done after 1 s"
