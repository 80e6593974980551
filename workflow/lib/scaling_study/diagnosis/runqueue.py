"""The run-queue wait of a training thread, divided by who had the CPU meanwhile.

The kernel counts the wait (run_delay). The division follows from other counts, in CPUs: CPU seconds
per second of the window. A thread that always waits is one CPU of demand that is not served.

1. Demand of training threads beyond the CPUs that their masks allow, but within those that the
   study may use, is a pile-up. So is a wait while allowed CPUs were idle: it cannot come from a
   lack of CPUs.
2. Members would wait on an empty machine, too, if their own demand (run time and wait) exceeds the
   CPUs. Training threads account for the excess of their own demand (too many processes), helper
   threads for the rest.
3. The remainder is due to other programs, up to the CPU time that they took.

Each step assigns no more than remains, so nothing is counted twice. Fair scheduling shares CPUs
among threads in proportion (Documentation/scheduler/sched-eevdf.rst).
"""

import pandas as pd

SCHEDSTAT = "run_delay in Documentation/scheduler/sched-stats.rst of the Linux kernel"
"""The source, as reports name it."""
HELD_BACK = 0.01
"""Throttled time above this share of a member's time shows a quota at work."""
TRAINER = ("user", "system", "runqueue", "throttled", "blocked")
"""Accounts of the training thread that add up to its time."""


def split(windows: pd.DataFrame, *, allowed_cpus: int, online_cpus: int) -> pd.DataFrame:
    """Divide the run-queue wait of the training thread in each window.

    Args:
        windows: Rows of tables/experiments.
        allowed_cpus: CPUs that the study may use.
        online_cpus: CPUs of the machine.

    Returns:
        `wait_<part>_s_per_step`, in s; they add up to `trainer_runqueue_s_per_step`. The part
        `other` has no known reason.
    """
    demand = _demand(windows)
    wait, foreign, trainers = demand["wait"], demand["foreign"], demand["trainers"]
    masked = windows["trainers_cpus"].fillna(allowed_cpus).clip(upper=allowed_cpus)
    by_masks = wait.clip(upper=_beyond(trainers, masked) - _beyond(trainers, allowed_cpus))
    # The time that a quota held threads back is an estimate. CPUs are idle then, too, so its error
    # must not look like a pile-up.
    crowded = windows["trainers_cpus"].lt(windows["n"].clip(upper=allowed_cpus))
    possible = demand["throttled"].lt(HELD_BACK * windows["n"]) | crowded
    idle = (allowed_cpus - demand["busy"]).clip(lower=0.0)
    pileup = by_masks + (wait - by_masks).clip(upper=idle).where(possible, 0.0)
    left = wait - pileup
    own = left.clip(upper=_beyond(trainers + demand["helpers"], allowed_cpus))
    processes = own.clip(upper=_beyond(trainers, allowed_cpus))
    everywhere = own.clip(upper=_beyond(trainers, max(online_cpus, allowed_cpus)))
    by_foreign = (left - own).clip(upper=foreign)
    rest = left - own - by_foreign
    # Members that outnumber the CPUs wait for each other now and then, even if on average there are
    # enough CPUs for all.
    many = windows["n"] > allowed_cpus
    parts = {
        "wait_pileup_s_per_step": pileup,
        "wait_cpuset_s_per_step": processes - everywhere,
        "wait_processes_s_per_step": everywhere + rest.where(many, 0.0),
        "wait_threads_s_per_step": own - processes,
        "wait_foreign_s_per_step": by_foreign,
        "wait_other_s_per_step": rest.where(~many, 0.0),
    }
    return pd.DataFrame(parts).div(demand["cpus"], axis="index")


def _demand(windows: pd.DataFrame) -> pd.DataFrame:
    """Return the demand of members and others, in CPUs; `cpus` converts s per step to CPUs."""
    step_s = windows[[f"trainer_{name}_s_per_step" for name in TRAINER]].fillna(0.0).sum(axis=1)
    cpus = windows["n"] / step_s.where(step_s > 0)
    wait = windows["trainer_runqueue_s_per_step"].fillna(0.0) * cpus
    throttled = windows["trainer_throttled_s_per_step"].fillna(0.0) * cpus
    ran = windows[["trainer_user_s_per_step", "trainer_system_s_per_step"]].sum(axis=1) * cpus
    members = windows[["user_s_per_step", "system_s_per_step"]].sum(axis=1) * cpus
    all_wait = (windows["runqueue_s_per_step"].fillna(0.0) * cpus - throttled).clip(lower=wait)
    foreign = windows["foreign_cpus"].fillna(0.0)
    return pd.DataFrame(
        {
            "cpus": cpus,
            "wait": wait,
            "throttled": throttled,
            "foreign": foreign,
            "busy": members + foreign + windows["steal_cpus"].fillna(0.0),
            "trainers": ran + wait,
            "helpers": (members - ran).clip(lower=0.0) + (all_wait - wait),
        }
    )


def _beyond(demand: "pd.Series[float]", cpus: "pd.Series[float] | int") -> "pd.Series[float]":
    """Return the demand (CPUs) that this number of CPUs cannot serve."""
    return (demand - cpus).clip(lower=0.0)
