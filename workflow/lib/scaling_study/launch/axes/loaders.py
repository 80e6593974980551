"""Axes of torch's DataLoaders: their workers, the batches prepared ahead, and the workers' CPUs.

A member imports this module. The file of a launch's switches gets copies of its ``apply_…``
functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaling_study.common.unavailable import UnavailableError
from scaling_study.launch.axes import ranks
from scaling_study.launch.axes.axis import COUNT, Axis, counts, living, the_one

if TYPE_CHECKING:
    from typing import Never

    from scaling_study.common.axis_values import Axes

NO_LOADER, NO_WORKERS = "no torch DataLoader lives", "no torch DataLoader with workers lives"


def _settings(name: str, *, least_workers: int) -> set[int]:
    """Return the values of a setting among all live loaders and their iterators; 0 if unset.

    A loop may hold only the iterator.

    Args:
        name: name of the attribute; an iterator's begins with an underscore.
        least_workers: loaders with fewer workers are left out.
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
    """Set the prefetch factor of every torch DataLoader that has workers."""
    from scaling_study.member.after_torch import change_arguments

    def change(given: dict[str, object]) -> None:
        if given.get("num_workers"):
            given["prefetch_factor"] = value

    change_arguments(change)


# ---- persistent_workers


def apply_persistent_workers(value: str) -> None:
    """Set whether workers outlive an epoch, for every torch DataLoader that has workers."""
    from scaling_study.member.after_torch import change_arguments

    def change(given: dict[str, object]) -> None:
        if given.get("num_workers"):
            given["persistent_workers"] = value == "keep"

    change_arguments(change)


def observe_persistent_workers() -> str:
    """Return whether the workers of all live loaders outlive an epoch."""
    found = _settings("persistent_workers", least_workers=1)
    return the_one({"keep" if one else "restart" for one in found}, NO_WORKERS)


# ---- loader_workers


def apply_loader_workers(value: int) -> None:
    """Set the number of workers of every torch DataLoader.

    A loader whose workers would each yield all batches is left as it is.
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


# ---- loader_cpus

SHARED = "shared"
REST = "rest"


def apply_loader_cpus(_value: int | str) -> None:
    """Divide this process's CPUs: the first ones train, the others are for loader workers.

    The order is that of cores, as slots are divided. As many CPUs train as the threads of all ranks
    need. If none are left, loader workers share them.
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
    """Return the CPUs of all live loader workers."""
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
    # loader_workers comes after these two: its wrapper is the outer one, so they see the number
    # that it set.
    "prefetch": Axis(
        "batches that each loader worker prepares ahead",
        {"script": "as the script says"},
        COUNT,
        apply=apply_prefetch,
        lines="loader = DataLoader(..., prefetch_factor={})".format,
        observe=lambda: the_one(_settings("prefetch_factor", least_workers=1), NO_WORKERS),
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
        observe=lambda: the_one(_settings("num_workers", least_workers=0), NO_LOADER),
    ),
    "loader_cpus": Axis(
        "the CPUs that only a member's loader workers use",
        {
            SHARED: "they run where their member may",
            REST: "the CPUs that training members leave, in equal parts",
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
