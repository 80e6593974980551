"""Samples of threads and of the machine's use, outside of all windows.

Sampling disturbs the training, so none of it happens inside a window.
Parsers are pure.
"""

import os
import platform
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from scaling_study.experiments.conditions import read_vmstat
from scaling_study.host import kernel_counters, machine_counters
from scaling_study.records import experiment as records
from scaling_study.runner import headroom

# How often the use of the machine is sampled.
USE_LOOKS, USE_EVERY_S = 24, 0.125

ASLEEP = frozenset({"S", "D"})

# System calls in which training processes wait, by number (the kernel's asm/unistd.h).
# fmt: off
SYSCALLS: Mapping[str, Mapping[int, str]] = {
    "x86_64": {
        0: "read", 1: "write", 7: "poll", 17: "pread64", 18: "pwrite64", 23: "select",
        35: "nanosleep", 42: "connect", 43: "accept", 44: "sendto", 45: "recvfrom",
        46: "sendmsg", 47: "recvmsg", 61: "wait4", 72: "fcntl", 73: "flock", 74: "fsync",
        75: "fdatasync", 202: "futex", 230: "clock_nanosleep", 232: "epoll_wait",
        247: "waitid", 257: "openat", 270: "pselect6", 271: "ppoll", 281: "epoll_pwait",
    },
    "aarch64": {
        22: "epoll_pwait", 25: "fcntl", 32: "flock", 56: "openat", 63: "read", 64: "write",
        67: "pread64", 68: "pwrite64", 72: "pselect6", 73: "ppoll", 82: "fsync",
        83: "fdatasync", 95: "waitid", 98: "futex", 101: "nanosleep",
        115: "clock_nanosleep", 202: "accept", 203: "connect", 206: "sendto",
        207: "recvfrom", 211: "sendmsg", 212: "recvmsg", 260: "wait4",
    },
}
# fmt: on

# System calls whose first argument is a file descriptor.
ON_FILE = frozenset(
    {"read", "write", "pread64", "pwrite64", "fcntl", "flock", "fsync", "fdatasync", "recvfrom",
     "recvmsg", "sendto", "sendmsg", "accept", "connect"}
)  # fmt: skip


# System calls in which a thread pauses before it tries again.
PAUSES = frozenset({"nanosleep", "clock_nanosleep"})

FUTEX_PRIVATE = 128
"""In a futex's operation: only threads of one process use it (futex(2))."""

IN_MEMORY = "shared memory"
"""The name of a futex between processes whose mapping has none."""


def parse_syscall(text: str, machine: str) -> tuple[str, int, int] | None:
    """Return a system call's name and first two arguments from the text of /proc/PID/syscall.

    None if the thread runs, or waits outside of a system call.
    """
    number, *arguments = text.split()
    if number in {"running", "-1"}:
        return None
    name = SYSCALLS.get(machine, {}).get(int(number), f"system call {number}")
    return name, int(arguments[0], 16), int(arguments[1], 16)


def parse_locks(text: str) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """Return process and inode of each waiter for a file lock, and of each holder of one.

    Waiters are the lines of /proc/locks with an arrow. The inode is ``major:minor:number`` as the
    kernel writes it, the device in hexadecimal and the number in decimal.
    """
    waiting, holding = [], []
    for line in text.splitlines():
        fields = line.split()
        if fields[1] == "->":
            waiting.append((int(fields[5]), fields[6]))
        else:
            holding.append((int(fields[4]), fields[5]))
    return waiting, holding


def shared_mapping(address: int, maps: str) -> str:
    """Return the name of the shared mapping that an address lies in (/proc/PID/maps), if any."""
    for line in maps.splitlines():
        extent, permissions, _, _, _, *name = line.split(maxsplit=5)
        first, end = (int(part, 16) for part in extent.split("-"))
        if first <= address < end:
            return (name[0] if name else IN_MEMORY) if permissions.endswith("s") else ""
    return ""


def _name_of_file(pid: int, descriptor: int) -> str:
    """Return what a descriptor is open on: a path, ``pipe``, ``socket`` or the like."""
    with suppress(OSError):
        target = str(Path(f"/proc/{pid}/fd/{descriptor}").readlink())
        kind, colon, _ = target.partition(":")
        return kind if colon and not target.startswith("/") else target
    return ""


def _between_processes(pid: int, address: int, operation: int) -> str:
    """Return the shared memory that a futex lies in; empty if only one process uses it."""
    if not operation & FUTEX_PRIVATE:
        with suppress(OSError):
            return shared_mapping(address, Path(f"/proc/{pid}/maps").read_text())
    return ""


def _file_of(pid: int, inode: str) -> str:
    """Return the path of the file with this inode among a process's open ones."""
    with suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):  # it has just been closed
                file = link.stat()
                place = os.major(file.st_dev), os.minor(file.st_dev), file.st_ino
                if "{:02x}:{:02x}:{}".format(*place) == inode:
                    return str(link.readlink())
    return ""


@dataclass(slots=True)
class Sampler:
    """Looks at the training threads of members and counts what they do."""

    looks: int = 0
    states: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    waits: dict[int, Counter[tuple[str, str]]] = field(default_factory=lambda: defaultdict(Counter))
    locks: Counter[str] = field(default_factory=Counter)
    holders: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))

    def look(self, threads: Mapping[int, tuple[int, int]]) -> None:
        """Count once what each thread does now.

        Args:
            threads: process and training thread by slot.
        """
        self.looks += 1
        pids = {pid for pid, _ in threads.values()}
        waiting, held = (
            [(pid, _file_of(pid, inode) or inode) for pid, inode in locks if pid in pids]
            for locks in parse_locks(Path("/proc/locks").read_text())
        )
        self.locks.update(path for _, path in waiting)
        for pid, path in held:
            self.holders[path].add(pid)
        for slot, (pid, tid) in threads.items():
            folder = Path(f"/proc/{pid}/task/{tid}")
            with suppress(OSError):  # it has just ended, or this kernel hides it
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                call = parse_syscall((folder / "syscall").read_text(), platform.machine())
                self.states[slot][state] += 1
                if state in ASLEEP and call is not None:
                    self.waits[slot][call[0], self._on(pid, *call, held)] += 1

    def _on(
        self, pid: int, name: str, first: int, second: int, held: Sequence[tuple[int, str]]
    ) -> str:
        """Return what a thread waits for in a system call; empty if that is not known."""
        if name in ON_FILE:
            return _name_of_file(pid, first)
        if name == "futex":
            return _between_processes(pid, first, second)
        if name in PAUSES:  # perhaps until a lock is free that somebody else holds now
            return next((path for holder, path in held if holder != pid), "")
        return ""

    def _waits(self, slot: int, own_share: float) -> Counter[tuple[str, str]]:
        """Return the waits of a slot.

        A pause counts as a wait for a lock that members take in turn, unless the member would pause
        anyway.

        Args:
            slot: the member's slot.
            own_share: share of the looks that find it in a pause that has nothing to do with locks.
        """
        waits, at_lock = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        for (name, on), count in self.waits[slot].items():
            if name not in PAUSES:
                waits[name, on] += count
            elif len(self.holders[on]) > 1:
                at_lock[name, on] += count
            else:
                waits[name, ""] += count
        pauses = round(own_share * self.states[slot].total())
        pauses -= sum(count for (name, _), count in waits.items() if name in PAUSES)
        for (name, on), count in at_lock.items():
            anyway = min(count, max(0, pauses))
            waits[name, ""] += anyway
            waits[name, on] += count - anyway
            pauses -= anyway
        return +waits

    def record(
        self, n: int, interval_s: float, step_s: float, alone: records.Samples | None = None
    ) -> records.Samples:
        """Return what was counted, as a record.

        Args:
            n: members that trained.
            interval_s: mean time between two looks.
            step_s: time of a step meanwhile.
            alone: the record of one member alone. For as long as it pauses in a step, the pauses of
                members are for no lock.
        """
        own_share = _pauses_s(alone) / step_s if alone else 0.0
        members = [
            records.SampledMember(
                slot=slot,
                samples=states.total(),
                states=dict(states),
                waits=[
                    records.Wait(syscall=name, on=on, count=count)
                    for (name, on), count in self._waits(slot, own_share).most_common()
                ],
            )
            for slot, states in self.states.items()
        ]
        locks = [
            records.SampledLock(path=path, waiters_mean=count / self.looks, samples=self.looks)
            for path, count in self.locks.most_common()
        ]
        return records.Samples(
            n=n, interval_s=interval_s, step_s=step_s, members=members, locks=locks
        )


def _pauses_s(record: records.Samples) -> float:
    """Return how long (s) a member pauses in a step."""
    waits = [wait for member in record.members for wait in member.waits if wait.syscall in PAUSES]
    samples = sum(member.samples for member in record.members)
    return (record.step_s or 0.0) * sum(wait.count for wait in waits) / max(1, samples)


def look_at_machine(
    cpus: frozenset[int], threads: Mapping[int, tuple[int, int]]
) -> records.UseReading:
    """Return the use of the machine so far.

    Counters are cumulative; the use between two looks is their difference.

    Args:
        cpus: CPUs that the study may use.
        threads: process and training thread of each member, by slot.

    Raises:
        OSError: a member has just ended.
    """
    trainers_s = threads_s = workers_s = 0.0
    for pid, tid in threads.values():
        tree = kernel_counters.read_tree(pid)
        process = tree[pid]
        trainer = process.threads.get(tid)
        trainer_s = trainer.user_s + trainer.system_s if trainer else 0.0
        trainers_s += trainer_s
        threads_s += process.cpu_s - trainer_s
        workers_s += kernel_counters.known_cpu_s(tree) - process.cpu_s
    machine = machine_counters.read_machine(cpus)
    return records.UseReading(
        at_s=time.perf_counter(),
        trainers_s=trainers_s,
        threads_s=threads_s,
        workers_s=workers_s,
        busy_s=machine.busy_cpu_s,
        stalled_cpu_s=machine.psi_cpu_some_s,
        stalled_io_s=machine.psi_io_some_s,
        disk_bytes=1024 * read_vmstat().get("pgpgin", 0),
        network_bytes=_network_bytes(Path("/proc/net/dev").read_text()),
        memory_left_bytes=headroom.read_free_memory().free,
        shared_left_bytes=headroom.read_free_shared().free,
    )


def _network_bytes(text: str) -> int:
    """Return the bytes that all devices but the loopback have received (/proc/net/dev)."""
    rows = (line.partition(":") for line in text.splitlines()[2:])
    return sum(int(rest.split()[0]) for name, _, rest in rows if name.strip() != "lo")
