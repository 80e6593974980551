"""Time accounts of a step, per member and window, from what the kernel counted.

The training thread's wall time divides into user time, system time, waiting for a CPU, held back by
a quota, and blocked. These five cover all steps between the release of a member and its next rest.
The mean of the counted steps, which begin inside the window, differs from their sum a little. The
difference is the residual.

Held back by a quota
    The kernel's run_delay of a thread is all the time for which it was ready and did not run,
    including throttling by a quota (Documentation/scheduler/sched-stats.rst: run_delay; a throttled
    thread stays ready). The kernel counts throttled time by cgroup and CPU (see
    `machine_counters`), not by thread, so run_delay has to be split. While the group had something
    to run on a CPU, that CPU ran it, ran another program, or was throttled. These three times are
    known, and so is how long threads ran or waited in them. The threads' time over these three is
    the number of threads that each throttled CPU held back, at least one. The throttled time of
    that many threads is part of run_delay, so run_delay is its upper bound. The rest of run_delay
    is waiting for a CPU. Every thread gets the same part of its own run_delay, since the kernel
    throttles them all alike. This assumes that queues are as long while throttled as at other
    times. The time of another program on a CPU whose group is throttled counts twice, so such
    programs make the number of threads too small rather than too large.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from scaling_study.records.columns import PER_STEP
from scaling_study.runner.counter_snapshots import GATED
from scaling_study.stats.interval import Floats, Integers

PHASES = (*GATED, "ranks_wait_s")
"""Sums over counted steps; every other quantity per step belongs to all steps of `active_s`."""
OF_ALL_STEPS = [
    column.name for column in PER_STEP if column.name.removesuffix("_per_step") not in PHASES
]


def accounts(counts: Mapping[str, Floats], at: Integers) -> dict[str, Floats]:
    """Return the quantities derived from records of members.

    Args:
        counts: Arrays with an element per member and window: the fields of `MemberWindow` and
            `WindowMachine` (null as NaN), and `step_mean_s`.
        at: The number of each element's window.

    Returns:
        `cpu_use`, `runnable_threads`, `clock_mhz` and the columns of `PER_STEP`.
    """
    user_s, active_s = counts["cpu_user_s"], counts["active_s"]
    cpu_s = user_s + counts["cpu_system_s"]
    throttled_s = counts["trainer_runqueue_s"] * throttled_share(counts, at)
    known_s = np.nan_to_num(throttled_s)
    runqueue_s = counts["trainer_runqueue_s"] - known_s
    runnable_s = counts["trainer_user_s"] + counts["trainer_system_s"] + runqueue_s + known_s
    measured = {
        **counts,
        "user_s": user_s,
        "system_s": counts["cpu_system_s"],
        "trainer_runqueue_s": runqueue_s,
        "trainer_throttled_s": throttled_s,
        # The kernel's clocks differ from the window's by microseconds: a thread that never slept
        # would come out just below zero.
        "trainer_blocked_s": np.maximum(active_s - runnable_s, 0.0),
    }
    steps, all_steps = _positive(counts["steps"]), _positive(counts["steps_active"])
    accounted_s = (runnable_s + measured["trainer_blocked_s"]) / all_steps
    quantities = {
        "cpu_use": cpu_s / active_s,
        "runnable_threads": (cpu_s + counts["runqueue_s"]) / active_s,
        "clock_mhz": counts["cycles"] / _positive(user_s) / 1e6,
        "trainer_residual_s_per_step": counts["step_mean_s"] - accounted_s,
    }
    for column in PER_STEP:
        name = column.name.removesuffix("_per_step")
        if column.name not in quantities:
            quantities[column.name] = measured[name] / (steps if name in PHASES else all_steps)
    return quantities


def _positive(values: Floats) -> Floats:
    """Return numbers to divide by: NaN for those that are not above 0."""
    return np.where(values > 0, values, np.nan)


def without_restarts(rows: pd.DataFrame, group: Sequence[str]) -> pd.DataFrame:
    """Leave out counts of windows in which a script restarted.

    A start is another kind of work than a step. Its time is no step time, but the kernel's counters
    include it. A group without other windows keeps its counts.

    Args:
        rows: Members in windows, with `restarts` and `OF_ALL_STEPS`.
        group: Columns whose values identify the rows that are averaged together.

    Returns:
        The rows, with NaN for counts that are left out.
    """
    again = rows["restarts"] > 0
    some_without = (~again).groupby([rows[name] for name in group]).transform("any")
    return rows.assign(**{name: rows[name].mask(again & some_without) for name in OF_ALL_STEPS})


def throttled_share(counts: Mapping[str, Floats], at: Integers) -> Floats:
    """Return the part of each row's run_delay in which a quota held its threads back.

    Args:
        counts: As for `accounts`.
        at: Likewise.

    Returns:
        From 0 to 1, the same for all members of a window; NaN where throttling is not counted.
    """
    ran_s, waited_s = (
        np.bincount(at, own_s)[at].astype(np.float64)
        for own_s in (counts["cpu_user_s"] + counts["cpu_system_s"], counts["runqueue_s"])
    )
    held_s = counts["throttled_s"]
    in_demand_s = ran_s + counts["foreign_cpu_s"] + held_s
    threads = np.maximum((ran_s + waited_s) / _positive(in_demand_s), 1.0)
    return np.where(held_s == 0, 0.0, np.minimum(held_s * threads / _positive(waited_s), 1.0))
