"""What the kernel counts for members, read at a window's edges.

The coordinator reads; a member never does. Parsers are pure and take text; every function that
reads takes the place of proc(5), so that tests can feed captured files.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scaling_study.common.counter import READ
from scaling_study.common.topology import parse_cpu_list
from scaling_study.records.window import Usage

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PROC = Path("/proc")
_READ_BYTES = 65_536

# Fields of /proc/PID/stat after the command's name, counted from 0 (proc(5) counts from 3).
_MINFLT, _MAJFLT, _UTIME, _STIME, _CUTIME, _CSTIME = 7, 9, 11, 12, 13, 14
_THREADS, _RSS, _PROCESSOR = 17, 21, 36


@dataclass(frozen=True, slots=True)
class Thread:
    """Counters of one thread since it began.

    ``cpus`` is the list of CPUs that it may run on now, ``last_cpu`` the one on which it ran last.
    ``runqueue_s`` is the time for which it was ready to run and did not: the kernel's run_delay
    (Documentation/scheduler/sched-stats.rst), which goes on while a quota holds the thread back.
    """

    run_s: float
    runqueue_s: float
    voluntary_switches: int
    involuntary_switches: int
    migrations: int | None
    cpus: str
    last_cpu: int


@dataclass(frozen=True, slots=True)
class Process:
    """Counters of one process since it began; its threads by thread id.

    ``trainer_user_s`` and ``trainer_system_s`` are those of the training thread where that is one
    of this process's, otherwise None. ``read`` is what counters of other files have read.
    """

    cpu_s: float
    user_s: float
    system_s: float
    reaped_s: float
    minor_faults: int
    major_faults: int
    rss_bytes: int
    threads: dict[int, Thread]
    trainer_user_s: float | None = None
    trainer_system_s: float | None = None
    read: Mapping[str, float] = field(default_factory=dict)


def read_text(path: str | Path) -> str:
    """Return the text of a file of /proc.

    A window's edges read thousands of them on a large machine, in a third of the time that a file
    object takes.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(descriptor, _READ_BYTES):
            parts.append(part)
    finally:
        os.close(descriptor)
    return b"".join(parts).decode(errors="replace")


def _switches(status: str) -> tuple[int, int]:
    """Return voluntary and involuntary switches from the text of /proc/PID/status."""
    # Near its end, but not always last: some kernels write the shadow stack's features after it.
    _, _, end = status.rpartition("\nvoluntary_ctxt_switches:")
    voluntary, _, involuntary, *_ = end.split()
    return int(voluntary), int(involuntary)


def _cpus_allowed(status: str) -> str:
    """Return the list of CPUs that a thread may run on from the text of /proc/PID/status."""
    # The command's name comes before it, on a line of its own and with its line breaks escaped.
    return status.partition("\nCpus_allowed_list:")[2].partition("\n")[0].strip()


def _migrations(sched: str) -> int | None:
    """Return the migrations from the text of /proc/PID/sched; None if it does not count them."""
    for line in sched.splitlines():
        if line.startswith("se.nr_migrations"):
            return int(line.split(":")[1])
    return None


def read_thread(folder: str | Path) -> Thread:
    """Read one thread's counters from its folder /proc/PID/task/TID."""
    run, wait, _ = read_text(f"{folder}/schedstat").split()
    status = read_text(f"{folder}/status")
    voluntary, involuntary = _switches(status)
    try:
        migrations = _migrations(read_text(f"{folder}/sched"))
    except FileNotFoundError:  # a kernel without scheduler debugging
        migrations = None
    return Thread(
        run_s=int(run) / 1e9,
        runqueue_s=int(wait) / 1e9,
        voluntary_switches=voluntary,
        involuntary_switches=involuntary,
        migrations=migrations,
        cpus=_cpus_allowed(status),
        last_cpu=int(_stat(folder)[_PROCESSOR]),
    )


def _process_clock_s(pid: int) -> float:
    # The CPU clock of another process (clock_getcpuclockid(3)): in ns, where /proc has ticks of
    # 10 ms. The encoding is the kernel's ABI: ~pid in the upper bits, CPUCLOCK_SCHED (2) below.
    try:
        return time.clock_gettime_ns((~pid << 3) | 2) / 1e9
    except OSError as error:  # EINVAL
        raise ProcessLookupError(errno.ESRCH, f"no process {pid}") from error


def _stat(folder: str | Path) -> list[str]:
    # The command's name is in parentheses and may hold anything, spaces and ")" included.
    return read_text(f"{folder}/stat").rpartition(")")[2].split()


def _user_and_system_s(stat: list[str]) -> tuple[float, float]:
    return int(stat[_UTIME]) / _TICKS_PER_S, int(stat[_STIME]) / _TICKS_PER_S


def read_process(pid: int, trainer_tid: int | None = None, proc: Path = _PROC) -> Process:
    """Read one process's counters.

    Args:
        pid: the process.
        trainer_tid: the training thread, of which more is read if it is one of this process's.
        proc: where proc(5) is mounted.

    Raises:
        FileNotFoundError, ProcessLookupError: there is no such process any more.
    """
    folder = f"{proc}/{pid}"
    fields = _stat(folder)
    user_s, system_s = _user_and_system_s(fields)
    threads = {}
    trainer: tuple[float | None, float | None] = (None, None)
    for tid in map(int, os.listdir(f"{folder}/task")):  # noqa: PTH208 (as in read_text)
        try:
            threads[tid] = read_thread(f"{folder}/task/{tid}")
            if tid == trainer_tid:
                trainer = _user_and_system_s(_stat(f"{folder}/task/{tid}"))
        except (FileNotFoundError, ProcessLookupError):  # the thread has just ended
            continue
    return Process(
        cpu_s=_process_clock_s(pid),
        user_s=user_s,
        system_s=system_s,
        reaped_s=(int(fields[_CUTIME]) + int(fields[_CSTIME])) / _TICKS_PER_S,
        minor_faults=int(fields[_MINFLT]),
        major_faults=int(fields[_MAJFLT]),
        rss_bytes=int(fields[_RSS]) * _PAGE_BYTES,
        threads=threads,
        trainer_user_s=trainer[0],
        trainer_system_s=trainer[1],
        read={one.field: one.read(pid) for one in READ if one.read is not None},
    )


def process_of(tid: int, proc: Path = _PROC) -> int:
    """Return the process that a thread is of.

    Raises:
        FileNotFoundError: there is no such thread any more.
    """
    status = read_text(f"{proc}/{tid}/status")
    return int(status.partition("\nTgid:")[2].partition("\n")[0])


def descendants(pid: int, proc: Path = _PROC, without: Collection[int] = ()) -> list[int]:
    """Return ``pid`` and all processes below it, parents first; without those that are gone.

    Args:
        pid: the uppermost process.
        proc: where proc(5) is mounted.
        without: processes to leave out, with all that is below them.
    """
    found = [pid]
    for parent in found:
        folder = f"{proc}/{parent}/task"
        try:
            threads = os.listdir(folder)  # noqa: PTH208 (as in read_text)
        except FileNotFoundError:
            continue
        for task in threads:
            try:
                text = read_text(f"{folder}/{task}/children")
            except (FileNotFoundError, ProcessLookupError):
                continue
            found.extend(child for child in map(int, text.split()) if child not in without)
    return found


def read_tree(pid: int, trainer_tid: int | None = None, proc: Path = _PROC) -> dict[int, Process]:
    """Read the counters of a member and of its child processes, by process id.

    Args:
        pid: the member.
        trainer_tid: its training thread, of which more is read.
        proc: where proc(5) is mounted.

    Raises:
        FileNotFoundError, ProcessLookupError: the member itself is gone.
    """
    tree = {pid: read_process(pid, trainer_tid, proc)}
    for child in descendants(pid, proc)[1:]:
        try:
            tree[child] = read_process(child, trainer_tid, proc)
        except OSError:  # it has just ended
            continue
    return tree


def allowed_cpus(tree: Mapping[int, Process], tid: int | None = None) -> frozenset[int]:
    """Return the CPUs that a member's threads, or one of them, may run on."""
    lists = {
        thread.cpus
        for process in tree.values()
        for each, thread in process.threads.items()
        if tid in {None, each}
    }
    return frozenset(cpu for text in lists for cpu in parse_cpu_list(text))


def run_s_by_cpu(before: Mapping[int, Process], after: Mapping[int, Process]) -> dict[int, float]:
    """Return how long (s) a member's threads ran between two readings, by the CPU of each's end.

    A thread counts where it ran last: threads that train stay where they are for most of a window.
    """
    used: dict[int, float] = {}
    for pid, process in after.items():
        earlier = before[pid].threads if pid in before else {}
        for tid, thread in process.threads.items():
            run_s = thread.run_s - (earlier[tid].run_s if tid in earlier else 0.0)
            used[thread.last_cpu] = used.get(thread.last_cpu, 0.0) + run_s
    return {cpu: run_s for cpu, run_s in used.items() if run_s > 0}


def _share(part: float, other: float, otherwise: float = 1.0) -> float:
    return part / (part + other) if part + other > 0 else otherwise


Pairs = Sequence[tuple[Process | None, Process]]


def _trainer_user_share(pairs: Pairs, otherwise: float) -> float:
    """Return the user part of the training thread's CPU time; ``otherwise`` below a tick of it."""

    def change(name: str) -> float:
        known = [(getattr(then, name) if then else None, getattr(now, name)) for then, now in pairs]
        return float(sum(now - (then or 0.0) for then, now in known if now is not None))

    return _share(change("trainer_user_s"), change("trainer_system_s"), otherwise)


def usage(before: dict[int, Process], after: dict[int, Process], trainer_tid: int) -> Usage:
    """Return what a process tree used between two readings.

    CPU time has the resolution of the scheduler's clock; how it divides into user and system, of
    the process and of the training thread, has that of /proc/PID/stat, 10 ms. CPU time of a child
    that ended in between is known from its parent once that has waited for it; its other counters
    are lost.
    """
    pairs = [(before.get(pid), process) for pid, process in after.items()]
    ended = [process for pid, process in before.items() if pid not in after]

    def total(name: str) -> float:
        changes = (getattr(now, name) - (getattr(then, name) if then else 0) for then, now in pairs)
        return float(sum(changes))

    def threads_total(name: str) -> float:
        changes = (
            getattr(thread, name)
            - (getattr(then.threads[tid], name) if then and tid in then.threads else 0)
            for then, now in pairs
            for tid, thread in now.threads.items()
        )
        return float(sum(changes))

    known_s = sum(process.cpu_s + process.reaped_s for process in ended)
    reaped_s = max(0.0, total("reaped_s") - known_s)
    cpu_s = total("cpu_s") + reaped_s
    user_share = _share(total("user_s"), total("system_s"))
    trainer = [
        (then.threads.get(trainer_tid) if then else None, now.threads[trainer_tid])
        for then, now in pairs
        if trainer_tid in now.threads
    ]
    trainer_run_s = sum(now.run_s - (then.run_s if then else 0) for then, now in trainer)
    trainer_user_share = _trainer_user_share(pairs, user_share)
    counted = all(
        thread.migrations is not None for _, now in pairs for thread in now.threads.values()
    )
    return Usage(
        cpu_user_s=cpu_s * user_share,
        cpu_system_s=cpu_s * (1 - user_share),
        runqueue_s=threads_total("runqueue_s"),
        trainer_user_s=trainer_run_s * trainer_user_share,
        trainer_system_s=trainer_run_s * (1 - trainer_user_share),
        trainer_runqueue_s=sum(
            now.runqueue_s - (then.runqueue_s if then else 0) for then, now in trainer
        ),
        minor_faults=int(total("minor_faults")),
        major_faults=int(total("major_faults")),
        voluntary_switches=int(threads_total("voluntary_switches")),
        involuntary_switches=int(threads_total("involuntary_switches")),
        migrations=int(threads_total("migrations")) if counted else None,
        threads=sum(len(now.threads) for _, now in pairs),
        processes=len(pairs),
        rss_bytes=sum(now.rss_bytes for _, now in pairs),
    )


def read_usage(before: dict[int, Process], after: dict[int, Process]) -> dict[str, float]:
    """Return what counters of other files have counted between two readings, by field."""
    return {
        one.field: sum(
            now.read[one.field] - (before[pid].read[one.field] if pid in before else 0)
            for pid, now in after.items()
        )
        for one in READ
    }


def known_cpu_s(tree: Mapping[int, Process]) -> float:
    """Return the CPU time that a tree of processes had used when it was read."""
    return sum(process.cpu_s + process.reaped_s for process in tree.values())


def tree_cpu_s(pid: int, proc: Path = _PROC, without: Collection[int] = ()) -> float:
    """Return the CPU time that a process and everything below it have used since they began.

    Args:
        pid: the uppermost process.
        proc: where proc(5) is mounted.
        without: processes to leave out, with all that is below them.
    """
    total_s = 0.0
    for one in descendants(pid, proc, frozenset(without)):
        try:
            fields = _stat(f"{proc}/{one}")
            reaped = int(fields[_CUTIME]) + int(fields[_CSTIME])
            total_s += _process_clock_s(one) + reaped / _TICKS_PER_S
        except OSError:  # it has just ended
            continue
    return total_s
