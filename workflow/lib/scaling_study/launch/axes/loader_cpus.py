"""CPUs of their own for the processes that a loader prepares its batches in.

A slot gets them beside those that its member trains on (see ``placement``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaling_study.common.unavailable import UnavailableError
from scaling_study.launch.axes import ranks
from scaling_study.launch.axes.axis import Axis
from scaling_study.launch.axes.values import COUNT

if TYPE_CHECKING:
    from scaling_study.common.axis_values import Axes, Value
    from scaling_study.records import window
    from scaling_study.records.readback import Readback

SHARED = "shared"
REST = "rest"


def apply(_value: int | str) -> None:
    """Let loader workers have the CPUs of this process that come after those which train.

    In the order of cores, as slots are divided: those that train are as many as torch has threads.
    """
    import functools
    import os
    from multiprocessing.process import BaseProcess

    import torch

    def core(cpu: int) -> tuple[int, int]:
        try:
            with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") as file:  # noqa: PTH123
                return int(file.read().replace("-", ",").split(",")[0]), cpu
        except OSError:
            return cpu, cpu

    cpus = sorted(os.sched_getaffinity(0), key=core)
    trains_on = torch.get_num_threads() * int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    for thread in os.listdir("/proc/self/task"):  # noqa: PTH208
        os.sched_setaffinity(int(thread), cpus[:trains_on])
    start = BaseProcess.start

    @functools.wraps(start)
    def started(process: BaseProcess) -> None:
        home = getattr(getattr(process, "_target", None), "__module__", None) or ""
        if not home.startswith(("torch.utils.data", "torchdata", "spdl")):
            start(process)
            return
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cpus[trains_on:] or cpus)  # which the new process inherits
        try:
            start(process)
        finally:
            os.sched_setaffinity(0, before)
        process.__dict__["_loads"] = True

    BaseProcess.start = started  # type: ignore[method-assign, assignment]


def observe() -> str:
    """Return the CPUs of all loader workers that live."""
    import multiprocessing
    import os

    from scaling_study.common.topology import format_cpu_list
    from scaling_study.launch.axes.living import the_one

    found = {
        format_cpu_list(os.sched_getaffinity(child.pid or 0))
        for child in multiprocessing.active_children()
        if "_loads" in child.__dict__
    }
    return the_one(found, "no loader worker lives")


def _refuse(axes: Axes) -> None:
    if axes["placement"] == "none":
        raise UnavailableError(
            "loader_cpus needs to know a member's CPUs, and placement none does not bind it",
            "set placement to cores, compact or spread",
        )
    if not isinstance(axes["intra_op"], int) and ranks.processes(axes) == 1:
        raise UnavailableError(
            "loader_cpus needs to know on how many CPUs a member trains", "set intra_op to a number"
        )


def _requested(value: Value, slot: window.Slot) -> str:
    return str(value) if value == SHARED else f"slot {slot.slot}: {slot.loader_cpus}"


def _holds(value: Value, got: Readback, slot: window.Slot) -> bool:
    return value == SHARED or got.switches.get("loader_cpus") == slot.loader_cpus


AXIS = Axis(
    "CPUs of their own for the processes that a loader prepares its batches in, a number for "
    "each member",
    {
        SHARED: "they run where their member may",
        REST: "what members that train leave of the machine, in equal parts",
    },
    COUNT,
    order=205,
    refuse=_refuse,
    apply=apply,
    lines=lambda _: (
        "cpus, own = sorted(os.sched_getaffinity(0)), torch.get_num_threads()\n"
        "os.sched_setaffinity(0, cpus[:own])\n"
        "loader = DataLoader(..., worker_init_fn=lambda _: os.sched_setaffinity(0, cpus[own:]))"
    ),
    observe=observe,
    requested=_requested,
    holds=_holds,
)
