"""What this machine is: machine.json, its hash, and how two machines differ."""

import hashlib
import json
import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from scaling_study.common.file_errors import UnusableError
from scaling_study.common.topology import Topology, format_cpu_list, parse_cpu_list
from scaling_study.host import limits, perf_events, system
from scaling_study.host.libraries import find_library, library_folders
from scaling_study.launch.axes.axis_table import LIBRARIES

SCHEMA_VERSION = 1
"""1: the first."""

PROJECT = Path(__file__).parents[4]

ISA = (
    *("avx", "avx2", "fma", "f16c", "avx512f", "avx512dq", "avx512bw", "avx512vl"),
    *("avx512_vnni", "avx512_bf16", "avx512_fp16", "avx_vnni"),
    *("amx_tile", "amx_bf16", "amx_int8"),
    *("asimd", "asimddp", "bf16", "i8mm", "sve", "sve2"),
)
"""Instruction sets that matrix libraries choose their kernels by (x86, then ARM)."""

PACKAGES = (
    *("torch-scaling-study", "torch", "snakemake", "numpy", "pandas", "scipy", "pyarrow"),
    *("pytorch-lightning", "neuralforecast", "distributed", "mkl", "py-libnuma"),
)
"""Distributions whose versions are recorded, where they are installed."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine as this process may use it; sizes in bytes, quota in CPUs."""

    hostname: str
    cpu_model: str
    cpu_vendor: str
    isa: tuple[str, ...]
    topology: Topology
    l2_bytes: int | None
    l3_bytes: int | None
    virtual: str | None
    allowed_cpus: tuple[int, ...]
    allowed_nodes: tuple[int, ...]
    quota_cpus: float | None
    cgroup_version: int | None
    memory_bytes: int
    memory_limit_bytes: int | None
    swap_bytes: int
    kernel: str
    libc: str
    governor: str | None
    thp: str | None
    numa_balancing: bool | None
    perf_counters: bool
    libraries: dict[str, str | None]
    versions: dict[str, str]
    commit: str | None

    @property
    def usable(self) -> Topology:
        """The part of the machine that placements work on."""
        return self.topology.restricted(self.allowed_cpus, self.allowed_nodes)

    def to_dict(self) -> dict[str, Any]:
        """The content of machine.json; its hash covers :func:`speed_facts`."""
        fields = asdict(self) | {
            "schema_version": SCHEMA_VERSION,
            "isa": list(self.isa),
            "topology": self.topology.to_dict(),
            "smt": self.topology.smt,
            "allowed_cpus": format_cpu_list(self.allowed_cpus),
            "allowed_nodes": format_cpu_list(self.allowed_nodes),
        }
        return {"hash": _digest(speed_facts(fields)), **fields}


def read_machine(root: Path = system.ROOT) -> Machine:
    """Probe this machine.

    Args:
        root: the root of the file system that /proc and /sys are read from. Libraries, versions and
            the commit are always this interpreter's.

    Raises:
        UnusableError: a file of the kernel's has another format than the kernel documents.
    """
    try:
        return _read_machine(root)
    except ValueError as error:
        raise UnusableError(
            f"a file of /proc or /sys is not as Linux writes it: {error}"
        ) from error


def _read_machine(root: Path) -> Machine:
    cpu = system.read_cpu_info(root)
    folders = library_folders()
    return Machine(
        hostname=system.read_hostname(root),
        cpu_model=cpu.model,
        cpu_vendor=cpu.vendor,
        isa=tuple(flag for flag in ISA if flag in cpu.flags),
        topology=system.read_topology(root),
        l2_bytes=system.read_cache_bytes(2, root),
        l3_bytes=system.read_cache_bytes(3, root),
        virtual=system.read_virtual(cpu, root),
        allowed_cpus=limits.read_allowed_cpus(root),
        allowed_nodes=limits.read_allowed_nodes(root),
        quota_cpus=limits.read_quota_cpus(root),
        cgroup_version=limits.read_cgroup_version(root),
        memory_bytes=system.read_memory_bytes(root),
        memory_limit_bytes=limits.read_memory_limit_bytes(root),
        swap_bytes=system.read_swap_bytes(root),
        kernel=system.read_kernel(root),
        libc=" ".join(platform.libc_ver()).strip() or "unknown",
        governor=system.read_governor(root),
        thp=system.read_thp(root),
        numa_balancing=system.read_numa_balancing(root),
        perf_counters=perf_events.has_hardware_counters(),
        libraries={name: find_library(name, folders) for name in LIBRARIES},
        versions={"python": platform.python_version(), **dict(_versions())},
        commit=read_commit(PROJECT),
    )


def usable_topology(machine: Mapping[str, Any]) -> Topology:
    """The part of a stored machine that placements work on, from the content of machine.json."""
    return Topology.from_dict(machine["topology"]).restricted(
        parse_cpu_list(machine["allowed_cpus"]), parse_cpu_list(machine["allowed_nodes"])
    )


def read_commit(project: Path) -> str | None:
    """The commit of a checkout, with ``-dirty`` if tracked files differ from it.

    Args:
        project: the checkout's root.

    Returns:
        None without git, outside a checkout's root (an environment may lie in a foreign one), or
        before the first commit.
    """
    git = shutil.which("git")
    if git is None or not (project / ".git").exists():
        return None
    describe = ["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    command = [git, "--no-optional-locks", "-C", str(project), *describe]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def _versions() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        try:
            yield package, metadata.version(package)
        except metadata.PackageNotFoundError:
            continue


def speed_facts(machine: Mapping[str, Any]) -> dict[str, Any]:
    """What of a machine matters to speed: equal facts mean records that may be pooled.

    Memory is in whole GiB, since the kernel's own share of it moves by some pages from boot to
    boot. The hostname is not among the facts: a container's is drawn anew at each start, and equal
    nodes of a cluster are the same machine here.

    Args:
        machine: the content of machine.json.

    Returns:
        Facts by name, ready to print.
    """
    topology = Topology.from_dict(machine["topology"])
    layout = [
        [asdict(cpu) for cpu in topology.cpus],
        # A node's size moves while a virtual machine runs (memory is plugged as it is needed).
        [[node.node, node.memory_bytes > 0, *node.distances.items()] for node in topology.nodes],
    ]
    copied = ("cpu_model", "isa", "l2_bytes", "l3_bytes", "allowed_cpus", "allowed_nodes")
    settings = ("quota_cpus", "kernel", "governor", "thp", "numa_balancing", "virtual")
    return {
        **{name: machine[name] for name in copied},
        "topology": topology.describe(),
        "topology_layout": _digest(layout),
        "memory_gib": _gib(machine["memory_bytes"]),
        **{name: machine[name] for name in settings},
    }


@dataclass(frozen=True, slots=True)
class Difference:
    """A fact that two machines differ in."""

    fact: str
    here: Any
    there: Any

    def __str__(self) -> str:
        """``kernel: 6.1 here, 5.4 there``."""
        return f"{self.fact}: {self.here} here, {self.there} there"


def differences(here: Mapping[str, Any], there: Mapping[str, Any]) -> tuple[Difference, ...]:
    """Why two machines have different hashes; empty exactly if they have the same.

    Args:
        here: the content of one machine.json.
        there: of another, or as stored with a record.
    """
    ours, theirs = speed_facts(here), speed_facts(there)
    return tuple(
        Difference(fact, ours[fact], theirs[fact]) for fact in ours if ours[fact] != theirs[fact]
    )


def _gib(size_bytes: int) -> int:
    return round(size_bytes / 2**30)


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
