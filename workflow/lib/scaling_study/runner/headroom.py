"""Headroom: what the machine's limits leave, and whether a number of members can be started.

Memory, tasks (processes and threads) and open files are limited. A limit may be set for any cgroup
on the way up, and the use of all programs in that cgroup counts against it. On a machine with
hundreds of CPUs, the user's limits are met before the machine's. Running into a limit half-way
would look like crashing members, so headroom is checked before the first member starts.

Each cohort measures the memory that a member takes, for the cohorts that come after it. Resident
memory would count the libraries, which all members share, once for each member. So the measure is
the decrease of free memory until all members have started. The same is measured for /dev/shm,
through which a loader's workers pass their batches.
"""

import os
import resource
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Self

from scaling_study.common.unavailable import UnavailableError
from scaling_study.host.limits import Hierarchy, read_hierarchy, read_limit
from scaling_study.host.perf_events import SPARE_DESCRIPTORS
from scaling_study.host.system import ROOT, find_number, read_status, read_text
from scaling_study.launch.axes.launcher import LAUNCHERS
from scaling_study.records import codec
from scaling_study.records.window import DECODER, CohortEnd

BUS_ERRORS = ("Bus error", "out of shared memory", "shared memory(shm)")
"""Messages of torch and the kernel when /dev/shm is full."""
LAST_BYTES = 8192
"""The last record of a file is shorter than this."""

# For the coordinator and its supervisor, a launcher's host, and what they start now and then.
SPARE_TASKS = 16


@dataclass(frozen=True, slots=True, order=True)
class Room:
    """The bytes or tasks that are left, and the tightest limit, in words."""

    free: int
    limit: str


class _Files(NamedTuple):
    """Names of a controller's files: the limit, the use, and the part of it that is only cache.

    The kernel gives inactive page cache back when memory is asked for (cgroup-v2, memory.stat).
    """

    limit: str
    used: str
    cache: str | None = None


_MEMORY = {
    1: _Files("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: _Files("memory.max", "memory.current", "inactive_file"),
}
_TASKS = {version: _Files("pids.max", "pids.current") for version in (1, 2)}

# Capabilities that RLIMIT_NPROC does not bind (capabilities(7)); CAP_SYS_ADMIN and _RESOURCE.
_UNBOUND = 1 << 21 | 1 << 24


def read_free_memory(root: Path = ROOT) -> Room:
    """Return the bytes that can still be used without swapping (MemAvailable in proc(5))."""
    kib = find_number(r"MemAvailable:\s+(\d+) kB", read_text(root / "proc/meminfo")) or 0
    machine = Room(kib * 1024, "the machine's memory")
    return min([machine, *_rooms(read_hierarchy("memory", root), _MEMORY)])


def read_free_shared(root: Path = ROOT) -> Room:
    """Return the bytes left in /dev/shm, through whose files processes share memory.

    Containers often have 64 MiB. Without /dev/shm, this is the memory that is left.
    """
    place = root / "dev/shm"
    if not place.is_dir():
        return read_free_memory(root)
    filesystem = os.statvfs(place)
    return Room(filesystem.f_bavail * filesystem.f_frsize, f"shared memory, {place}")


def read_shared_bytes(root: Path = ROOT) -> int | None:
    """Return the size of /dev/shm; None if there is none."""
    place = root / "dev/shm"
    if not place.is_dir():
        return None
    filesystem = os.statvfs(place)
    return filesystem.f_blocks * filesystem.f_frsize


def read_free_tasks(root: Path = ROOT) -> Room:
    """Return the number of processes and threads that can still be started."""
    rooms = [*_rooms(read_hierarchy("pids", root), _TASKS), *_kernel_tasks(root)]
    return min([*rooms, *_tasks_of_user(root)])


def _rooms(hierarchy: Hierarchy | None, files: dict[int, _Files]) -> Iterator[Room]:
    """Yield the headroom in every cgroup on the way up."""
    if hierarchy is None:
        return
    names = files[hierarchy.version]
    for folder in hierarchy.folders:
        limit, used = read_limit(folder, names.limit), read_text(folder / names.used)
        if limit is None or used is None:
            continue
        free = limit - int(used)
        if names.cache is not None:
            free += find_number(rf"^{names.cache} (\d+)$", read_text(folder / "memory.stat")) or 0
        yield Room(max(0, free), f"{names.limit} of {folder}, {limit}")


def _kernel_tasks(root: Path) -> Iterator[Room]:
    """Yield the headroom in the kernel's own limits; /proc/loadavg counts the tasks (proc(5))."""
    load = (read_text(root / "proc/loadavg") or "").split()
    running = int(load[3].partition("/")[2]) if len(load) > 3 else 0  # noqa: PLR2004 (proc(5))
    for name in ("threads-max", "pid_max"):
        limit = read_text(root / "proc/sys/kernel" / name)
        if limit is not None:
            yield Room(max(0, int(limit) - running), f"kernel.{name}, {limit}")


def _tasks_of_user(root: Path) -> Iterator[Room]:
    """Yield the headroom of this user in RLIMIT_NPROC, if that limit binds."""
    limit = find_number(r"^Max processes\s+(\d+)", read_text(root / "proc/self/limits"))
    if limit is None or int(read_status("CapEff", root), 16) & _UNBOUND:
        return
    user = int(read_status("Uid", root).split()[0])
    statuses = [read_text(folder / "status") for folder in (root / "proc").glob("[0-9]*")]
    used = sum(
        find_number(r"^Threads:\s+(\d+)", status) or 0
        for status in statuses
        if find_number(r"^Uid:\s+(\d+)", status) == user
    )
    yield Room(max(0, limit - used), f"ulimit -u, {limit}")


# ---- a member's memory


class Footprint(NamedTuple):
    """The memory that a member takes, in bytes; 0 if unknown."""

    memory: int = 0
    shared: int = 0


UNKNOWN = Footprint()


def read_free() -> Footprint:
    """Return the memory that is free."""
    return Footprint(read_free_memory().free, read_free_shared().free)


def footprint(before: Footprint, members: int) -> Footprint | None:
    """Return each member's share of the decrease in free memory; None without members."""
    if not members:
        return None
    less = (then - now for then, now in zip(before, read_free(), strict=True))
    return Footprint(*(max(0, decrease) // members for decrease in less))


def why_bus_error(log: str, reason: str) -> str:
    """Return what a member with a bus error was most likely short of; empty if it had none.

    Args:
        log: the end of what it has printed.
        reason: how it ended.
    """
    if "SIGBUS" not in reason and not any(error in log for error in BUS_ERRORS):
        return ""
    left = read_free_shared()
    return (
        f", after a bus error: {left.free / 1024**2:.0f} MiB are left ({left.limit}), through which"
        " loader workers pass their batches. Make it larger (docker run --shm-size), or take fewer"
        " workers (the axis loader_workers) or batches ahead (prefetch)"
    )


def known(folder: Path, launch: str) -> Footprint:
    """Return the memory that a member was seen to take, in this launch or else in any.

    It is the least that was seen, because other programs may have taken memory meanwhile.

    Args:
        folder: measure/, with a folder of record files for each launch.
        launch: its id.
    """
    for pattern in (f"{launch}/*.jsonl", "*/*.jsonl"):
        footprints = [taken for path in folder.glob(pattern) if (taken := _taken(path)).memory]
        if footprints:
            return Footprint(*map(min, zip(*footprints, strict=True)))
    return UNKNOWN


def _taken(path: Path) -> Footprint:
    """Return the footprint in the last record of a file; ``UNKNOWN`` if there is none."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - LAST_BYTES))
        last = file.read().splitlines()[-1:]
    try:
        end = codec.decode(b"".join(last) + b"\n", DECODER, str(path))
    except codec.RecordError:  # reported when records are collected
        return UNKNOWN
    if not isinstance(end, CohortEnd):
        return UNKNOWN
    return Footprint(end.member_bytes or 0, end.member_shared_bytes or 0)


# ---- room for members


@dataclass(frozen=True, slots=True)
class Need:
    """The resources that a cohort needs.

    Attributes:
        members: number of members.
        threads: the fewest threads of all members together.
        launcher: name of the launcher that starts them.
        member: memory that each member was seen to take.
        processes: number of processes of each member.
    """

    members: int
    threads: int
    launcher: str
    member: Footprint = UNKNOWN
    processes: int = 1

    @property
    def memory_bytes(self) -> int:
        """The memory that all members take, at least."""
        least_bytes = self.processes * LAUNCHERS[self.launcher].least_bytes
        return self.members * max(self.member.memory, least_bytes)

    def of(self, members: int) -> Self:
        """Return the need of a cohort with fewer of these members."""
        return replace(self, members=members, threads=self.threads * members // self.members)


def check(needs: Sequence[Need]) -> None:
    """Check that cohorts can live side by side, and beside all that lives already.

    Raises:
        UnavailableError: they cannot; it names the limit in the way.
    """
    members = sum(need.members for need in needs)
    _check_descriptors(members, sum(need.members * need.processes for need in needs))
    _check_tasks(members, sum(need.threads for need in needs), SPARE_TASKS * len(needs))
    _check_memory(members, sum(need.memory_bytes for need in needs), read_free_memory())
    shared_bytes = sum(need.members * need.member.shared for need in needs)
    _check_memory(members, shared_bytes, read_free_shared())


def fitting(need: Need, counts: Sequence[int]) -> tuple[list[int], UnavailableError | None]:
    """Return the process counts that a launch can have, and what keeps the largest from fitting.

    Args:
        need: the need of a cohort of the largest count.
        counts: the counts that are asked for.

    Raises:
        UnavailableError: not even the smallest fits.
    """
    missing = None
    for most in sorted(counts, reverse=True):
        try:
            check([need.of(most)])
        except UnavailableError as error:
            missing = missing or error
            unfit = error
        else:
            return [n for n in counts if n <= most], missing
    raise unfit


def together(needs: Sequence[Need], most: int) -> list[int]:
    """Divide cohorts, in their order, into groups that can live side by side.

    Args:
        needs: the need of each cohort, for which there is room alone.
        most: the largest number of cohorts in a group.

    Returns:
        How many cohorts each group has.
    """
    sizes: list[int] = []
    group: list[Need] = []
    for need in needs:
        if group and (len(group) == most or not _fit([*group, need])):
            sizes.append(len(group))
            group = []
        group.append(need)
    return [*sizes, len(group)] if group else sizes


def _fit(needs: Sequence[Need]) -> bool:
    try:
        check(needs)
    except UnavailableError:
        return False
    return True


def _check_descriptors(members: int, processes: int) -> None:
    limit, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return
    used = sum(1 for _ in Path("/proc/self/fd").iterdir()) + SPARE_DESCRIPTORS
    # One for the gate of each process and one for each member; hardware counters take the rest.
    needed = used + members + processes
    if needed > limit:
        fit = max(0, limit - used) * members // (members + processes)
        raise UnavailableError(
            f"{members} members need {needed} open files, and the limit is {limit} (ulimit -n)",
            f"ulimit -n {needed} in the shell that starts the study"
            + (f" (the hard limit is {hard}: as root)" if needed > hard >= 0 else "")
            + f", or processes of at most {fit}",
        )


def _check_tasks(members: int, threads: int, spare: int) -> None:
    left = read_free_tasks()
    needed = threads + spare
    if needed > left.free:
        fit = max(0, left.free - spare) * members // threads
        raise UnavailableError(
            f"{members} members of {threads // members} threads or more each need {needed} tasks,"
            f" and {left.free} are left ({left.limit})",
            f"raise that limit, set intra_op to 1, or processes to at most {fit}",
        )


def _check_memory(members: int, needed_bytes: int, left: Room) -> None:
    if needed_bytes > left.free:
        raise UnavailableError(
            f"{members} members need {needed_bytes / 1024**3:.1f} GiB or more,"
            f" and {left.free / 1024**3:.1f} GiB are left ({left.limit})",
            f"raise that limit, or set processes to at most {left.free * members // needed_bytes}",
        )
