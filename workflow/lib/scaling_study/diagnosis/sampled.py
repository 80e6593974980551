"""Samples of training threads: how often they waited, and for what."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from scaling_study.records.experiment import Samples

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


def kind_of(syscall: str, on: str) -> str:
    """Return the kind of thing that a thread waits for in a system call.

    A futex in shared memory is a lock between processes. So is a pause, if the lock that the thread
    waits for is known.
    """
    kind = KIND_OF.get(syscall, "other")
    if kind in {"futex", "sleep"} and on:
        return "lock"
    return "peer" if kind == "device" and on in PEERS else kind
