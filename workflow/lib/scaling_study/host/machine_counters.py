"""The kernel's counters of the machine, and of the members' cgroups.

The coordinator reads them at the start and the end of a window. Parsers are pure and take text;
functions that read take the root of the file system or the mount of proc(5), so that tests can feed
captured files.

Throttled time
    A quota (CFS bandwidth control) holds back every thread of a cgroup until the next period. For
    each cgroup, the kernel counts how long this lasted on each CPU where the group had something to
    run, and sums over CPUs (Documentation/scheduler/sched-bwc.rst, "Statistics": throttled_time in
    ns; Documentation/admin-guide/cgroup-v2.rst: throttled_usec). A group's cpu.stat counts its own
    quota only, but any group above may have one. Since Linux 6.6, cpu.stat.local counts, for the
    group itself, throttling by any quota above it (commit 677ea015f231). With older kernels, the
    counts of all groups on the way up are added. The sum is exact if only one of them has a quota
    and nothing else runs in that group. If several have one, time in which two held the same CPU
    counts twice. The time that other programs of an upper group lost is included.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import lru_cache
from pathlib import Path

from scaling_study.host import kernel_counters
from scaling_study.host.limits import hierarchy
from scaling_study.host.system import ROOT, read_text

_PROC = Path("/proc")

# Fields of a cpu line of /proc/stat for time that programs on this machine used: user, nice,
# system, irq, softirq. Other virtual machines used steal time; user already includes guest time.
_BUSY = (0, 1, 2, 5, 6)
_STEAL = 7


@dataclass(frozen=True, slots=True)
class MachineCounters:
    """Counters of the whole machine since it started; None where the kernel has no such file."""

    busy_cpu_s: float
    steal_s: float
    psi_cpu_some_s: float | None
    psi_memory_some_s: float | None
    psi_io_some_s: float | None


def parse_stat(text: str, cpus: frozenset[int]) -> tuple[float, float]:
    """Return busy and stolen CPU seconds of ``cpus`` from the text of /proc/stat."""
    busy = steal = 0
    for line in text.splitlines():
        name, *values = line.split()
        if name.startswith("cpu") and name != "cpu" and int(name[3:]) in cpus:
            ticks = [int(value) for value in values]
            busy += sum(ticks[kind] for kind in _BUSY)
            steal += ticks[_STEAL]
    return busy / kernel_counters.TICKS_PER_S, steal / kernel_counters.TICKS_PER_S


def parse_pressure(text: str) -> float:
    """Return the seconds in which some task was stalled, from the text of /proc/pressure/*."""
    return int(text.partition("total=")[2].split()[0]) / 1e6


def read_machine(cpus: frozenset[int], proc: Path = _PROC) -> MachineCounters:
    """Read the machine's counters.

    Args:
        cpus: the CPUs that this study may use; others do not count as busy.
        proc: where proc(5) is mounted.
    """
    texts = [read_text(proc / "pressure" / name) for name in ("cpu", "memory", "io")]
    stalled_s = [parse_pressure(text) if text else None for text in texts]
    return MachineCounters(*parse_stat((proc / "stat").read_text(), cpus), *stalled_s)


def machine_usage(before: MachineCounters, after: MachineCounters) -> MachineCounters:
    """Return the growth of the machine's counters between two readings."""
    busy_s, steal_s = after.busy_cpu_s - before.busy_cpu_s, after.steal_s - before.steal_s
    pressures = zip(astuple(before)[2:], astuple(after)[2:], strict=True)
    stalled_s = [None if None in (then, now) else now - then for then, now in pressures]
    return MachineCounters(busy_s, steal_s, *stalled_s)


def parse_throttled(text: str) -> float | None:
    """Return throttled seconds from a cgroup's cpu.stat: version 2 counts us, version 1 ns.

    Args:
        text: of cpu.stat or cpu.stat.local.

    Returns:
        Seconds, summed over CPUs; None if the kernel counts none for this group.
    """
    counts = dict(line.split() for line in text.splitlines())
    for name, per_s in (("throttled_usec", 1e6), ("throttled_time", 1e9)):
        if name in counts:
            return int(counts[name]) / per_s
    return None


def read_throttled(pids: Iterable[int], root: Path = ROOT) -> dict[Path, float]:
    """Read how long quotas have held back the cgroups of processes since the groups began.

    Args:
        pids: the processes, most often all in one cgroup; one that is gone is left out.
        root: the root of the file system.

    Returns:
        Seconds, summed over CPUs, by the file that counts them; empty where no group is counted.
    """
    texts = {read_text(root / f"proc/{pid}/cgroup") for pid in pids}
    mounts = read_text(root / "proc/self/mountinfo") or ""
    files = {file for text in texts if text for file in _throttling_files(text, mounts, root)}
    counted = {file: parse_throttled(read_text(file) or "") for file in files}
    return {file: seconds for file, seconds in counted.items() if seconds is not None}


def throttled_s(before: Mapping[Path, float], after: Mapping[Path, float]) -> float | None:
    """Return the throttled seconds between two readings; None where nothing counts them."""
    both = before.keys() & after.keys()
    return sum(after[file] - before[file] for file in both) if both else None


@lru_cache(maxsize=64)  # cgroups change seldom, and members are most often in the same one
def _throttling_files(groups: str, mounts: str, root: Path) -> Sequence[Path]:
    """Return the files that count the throttling of the processes in these cgroups."""
    found = hierarchy("cpu", groups, mounts, root)
    if found is None:
        return ()
    own = found.folders[0] / "cpu.stat.local"
    if own.is_file():
        return (own,)
    return tuple(folder / "cpu.stat" for folder in found.folders)
