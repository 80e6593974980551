"""Cohorts of kernels: the same members, gates and windows as for training, with other work."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from scaling_study.launch.axes import axis_table
from scaling_study.launch.axes.axis import Where
from scaling_study.launch.launchers.launcher import Launch, Member
from scaling_study.member import kernels
from scaling_study.runner import cohort, environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

# All kernels together may take this part of the memory that is free.
MEMORY_SHARE = 0.5

START_TIMEOUT_S = 120.0


def make(
    folder: Path,
    slots: Sequence[tuple[str | None, str]],
    machine: Mapping[str, Any],
    host: cohort.Host,
) -> cohort.Cohort:
    """Return a cohort of kernels, not started yet.

    Args:
        folder: its private folder.
        slots: CPUs and memory policy of each member.
        machine: machine.json.
        host: of the machine.
    """
    spare_bytes = int(MEMORY_SHARE * host.memory_bytes / len(slots))
    chosen = kernels.sizes(machine["l2_bytes"], machine["l3_bytes"], spare_bytes)
    command = kernels.command(chosen)
    # numpy brings a BLAS of its own, which must not start threads.
    effects = axis_table.prepare({"intra_op": 1}, Where(machine))
    launch = Launch(
        folder=folder,
        python=sys.executable,
        env=environment.member_environment(os.environ, effects.environment(), {}),
        step="mark",
    )
    members = [Member(slot, cpus, policy, command) for slot, (cpus, policy) in enumerate(slots)]
    return cohort.Cohort(launch, members, host)


def start(one: cohort.Cohort) -> bool:
    """Start a cohort of kernels; say whether all its members came."""
    one.start(range(one.size), START_TIMEOUT_S)
    return len(one.alive) == one.size


def rates(record: Mapping[str, Any]) -> list[float]:
    """Return the batches per second of each member in a window."""
    return [
        len(member["step_us"]) / (sum(member["step_us"]) / 1e6) if any(member["step_us"]) else 0.0
        for member in record["members"]
    ]
