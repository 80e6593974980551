"""CPUs, cores, L3 caches, sockets and NUMA nodes of a machine, as plain values.

This module is pure: :mod:`scaling_study.host.system` reads the files, and this module parses their
text. The file formats are the kernel's (Documentation/ABI/stable/sysfs-devices-system-cpu and
-node).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Literal, cast

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Self

CPU_LIMIT = 65_536
"""Ids stay below this: eight times the kernel's largest NR_CPUS, so only a typo is refused."""

NO_NODE = -1
"""Node of a CPU whose NUMA node is offline."""

SHARED_NODE = -2
"""Node of every CPU if several NUMA nodes list the same CPU: the machine counts as one node.

Some firmware lists all CPUs for every node, and numa=fake on the kernel's command line splits a
node in this way. Then nothing shows which memory is near.
"""

Domain = Literal["core", "l3", "node", "socket"]
"""The groups that CPUs belong to; each is a field of :class:`Cpu`."""

SPEED_GAP = 0.85
"""A core is of a slower kind if it is this much slower than the next faster one. Cores of one kind
differ by some percent: a processor may run its best cores at a higher clock.
"""


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """Read a kernel CPU (or node) list.

    Args:
        text: such as ``"0-3,8"``; an empty text is an empty list.

    Returns:
        The ids, ascending, each once.

    Raises:
        ValueError: The text is not such a list.
    """
    ids: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part, flags=re.ASCII)
        if match is None:
            raise ValueError(f"{text.strip()!r} is not a list of ids such as '0-3,8'")
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < CPU_LIMIT:
            raise ValueError(f"{part.strip()!r} in {text.strip()!r} is not a range of ids")
        ids.update(range(first, last + 1))
    return tuple(sorted(ids))


def format_cpu_list(cpus: Iterable[int]) -> str:
    """Write ids as the kernel does: the inverse of :func:`parse_cpu_list`.

    Args:
        cpus: ids in any order.

    Returns:
        Such as ``"0-3,8"``.
    """
    ranges: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in ranges)


@dataclass(frozen=True)
class Cpu:
    """A logical CPU and the groups that it belongs to.

    ``core`` and ``l3`` are the lowest online CPU that shares the core or the cache: the kernel's
    own core_id repeats on every socket. Without L3 information ``l3`` is the socket's lowest CPU.
    ``kind`` is the kind of core: 0 is the fastest, and the only one of most machines.
    """

    cpu: int
    core: int
    socket: int
    node: int
    l3: int
    kind: int = 0


@dataclass(frozen=True)
class Node:
    """A NUMA node, which may have no CPUs or no memory.

    ``distances`` are the firmware's (10 is local), to every online node; empty where unknown.
    ``has_cpus`` is about online CPUs, also those that this process may not use.
    """

    node: int
    memory_bytes: int
    distances: dict[int, int]
    has_cpus: bool = True


@dataclass(frozen=True)
class CpuText:
    """The text of sysfs about an online CPU; None if the kernel has no such file."""

    socket: str | None
    """topology/physical_package_id"""
    siblings: str | None
    """topology/core_cpus_list, or thread_siblings_list before Linux 5.3"""
    l3: str | None
    """shared_cpu_list of the cache whose level is 3"""
    speeds: tuple[str | None, ...] = ()
    """Numbers that are larger for faster cores, the best known source first"""


@dataclass(frozen=True)
class NodeText:
    """The text of sysfs about an online node: CPUs, memory, distances."""

    cpus: str
    memory: str
    distances: str


@dataclass(frozen=True)
class Topology:
    """The online CPUs (ascending) and nodes of a machine, or those that a process may use."""

    cpus: tuple[Cpu, ...]
    nodes: tuple[Node, ...]

    @property
    def cpu_ids(self) -> tuple[int, ...]:
        """All CPUs, ascending."""
        return tuple(cpu.cpu for cpu in self.cpus)

    @property
    def compact(self) -> tuple[Cpu, ...]:
        """All CPUs with neighbours side by side: by socket, node, L3, core, then sibling.

        Fast cores come before all slower ones.
        """
        order = attrgetter("kind", "socket", "node", "l3", "core", "cpu")
        return tuple(sorted(self.cpus, key=order))

    @property
    def kinds(self) -> tuple[Self, ...]:
        """The machine's parts with cores of one kind, the fastest first."""
        kinds = sorted({cpu.kind for cpu in self.cpus}) or [0]
        return tuple(
            replace(self, cpus=tuple(cpu for cpu in self.cpus if cpu.kind == kind))
            for kind in kinds
        )

    @property
    def smt(self) -> bool:
        """Whether any core has more than one CPU."""
        return len(self.domains("core")) < len(self.cpus)

    @property
    def memory_nodes(self) -> tuple[int, ...]:
        """The nodes that have memory, ascending."""
        return tuple(node.node for node in self.nodes if node.memory_bytes)

    def domains(self, domain: Domain) -> tuple[tuple[int, ...], ...]:
        """Return the CPUs of every core, L3, node or socket, in compact order.

        Args:
            domain: the field of :class:`Cpu` to group by.

        Returns:
            One tuple of CPU ids for each group that has a CPU.
        """
        groups: dict[int, list[int]] = {}
        for cpu in self.compact:
            groups.setdefault(getattr(cpu, domain), []).append(cpu.cpu)
        return tuple(map(tuple, groups.values()))

    def restricted(self, cpus: Iterable[int], nodes: Iterable[int] | None = None) -> Self:
        """Return the part of the machine that a process may use.

        Args:
            cpus: CPUs that it may run on; those that are not online are ignored.
            nodes: nodes that it may take memory from; None for all.

        Returns:
            A topology in which cores and L3s keep their ids. Nodes without memory stay in it: the
            kernel names them to no process, and their distances show which memory is near.
        """
        kept_cpus = set(cpus)
        kept_nodes = {node.node for node in self.nodes} if nodes is None else set(nodes)
        return type(self)(
            cpus=tuple(cpu for cpu in self.cpus if cpu.cpu in kept_cpus),
            nodes=tuple(
                node for node in self.nodes if node.node in kept_nodes or not node.memory_bytes
            ),
        )

    def describe(self) -> str:
        """Return counts in words: ``2 sockets, 8 NUMA nodes, 24 L3s, 192 cores, 384 CPUs``.

        Unusual features of the nodes follow their number in brackets.
        """
        counts = {
            "socket": len(self.domains("socket")),
            "NUMA node": len(self.nodes),
            "L3": len(self.domains("l3")),
            "core": len(self.domains("core")),
            "CPU": len(self.cpus),
        }
        words = {name: f"{n} {name}{'' if n == 1 else 's'}" for name, n in counts.items()}
        fast, *slower = (len(part.domains("core")) for part in self.kinds)
        if slower:
            words["core"] += f" ({fast} fast, {sum(slower)} slower)"
        if self.oddities:
            words["NUMA node"] += f" ({'; '.join(self.oddities)})"
        return ", ".join(words.values())

    @property
    def oddities(self) -> tuple[str, ...]:
        """Unusual features of the nodes, in words."""
        bare = format_cpu_list(node.node for node in self.nodes if not node.has_cpus)
        said = [f"without CPUs: {bare}"] if bare else []
        if any(cpu.node == SHARED_NODE for cpu in self.cpus):
            said.append("several list the same CPUs: they count as one")
        return tuple(said)


def build(
    cpus: Mapping[int, CpuText],
    nodes: Mapping[int, NodeText],
    possible: Collection[int] = (),
    kinds: Sequence[str] = (),
) -> Topology:
    """Parse the text of sysfs.

    Args:
        cpus: text of every online CPU, by its id.
        nodes: text of every online node, by its id.
        possible: all nodes that could be online, ascending.
        kinds: lists of the CPUs of each kind of core, the fastest first, where the kernel has any.

    Returns:
        The topology; a CPU without socket or sibling information stands alone on socket 0.

    Raises:
        ValueError: A text is not in the kernel's format.
    """
    cpus_of = {node: cpus.keys() & parse_cpu_list(text.cpus) for node, text in nodes.items()}
    node_of = {cpu: node for node, its in cpus_of.items() for cpu in its}
    if sum(map(len, cpus_of.values())) > len(node_of):
        node_of = dict.fromkeys(cpus, SHARED_NODE)
    socket_of = {cpu: int(text.socket or 0) for cpu, text in cpus.items()}
    first_of_socket = {socket_of[cpu]: cpu for cpu in sorted(cpus, reverse=True)}
    kind_of = _kinds({cpu: text.speeds for cpu, text in cpus.items()}, kinds)
    return Topology(
        cpus=tuple(
            Cpu(
                cpu=cpu,
                core=_lowest_online(text.siblings, cpus, otherwise=cpu),
                socket=socket_of[cpu],
                node=node_of.get(cpu, NO_NODE),
                l3=_lowest_online(text.l3, cpus, otherwise=first_of_socket[socket_of[cpu]]),
                kind=kind_of[cpu],
            )
            for cpu, text in sorted(cpus.items())
        ),
        nodes=tuple(
            Node(
                node=node,
                memory_bytes=parse_memory_total(text.memory),
                distances=_distances(text.distances, nodes, possible),
                has_cpus=bool(cpus_of[node]),
            )
            for node, text in sorted(nodes.items())
        ),
    )


def _kinds(speeds: Mapping[int, tuple[str | None, ...]], listed: Sequence[str]) -> dict[int, int]:
    """Return the kind of core of each CPU, from lists of all CPUs or else from their speeds."""
    groups = [speeds.keys() & parse_cpu_list(text) for text in listed]
    if speeds.keys() == set().union(*groups):
        return {cpu: kind for kind, group in enumerate(filter(None, groups)) for cpu in group}
    sources = zip(*speeds.values(), strict=True)
    texts = next((source for source in sources if all(source)), ("1",) * len(speeds))
    speed_of = dict(zip(speeds, map(int, cast("tuple[str, ...]", texts)), strict=True))
    kind, kind_of, faster = 0, {}, max(speed_of.values(), default=0)
    for cpu in sorted(speed_of, key=speed_of.__getitem__, reverse=True):
        kind += speed_of[cpu] < SPEED_GAP * faster
        kind_of[cpu], faster = kind, speed_of[cpu]
    return kind_of


def _distances(text: str, online: Collection[int], possible: Collection[int]) -> dict[int, int]:
    """Return a node's distances to the online nodes; empty if the row fits no list of nodes.

    The kernel writes a distance for each online node, but with a node offline some write one for
    each possible node.
    """
    row = list(map(int, text.split()))
    fits = next((known for known in (sorted(online), possible) if len(known) == len(row)), ())
    return {node: far for node, far in zip(fits, row, strict=False) if node in online}


def parse_memory_total(text: str) -> int:
    """Return the MemTotal (bytes) of /proc/meminfo or of a node's meminfo; 0 without one."""
    match = re.search(r"MemTotal:\s+(\d+) kB", text)
    return int(match[1]) * 1024 if match else 0


def _lowest_online(cpu_list: str | None, online: Iterable[int], *, otherwise: int) -> int:
    return min(set(parse_cpu_list(cpu_list or "")).intersection(online), default=otherwise)
