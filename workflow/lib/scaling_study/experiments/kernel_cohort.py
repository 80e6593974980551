"""Cohorts of kernels: the same members, gates and windows as for training, with other work.

As stressors they load one part of the machine on purpose, beside one member that trains. The
response of its step time to the dose is its sensitivity to that part. The stressors' rate, compared
with their rate without the member, shows whether they loaded the part as much as they should.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from scaling_study.config.efforts import Effort
from scaling_study.experiments import kernels
from scaling_study.experiments.conditions import Added, Condition, Variant, window_of
from scaling_study.launch.axes import axis_table
from scaling_study.launch.axes.axis import Where
from scaling_study.launch.launchers.launcher import LaunchSpec, MemberSpec
from scaling_study.records.machine import Machine
from scaling_study.records.window import Taken
from scaling_study.runner import cohort, environment, resolve, windows

# All kernels together may take this part of the memory that the study may use.
MEMORY_SHARE = 0.5

START_TIMEOUT_S = 120.0

NONE = "none"
"""The name of the dose 0."""


def make(folder: Path, slots: Sequence[tuple[str | None, str]], machine: Machine) -> cohort.Cohort:
    """Return a cohort of kernels, not started yet.

    Args:
        folder: its private folder.
        slots: CPUs and memory policy of each member.
        machine: machine.json.
    """
    host = resolve.host(machine)
    spare_bytes = int(MEMORY_SHARE * host.memory_bytes / len(slots))
    # numpy brings a BLAS of its own, which must not start threads.
    effects = axis_table.prepare({"intra_op": 1}, Where(machine))
    launch = LaunchSpec(
        folder=folder,
        python=sys.executable,
        env=environment.member_environment(os.environ, effects.environment(), {}),
        step="mark",
    )
    command = kernels.command(kernels.sizes(machine.l2_bytes, machine.l3_bytes, spare_bytes))
    members = [MemberSpec(slot, cpus, policy, command) for slot, (cpus, policy) in enumerate(slots)]
    return cohort.Cohort(launch, members, host)


def start(members: cohort.Cohort) -> bool:
    """Start a cohort of kernels; return whether all its members have started."""
    members.start(range(members.size), START_TIMEOUT_S)
    return len(members.alive) == members.size


def rates(window: Taken) -> list[float]:
    """Return the batches per second of each member in a window."""
    return [
        len(member.step_us) / (sum(member.step_us) / 1e6) if any(member.step_us) else 0.0
        for member in window.members
    ]


def count(machine: Machine, n: int, threads: int) -> int:
    """Return how many stressors fit; 0 if they would only take turns.

    Args:
        machine: machine.json.
        n: members of the reference; stressors do not outnumber the others that a member has there.
        threads: threads of the training member, which need CPUs of their own.
    """
    return max(0, min(max(1, n - 1), int(machine.usable_cpus) - threads))


def stressors(trainer: cohort.Cohort, members: cohort.Cohort, effort: Effort) -> list[Condition]:
    """Return the conditions of a training member beside kernels, at every dose.

    Args:
        trainer: the reference's cohort, whose first member trains.
        members: the cohort of kernels.
        effort: names the kernels and doses.

    Raises:
        MemberEndedError: a member died or hung.
    """
    stressor = partial(Condition, "stressor", cohort=trainer, n=1, count=members.size)
    conditions = [stressor(Variant(NONE), dose=0.0)]
    settings = replace(window_of(effort), settle_s=0.02)
    for kernel in effort.kernels:
        members.tell(kernels.encode(kernel))
        alone = sum(rates(members.take(windows.WindowPlan(0, 0, members.size), settings)))
        for dose in effort.doses:
            beside = partial(_beside, members, kernels.encode(kernel, dose), dose * alone)
            conditions.append(stressor(Variant(kernel), dose=dose, around=beside))
    return conditions


@contextmanager
def _beside(members: cohort.Cohort, number: int, full: float) -> Iterator[Added]:
    """Let kernels run; note their rate over their full one (batches per second)."""
    added: Added = {}
    members.tell(number)
    with members.training(members.size) as done:
        yield added
    rate = sum(each.steps_active / (each.parked_ns - each.released_ns) for each in done)
    added["rate_share"] = rate * 1e9 / full
