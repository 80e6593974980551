"""The description of a machine as a process may use it: machine.json, and the heads of records.

The format has version 1.
"""

from typing import Literal

from msgspec import Struct

from scaling_study.common.topology import Topology, parse_cpu_list
from scaling_study.records.field import Amount, Bytes


class Machine(Struct, frozen=True, kw_only=True):
    """A machine, as its probe saw it."""

    schema_version: Literal[1] = 1
    """Version of the format."""
    hash: str
    """Digest of all that affects speed: machines with equal digests count as the same machine."""
    hostname: str
    """Name of the node. Source: /proc/sys/kernel/hostname."""
    cpu_model: str
    """Name of the processor. Source: /proc/cpuinfo."""
    cpu_vendor: str
    """Vendor of the processor. Source: /proc/cpuinfo."""
    isa: tuple[str, ...]
    """Its instruction sets, of those that decide which kernels matrix libraries choose. Source:
    /proc/cpuinfo."""
    topology: Topology
    """Its online CPUs, with core, socket, NUMA node and L3 cache of each, and its NUMA nodes.
    Source: /sys/devices/system."""
    smt: bool
    """Whether a core has several CPUs."""
    l2_bytes: Bytes | None
    """Size of an L2 cache. Source: /sys/devices/system/cpu."""
    l3_bytes: Bytes | None
    """Size of an L3 cache. Source: /sys/devices/system/cpu."""
    virtual: str | None
    """Kind of virtual machine, as far as it names itself; null on bare metal."""
    allowed_cpus: str
    """CPUs that the study may use. Source: /proc/self/status."""
    allowed_nodes: str
    """NUMA nodes whose memory it may use. Source: /proc/self/status."""
    quota_cpus: Amount | None
    """CPU time per second that the cgroup may use; null without a quota. Source: cpu.max of the
    cgroup and of all above it, or cpu.cfs_quota_us."""
    cgroup_version: int | None
    """Version of the hierarchy that limits CPUs; null without one."""
    memory_bytes: Bytes
    """Size of the memory. Source: /proc/meminfo."""
    memory_limit_bytes: Bytes | None
    """The cgroup's memory limit; null without a limit."""
    swap_bytes: Bytes
    """Swap space. Source: /proc/meminfo."""
    kernel: str
    """Release of the kernel. Source: /proc/sys/kernel/osrelease."""
    libc: str
    """The C library and its version."""
    governor: str | None
    """Frequency governor; null where it cannot be read. Source: /sys/devices/system/cpu."""
    thp: str | None
    """Mode of transparent huge pages; null where it cannot be read. Source:
    /sys/kernel/mm/transparent_hugepage/enabled."""
    numa_balancing: bool | None
    """Whether automatic NUMA balancing is on. Source: /proc/sys/kernel/numa_balancing."""
    llc_balancing: str | None = None
    """Mode of the scheduler that keeps a process's threads on one L3 (Linux 7.2); null where there
    is none or only root may read it. Source: /sys/kernel/debug/sched/llc_balancing/enabled."""
    perf_counters: bool
    """Whether hardware counters can be read. Source: perf_event_open(2)."""
    libraries: dict[str, str | None]
    """Path of each library that a launch may preload; null where it is not installed."""
    versions: dict[str, str]
    """Version of each package that is installed, and of Python."""
    commit: str | None
    """Commit of this project, where it runs from a checkout."""

    @property
    def is_x86(self) -> bool:
        """Return whether its processor is of x86: others name their vendor by a number, or none."""
        return not self.cpu_vendor.startswith("0x") and self.cpu_vendor != "unknown"

    @property
    def cpus(self) -> tuple[int, ...]:
        """Return the CPUs that the study may use, ascending."""
        return parse_cpu_list(self.allowed_cpus)

    @property
    def usable(self) -> Topology:
        """Return the part of the topology on which members may be placed."""
        return self.topology.restricted(self.cpus, parse_cpu_list(self.allowed_nodes))

    @property
    def usable_cpus(self) -> float:
        """Return how many CPUs the study may keep busy: all allowed ones, or the quota if less."""
        allowed = len(self.cpus)
        return allowed if self.quota_cpus is None else min(allowed, self.quota_cpus)


class Fact(Struct, frozen=True):
    """A fact in which two machines differ."""

    fact: str
    here: object
    there: object

    def __str__(self) -> str:
        """Return the fact as ``kernel: 6.1 here, 5.4 there``."""
        return f"{self.fact}: {self.here} here, {self.there} there"
