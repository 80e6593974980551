"""Axes that bind a slot's OpenMP threads and its memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scaling_study.common.topology import NO_NODE, SHARED_NODE, format_cpu_list, parse_cpu_list
from scaling_study.common.unavailable import UnavailableError
from scaling_study.launch.axes import ranks
from scaling_study.launch.axes.axis import Axis, Effects, Library, Others, path_of, read_id_list
from scaling_study.launch.axes.threads import is_kmp

if TYPE_CHECKING:
    from typing import Never

    from scaling_study.common.axis_values import Axes, Value
    from scaling_study.common.topology import Topology
    from scaling_study.launch.axes.axis import PlacedSlot, Slots, Where
    from scaling_study.records import window
    from scaling_study.records.readback import Readback


# ---- openmp_affinity

# libgomp reads OMP_PROC_BIND and OMP_PLACES. libiomp5 and libomp get KMP_AFFINITY alone: with
# OMP_PROC_BIND, the bundled libgomp, which stays mapped, binds the first thread when it is loaded,
# and they then see that CPU alone. Measured with two threads on two CPUs: both ran on CPU 0.
#
# The training thread then has one CPU. Threads that the script starts itself inherit that CPU;
# processes that multiprocessing starts, such as loader workers, get the whole slot.

DEFAULT = "default"
KMP = {"close": "compact", "spread": "scatter"}


def apply_openmp_affinity(_value: str) -> None:
    """Give child processes all CPUs of OpenMP's places, and bind no threads in them.

    Otherwise they would inherit the training thread's CPU, or their runtime would choose it again.
    """
    import ctypes
    import functools
    import os
    from multiprocessing.process import BaseProcess

    runtime = ctypes.CDLL(None)
    cpus: set[int] = set()
    for place in range(runtime.omp_get_num_places()):
        ids = (ctypes.c_int * runtime.omp_get_place_num_procs(place))()
        runtime.omp_get_place_proc_ids(place, ids)
        cpus.update(ids)
    start = BaseProcess.start

    @functools.wraps(start)
    def started(process: BaseProcess) -> None:
        own = os.sched_getaffinity(0)
        names = ("OMP_PROC_BIND", "OMP_PLACES", "KMP_AFFINITY")
        binding = {name: os.environ.pop(name) for name in names if name in os.environ}
        os.sched_setaffinity(0, cpus or own)  # the new process inherits both
        try:
            start(process)
        finally:
            os.sched_setaffinity(0, own)
            os.environ.update(binding)

    BaseProcess.start = started  # type: ignore[method-assign, assignment]


def _refuse_openmp_affinity(axes: Axes) -> None:
    value = axes["openmp_affinity"]
    if axes["placement"] == "none":
        raise UnavailableError(
            f"openmp_affinity {value} binds within a member's CPUs: placement none gives it none,"
            " and the first threads of all members would share one CPU",
            "set placement to cores, compact, spread or per_l3",
        )
    # Dask binds a worker once its runtime is loaded. Ranks share the CPUs of a slot, and their
    # runtimes would choose the same ones. A runtime would bind threads to a loader's CPUs.
    for name, needed in {"launcher": "exec", "loader_cpus": "shared", "ranks": ranks.NONE}.items():
        if axes[name] != needed:
            raise UnavailableError(
                f"openmp_affinity {value} and {name} {axes[name]} exclude each other",
                f"combine openmp_affinity with {name} {needed}",
            )


def _prepare_openmp_affinity(value: str, where: Where) -> Effects:
    if is_kmp(str(where.axes["openmp"])):
        return Effects({"KMP_AFFINITY": f"granularity=fine,{KMP[value]}"})
    return Effects({"OMP_PROC_BIND": value, "OMP_PLACES": "threads"})


def _place_openmp_affinity(axes: Axes, _topology: Topology, slots: Slots) -> Slots:
    threads = axes["intra_op"] if isinstance(axes["intra_op"], int) else 1
    fewest = min((len(slot.cpus) for slot in slots if slot.cpus is not None), default=threads)
    if axes["openmp_affinity"] != DEFAULT and fewest < threads:
        raise UnavailableError(
            f"openmp_affinity gives each thread a CPU, and a slot has {fewest} for {threads}",
            f"set intra_op to at most {fewest}, or give each slot more CPUs",
        )
    return slots


def _effective_openmp_affinity(_value: Value, readback: Readback) -> str:
    masks = readback.thread_cpus
    if masks is None:
        return "no variable binds OpenMP threads"
    return f"threads on CPUs {' | '.join(map(format_cpu_list, masks))}"


def _holds_openmp_affinity(value: str, readback: Readback, _slot: window.Slot) -> bool:
    masks = readback.thread_cpus or []
    alone = {mask[0] for mask in masks if len(mask) == 1}
    return value == DEFAULT or len(alone) == len(masks) == readback.intra_op


# ---- membind

# py-libnuma, which sets memory policies, wraps this library.
LIBRARIES = {"numa": Library(patterns=("libnuma.so.1",), install="apt install libnuma1")}
UNKNOWN = {
    NO_NODE: "the NUMA node of these CPUs is offline",
    SHARED_NODE: "several NUMA nodes list the same CPUs, so no memory is known to be local",
}
"""Reasons why no memory is known to be near a slot's CPUs."""


def memory_policy(membind: str, slot: PlacedSlot, topology: Topology) -> str:
    """Return the memory policy of a member (see ``PlacedSlot``), to be set before exec.

    Args:
        membind: a word of this axis, or a node list such as ``"0-1"`` to bind to.
        slot: the member's slot.
        topology: the CPUs and nodes that may be used.

    Raises:
        UnavailableError: A node is not there, not allowed or without memory, or it is not known
            which memory is near to the slot.
    """
    usable = topology.memory_nodes
    if membind == "none":
        return "default"
    if not usable:
        raise UnavailableError("no NUMA node is known to have memory", "set membind to none")
    if membind == "interleave":
        # A node without CPUs is slower or scarcer: CXL, persistent, high-bandwidth, a GPU's.
        near_cpus = [node.node for node in topology.nodes if node.has_cpus and node.node in usable]
        return f"interleave:{format_cpu_list(near_cpus or usable)}"
    near = membind in {"local", "preferred"}
    wanted = _local_nodes(slot, membind, topology) if near else set(parse_cpu_list(membind))
    if missing := wanted.difference(usable):
        numbers = ", ".join(map(str, sorted(missing)))
        absent = f"NUMA node {numbers} is not there, has no memory or may not be used"
        nodes = format_cpu_list(usable)
        raise UnavailableError(
            f"{UNKNOWN.get(min(missing), absent)}; nodes with memory are {nodes}",
            f'set membind to "{_nearest(missing, topology) or nodes}" or to interleave',
        )
    return f"{'prefer' if membind == 'preferred' else 'bind'}:{format_cpu_list(wanted)}"


def _local_nodes(slot: PlacedSlot, membind: str, topology: Topology) -> set[int]:
    """Return the nodes of a slot's CPUs: those with memory, or all if none has any."""
    if slot.cpus is None:
        raise UnavailableError(
            f"membind {membind} needs to know a member's CPUs, and placement none does not bind it",
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


def _prepare_membind(_value: str, where: Where) -> Effects:
    path_of("numa", where.machine, LIBRARIES["numa"])
    return Effects()


def _place_membind(axes: Axes, topology: Topology, slots: Slots) -> Slots:
    membind = str(axes["membind"])
    if membind == "none":  # the kernel's policy stays, or the shell's
        return slots
    return tuple(replace(slot, policy=memory_policy(membind, slot, topology)) for slot in slots)


def _read_nodes(value: object, _files: bool) -> str | None:
    number = isinstance(value, int) and not isinstance(value, bool)
    if not number and not (isinstance(value, str) and value[:1].isdigit()):
        return None
    return read_id_list(value, NODE_LIST.allowed)


NODE_LIST = Others('a list of memory nodes in one text, such as "0" or "0-1"', _read_nodes)


AXES: dict[str, Axis[Never]] = {
    "openmp_affinity": Axis(
        "the CPUs that a member's OpenMP threads are bound to, within those of its slot",
        {
            DEFAULT: "as the OpenMP runtime chooses: any CPU of the slot",
            "close": "one for each thread, next to each other",
            "spread": "one for each thread, as far apart as the slot's CPUs are",
        },
        variables=("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"),
        refuse=_refuse_openmp_affinity,
        prepare=_prepare_openmp_affinity,
        place=_place_openmp_affinity,
        apply=apply_openmp_affinity,
        lines=lambda _value: (
            "# before `import torch`: cpus = os.sched_getaffinity(0)\n"
            "loader = DataLoader(..., worker_init_fn=lambda _: os.sched_setaffinity(0, cpus))"
        ),
        effective=_effective_openmp_affinity,
        holds=_holds_openmp_affinity,
    ),
    "membind": Axis(
        "the memory nodes that a slot takes its memory from",
        {
            "none": "the kernel's policy: the node that touches first",
            "preferred": "the nodes of the slot's CPUs, and others once these are full",
            "local": "only the nodes of the slot's CPUs: a process is killed when they are full",
            "interleave": "all nodes with CPUs in turn, page by page",
        },
        NODE_LIST,
        libraries=LIBRARIES,
        prepare=_prepare_membind,
        place=_place_membind,
        requested=lambda _, slot: f"slot {slot.slot}: {slot.policy}",
        effective=lambda _, got: f"slot {got.slot}: {got.policy}",
        holds=lambda _value, got, slot: slot.policy == got.policy,
    ),
}
