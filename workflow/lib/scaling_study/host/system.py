"""Reads the hardware and settings of this machine from /proc and /sys; limits.py reads its limits.

Functions take the root of the file system, so that tests can read captured machines. A file that
the kernel does not have reads as None; text that is not in the kernel's format raises ValueError.
"""

import os
import re
from collections.abc import Collection
from pathlib import Path

from scaling_study.common.topology import CpuText, NodeText, Topology, build, parse_cpu_list

ROOT = Path("/")
CPU_FOLDER = "sys/devices/system/cpu"
NODE_FOLDER = "sys/devices/system/node"
PMU_FOLDER = "sys/bus/event_source/devices"
INTEL_KINDS = ("cpu_core", "cpu_atom", "cpu_lowpower")
"""Units that count events of Intel's kinds of cores, the fastest first. Processors with cores of
one kind have a single unit, ``cpu``.
"""
SPEEDS = ("cpu_capacity", "cpufreq/cpuinfo_max_freq", "acpi_cppc/highest_perf")
"""Files of a CPU that tell fast cores from slow ones: Arm's scheduler's measure, the highest clock,
and the firmware's own scale.
"""


def read_text(path: Path) -> str | None:
    """Return a file's text without surrounding white space; None if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def find_number(pattern: str, text: str | None) -> int | None:
    """Return the number that a pattern captures in the lines of a text; None without it."""
    found = re.search(pattern, text or "", flags=re.MULTILINE)
    return int(found[1]) if found else None


def read_status(field: str, root: Path = ROOT, otherwise: str | None = None) -> str:
    """Return a field of this process's /proc/self/status.

    Raises:
        ValueError: The kernel does not write it, and ``otherwise`` is None.
    """
    text = read_text(root / "proc/self/status") or ""
    match = re.search(rf"^{field}:\s*(.*)$", text, flags=re.MULTILINE)
    found = otherwise if match is None else match[1]
    if found is None:
        raise ValueError(f"{root / 'proc/self/status'} has no {field}")
    return found


def read_mask(root: Path = ROOT) -> tuple[int, ...]:
    """Return this process's affinity mask, by system call if /proc does not list it (gVisor)."""
    listed = parse_cpu_list(read_status("Cpus_allowed_list", root, ""))
    return listed or tuple(sorted(os.sched_getaffinity(0)))


def read_online_cpus(root: Path = ROOT) -> tuple[int, ...]:
    """Return all online CPUs; without /sys (some sandboxes), those that the process may use."""
    return parse_cpu_list(read_text(root / CPU_FOLDER / "online") or "") or read_mask(root)


def read_online_nodes(root: Path = ROOT) -> tuple[int, ...]:
    """Return all online NUMA nodes; node 0 alone if the kernel has no NUMA."""
    return parse_cpu_list(read_text(root / NODE_FOLDER / "online") or "0")


def read_topology(root: Path = ROOT) -> Topology:
    """Return all online CPUs and nodes."""
    cpus = read_online_cpus(root)
    return build(
        {cpu: _cpu_text(root / CPU_FOLDER / f"cpu{cpu}") for cpu in cpus},
        {node: _node_text(node, cpus, root) for node in read_online_nodes(root)},
        parse_cpu_list(read_text(root / NODE_FOLDER / "possible") or ""),
        [read_text(root / PMU_FOLDER / name / "cpus") or "" for name in INTEL_KINDS],
    )


def _cpu_text(folder: Path) -> CpuText:
    topology = folder / "topology"
    third = (index for index in _caches(folder) if read_text(index / "level") == "3")
    siblings = ("core_cpus_list", "thread_siblings_list")
    return CpuText(
        socket=read_text(topology / "physical_package_id"),
        siblings=next(filter(None, (read_text(topology / name) for name in siblings)), None),
        l3=next((read_text(index / "shared_cpu_list") for index in third), None),
        speeds=tuple(read_text(folder / name) for name in SPEEDS),
    )


def _node_text(node: int, cpus: tuple[int, ...], root: Path) -> NodeText:
    folder = root / NODE_FOLDER / f"node{node}"
    if not folder.is_dir():  # a kernel without NUMA: one node holds everything
        memory = read_text(root / "proc/meminfo") or ""
        return NodeText(cpus=",".join(map(str, cpus)), memory=memory, distances="10")
    return NodeText(
        cpus=read_text(folder / "cpulist") or "",
        memory=read_text(folder / "meminfo") or "",
        distances=read_text(folder / "distance") or "",
    )


def _caches(cpu_folder: Path) -> list[Path]:
    return sorted((cpu_folder / "cache").glob("index[0-9]*"))


def read_cache_bytes(level: int, root: Path = ROOT) -> int | None:
    """Return the size of the lowest online CPU's data or unified cache of a level, if known."""
    first = min(read_online_cpus(root))
    for index in _caches(root / CPU_FOLDER / f"cpu{first}"):
        if read_text(index / "level") == str(level) and read_text(index / "type") != "Instruction":
            kib = find_number(r"^(\d+)K$", read_text(index / "size"))
            return kib * 1024 if kib else None
    return None


def read_cpu_info(root: Path = ROOT) -> dict[str, str]:
    """Return the fields of /proc/cpuinfo, each with its first value: that of the first CPU."""
    fields: dict[str, str] = {}
    for line in (read_text(root / "proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    return fields


def read_virtual(flags: Collection[str], root: Path = ROOT) -> str | None:
    """Return the kind of virtual machine, as far as it is known; None on hardware.

    Args:
        flags: the CPU's, from /proc/cpuinfo.
        root: the root of the file system.
    """
    xen = read_text(root / "sys/hypervisor/type")
    if "hypervisor" not in flags and xen is None:
        return None
    dmi = root / "sys/class/dmi/id"
    names = (read_text(dmi / "sys_vendor"), read_text(dmi / "product_name"))
    return " ".join(filter(None, names)) or xen or "hypervisor"


def read_thp(root: Path = ROOT) -> str | None:
    """Return the mode of transparent huge pages, such as ``madvise``; None without them."""
    text = read_text(root / "sys/kernel/mm/transparent_hugepage/enabled") or ""
    match = re.search(r"\[(\w+)\]", text)
    return match[1] if match else None


def read_governor(root: Path = ROOT) -> str | None:
    """Return the CPUs' different frequency governors, such as ``performance``; None without any."""
    files = (root / CPU_FOLDER).glob("cpu[0-9]*/cpufreq/scaling_governor")
    return ", ".join(sorted(filter(None, set(map(read_text, files))))) or None
