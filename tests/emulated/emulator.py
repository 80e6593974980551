"""Boots an emulated machine that a test describes, and runs a command of this host in it.

QEMU emulates the processors (no /dev/kvm, no root), the distribution's own kernel runs on them, and
the host's whole file system is its root: read-only over 9p, under an overlay in memory. So the
project's own environment runs there as it is, on a machine that nobody has to buy. Everything is
some thirty times slower than here: no time that was measured inside means anything.
"""

import lzma
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from scaling_study.queues import bind

BUSYBOX = shutil.which("busybox") or "busybox"

# In the order of their dependencies (modules.dep).
MODULES = (
    *("virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci"),
    *("netfs", "fscache", "9pnet", "9pnet_virtio", "9p", "overlay"),
)

# A processor with several L3s as far as Linux can tell: a model that its topology code knows. It
# has no fused multiply-add, which QEMU computes by hand: an SGEMM takes 25 times as long with it.
# Nor has it AVX2, which tells OpenBLAS of a processor that has both.
PROCESSOR = "max,vendor=GenuineIntel,family=6,model=85,stepping=4,fma=off,avx2=off"

# Where the machine finds the folder for its results.
RESULTS = Path("/run/results")

# The loose cache is right for files that nobody changes meanwhile, and ten times faster. What is
# written to the results must be there at once.
INIT = Path(__file__).with_name("init.sh").read_text()


@dataclass(frozen=True, slots=True)
class Node:
    """A NUMA node: its CPUs as a list such as ``0-3``, and its memory; either may be none."""

    cpus: str
    memory_mib: int


@dataclass(frozen=True, slots=True)
class Machine:
    """An emulated machine; CPUs are numbered thread by thread, core by core, die by die."""

    name: str
    sockets: int
    dies: int
    cores: int
    threads: int
    nodes: tuple[Node, ...]
    distances: tuple[tuple[int, ...], ...]

    @property
    def cpus(self) -> int:
        """How many CPUs it has."""
        return self.sockets * self.dies * self.cores * self.threads


def options(machine: Machine) -> list[str]:
    """QEMU's options for the processors, the nodes and their distances."""
    parts = ("sockets", "dies", "cores", "threads")
    shape = ",".join(f"{part}={getattr(machine, part)}" for part in parts)
    memory_mib = sum(node.memory_mib for node in machine.nodes)
    found = ["-smp", f"{machine.cpus},{shape}", "-m", f"{memory_mib}M"]
    for number, node in enumerate(machine.nodes):
        fields = [f"node,nodeid={number}"]
        if node.memory_mib:
            size = f"memory-backend-ram,id=memory{number},size={node.memory_mib}M"
            found += ["-object", size]
            fields.append(f"memdev=memory{number}")
        fields += [f"cpus={cpus}" for cpus in node.cpus.split(",") if cpus]
        found += ["-numa", ",".join(fields)]
    for source, row in enumerate(machine.distances):
        for target, value in enumerate(row):
            found += ["-numa", f"dist,src={source},dst={target},val={value}"]
    return found


def kernel() -> Path:
    """The newest installed kernel that has its modules; run.sh installs one."""
    images = [image for image in Path("/boot").glob("vmlinuz-*-amd64") if _modules(image).is_dir()]
    return max(images, key=lambda image: [*map(int, re.findall(r"\d+", image.name))])


def _modules(image: Path) -> Path:
    return Path("/lib/modules") / image.name.removeprefix("vmlinuz-")


def _initial_files(folder: Path, image: Path, command: list[str]) -> None:
    """Write the first root file system of a boot: busybox, modules, and what to do."""
    for name in ("bin", "dev", "host", "memory", "modules", "proc", "root", "sys"):
        (folder / name).mkdir(parents=True)
    shutil.copy(BUSYBOX, folder / "bin/busybox")
    for module in MODULES:
        packed = next(_modules(image).rglob(f"{module}.ko*"))
        data = packed.read_bytes()
        text = lzma.decompress(data) if packed.suffix == ".xz" else data
        (folder / f"modules/{module}.ko").write_bytes(text)
    init = folder / "init"
    init.write_text(
        INIT.format(
            modules=" ".join(MODULES), results=RESULTS, command=shlex.quote(shlex.join(command))
        )
    )
    init.chmod(0o755)


def _pack(folder: Path, archive: Path) -> None:
    pack = f"find . | {BUSYBOX} cpio -o -H newc > {shlex.quote(str(archive))} 2> /dev/null"
    subprocess.run(["/bin/sh", "-c", pack], cwd=folder, check=True)


def run(machine: Machine, command: list[str], results: Path, limit_s: float) -> int:
    """Boot a machine, run a command in it as root, and power it off.

    Args:
        machine: what to emulate.
        command: paths are those of this host; it may write anywhere, but only what it writes to
            :data:`RESULTS` is kept.
        results: the folder that the machine sees as :data:`RESULTS`; gets its ``console``, and the
            command's ``output`` and ``status``.
        limit_s: the machine is switched off after this time.

    Returns:
        The command's exit status.

    Raises:
        subprocess.TimeoutExpired: The command took too long.
    """
    image = kernel()
    with tempfile.TemporaryDirectory(prefix="emulated-") as name:
        folder = Path(name)
        _initial_files(folder / "files", image, command)
        _pack(folder / "files", folder / "initrd")
        share = "local,security_model=none,multidevs=remap"
        line = [
            *("qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", PROCESSOR),
            *options(machine),
            *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
            *("-kernel", str(image), "-initrd", str(folder / "initrd")),
            *("-append", "console=ttyS0 quiet panic=-1 mitigations=off"),
            *("-serial", f"file:{results / 'console'}"),
            *("-virtfs", f"{share},path=/,mount_tag=host,readonly=on"),
            *("-virtfs", f"{share},path={results},mount_tag=results"),
        ]
        # However this process ends, the machine ends with it.
        tied = [sys.executable, "-P", bind.__file__, "--die-with", str(os.getpid()), "--", *line]
        subprocess.run(tied, stdin=subprocess.DEVNULL, check=True, timeout=limit_s)
    return int((results / "status").read_text())
