"""What the calls of a step's operators cost, whatever they compute, and what a stack would save."""

import subprocess

from msgspec import json

from scaling_study.launch.launchers.launcher import bind_command, split_preload
from scaling_study.member import channel
from scaling_study.records.experiment import OperatorCalls
from scaling_study.runner.cohort import Cohort
from scaling_study.runner.member_processes import MemberEndedError

STEPS = 3
STEPS_LONGEST_S, WRITING_LONGEST_S, COSTS_LONGEST_S = 30.0, 120.0, 60.0
"""Longest times of the profiled steps, of working them up, and of measuring what a call costs."""


def measure(members: Cohort) -> OperatorCalls | str:
    """Profile some steps of the first member, and measure a call with its torch and its CPUs.

    Args:
        members: a cohort that rests, outside of all windows.

    Returns:
        The record, or why there is none.
    """
    launch = members.launch_spec
    try:
        slot = members.profile(1, channel.PROFILE_OPERATORS, STEPS, STEPS_LONGEST_S)[0].slot
    except MemberEndedError:
        return "the member ended under the profiler"
    operators = launch.folder / "operators.json"
    if not members.ask(slot, channel.WRITE_PROFILE, WRITING_LONGEST_S) or not operators.exists():
        return f"no whole step within {STEPS_LONGEST_S:g} s"
    member = members.spec(slot)
    env, preload = split_preload(launch.env)
    command = [
        *bind_command(member.cpus, member.mempolicy, preload),
        *(launch.python, "-m", "scaling_study.member.stacked", str(operators)),
    ]
    try:
        done = subprocess.run(
            command, env=env, check=True, capture_output=True, text=True, timeout=COSTS_LONGEST_S
        )
    except subprocess.TimeoutExpired:
        return f"not done after {COSTS_LONGEST_S:g} s"
    except subprocess.CalledProcessError as error:
        return (error.stderr.strip() or str(error)).splitlines()[-1]
    return json.decode(done.stdout.splitlines()[-1], type=OperatorCalls)
