"""Reads this process's limits: the CPUs, NUMA nodes, CPU time and memory that it may use.

A container's quota does not show in the affinity mask. It is read from the cgroups: v1, v2 or both
side by side (the kernel's admin-guide/cgroup-v1 and cgroup-v2). As in system.py, functions take the
root of the file system.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from scaling_study.common.topology import format_cpu_list, parse_cpu_list
from scaling_study.host import system

UNLIMITED_BYTES = 2**62
"""A limit of this size or more is none: cgroup v1 writes "no limit" as the largest multiple of the
page size below 2**63."""


@dataclass(frozen=True, slots=True, order=True)
class Quota:
    """A cgroup's limit of CPU time: a number of CPUs, on average over each period."""

    cpus: float
    period_s: float


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """The place of a process in a cgroup controller's hierarchy.

    ``folders`` are its own cgroup and all above it, up to the mount. The limits of all apply.
    """

    version: int
    folders: tuple[Path, ...]


def read_allowed_cpus(root: Path = system.ROOT) -> tuple[int, ...]:
    """Return the online CPUs in this process's affinity mask and in its cgroup's cpuset.

    The mask is that of sched_getaffinity(2), read from /proc. The kernel keeps it inside the
    cpuset; reading both also works in a sandbox that shows only one of them.
    """
    allowed = set(system.read_mask(root))
    return tuple(
        sorted(allowed.intersection(system.read_online_cpus(root), _cpuset(root) or allowed))
    )


def tell_confined(root: Path = system.ROOT) -> str:
    """Return a message if an affinity mask leaves fewer CPUs than the cgroup; otherwise empty."""
    allowed = read_allowed_cpus(root)
    most = set(_cpuset(root) or system.read_online_cpus(root))
    if most <= set(allowed):
        return ""
    return (
        f"This shell's affinity mask confines the study to CPUs {format_cpu_list(allowed)} of "
        f"{format_cpu_list(most)}. To measure all of them, start it without taskset or numactl."
    )


def read_memory_policy(root: Path = system.ROOT) -> str:
    """Return this process's memory policy, as numa_maps (proc(5)) shows it for its code."""
    text = (system.read_text(root / "proc/self/numa_maps") or "").replace(" (many)", "")
    first, *_ = [*text.splitlines(), "- default"]
    return first.split()[1]


def read_allowed_nodes(root: Path = system.ROOT) -> tuple[int, ...]:
    """Return the online nodes that this process may take memory from: its cpuset's mems.

    A kernel without cpusets (CONFIG_CPUSETS) lists none and allows all.
    """
    online = system.read_online_nodes(root)
    allowed = parse_cpu_list(system.read_status("Mems_allowed_list", root, "")) or online
    return tuple(sorted(set(allowed).intersection(online)))


def read_quota(root: Path = system.ROOT) -> Quota | None:
    """Return the tightest CPU quota on the way up the hierarchy; None without one."""
    return min(filter(None, map(_quota, _folders("cpu", root))), default=None)


def read_memory_limit_bytes(root: Path = system.ROOT) -> int | None:
    """Return the tightest memory limit on the way up the hierarchy; None without one."""
    found = [
        read_limit(folder, name)
        for folder in _folders("memory", root)
        for name in ("memory.max", "memory.limit_in_bytes")
    ]
    return min((limit for limit in found if limit is not None), default=None)


def read_hierarchy(controller: str, root: Path = system.ROOT) -> Hierarchy | None:
    """Return the place of this process in the cgroup hierarchy of a controller.

    A controller that is mounted as v1 is read as v1, even if an (empty) v2 hierarchy is mounted
    beside it. In a container, /proc/self/cgroup may name a path of the host; then the mount itself
    is the process's cgroup.

    Args:
        controller: such as ``cpu``, ``memory`` or ``cpuset``.
        root: the root of the file system.

    Returns:
        None if no mounted hierarchy has the controller.
    """
    groups = system.read_text(root / "proc/self/cgroup") or ""
    return hierarchy(controller, groups, system.read_text(root / "proc/self/mountinfo") or "", root)


def hierarchy(
    controller: str, groups: str, mountinfo: str, root: Path = system.ROOT
) -> Hierarchy | None:
    """Return the place of any process in a cgroup hierarchy, as :func:`read_hierarchy` does.

    Args:
        controller: such as ``cpu``.
        groups: text of the process's /proc/PID/cgroup.
        mountinfo: text of this process's own /proc/self/mountinfo.
        root: the root of the file system.
    """
    paths: dict[str, str] = {}
    for line in groups.splitlines():
        _, controllers, path = line.split(":", 2)
        paths.update(dict.fromkeys(controllers.split(","), path))
    mounts: dict[int, list[str]] = {}
    for line in mountinfo.splitlines():  # its fields are in proc(5)
        fields = line.split(" ")
        kind, *_, options = fields[fields.index("-") + 1 :]
        if kind == "cgroup2":
            mounts.setdefault(2, fields)
        elif kind == "cgroup" and controller in options.split(","):
            mounts.setdefault(1, fields)
    if not mounts:
        return None
    version, fields = min(mounts.items())
    path = paths.get(controller if version == 1 else "", "/")
    return Hierarchy(version, _own_folders(fields, path, root))


def _folders(controller: str, root: Path) -> tuple[Path, ...]:
    hierarchy = read_hierarchy(controller, root)
    return hierarchy.folders if hierarchy else ()


def _quota(folder: Path) -> Quota | None:
    """Return the quota of one cgroup; version 2 has a file, version 1 has two."""
    quota_us, _, period_us = (system.read_text(folder / "cpu.max") or "").partition(" ")
    if not quota_us:
        quota_us = system.read_text(folder / "cpu.cfs_quota_us") or "-1"
        period_us = system.read_text(folder / "cpu.cfs_period_us") or ""
    if quota_us in {"max", "-1"} or not period_us:
        return None
    return Quota(int(quota_us) / int(period_us), int(period_us) / 1e6)


def read_limit(folder: Path, name: str) -> int | None:
    """Return a cgroup's limit from its file, such as ``memory.max``; None if it has none."""
    limit = system.read_text(folder / name) or "max"
    return None if limit == "max" or int(limit) >= UNLIMITED_BYTES else int(limit)


def _cpuset(root: Path) -> tuple[int, ...]:
    """Return the CPUs of this process's cgroup; empty if it does not limit them."""
    names = ("cpuset.cpus.effective", "cpuset.effective_cpus")  # of version 2 and 1
    files = (folder / name for folder in _folders("cpuset", root) for name in names)
    return parse_cpu_list(next(filter(None, map(system.read_text, files)), ""))


def _own_folders(mount: Sequence[str], path: str, root: Path) -> tuple[Path, ...]:
    """Return the folder of a cgroup and those above it, within a mount (its mountinfo fields)."""
    group, point = map(_unescaped, mount[3:5])
    top = root / point.lstrip("/")
    below = f"{path}/".startswith(group.rstrip("/") + "/")
    inside = path.removeprefix(group) if below else path
    own = top / inside.lstrip("/")
    if ".." in own.parts or not own.is_dir():
        return (top,)
    return (*takewhile(lambda folder: folder != top, (own, *own.parents)), top)


def _unescaped(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
