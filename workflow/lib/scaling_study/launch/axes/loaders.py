"""Axes of torch's DataLoaders: their workers, what these prepare ahead, and CPUs of their own.

A member imports this module, and the file of a launch's switches has copies of what applies values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaling_study.common.unavailable import UnavailableError
from scaling_study.launch.axes import ranks
from scaling_study.launch.axes.axis import Axis
from scaling_study.launch.axes.living import living, the_one
from scaling_study.launch.axes.values import COUNT, counts

if TYPE_CHECKING:
    from typing import Never

    from scaling_study.common.axis_values import Axes

NO_LOADER, NO_WORKERS = "no torch DataLoader lives", "no torch DataLoader with workers lives"


def _settings(name: str, *, least_workers: int) -> set[int]:
    """Return a setting of all loaders that live, 0 for none, also of those of their iterators.

    A loop may hold the iterator alone.

    Args:
        name: of an attribute; an iterator has it with an underscore in front.
        least_workers: loaders that have fewer do not count.
    """
    from torch.utils.data import DataLoader
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    return {
        getattr(one, mark + name, None) or 0
        for kind, mark in ((DataLoader, ""), (_BaseDataLoaderIter, "_"))
        for one in living(kind)
        if getattr(one, f"{mark}num_workers") >= least_workers
    }


# ---- prefetch


def apply_prefetch(value: int) -> None:
    """Set it for every torch DataLoader that has workers."""
    from scaling_study.member.after_torch import change_arguments

    def change(given: dict[str, object]) -> None:
        if given.get("num_workers"):
            given["prefetch_factor"] = value

    change_arguments(change)


def observe_prefetch() -> int | str:
    """Return the number of all loaders that live and have workers."""
    return the_one(_settings("prefetch_factor", least_workers=1), NO_WORKERS)


# ---- persistent_workers


def apply_persistent_workers(value: str) -> None:
    """Set it for every torch DataLoader that has workers."""
    from scaling_study.member.after_torch import change_arguments

    def change(given: dict[str, object]) -> None:
        if given.get("num_workers"):
            given["persistent_workers"] = value == "keep"

    change_arguments(change)


def observe_persistent_workers() -> str:
    """Return whether those of all loaders that live do."""
    found = _settings("persistent_workers", least_workers=1)
    return the_one({"keep" if one else "restart" for one in found}, NO_WORKERS)


# ---- loader_workers


def apply_loader_workers(value: int) -> None:
    """Set their number for every torch DataLoader.

    A loader that would give batches several times is left as it is.
    """
    from scaling_study.member.after_torch import change_arguments, shares_out

    def change(given: dict[str, object]) -> None:
        if value in {0, 1} or shares_out(given["dataset"], given.get("worker_init_fn")):
            given["num_workers"] = value
            if value == 0:
                for name in ("prefetch_factor", "persistent_workers", "multiprocessing_context"):
                    given.pop(name, None)
                given["timeout"] = 0

    change_arguments(change)


def observe_loader_workers() -> int | str:
    """Return the number of all loaders that live."""
    return the_one(_settings("num_workers", least_workers=0), NO_LOADER)


# ---- loader_cpus

SHARED = "shared"
REST = "rest"


def apply_loader_cpus(_value: int | str) -> None:
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


def observe_loader_cpus() -> str:
    """Return the CPUs of all loader workers that live."""
    import multiprocessing
    import os

    from scaling_study.common.topology import format_cpu_list

    found = {
        format_cpu_list(os.sched_getaffinity(child.pid or 0))
        for child in multiprocessing.active_children()
        if "_loads" in child.__dict__
    }
    return the_one(found, "no loader worker lives")


def _refuse_loader_cpus(axes: Axes) -> None:
    if axes["placement"] == "none":
        raise UnavailableError(
            "loader_cpus needs to know a member's CPUs, and placement none does not bind it",
            "set placement to cores, compact or spread",
        )
    if not isinstance(axes["intra_op"], int) and ranks.processes(axes) == 1:
        raise UnavailableError(
            "loader_cpus needs to know on how many CPUs a member trains", "set intra_op to a number"
        )


AXES: dict[str, Axis[Never]] = {
    # The number of workers comes after these two: its wrapper is the outer one, so they see what it
    # set.
    "prefetch": Axis(
        "batches that each loader worker prepares ahead",
        {"script": "as the script says"},
        COUNT,
        apply=apply_prefetch,
        lines="loader = DataLoader(..., prefetch_factor={})".format,
        observe=observe_prefetch,
    ),
    "persistent_workers": Axis(
        "whether loader workers live on between epochs",
        {
            "script": "as the script says",
            "keep": "they live on",
            "restart": "each epoch starts new ones",
        },
        apply=apply_persistent_workers,
        lines=lambda value: f"loader = DataLoader(..., persistent_workers={value == 'keep'})",
        observe=observe_persistent_workers,
    ),
    "loader_workers": Axis(
        "processes that a torch DataLoader prepares its batches in",
        {"script": "as the script says"},
        counts(0),
        apply=apply_loader_workers,
        lines="loader = DataLoader(..., num_workers={})".format,
        observe=observe_loader_workers,
    ),
    "loader_cpus": Axis(
        "CPUs of their own for the processes that a loader prepares its batches in, a number for "
        "each member",
        {
            SHARED: "they run where their member may",
            REST: "what members that train leave of the machine, in equal parts",
        },
        COUNT,
        refuse=_refuse_loader_cpus,
        apply=apply_loader_cpus,
        lines=lambda _: (
            "cpus, own = sorted(os.sched_getaffinity(0)), torch.get_num_threads()\n"
            "os.sched_setaffinity(0, cpus[:own])\n"
            "loader = DataLoader(..., worker_init_fn=lambda _: os.sched_setaffinity(0, cpus[own:]))"
        ),
        observe=observe_loader_cpus,
        requested=lambda value, slot: (
            str(value) if value == SHARED else f"slot {slot.slot}: {slot.loader_cpus}"
        ),
        holds=lambda value, got, slot: (
            value == SHARED or got.switches.get("loader_cpus") == slot.loader_cpus
        ),
    ),
}
