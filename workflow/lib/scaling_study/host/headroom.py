"""Reads what is left of this machine's limits: memory and tasks (processes and threads).

A limit may stand at any cgroup on the way up, and what other programs of that group use counts
against it. As in system.py every function takes the root of the file system.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scaling_study.host.limits import UNLIMITED_BYTES, Hierarchy, read_hierarchy
from scaling_study.host.system import ROOT, read_status, read_text


@dataclass(frozen=True, slots=True, order=True)
class Room:
    """What is left, in bytes or tasks, and the limit that leaves the least, in words."""

    free: int
    limit: str


@dataclass(frozen=True, slots=True)
class _Files:
    """Names of a controller's files: the limit, what is used, and what of that is only a cache.

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
    """The memory that can still be used without swapping (MemAvailable in proc(5)), in bytes.

    Raises:
        ValueError: The kernel does not tell.
    """
    meminfo = read_text(root / "proc/meminfo") or ""
    found = re.search(r"MemAvailable:\s+(\d+) kB", meminfo)
    if found is None:
        raise ValueError(f"{root / 'proc/meminfo'} has no MemAvailable (Linux before 3.14?)")
    machine = Room(int(found[1]) * 1024, "the machine's memory")
    return min([machine, *_rooms(read_hierarchy("memory", root), _MEMORY)])


def read_free_shared(root: Path = ROOT) -> Room:
    """What is left of the memory that processes share by files in /dev/shm, in bytes.

    Containers often have 64 MiB. Where there is no such place, it is the memory that is left.
    """
    place = root / "dev/shm"
    if not place.is_dir():
        return read_free_memory(root)
    found = os.statvfs(place)
    return Room(found.f_bavail * found.f_frsize, f"shared memory, {place}")


def read_shared_bytes(root: Path = ROOT) -> int | None:
    """The size of that memory; None where there is no such place."""
    place = root / "dev/shm"
    if not place.is_dir():
        return None
    found = os.statvfs(place)
    return found.f_blocks * found.f_frsize


def read_free_tasks(root: Path = ROOT) -> Room:
    """How many processes and threads can still be started."""
    rooms = [*_rooms(read_hierarchy("pids", root), _TASKS), *_kernel_tasks(root)]
    per_user = _tasks_of_user(root)
    return min(rooms if per_user is None else [*rooms, per_user])


def _rooms(hierarchy: Hierarchy | None, files: dict[int, _Files]) -> Iterator[Room]:
    """What every cgroup on the way up leaves."""
    if hierarchy is None:
        return
    names = files[hierarchy.version]
    for folder in hierarchy.folders:
        limit, used = read_text(folder / names.limit), read_text(folder / names.used)
        if limit is None or used is None or limit == "max" or int(limit) >= UNLIMITED_BYTES:
            continue
        free = int(limit) - int(used)
        if names.cache is not None:
            stat = read_text(folder / "memory.stat") or ""
            cache = re.search(rf"^{names.cache} (\d+)$", stat, flags=re.MULTILINE)
            free += int(cache[1]) if cache else 0
        yield Room(max(0, free), f"{names.limit} of {folder}, {limit}")


def _kernel_tasks(root: Path) -> Iterator[Room]:
    """What the kernel's own limits leave; it counts its tasks in /proc/loadavg (proc(5))."""
    load = (read_text(root / "proc/loadavg") or "").split()
    running = int(load[3].partition("/")[2]) if len(load) > 3 else 0  # noqa: PLR2004 (proc(5))
    for name in ("threads-max", "pid_max"):
        limit = read_text(root / "proc/sys/kernel" / name)
        if limit is not None:
            yield Room(max(0, int(limit) - running), f"kernel.{name}, {limit}")


def _tasks_of_user(root: Path) -> Room | None:
    """What RLIMIT_NPROC leaves this user; None where it does not bind."""
    limits = read_text(root / "proc/self/limits") or ""
    found = re.search(r"^Max processes\s+(\d+)", limits, flags=re.MULTILINE)
    if found is None or int(read_status("CapEff", root), 16) & _UNBOUND:
        return None
    user = read_status("Uid", root).split()[0]
    used = 0
    for folder in (root / "proc").glob("[0-9]*"):
        status = read_text(folder / "status") or ""
        its = re.search(r"^Uid:\s+(\d+)", status, flags=re.MULTILINE)
        threads = re.search(r"^Threads:\s+(\d+)", status, flags=re.MULTILINE)
        if its and threads and its[1] == user:
            used += int(threads[1])
    return Room(max(0, int(found[1]) - used), f"ulimit -u, {found[1]}")
