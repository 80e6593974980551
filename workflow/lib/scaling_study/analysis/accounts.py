"""Time accounts of a step, per member and window, from what the kernel counted.

The training thread's wall time divides into user time, system time, waiting for a CPU, held back by
a quota, and blocked; these five are of all steps between the release of a member and its next rest.
The mean of the counted steps, those that begin inside the window, differs from their sum a little;
that is the residual.

Held back by a quota
    The kernel's run_delay of a thread is all the time for which it was ready and did not run, a
    quota's throttling included (Documentation/scheduler/sched-stats.rst: run_delay; a throttled
    thread stays ready). How long a quota held a cgroup back is counted by the group and CPU (see
    `machine_counters`), not by the thread. So it is split off: while the group had something to
    run on a CPU, that CPU ran it, ran another program, or was throttled; these three times are
    known, and so is how long threads ran or waited in them. Their ratio is the number of threads
    that each throttled CPU held back, at least one. With that many threads the throttled time can
    only be run_delay, so it is bounded by it. What remains of run_delay is waiting for a CPU. Every
    thread gets the same part of its own run_delay, since the kernel throttles them all alike.
    Assumed is that queues are as long while throttled as at other times. What another program ran
    on a CPU while the group was throttled there counts twice, so that with such programs rather too
    few threads are assumed than too many.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from scaling_study.common.counter import TIMED
from scaling_study.records.columns import PER_STEP

PHASES = (
    "load_s",
    "forward_s",
    "backward_s",
    "optimizer_s",
    "ranks_wait_s",
    *(counter.field for counter in TIMED),
)
"""Sums over counted steps; every other quantity per step belongs to all steps of `active_s`."""
OF_ALL_STEPS = [
    column.name for column in PER_STEP if column.name.removesuffix("_per_step") not in PHASES
]
RENAMED = {"user_s": "cpu_user_s", "system_s": "cpu_system_s"}
"""Columns per step whose field in the records has another name."""
TRAINER = ("user", "system", "runqueue", "throttled", "blocked", "residual")
"""The training thread's accounts: `trainer_<account>_s_per_step`. They add up to the step."""


def add_per_step(rows: pd.DataFrame) -> None:
    """Add to rows of members what is derived from their records.

    Args:
        rows: One per member and window: the fields of `window.Member` and
            `WindowMachine` (null as NaN), `step_mean_s`, and `at`, the number of the window. Gets
            `cpu_use`, `runnable_threads`, `clock_mhz` and the columns of `PER_STEP`.
    """
    cpu_s = rows["cpu_user_s"] + rows["cpu_system_s"]
    rows["cpu_use"] = cpu_s / rows["active_s"]
    rows["runnable_threads"] = (cpu_s + rows["runqueue_s"]) / rows["active_s"]
    user_s = rows["cpu_user_s"]
    rows["clock_mhz"] = rows["cycles"] / user_s.where(user_s > 0) / 1e6
    rows["trainer_throttled_s"] = rows["trainer_runqueue_s"] * throttled_share(rows)
    measured = rows.assign(
        trainer_runqueue_s=rows["trainer_runqueue_s"] - rows["trainer_throttled_s"].fillna(0.0)
    )
    runnable_s = sum(
        measured[f"trainer_{account}_s"].fillna(0.0)
        for account in ("user", "system", "runqueue", "throttled")
    )
    # The kernel's clocks differ from the window's by microseconds: a thread that never slept would
    # come out just below zero.
    measured["trainer_blocked_s"] = (rows["active_s"] - runnable_s).clip(lower=0.0)
    for column in PER_STEP:
        name = column.name.removesuffix("_per_step")
        if name != "trainer_residual_s":
            base = rows["steps"] if name in PHASES else rows["steps_active"]
            rows[column.name] = measured[RENAMED.get(name, name)] / base.where(base > 0)
    known = [f"trainer_{account}_s_per_step" for account in TRAINER if account != "residual"]
    rows["trainer_residual_s_per_step"] = rows["step_mean_s"] - rows[known].sum(
        axis=1, min_count=len(known) - 1
    )


def without_restarts(rows: pd.DataFrame, group: Sequence[str]) -> pd.DataFrame:
    """Leave out what was counted in windows in which a script was started anew.

    Starting is another kind of work than a step. Its time is no step time, but the kernel's
    counters hold it. A group that has no other windows keeps them.

    Args:
        rows: Of windows, with `restarts` and `OF_ALL_STEPS`.
        group: Columns that tell what is averaged together.

    Returns:
        The rows with NaN for what is left out.
    """
    again = rows["restarts"] > 0
    some_without = (~again).groupby([rows[name] for name in group]).transform("any")
    return rows.assign(**{name: rows[name].mask(again & some_without) for name in OF_ALL_STEPS})


def throttled_share(rows: pd.DataFrame) -> "pd.Series[float]":
    """The part of each row's run_delay in which a quota held its threads back.

    Args:
        rows: As for `add_per_step`.

    Returns:
        From 0 to 1, the same for all members of a window; NaN where throttling is not counted.
    """
    sums_s = rows.groupby("at")[["cpu_user_s", "cpu_system_s", "runqueue_s"]].transform("sum")
    ran_s, waited_s = sums_s["cpu_user_s"] + sums_s["cpu_system_s"], sums_s["runqueue_s"]
    held_s = rows["throttled_s"]
    in_demand_s = ran_s + rows["foreign_cpu_s"] + held_s
    threads = ((ran_s + waited_s) / in_demand_s.where(in_demand_s > 0)).clip(lower=1.0)
    share = (held_s * threads / waited_s.where(waited_s > 0)).clip(upper=1.0)
    return share.where(held_s != 0, 0.0).where(held_s.notna(), np.nan)
