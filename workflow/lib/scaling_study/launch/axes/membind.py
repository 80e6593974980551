"""The memory nodes that a slot takes its memory from."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scaling_study.common.topology import (
    NO_NODE,
    SHARED_NODE,
    Topology,
    format_cpu_list,
    parse_cpu_list,
)
from scaling_study.common.unavailable import UnavailableError
from scaling_study.launch.axes.axis import (
    Axis,
    Effects,
    Library,
    MemoryPolicy,
    Others,
    Slot,
    Where,
    library,
)
from scaling_study.launch.axes.values import read_id_list
from scaling_study.launch.launchers.launcher_table import LAUNCHERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from scaling_study.common.axis_values import Axes, Value
    from scaling_study.records import window

# py-libnuma, which sets memory policies, is a wrapper around it.
# Why it is not known which memory is near to a slot's CPUs.
UNKNOWN = {
    NO_NODE: "the NUMA node of these CPUs is offline",
    SHARED_NODE: "several NUMA nodes list the same CPUs, so no memory is known to be local",
}
LIBRARIES = {"numa": Library(patterns=("libnuma.so.1",), install="apt install libnuma1")}


def memory_policy(membind: str, slot: Slot, topology: Topology) -> MemoryPolicy:
    """The memory policy of a member.

    Args:
        membind: a name of :data:`MEMBINDS`, or a node list such as ``"0-1"`` to bind to.
        slot: the member's slot.
        topology: the CPUs and nodes that may be used.

    Returns:
        The policy to set before exec.

    Raises:
        UnavailableError: A node is not there, not allowed, without memory or a GPU's, or it is not
            known which memory is near to the slot.
        ValueError: The text is neither a name nor a node list.
    """
    if membind != "none" and not topology.memory_nodes:
        raise UnavailableError("no NUMA node is known to have memory", "set membind to none")
    if membind in MEMBINDS:
        return MEMBINDS[membind](slot, topology)
    nodes = parse_cpu_list(membind)
    if not nodes:
        raise ValueError("an empty node list; write membind: none for no policy")
    return MemoryPolicy("bind", _with_memory(nodes, topology))


def _default_memory(_slot: Slot, _topology: Topology) -> MemoryPolicy:
    """The kernel's: the node of the CPU that touches a page first."""
    return MemoryPolicy("default", ())


def _local_memory(slot: Slot, topology: Topology) -> MemoryPolicy:
    """Only the nodes of the slot's CPUs; of several, those that have memory."""
    if slot.cpus is None:
        raise UnavailableError(
            "membind local needs to know a member's CPUs, and placement none does not bind it",
            "set placement to compact, cores, spread or per_l3",
        )
    nodes = {cpu.node for cpu in topology.cpus if cpu.cpu in slot.cpus}
    local = nodes.intersection(topology.memory_nodes)
    return MemoryPolicy("bind", _with_memory(local or nodes, topology))


def _interleave_memory(_slot: Slot, topology: Topology) -> MemoryPolicy:
    """Page by page over the nodes that have memory and CPUs; over all memory if none has both.

    A node without CPUs is slower or scarcer memory (CXL, persistent, high-bandwidth) or a GPU's.
    Where no driver says that it is a GPU's, this is what keeps it out.
    """
    usable = topology.memory_nodes
    near = tuple(node.node for node in topology.nodes if node.has_cpus and node.node in usable)
    return MemoryPolicy("interleave", near or usable)


MEMBINDS: dict[str, Callable[[Slot, Topology], MemoryPolicy]] = {
    "none": _default_memory,
    "local": _local_memory,
    "interleave": _interleave_memory,
}
"""Memory policies by name; a new one is a function and an entry here."""


def _with_memory(nodes: Iterable[int], topology: Topology) -> tuple[int, ...]:
    wanted = set(nodes)
    missing = wanted.difference(topology.memory_nodes)
    if missing:
        usable = format_cpu_list(topology.memory_nodes)
        nearest = _nearest_with_memory(missing, topology)
        gpu = missing.intersection(node.node for node in topology.nodes if node.of_gpu)
        what = "is the memory of a GPU" if gpu else "is not there, has no memory or may not be used"
        named = f"NUMA node {', '.join(map(str, sorted(gpu or missing)))} {what}"
        raise UnavailableError(
            f"{UNKNOWN.get(min(missing), named)}; nodes with memory are {usable}",
            f'set membind to "{usable if nearest is None else nearest}" or to interleave',
        )
    return tuple(sorted(wanted))


def _nearest_with_memory(nodes: Iterable[int], topology: Topology) -> int | None:
    """The node with memory at the smallest distance from any of the nodes that are there."""
    distances = [
        (node.distances[other], other)
        for node in topology.nodes
        if node.node in nodes
        for other in topology.memory_nodes
        if other in node.distances
    ]
    return min(distances)[1] if distances else None


def _refuse(axes: Axes) -> None:
    if not LAUNCHERS[str(axes["launcher"])].binds_memory:
        raise UnavailableError(
            f"a memory policy cannot be set before members that {axes['launcher']} starts",
            f"exclude: [{{launcher: {axes['launcher']}, membind: {axes['membind']}}}]",
        )


def _prepare(_value: str, where: Where) -> Effects:
    library("numa", where.machine, LIBRARIES["numa"])
    return Effects()


def _place(axes: Axes, topology: Topology, given: Sequence[Slot]) -> tuple[Slot, ...]:
    if axes["membind"] == "none":  # the kernel's, or the shell's
        return tuple(given)
    return tuple(
        replace(one, policy=memory_policy(str(axes["membind"]), one, topology)) for one in given
    )


def _read_nodes(value: object, _files: bool) -> str | None:
    number = isinstance(value, int) and not isinstance(value, bool)
    if not number and not (isinstance(value, str) and value[:1].isdigit()):
        return None
    return read_id_list(value, NODE_LIST.allowed)


NODE_LIST = Others('a list of memory nodes in one text, such as "0" or "0-1"', _read_nodes)


def _requested(_value: Value, slot: window.Slot) -> str:
    return f"slot {slot.slot}: {slot.policy}"


AXIS = Axis(
    "the memory nodes that a slot takes its memory from",
    {
        "none": "the kernel's policy: the node that touches first",
        "local": "only the nodes of the slot's CPUs",
        "interleave": "all nodes with CPUs in turn, page by page",
    },
    NODE_LIST,
    libraries=LIBRARIES,
    order=110,
    refuse=_refuse,
    prepare=_prepare,
    place=_place,
    requested=_requested,
    effective=lambda _, got: f"slot {got.slot}: {got.policy}",
    holds=lambda _value, got, slot: slot.policy == got.policy,
)
