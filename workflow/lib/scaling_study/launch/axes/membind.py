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
from scaling_study.launch.axes import libraries
from scaling_study.launch.axes.axis import Axis, Effects, Library, Others, Slot, Where
from scaling_study.launch.axes.values import read_id_list
from scaling_study.launch.launchers.launcher_table import LAUNCHERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scaling_study.common.axis_values import Axes

# py-libnuma, which sets memory policies, is a wrapper around it.
LIBRARIES = {"numa": Library(patterns=("libnuma.so.1",), install="apt install libnuma1")}
UNKNOWN = {
    NO_NODE: "the NUMA node of these CPUs is offline",
    SHARED_NODE: "several NUMA nodes list the same CPUs, so no memory is known to be local",
}
"""Reasons why no memory is known to be near a slot's CPUs."""


def memory_policy(membind: str, slot: Slot, topology: Topology) -> str:
    """Return the memory policy of a member (see ``Slot``), to be set before exec.

    Args:
        membind: a word of this axis, or a node list such as ``"0-1"`` to bind to.
        slot: the member's slot.
        topology: the CPUs and nodes that may be used.

    Raises:
        UnavailableError: A node is not there, not allowed, without memory or a GPU's, or it is not
            known which memory is near to the slot.
    """
    usable = topology.memory_nodes
    if membind == "none":
        return "default"
    if not usable:
        raise UnavailableError("no NUMA node is known to have memory", "set membind to none")
    if membind == "interleave":
        # A node without CPUs is slower or scarcer memory (CXL, persistent, high-bandwidth) or a
        # GPU's, which this keeps out where no driver says that it is one.
        near = [node.node for node in topology.nodes if node.has_cpus and node.node in usable]
        return f"interleave:{format_cpu_list(near or usable)}"
    wanted = _local_nodes(slot, topology) if membind == "local" else set(parse_cpu_list(membind))
    if missing := wanted.difference(usable):
        gpu = missing.intersection(node.node for node in topology.nodes if node.of_gpu)
        what = "is the memory of a GPU" if gpu else "is not there, has no memory or may not be used"
        named = f"NUMA node {', '.join(map(str, sorted(gpu or missing)))} {what}"
        nodes = format_cpu_list(usable)
        raise UnavailableError(
            f"{UNKNOWN.get(min(missing), named)}; nodes with memory are {nodes}",
            f'set membind to "{_nearest(missing, topology) or nodes}" or to interleave',
        )
    return f"bind:{format_cpu_list(wanted)}"


def _local_nodes(slot: Slot, topology: Topology) -> set[int]:
    """Return the nodes of a slot's CPUs; of several, those that have memory."""
    if slot.cpus is None:
        raise UnavailableError(
            "membind local needs to know a member's CPUs, and placement none does not bind it",
            "set placement to compact, cores, spread or per_l3",
        )
    nodes = {cpu.node for cpu in topology.cpus if cpu.cpu in slot.cpus}
    return nodes.intersection(topology.memory_nodes) or nodes


def _nearest(nodes: set[int], topology: Topology) -> str:
    """Return the node with memory that is nearest to any of these; empty if unknown."""
    distances = [
        (node.distances[other], other)
        for node in topology.nodes
        if node.node in nodes
        for other in topology.memory_nodes
        if other in node.distances
    ]
    return str(min(distances)[1]) if distances else ""


def _refuse(axes: Axes) -> None:
    if not LAUNCHERS[str(axes["launcher"])].binds_memory:
        raise UnavailableError(
            f"a memory policy cannot be set before members that {axes['launcher']} starts",
            f"exclude: [{{launcher: {axes['launcher']}, membind: {axes['membind']}}}]",
        )


def _prepare(_value: str, where: Where) -> Effects:
    libraries.path_of("numa", where.machine, LIBRARIES["numa"])
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
    requested=lambda _, slot: f"slot {slot.slot}: {slot.policy}",
    effective=lambda _, got: f"slot {got.slot}: {got.policy}",
    holds=lambda _value, got, slot: slot.policy == got.policy,
)
