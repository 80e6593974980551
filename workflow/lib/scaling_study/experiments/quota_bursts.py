"""The reference without its quota: bursts so short that the quota holds nobody back.

A quota gives a cgroup so much CPU time for every period, and holds it back when that is used up
(Documentation/scheduler/sched-bwc.rst). After a period of rest all of it is there again. Members
that train for no longer than it lasts are not held back, whatever the quota; that they were not is
counted (cpu.stat), and a window in which they were does not count. So nothing has to be changed at
the cgroup, which would need root.
"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Any

from scaling_study.host import probe
from scaling_study.runner.cohort import WindowSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scaling_study.experiments.interventions import Reference

# Each CPU takes CPU time from the group's account in pieces of this size, and the last ones may lie
# unused where they were taken (sched_cfs_bandwidth_slice_us, unless somebody has changed it).
SLICE_S = 0.005

# The coordinator and helper threads use some of it, too.
USED_SHARE = 0.9

# Bursts in a window.
BURSTS = 8

# The account is filled at the end of each period.
REST_PERIODS = 1.2

NAME = "unthrottled"


def timing(reference: Reference) -> WindowSettings | str:
    """Return the timing of a window of bursts, or why there cannot be one.

    Args:
        reference: what is known of the launch.
    """
    quota = reference.quota
    if quota is None:
        return "no quota is set"
    if not any(window["machine"]["throttled_s"] for window in reference.windows):
        return f"the quota of {quota.cpus:g} CPUs held nobody back, as far as the kernel counts it"
    # Loader workers and the like want CPUs too.
    runnable = reference.most(_runnable)
    wanted_cpus = reference.n * max(reference.attestation["intra_op"], runnable)
    busy_cpus = min(wanted_cpus, len(probe.usable_topology(reference.machine).cpus))
    lasts_s = USED_SHARE * (quota.cpus * quota.period_s / busy_cpus - SLICE_S)
    step_s = wanted_cpus / busy_cpus * _unhindered_s(reference)
    steps = math.floor(lasts_s / step_s)
    if steps < 1:
        return (
            f"a step takes {1e3 * step_s:.0f} ms, and after {max(0.0, 1e3 * lasts_s):.0f} ms the"
            f" quota of {quota.cpus:g} CPUs holds {reference.n} members back"
        )
    # Members rest at the end of a step, so they are told to in the middle of the last one.
    told_s = (steps - 0.5) * step_s
    return WindowSettings(
        steps=0,
        shortest_s=told_s,
        longest_s=told_s,
        settle_s=0.0,
        bursts=BURSTS,
        rest_s=REST_PERIODS * quota.period_s,
    )


def _runnable(member: Mapping[str, Any]) -> float:
    """Return how many threads of a member run or wait for a CPU."""
    wanted_s = member["cpu_user_s"] + member["cpu_system_s"] + member["runqueue_s"]
    return float(wanted_s / member["active_s"])


def _unhindered_s(reference: Reference) -> float:
    """Return how long a step takes, with as many members as possible, less waiting for a CPU."""
    members = max(reference.windows, key=lambda window: len(window["members"]))["members"]
    return statistics.fmean(
        (one["active_s"] - one["trainer_runqueue_s"]) / max(1, one["steps_active"])
        for one in members
    )
