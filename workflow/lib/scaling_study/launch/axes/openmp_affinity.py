"""Whether each OpenMP thread of a member has a CPU of its slot to itself.

libgomp takes OMP_PROC_BIND and OMP_PLACES. libiomp5 and libomp get KMP_AFFINITY alone: with
OMP_PROC_BIND the bundled libgomp, which stays mapped, binds the first thread when it is loaded, and
they then take that one CPU for all there is. Measured with two threads on two CPUs: both on CPU 0.

The thread that trains has one CPU from then on. Whatever threads the script starts itself inherit
that CPU; processes that multiprocessing starts, such as loader workers, get the whole slot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaling_study.common.topology import format_cpu_list
from scaling_study.common.unavailable import UnavailableError
from scaling_study.launch.axes import ranks
from scaling_study.launch.axes.axis import Axis, Effects
from scaling_study.launch.axes.openmp import is_kmp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scaling_study.common.axis_values import Axes, Value
    from scaling_study.common.topology import Topology
    from scaling_study.launch.axes.axis import Slot, Where
    from scaling_study.records import window
    from scaling_study.records.readback import Readback

DEFAULT = "default"
KMP = {"close": "compact", "spread": "scatter"}


def apply(_value: str) -> None:
    """Let child processes have all CPUs that OpenMP has places on, and bind no threads there.

    They would have the training thread's CPU, or their runtime would choose the same one anew.
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


def _refuse(axes: Axes) -> None:
    value = axes["openmp_affinity"]
    if axes["placement"] == "none":
        raise UnavailableError(
            f"openmp_affinity {value} binds within a member's CPUs: placement none gives it none,"
            " and the first threads of all members would share one CPU",
            "set placement to cores, compact, spread or per_l3",
        )
    # A fork server loads the runtime before members have CPUs. Ranks share the CPUs of a slot, and
    # their runtimes would choose the same ones; a loader's CPUs are not told from the others.
    alone = {"launcher": "exec", "loader_cpus": "shared", "ranks": ranks.NONE}
    for name, needed in alone.items():
        if axes[name] != needed:
            raise UnavailableError(
                f"openmp_affinity {value} and {name} {axes[name]} exclude each other",
                f"combine openmp_affinity with {name} {needed}",
            )


def _prepare(value: str, where: Where) -> Effects:
    if is_kmp(str(where.axes["openmp"])):
        return Effects({"KMP_AFFINITY": f"granularity=fine,{KMP[value]}"})
    return Effects({"OMP_PROC_BIND": value, "OMP_PLACES": "threads"})


def _place(axes: Axes, _topology: Topology, given: Sequence[Slot]) -> tuple[Slot, ...]:
    threads = axes["intra_op"] if isinstance(axes["intra_op"], int) else 1
    fewest = min((len(one.cpus) for one in given if one.cpus is not None), default=threads)
    if axes["openmp_affinity"] != DEFAULT and fewest < threads:
        raise UnavailableError(
            f"openmp_affinity gives each thread a CPU, and a slot has {fewest} for {threads}",
            f"set intra_op to at most {fewest}, or give each slot more CPUs",
        )
    return tuple(given)


def _effective(_value: Value, readback: Readback) -> str:
    masks = readback.thread_cpus
    if masks is None:
        return "no variable binds OpenMP threads"
    return f"threads on CPUs {' | '.join(map(format_cpu_list, masks))}"


def _holds(value: str, readback: Readback, _slot: window.Slot) -> bool:
    masks = readback.thread_cpus or []
    alone = {mask[0] for mask in masks if len(mask) == 1}
    return value == DEFAULT or len(alone) == len(masks) == readback.intra_op


AXIS = Axis(
    "the CPUs that a member's OpenMP threads are bound to, within those of its slot",
    {
        DEFAULT: "as the OpenMP runtime chooses: any CPU of the slot",
        "close": "one for each thread, next to each other",
        "spread": "one for each thread, as far apart as the slot's CPUs are",
    },
    variables=("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"),
    order=105,
    refuse=_refuse,
    prepare=_prepare,
    place=_place,
    apply=apply,
    lines=lambda _value: (
        "# before `import torch`: cpus = os.sched_getaffinity(0)\n"
        "loader = DataLoader(..., worker_init_fn=lambda _: os.sched_setaffinity(0, cpus))"
    ),
    effective=_effective,
    holds=_holds,
)
