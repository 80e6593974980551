"""What a training thread waited for: a CPU, as the kernel counts it, or something else, as sampled.

Run queue
    The kernel counts the wait (run_delay). Who had the CPU meanwhile follows from other counts, in
    CPUs: CPU seconds per second of the window. A thread that always waits is one CPU of demand that
    is not served.

    1. Demand of training threads beyond the CPUs that their masks allow, but within those that the
       study may use, is a pile-up. So is a wait while allowed CPUs were idle: it cannot come from a
       lack of CPUs.
    2. Members would wait on an empty machine, too, if their own demand (run time and wait) exceeds
       the CPUs. Training threads account for the excess of their own demand (too many processes),
       helper threads for the rest.
    3. The remainder is due to other programs, up to the CPU time that they took.

    Each step assigns no more than remains, so nothing is counted twice. Fair scheduling shares CPUs
    among threads in proportion (Documentation/scheduler/sched-eevdf.rst).

Samples
    Looks at a thread show how often it waited, and in which system call.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from scaling_study.records.experiment import Samples

SCHEDSTAT = "run_delay in Documentation/scheduler/sched-stats.rst of the Linux kernel"
"""The source, as reports name it."""
HELD_BACK = 0.01
"""Throttled time above this share of a member's time shows a quota at work."""
TRAINER = ("user", "system", "runqueue", "throttled", "blocked")
"""Accounts of the training thread that add up to its time."""
FAULT = "page fault"
STOPPED = "stopped by a signal"
KIND_OF: Mapping[str, str] = {
    FAULT: "device",
    STOPPED: "stopped",
    **dict.fromkeys(("flock", "fcntl"), "lock"),
    **dict.fromkeys(("read", "write", "pread64", "pwrite64", "openat"), "device"),
    **dict.fromkeys(("fsync", "fdatasync"), "device"),
    **dict.fromkeys(("poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait"), "peer"),
    **dict.fromkeys(("sendto", "recvfrom", "sendmsg", "recvmsg", "accept", "connect"), "peer"),
    **dict.fromkeys(("wait4", "waitid"), "peer"),
    "futex": "futex",
    **dict.fromkeys(("nanosleep", "clock_nanosleep"), "sleep"),
}
FEWEST_SAMPLES = 30
"""With fewer looks, a thread that waits for a tenth of the time is rarely found waiting."""
UNSEEN = "the training threads were looked at too seldom, or not at all"
PEERS = frozenset({"pipe", "socket"})
"""A read of these waits for another process, not for a device."""


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
    # Demand in CPUs. Times per step times `cpus` are CPUs.
    step_s = windows[[f"trainer_{name}_s_per_step" for name in TRAINER]].fillna(0.0).sum(axis=1)
    cpus = windows["n"] / step_s.where(step_s > 0)
    wait = windows["trainer_runqueue_s_per_step"].fillna(0.0) * cpus
    throttled = windows["trainer_throttled_s_per_step"].fillna(0.0) * cpus
    ran = windows[["trainer_user_s_per_step", "trainer_system_s_per_step"]].sum(axis=1) * cpus
    members = windows[["user_s_per_step", "system_s_per_step"]].sum(axis=1) * cpus
    all_wait = (windows["runqueue_s_per_step"].fillna(0.0) * cpus - throttled).clip(lower=wait)
    foreign = windows["foreign_cpus"].fillna(0.0)
    busy = members + foreign + windows["steal_cpus"].fillna(0.0)
    trainers, helpers = ran + wait, (members - ran).clip(lower=0.0) + (all_wait - wait)
    masked = windows["trainers_cpus"].fillna(allowed_cpus).clip(upper=allowed_cpus)
    by_masks = wait.clip(upper=_beyond(trainers, masked) - _beyond(trainers, allowed_cpus))
    # The time that a quota held threads back is an estimate. CPUs are idle then, too, so its error
    # must not look like a pile-up.
    crowded = windows["trainers_cpus"].lt(windows["n"].clip(upper=allowed_cpus))
    possible = throttled.lt(HELD_BACK * windows["n"]) | crowded
    idle = (allowed_cpus - busy).clip(lower=0.0)
    pileup = by_masks + (wait - by_masks).clip(upper=idle).where(possible, 0.0)
    left = wait - pileup
    by_members = left.clip(upper=_beyond(trainers + helpers, allowed_cpus))
    processes = by_members.clip(upper=_beyond(trainers, allowed_cpus))
    everywhere = by_members.clip(upper=_beyond(trainers, max(online_cpus, allowed_cpus)))
    by_foreign = (left - by_members).clip(upper=foreign)
    rest = left - by_members - by_foreign
    # Members that outnumber the CPUs wait for each other now and then, even if on average there are
    # enough CPUs for all.
    many = windows["n"] > allowed_cpus
    parts = {
        "wait_pileup_s_per_step": pileup,
        "wait_cpuset_s_per_step": processes - everywhere,
        "wait_processes_s_per_step": everywhere + rest.where(many, 0.0),
        "wait_threads_s_per_step": by_members - processes,
        "wait_foreign_s_per_step": by_foreign,
        "wait_other_s_per_step": rest.where(~many, 0.0),
    }
    return pd.DataFrame(parts).div(cpus, axis="index")


def _beyond(demand: "pd.Series[float]", cpus: "pd.Series[float] | int") -> "pd.Series[float]":
    """Return the demand (CPUs) that this number of CPUs cannot serve."""
    return (demand - cpus).clip(lower=0.0)


class Sampled:
    """Samples of the training threads of n members.

    Args:
        records: All samples of a target.
        n: How many members trained.

    Attributes:
        samples: Number of looks at a thread.
        asleep: Looks at a sleeping or stopped thread (states S, D, T and t).
        shares: Part of the sleeping looks, by kind of wait.
        calls: Looks by system call and the file, memory or lock that it waited for.
        locks: Mean number of waiters by path of a file lock.
    """

    def __init__(self, records: Sequence[Samples], n: int) -> None:
        calls: Counter[tuple[str, str]] = Counter()
        states: Counter[str] = Counter()
        chosen = [record for record in records if record.n == n]
        self.locks: dict[str, float] = defaultdict(float)
        for record in chosen:
            for lock in record.locks:
                self.locks[lock.path] += lock.waiters_mean / len(chosen)
            for member in record.members:
                states.update(member.states)
                for wait in member.waits:
                    calls[wait.syscall, wait.on] += wait.count
        asleep = states["S"] + states["D"]
        # A thread in uninterruptible sleep outside of a system call waits for a page of a device.
        calls[FAULT, ""] += min(states["D"], max(0, asleep - calls.total()))
        stopped = states["T"] + states["t"]  # by a signal, by a tracer
        calls[STOPPED, ""] += stopped
        self.samples, self.asleep, self.calls = states.total(), asleep + stopped, +calls
        kinds: Counter[str] = Counter()
        for (syscall, on), count in self.calls.items():
            kinds[kind_of(syscall, on)] += count
        total = max(self.asleep, kinds.total(), 1)
        self.shares = {kind: count / total for kind, count in kinds.items()}

    @property
    def enough(self) -> bool:
        """Whether there are enough looks to say that something did not happen."""
        return self.samples >= FEWEST_SAMPLES

    def share(self, *kinds: str) -> float:
        """Return the part of the sleeping looks in these kinds of waits; NaN with too few looks."""
        return sum(self.shares.get(kind, 0.0) for kind in kinds) if self.enough else np.nan


def kind_of(syscall: str, on: str) -> str:
    """Return the kind of thing that a thread waits for in a system call.

    A futex in shared memory is a lock between processes. So is a pause, if the lock that the thread
    waits for is known.
    """
    kind = KIND_OF.get(syscall, "other")
    if kind in {"futex", "sleep"} and on:
        return "lock"
    return "peer" if kind == "device" and on in PEERS else kind
