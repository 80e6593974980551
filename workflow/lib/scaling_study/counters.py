"""What the kernel counts for members and for the machine, read at a window's edges.

The coordinator reads; a member never does. Parsers are pure and take text; every function that
reads takes the root of the file system, so that tests can feed captured files.
"""

from __future__ import annotations

import errno
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PROC = Path("/proc")

# Fields of /proc/PID/stat after the command's name, counted from 0 (proc(5) counts from 3).
_MINFLT, _MAJFLT, _UTIME, _STIME, _CUTIME, _CSTIME = 7, 9, 11, 12, 13, 14
_THREADS, _RSS = 17, 21

# Kinds of time in a cpu line of /proc/stat that some program on this machine used: user, nice,
# system, irq, softirq. Steal is another machine's; guest time is already in user.
_BUSY = (0, 1, 2, 5, 6)
_STEAL = 7


@dataclass(frozen=True, slots=True)
class Thread:
    """Counters of one thread since it began."""

    run_s: float
    runqueue_s: float
    voluntary_switches: int
    involuntary_switches: int
    migrations: int | None


@dataclass(frozen=True, slots=True)
class Process:
    """Counters of one process since it began; its threads by thread id."""

    cpu_s: float
    user_s: float
    system_s: float
    reaped_s: float
    minor_faults: int
    major_faults: int
    rss_bytes: int
    threads: dict[int, Thread]


@dataclass(frozen=True, slots=True)
class Usage:
    """What a member, with all its child processes, used between two readings."""

    cpu_user_s: float
    cpu_system_s: float
    runqueue_s: float
    trainer_user_s: float
    trainer_system_s: float
    trainer_runqueue_s: float
    minor_faults: int
    major_faults: int
    voluntary_switches: int
    involuntary_switches: int
    migrations: int | None
    threads: int
    processes: int
    rss_bytes: int

    @property
    def cpu_s(self) -> float:
        """User and system time together."""
        return self.cpu_user_s + self.cpu_system_s


@dataclass(frozen=True, slots=True)
class Machine:
    """Counters of the whole machine since it started; None where the kernel has no such file."""

    busy_cpu_s: float
    steal_s: float
    throttled_s: float | None
    psi_cpu_some_s: float | None
    psi_memory_some_s: float | None
    psi_io_some_s: float | None


def _switches(status: str) -> tuple[int, int]:
    """Return voluntary and involuntary switches from the text of /proc/PID/status."""
    # Near its end, but not always last: some kernels write the shadow stack's features after it.
    _, _, end = status.rpartition("\nvoluntary_ctxt_switches:")
    voluntary, _, involuntary, *_ = end.split()
    return int(voluntary), int(involuntary)


def _migrations(sched: str) -> int | None:
    """Return the migrations from the text of /proc/PID/sched; None if it does not count them."""
    for line in sched.splitlines():
        if line.startswith("se.nr_migrations"):
            return int(line.split(":")[1])
    return None


def read_thread(folder: Path) -> Thread:
    """Read one thread's counters from its folder /proc/PID/task/TID."""
    run, wait, _ = (folder / "schedstat").read_text().split()
    voluntary, involuntary = _switches((folder / "status").read_text())
    try:
        migrations = _migrations((folder / "sched").read_text())
    except FileNotFoundError:  # a kernel without scheduler debugging
        migrations = None
    return Thread(int(run) / 1e9, int(wait) / 1e9, voluntary, involuntary, migrations)


def _process_clock_s(pid: int) -> float:
    # The CPU clock of another process (clock_getcpuclockid(3)): in ns, where /proc has ticks of
    # 10 ms. The encoding is the kernel's ABI: ~pid in the upper bits, CPUCLOCK_SCHED (2) below.
    try:
        return time.clock_gettime_ns((~pid << 3) | 2) / 1e9
    except OSError as error:  # EINVAL
        raise ProcessLookupError(errno.ESRCH, f"no process {pid}") from error


def _stat(pid: int, proc: Path) -> list[str]:
    # The command's name is in parentheses and may hold anything, spaces and ")" included.
    return (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()


def read_process(pid: int, proc: Path = _PROC) -> Process:
    """Read one process's counters.

    Raises:
        FileNotFoundError, ProcessLookupError: there is no such process any more.
    """
    folder = proc / str(pid)
    fields = _stat(pid, proc)
    threads = {}
    for task in (folder / "task").iterdir():
        try:
            threads[int(task.name)] = read_thread(task)
        except (FileNotFoundError, ProcessLookupError):  # the thread has just ended
            continue
    return Process(
        cpu_s=_process_clock_s(pid),
        user_s=int(fields[_UTIME]) / _TICKS_PER_S,
        system_s=int(fields[_STIME]) / _TICKS_PER_S,
        reaped_s=(int(fields[_CUTIME]) + int(fields[_CSTIME])) / _TICKS_PER_S,
        minor_faults=int(fields[_MINFLT]),
        major_faults=int(fields[_MAJFLT]),
        rss_bytes=int(fields[_RSS]) * _PAGE_BYTES,
        threads=threads,
    )


def descendants(pid: int, proc: Path = _PROC) -> list[int]:
    """Return ``pid`` and all processes below it, parents first; without those that are gone."""
    found = [pid]
    for parent in found:
        try:
            threads = list((proc / str(parent) / "task").iterdir())
        except FileNotFoundError:
            continue
        for task in threads:
            try:
                text = (task / "children").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            found.extend(int(child) for child in text.split())
    return found


def read_tree(pid: int, proc: Path = _PROC) -> dict[int, Process]:
    """Read the counters of a member and of its child processes, by process id.

    Raises:
        FileNotFoundError, ProcessLookupError: the member itself is gone.
    """
    tree = {pid: read_process(pid, proc)}
    for child in descendants(pid, proc)[1:]:
        try:
            tree[child] = read_process(child, proc)
        except OSError:  # it has just ended
            continue
    return tree


def _share(part: float, other: float) -> float:
    return part / (part + other) if part + other > 0 else 1.0


def usage(before: dict[int, Process], after: dict[int, Process], trainer_tid: int) -> Usage:
    """Return what a process tree used between two readings.

    CPU time has the resolution of the scheduler's clock; how it divides into user and system has
    that of /proc/PID/stat, 10 ms. CPU time of a child that ended in between is known from its
    parent once that has waited for it; its other counters are lost.
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
    counted = all(
        thread.migrations is not None for _, now in pairs for thread in now.threads.values()
    )
    return Usage(
        cpu_user_s=cpu_s * user_share,
        cpu_system_s=cpu_s * (1 - user_share),
        runqueue_s=threads_total("runqueue_s"),
        trainer_user_s=trainer_run_s * user_share,
        trainer_system_s=trainer_run_s * (1 - user_share),
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


def tree_cpu_s(pid: int, proc: Path = _PROC) -> float:
    """Return the CPU time that a process and everything below it have used since they began."""
    total_s = 0.0
    for one in descendants(pid, proc):
        try:
            fields = _stat(one, proc)
            reaped = int(fields[_CUTIME]) + int(fields[_CSTIME])
            total_s += _process_clock_s(one) + reaped / _TICKS_PER_S
        except OSError:  # it has just ended
            continue
    return total_s


def parse_stat(text: str, cpus: frozenset[int]) -> tuple[float, float]:
    """Return busy and stolen CPU seconds of ``cpus`` from the text of /proc/stat."""
    busy = steal = 0
    for line in text.splitlines():
        name, *values = line.split()
        if name.startswith("cpu") and name != "cpu" and int(name[3:]) in cpus:
            ticks = [int(value) for value in values]
            busy += sum(ticks[kind] for kind in _BUSY)
            steal += ticks[_STEAL]
    return busy / _TICKS_PER_S, steal / _TICKS_PER_S


def parse_pressure(text: str) -> float:
    """Return the seconds in which some task was stalled, from the text of /proc/pressure/*."""
    return int(text.partition("total=")[2].split()[0]) / 1e6


def parse_throttled(text: str) -> float | None:
    """Return throttled seconds from a cgroup's cpu.stat: version 2 counts us, version 1 ns."""
    counts = dict(line.split() for line in text.splitlines())
    if "throttled_usec" in counts:
        return int(counts["throttled_usec"]) / 1e6
    if "throttled_time" in counts:
        return int(counts["throttled_time"]) / 1e9
    return None


def _read_optional(path: Path) -> str | None:
    # Pressure files exist but cannot be read (EOPNOTSUPP) where the kernel has them switched off.
    try:
        return path.read_text()
    except OSError:
        return None


def read_machine(cpus: frozenset[int], cpu_stat: Path | None, proc: Path = _PROC) -> Machine:
    """Read the machine's counters.

    Args:
        cpus: the CPUs that this study may use; others do not count as busy.
        cpu_stat: the cgroup's cpu.stat, None where there is no CPU controller.
        proc: where proc(5) is mounted.
    """
    busy_s, steal_s = parse_stat((proc / "stat").read_text(), cpus)
    pressure = {name: _read_optional(proc / "pressure" / name) for name in ("cpu", "memory", "io")}
    stalled = {name: parse_pressure(text) if text else None for name, text in pressure.items()}
    throttled = _read_optional(cpu_stat) if cpu_stat else None
    return Machine(
        busy_cpu_s=busy_s,
        steal_s=steal_s,
        throttled_s=parse_throttled(throttled) if throttled else None,
        psi_cpu_some_s=stalled["cpu"],
        psi_memory_some_s=stalled["memory"],
        psi_io_some_s=stalled["io"],
    )


def machine_usage(before: Machine, after: Machine) -> dict[str, Any]:
    """Return what happened on the machine between two readings, by the names of ``Machine``."""
    then, now = asdict(before), asdict(after)
    return {
        name: None if then[name] is None or now[name] is None else now[name] - then[name]
        for name in then
    }


def available_bytes(proc: Path = _PROC) -> int:
    """Return the memory that can still be used without swapping (MemAvailable in proc(5))."""
    for line in (proc / "meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"{proc}/meminfo has no MemAvailable (Linux before 3.14?)")
