"""A probe of this machine (`records.machine`), its hash, and how two machines differ."""

import hashlib
import json
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib import metadata
from pathlib import Path

from msgspec import structs

from scaling_study.common.file_errors import UnusableError
from scaling_study.common.storage import PROJECT
from scaling_study.common.topology import Cpu, format_cpu_list, parse_memory_total
from scaling_study.host import limits, perf_events, system
from scaling_study.launch.axes.axis_table import LIBRARIES
from scaling_study.records.machine import Fact, Machine

ISA = (
    *("avx", "avx2", "fma", "f16c", "avx512f", "avx512dq", "avx512bw", "avx512vl"),
    *("avx512_vnni", "avx512_bf16", "avx512_fp16", "avx_vnni"),
    *("amx_tile", "amx_bf16", "amx_int8"),
    *("asimd", "asimddp", "bf16", "i8mm", "sve", "sve2"),
)
"""Instruction sets that matrix libraries choose their kernels by (x86, then ARM)."""

ARM_CORES = {
    "0xd0c": "Arm Neoverse N1",
    "0xd40": "Arm Neoverse V1",
    "0xd49": "Arm Neoverse N2",
    "0xd4f": "Arm Neoverse V2",
    "0xd84": "Arm Neoverse V3",
}
"""Names of servers' cores (Main ID registers, Arm); their kernel knows only numbers."""

USUAL_FOLDERS = (
    *(f"/usr/lib/{platform.machine()}-linux-gnu", "/usr/local/lib", "/usr/lib64", "/usr/lib"),
    "/opt/intel/oneapi/mkl/latest/lib",
    "/opt/intel/oneapi/compiler/latest/lib",
)
"""Searched after the loader's own folders, for machines whose loader cache cannot be read."""

PACKAGES = (
    *("torch-scaling-study", "torch", "snakemake", "numpy", "pandas", "scipy", "pyarrow"),
    *("pytorch-lightning", "neuralforecast", "distributed", "mkl", "py-libnuma"),
)
"""Distributions whose versions are recorded, where they are installed."""


def read_machine(root: Path = system.ROOT) -> Machine:
    """Probe this machine.

    Args:
        root: the root of the file system that /proc and /sys are read from. Libraries, versions and
            the commit are always this interpreter's.

    Raises:
        UnusableError: a file of /proc or /sys has another format than the kernel documents.
    """
    try:
        return _read_machine(root)
    except ValueError as error:
        raise UnusableError(
            f"a file of /proc or /sys is not as Linux writes it: {error}"
        ) from error


def _read_machine(root: Path) -> Machine:
    def text(path: str) -> str:
        return system.read_text(root / path) or ""

    cpu, memory = system.read_cpu_info(root), text("proc/meminfo")
    flags = cpu.get("flags", cpu.get("Features", "")).split()  # x86, ARM
    part = cpu.get("CPU part", "")
    models = (cpu.get("model name"), cpu.get("cpu"), ARM_CORES.get(part), part)  # x86, POWER, ARM
    vendors = (cpu.get(key) for key in ("vendor_id", "CPU implementer"))
    folders = library_folders()
    topology = system.read_topology(root)
    quota, cgroups = limits.read_quota(root), limits.read_hierarchy("cpu", root)
    balancing = text("proc/sys/kernel/numa_balancing")
    machine = Machine(
        hash="",
        hostname=text("proc/sys/kernel/hostname") or "unknown",
        cpu_model=next(filter(None, models), "unknown"),
        cpu_vendor=next(filter(None, vendors), "unknown"),
        isa=tuple(flag for flag in ISA if flag in flags),
        topology=topology,
        smt=topology.smt,
        l2_bytes=system.read_cache_bytes(2, root),
        l3_bytes=system.read_cache_bytes(3, root),
        virtual=system.read_virtual(flags, root),
        allowed_cpus=format_cpu_list(limits.read_allowed_cpus(root)),
        allowed_nodes=format_cpu_list(limits.read_allowed_nodes(root)),
        quota_cpus=quota.cpus if quota else None,
        cgroup_version=cgroups.version if cgroups else None,
        memory_bytes=parse_memory_total(memory),
        memory_limit_bytes=limits.read_memory_limit_bytes(root),
        swap_bytes=1024 * (system.find_number(r"SwapTotal:\s+(\d+) kB", memory) or 0),
        kernel=text("proc/sys/kernel/osrelease") or "unknown",
        libc=" ".join(platform.libc_ver()).strip() or "unknown",
        governor=system.read_governor(root),
        thp=system.read_thp(root),
        numa_balancing=balancing != "0" if balancing else None,
        llc_balancing=text("sys/kernel/debug/sched/llc_balancing/enabled") or None,
        perf_counters=perf_events.has_hardware_counters(),
        libraries={name: find_library(name, folders) for name in LIBRARIES},
        versions={"python": platform.python_version(), **dict(_versions())},
        commit=read_commit(PROJECT),
    )
    return structs.replace(machine, hash=digest(machine))


def read_commit(project: Path) -> str | None:
    """Return the commit of a checkout, with ``-dirty`` if tracked files differ from it.

    Args:
        project: the checkout's root.

    Returns:
        None without git, before the first commit, or if ``project`` is not the root of a checkout:
        it may lie inside another project's.
    """
    git = shutil.which("git")
    if git is None or not (project / ".git").exists():
        return None
    describe = ("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    command = [git, "--no-optional-locks", "-C", str(project), *describe]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def _versions() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            yield package, metadata.version(package)


def find_library(name: str, folders: Sequence[Path]) -> str | None:
    """Return a library that this interpreter's processes could load; None if there is none.

    Args:
        name: a key of ``LIBRARIES``, which the axes declare.
        folders: where to look, in order (see :func:`library_folders`).

    Returns:
        The path of the file itself, with symbolic links followed, so that its name shows the
        version. A better variant in a later folder wins over a worse one in an earlier folder.
    """
    for pattern in LIBRARIES[name].patterns:
        for folder in folders:
            for path in sorted(folder.glob(pattern), reverse=True):  # newest first
                # Built for this interpreter's machine: skips 32-bit files and linker scripts.
                if path.is_file() and _elf_kind(path) == _elf_kind(Path(sys.executable)):
                    return str(path.resolve())
    return None


def library_folders(prefix: Path = Path(sys.prefix)) -> tuple[Path, ...]:
    """Return the folders of libraries: an interpreter's own, the loader's, the usual ones.

    Args:
        prefix: the environment of the interpreter (PyPI's mkl and mimalloc are in it).
    """
    # Packages of cmeel have a prefix of their own within an environment.
    own = (prefix / "lib", *sorted(prefix.glob("lib/python3*/site-packages/cmeel.prefix/lib")))
    folders = (*own, *parse_loader_cache(_loader_cache()), *map(Path, USUAL_FOLDERS))
    return tuple(dict.fromkeys(folders))


def parse_loader_cache(text: str) -> tuple[Path, ...]:
    """Return the folders in the output of ``ldconfig -p``, each once, in the order there."""
    paths = re.findall(r"=> (/\S.*)$", text, flags=re.MULTILINE)
    return tuple(dict.fromkeys(Path(path).parent for path in paths))


def _loader_cache() -> str:
    """Return the output of ``ldconfig -p``; empty without ldconfig.

    It lives in /sbin, which is not on an ordinary user's PATH.
    """
    ldconfig = shutil.which("ldconfig") or shutil.which("ldconfig", path="/sbin:/usr/sbin")
    if ldconfig is None:
        return ""
    return subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=False).stdout


def _elf_kind(path: Path) -> tuple[bytes, bytes]:
    """Return a file's ELF magic with class and byte order, and its e_machine (elf(5))."""
    with path.open("rb") as file:
        header = file.read(20)
    return header[:6], header[18:20]


def speed_facts(machine: Machine) -> dict[str, object]:
    """Return the facts that matter to speed; machines with equal facts may pool their records.

    Memory is in whole GiB, because the kernel's own share of it varies by some pages from boot to
    boot. The hostname is not among the facts: a container gets a new one at each start, and equal
    nodes of a cluster count as one machine.

    Returns:
        Facts by name, ready to print.
    """
    topology = machine.topology
    layout = [
        [_layout(cpu) for cpu in topology.cpus],
        # A node's size may change while a virtual machine runs (memory is plugged when needed).
        [[node.node, node.memory_bytes > 0, *node.distances.items()] for node in topology.nodes],
    ]
    copied = ("cpu_model", "isa", "l2_bytes", "l3_bytes", "allowed_cpus", "allowed_nodes")
    settings = ("quota_cpus", "kernel", "governor", "thp", "numa_balancing", "virtual")
    known = {"llc_balancing": machine.llc_balancing} if machine.llc_balancing else {}
    return {
        **{name: getattr(machine, name) for name in copied},
        "topology": topology.describe(),
        "topology_layout": _digest(layout),
        "memory_gib": round(machine.memory_bytes / 2**30),
        **{name: getattr(machine, name) for name in settings},
        **known,
    }


def _layout(cpu: Cpu) -> dict[str, int]:
    """Return a CPU's groups, and the kind of a slower core."""
    return {name: group for name, group in asdict(cpu).items() if name != "kind" or group}


def digest(machine: Machine) -> str:
    """Return a machine's hash."""
    return _digest(speed_facts(machine))


def differences(here: Machine, there: Machine) -> tuple[Fact, ...]:
    """Return the facts in which two machines differ; empty exactly if their hashes are equal."""
    ours, theirs = speed_facts(here), speed_facts(there)
    return tuple(
        Fact(fact, ours.get(fact), theirs.get(fact))
        for fact in ours | theirs
        if ours.get(fact) != theirs.get(fact)
    )


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
