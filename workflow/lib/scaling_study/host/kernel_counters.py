"""The kernel's counters of members, read at the start and the end of a window.

The coordinator reads them; a member never does. It also finds the GPU that a member has open.
"""

import errno
import os
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from glob import iglob

from scaling_study.common.counter import READ
from scaling_study.common.topology import parse_cpu_list
from scaling_study.host.system import find_number
from scaling_study.records.window import Usage

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_READ_BYTES = 65_536

# Fields of /proc/PID/stat after the command's name, counted from 0 (proc(5) counts from 3).
_MINFLT, _MAJFLT, _UTIME, _STIME, _CUTIME, _CSTIME = 7, 9, 11, 12, 13, 14
_RSS, _PROCESSOR = 21, 36

GPU_DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/renderD")
"""Beginnings of the names of NVIDIA's, AMD's and Intel's GPUs."""


@dataclass(frozen=True, slots=True)
class Thread:
    """Counters of one thread since it began.

    ``cpus`` is the list of CPUs that it may run on now, ``last_cpu`` the one on which it ran last.
    ``runqueue_s`` is the time that it was ready to run but did not: the kernel's run_delay
    (Documentation/scheduler/sched-stats.rst), which also counts while a quota holds it back.
    ``user_s`` and ``system_s`` have the resolution of ticks, ``run_s`` that of the scheduler.
    """

    run_s: float
    runqueue_s: float
    user_s: float
    system_s: float
    voluntary_switches: int
    involuntary_switches: int
    migrations: int | None
    cpus: str
    last_cpu: int


@dataclass(frozen=True, slots=True)
class Process:
    """Counters of one process since it began; its threads by thread id.

    ``read`` holds the values of the counters that have a reader of their own, by field.
    """

    cpu_s: float
    user_s: float
    system_s: float
    reaped_s: float
    minor_faults: int
    major_faults: int
    rss_bytes: int
    threads: dict[int, Thread]
    read: Mapping[str, float] = field(default_factory=dict)


def read_text(path: str | os.PathLike[str]) -> str:
    """Return the text of a file of /proc.

    A file object would take three times as long, and a snapshot of a large machine reads thousands
    of these files.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(descriptor, _READ_BYTES):
            parts.append(part)
    finally:
        os.close(descriptor)
    return b"".join(parts).decode(errors="replace")


def _field(status: str, name: str) -> str:
    """Return a field from the text of /proc/PID/status."""
    # The command's name comes first, on a line of its own and with its line breaks escaped.
    return status.partition(f"\n{name}:")[2].partition("\n")[0].strip()


def read_thread(folder: str | os.PathLike[str]) -> Thread:
    """Read one thread's counters from its folder /proc/PID/task/TID."""
    run, wait, _ = read_text(f"{folder}/schedstat").split()
    status = read_text(f"{folder}/status")
    stat = _stat(folder)
    user_s, system_s = user_and_system_s(stat)
    migrations = None
    with suppress(FileNotFoundError):  # a kernel without scheduler debugging
        migrations = find_number(r"^se\.nr_migrations\s*:\s*(\d+)", read_text(f"{folder}/sched"))
    return Thread(
        run_s=int(run) / 1e9,
        runqueue_s=int(wait) / 1e9,
        user_s=user_s,
        system_s=system_s,
        voluntary_switches=int(_field(status, "voluntary_ctxt_switches")),
        involuntary_switches=int(_field(status, "nonvoluntary_ctxt_switches")),
        migrations=migrations,
        cpus=_field(status, "Cpus_allowed_list"),
        last_cpu=int(stat[_PROCESSOR]),
    )


def _process_clock_s(pid: int) -> float:
    # The CPU clock of another process (clock_getcpuclockid(3)). It counts ns, /proc ticks of 10 ms.
    # The encoding is the kernel's ABI: ~pid in the upper bits, CPUCLOCK_SCHED (2) below.
    try:
        return time.clock_gettime_ns((~pid << 3) | 2) / 1e9
    except OSError as error:  # EINVAL
        raise ProcessLookupError(errno.ESRCH, f"no process {pid}") from error


def _stat(folder: str | os.PathLike[str]) -> list[str]:
    # The command's name is in parentheses and may hold anything, spaces and ")" included.
    return read_text(f"{folder}/stat").rpartition(")")[2].split()


def user_and_system_s(stat: Sequence[str]) -> tuple[float, float]:
    """Return user and system CPU time from the fields of a stat file after the command's name."""
    return int(stat[_UTIME]) / TICKS_PER_S, int(stat[_STIME]) / TICKS_PER_S


def _reaped_s(stat: list[str]) -> float:
    """Return the CPU time of children that the process has waited for."""
    return (int(stat[_CUTIME]) + int(stat[_CSTIME])) / TICKS_PER_S


def read_process(pid: int) -> Process:
    """Read one process's counters.

    Raises:
        FileNotFoundError, ProcessLookupError: there is no such process any more.
    """
    folder = f"/proc/{pid}"
    fields = _stat(folder)
    user_s, system_s = user_and_system_s(fields)
    threads = {}
    for tid in map(int, os.listdir(f"{folder}/task")):  # noqa: PTH208 (as in read_text)
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread has just ended
            threads[tid] = read_thread(f"{folder}/task/{tid}")
    return Process(
        cpu_s=_process_clock_s(pid),
        user_s=user_s,
        system_s=system_s,
        reaped_s=_reaped_s(fields),
        minor_faults=int(fields[_MINFLT]),
        major_faults=int(fields[_MAJFLT]),
        rss_bytes=int(fields[_RSS]) * _PAGE_BYTES,
        threads=threads,
        read={one.field: one.read(pid) for one in READ if one.read is not None},
    )


def process_of(tid: int) -> int:
    """Return the id of the process that a thread belongs to.

    Raises:
        FileNotFoundError: there is no such thread any more.
    """
    return int(_field(read_text(f"/proc/{tid}/status"), "Tgid"))


def descendants(pid: int, without: Collection[int] = ()) -> list[int]:
    """Return ``pid`` and its living descendants, parents first.

    Args:
        pid: the uppermost process.
        without: processes to leave out, with all their descendants.
    """
    found = [pid]
    for parent in found:
        folder = f"/proc/{parent}/task"
        with suppress(FileNotFoundError):
            for task in os.listdir(folder):  # noqa: PTH208 (as in read_text)
                with suppress(FileNotFoundError, ProcessLookupError):
                    text = read_text(f"{folder}/{task}/children")
                    found.extend(child for child in map(int, text.split()) if child not in without)
    return found


def open_gpu(pids: Iterable[int]) -> str:
    """Return a GPU's device that a process or a descendant of it has open; empty without one."""
    for pid in (one for root in pids for one in descendants(root)):
        for descriptor in iglob(f"/proc/{pid}/fd/*"):  # noqa: PTH207 (fast, as read_text)
            with suppress(OSError):  # it has just been closed
                device = os.readlink(descriptor)  # noqa: PTH115 (likewise)
                if device.startswith(GPU_DEVICES):
                    return device
    return ""


def signal_all(pids: Iterable[int], number: int) -> None:
    """Send a signal to processes, of which some may have ended."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def read_tree(pid: int) -> dict[int, Process]:
    """Read the counters of a member and of all its descendants, by process id.

    Raises:
        FileNotFoundError, ProcessLookupError: the member itself is gone.
    """
    tree = {pid: read_process(pid)}
    for child in descendants(pid)[1:]:
        with suppress(OSError):  # it has just ended
            tree[child] = read_process(child)
    return tree


def threads_of(trees: Iterable[Mapping[int, Process]]) -> dict[int, Thread]:
    """Return all threads of members and of the processes that they started, by thread id."""
    processes = (process for tree in trees for process in tree.values())
    return {tid: thread for process in processes for tid, thread in process.threads.items()}


def allowed_cpus(threads: Iterable[Thread]) -> frozenset[int]:
    """Return the CPUs that at least one of these threads may run on."""
    lists = {thread.cpus for thread in threads}
    return frozenset(cpu for text in lists for cpu in parse_cpu_list(text))


def run_s_by_cpu(before: Mapping[int, Thread], after: Mapping[int, Thread]) -> dict[int, float]:
    """Return how long (s) threads ran between two readings, by the CPU that each ran on last.

    That CPU gets a thread's whole time: training threads stay on one CPU for most of a window.
    """
    used = defaultdict[int, float](float)
    for tid, thread in after.items():
        used[thread.last_cpu] += thread.run_s - (before[tid].run_s if tid in before else 0.0)
    return {cpu: run_s for cpu, run_s in used.items() if run_s > 0}


def _share(part: float, other: float, otherwise: float = 1.0) -> float:
    return part / (part + other) if part + other > 0 else otherwise


Pairs = Sequence[tuple[Process | None, Process]] | Sequence[tuple[Thread | None, Thread]]
"""Two readings of each process or thread; the first one is None if it had not begun yet."""


def _change(pairs: Pairs, name: str) -> float:
    """Return the growth of a counter between the two readings, summed over all pairs."""
    return float(
        sum(getattr(now, name) - (getattr(then, name) if then else 0) for then, now in pairs)
    )


def usage(before: dict[int, Process], after: dict[int, Process], trainer_tid: int) -> Usage:
    """Return what a process tree used between two readings.

    CPU time has the resolution of the scheduler's clock. Its division into user and system time has
    that of /proc/PID/stat, 10 ms, both for all processes and for the training thread. The CPU time
    of a child that ended in between is known once its parent has waited for it; its other counters
    are lost.
    """
    processes = [(before.get(pid), process) for pid, process in after.items()]
    by_tid = [
        (tid, (then.threads.get(tid) if then else None, now))
        for then, process in processes
        for tid, now in process.threads.items()
    ]
    threads = [pair for _, pair in by_tid]
    trainer = [pair for tid, pair in by_tid if tid == trainer_tid]
    ended_s = known_cpu_s({pid: one for pid, one in before.items() if pid not in after})
    cpu_s = _change(processes, "cpu_s") + max(0.0, _change(processes, "reaped_s") - ended_s)
    user_share = _share(_change(processes, "user_s"), _change(processes, "system_s"))
    trainer_s = _change(trainer, "run_s")
    trainer_user_share = _share(
        _change(trainer, "user_s"), _change(trainer, "system_s"), otherwise=user_share
    )
    counted = all(now.migrations is not None for _, now in threads)
    return Usage(
        cpu_user_s=cpu_s * user_share,
        cpu_system_s=cpu_s * (1 - user_share),
        runqueue_s=_change(threads, "runqueue_s"),
        trainer_user_s=trainer_s * trainer_user_share,
        trainer_system_s=trainer_s * (1 - trainer_user_share),
        trainer_runqueue_s=_change(trainer, "runqueue_s"),
        minor_faults=int(_change(processes, "minor_faults")),
        major_faults=int(_change(processes, "major_faults")),
        voluntary_switches=int(_change(threads, "voluntary_switches")),
        involuntary_switches=int(_change(threads, "involuntary_switches")),
        migrations=int(_change(threads, "migrations")) if counted else None,
        threads=len(threads),
        processes=len(processes),
        rss_bytes=sum(now.rss_bytes for now in after.values()),
    )


def read_usage(before: dict[int, Process], after: dict[int, Process]) -> dict[str, float]:
    """Return the growth between two readings of counters with a reader of their own, by field."""
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


def tree_cpu_s(pid: int, without: Collection[int] = ()) -> float:
    """Return the CPU time that a process and its descendants have used since they began.

    Args:
        pid: the uppermost process.
        without: processes to leave out, with all their descendants.
    """
    total_s = 0.0
    for one in descendants(pid, frozenset(without)):
        with suppress(OSError):  # it has just ended
            total_s += _process_clock_s(one) + _reaped_s(_stat(f"/proc/{one}"))
    return total_s
