"""The process counts that are measured on this machine, and the reasons for them."""

import math
from collections.abc import Sequence
from typing import Literal

from scaling_study.common.topology import Domain, Topology

SHARED: tuple[tuple[Domain, str], ...] = (("l3", "L3"), ("node", "NUMA node"), ("socket", "socket"))
"""Domains whose members share something, with their names in the report."""


def boundaries(topology: Topology, quota_cpus: float | None) -> dict[int, tuple[str, ...]]:
    """Return the process counts (of one CPU each) at which a resource runs out.

    A domain's boundary is the size of its smallest instance, the first that can be full. With SMT a
    domain has two boundaries, since members may be placed one per core or one per CPU. A domain
    with a single instance is left out: it ends where the machine does.

    Args:
        topology: the CPUs that may be used.
        quota_cpus: the cgroup's quota in CPUs, None without one.

    Returns:
        Names such as ``("L3", "NUMA node")`` by count, ascending. The last is the machine's or the
        quota's end; counts above a quota are left out.
    """
    found: list[tuple[int, str]] = []
    core_of = {cpu.cpu: cpu.core for cpu in topology.cpus}
    for domain, name in SHARED:
        groups = topology.domains(domain)
        if len(groups) > 1:
            if topology.smt:
                cores = min(len({core_of[cpu] for cpu in group}) for group in groups)
                found.append((cores, f"{name} (one per core)"))
            found.append((min(map(len, groups)), name))
    fast, *slower = topology.kinds
    if slower:
        found.append((len(fast.domains("core")), "fast cores"))
    if topology.smt:
        found.append((len(topology.domains("core")), "physical cores"))
    found.append((len(topology.cpus), "CPUs"))
    if quota_cpus is not None:
        found.append((math.ceil(quota_cpus), "CPU quota"))
    top = _top(topology, quota_cpus)
    return {
        count: tuple(name for at, name in found if at == count)
        for count in sorted({at for at, _ in found if at <= top})
    }


def resolve(
    processes: Sequence[int] | Literal["auto"], topology: Topology, quota_cpus: float | None
) -> tuple[int, ...]:
    """Return the process counts of a launch on this machine.

    ``auto`` is 1, the powers of two, and just below, at and just above every boundary, up to one
    more process than CPUs (or than the quota): oversubscription by one. It stays short because only
    the first domain of a kind counts: log2(CPUs) powers and at most three counts for each of nine
    boundaries, so 28 counts on two sockets of 96 cores with SMT and four nodes each.

    Args:
        processes: ``auto``, or the counts themselves.
        topology: the CPUs that may be used.
        quota_cpus: the cgroup's quota in CPUs, None without one.

    Returns:
        Counts, ascending, each once.
    """
    if processes != "auto":
        return tuple(sorted(set(processes)))
    powers = {2**exponent for exponent in range(_top(topology, quota_cpus).bit_length())}
    edges = {at + step for at in boundaries(topology, quota_cpus) for step in (-1, 0, 1)}
    return tuple(sorted(count for count in powers | edges if count >= 1))


def _top(topology: Topology, quota_cpus: float | None) -> int:
    cpus = len(topology.cpus)
    return cpus if quota_cpus is None else min(cpus, math.ceil(quota_cpus))
