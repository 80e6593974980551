"""The faults that can be injected, each with the causes that a verdict should name for it.

A fault slows training down in one known way: by the launch, by code around the script
(`benchmarks/injected_faults`), by something outside of the study, or by several of them.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ledger import ROOT

from scaling_study.host import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FOLDER = ROOT / "benchmarks/injected_faults"
SCRATCH = ROOT / "results/.faults"
SLOW_GEMM = SCRATCH / "libslow_gemm.so"
CPUS = sorted(os.sched_getaffinity(0))
HALF = max(1, len(CPUS) // 2)
NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that slows training down, and what a verdict should call it.

    Attributes:
        title: for people.
        causes: any of them, named first, is right; empty: none may be named.
        inject: a kind of injected_faults/inject.py, around the script.
        dose: about how much of a step that takes.
        controlled: whether its runs are compared with a control: the same code and launch without
            what makes it slow. Others are compared with the bare script.
        axes: the launch; one thread where nothing is said.
        control_axes: the control's launch, where that is another one.
        most: processes at the reference n.
        outside: options of injected_faults/outside.py, around the whole job, by the dose's
            strength.
        missing: why it cannot be injected here, or None.
        inherent: causes that come with what is around the fault, in its control too; as of a
            workload.
        single_process: whether it slows one process alone already.
        promised: whether the self-test runs it unasked; others are for whoever writes causes.
        only: the workloads that it can be injected into; empty: all.
    """

    title: str
    causes: tuple[str, ...]
    inject: str = ""
    dose: float = 1.0
    controlled: bool = False
    axes: Mapping[str, Any] = field(default_factory=lambda: {"intra_op": 1})
    control_axes: Mapping[str, Any] | None = None
    most: int = len(CPUS)
    outside: Callable[[float], tuple[str, ...]] = lambda _strength: ()
    missing: Callable[[], str | None] = lambda: None
    inherent: Mapping[str, str] = field(default_factory=dict)
    single_process: bool = False
    promised: bool = True
    only: tuple[str, ...] = ()

    def suits(self, workload: str) -> bool:
        """Whether it can be injected into a workload, a key of WORKLOADS."""
        return not self.only or workload in self.only

    @property
    def counts(self) -> list[int]:
        """Process counts of its study."""
        return sorted({1, min(len(CPUS), self.most), self.most})


def one_cpu() -> str | None:
    """Say why no two processes can compete here."""
    return None if len(CPUS) > 1 else "there is one CPU only"


@functools.cache
def no_quota(version: int | None = None) -> str | None:
    """Say why no quota can be set here, by cgroups of this version if one is given."""
    hierarchy = limits.read_hierarchy("cpu")
    if version is not None and hierarchy is not None and hierarchy.version != version:
        return f"cgroup v{hierarchy.version} governs CPU time here"
    command = [sys.executable, str(FOLDER / "outside.py"), "--quota-cpus", "1", "--", "true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else None


@functools.cache
def no_slow_gemm() -> str | None:
    """Compile the slow multiply, unless that cannot be."""
    compiler = shutil.which("cc")
    if compiler is None:
        return "there is no C compiler: apt install gcc libc6-dev"
    SLOW_GEMM.parent.mkdir(parents=True, exist_ok=True)
    source = str(FOLDER / "slow_gemm.c")
    flags = ["-O3", "-march=native", "-shared", "-fPIC"]
    subprocess.run([compiler, *flags, "-o", str(SLOW_GEMM), source], check=True)
    return None


def _quota(version: int) -> Fault:
    return Fault(
        f"CPU quota of a cgroup (v{version})",
        ("cpu_quota",),
        outside=lambda strength: ("--quota-cpus", f"{0.6 * len(CPUS) / strength:.3f}"),
        missing=lambda: no_quota(version),
    )


def _in_step(title: str, cause: str, inject: str, **more: Any) -> Fault:
    """Return a fault in the step of one process, which is there for whoever writes causes."""
    return Fault(title, (cause,), inject, **{"single_process": True, "promised": False, **more})


def _ranks(title: str, cause: str, inject: str) -> Fault:
    return _in_step(
        title,
        cause,
        inject,
        controlled=True,
        axes={"intra_op": 1, "ranks": 2},
        most=1,
        missing=one_cpu,
        inherent={"communication": "the ranks exchange their gradients in every step"},
        only=("ncf", "plain"),
    )


def _loader(title: str, cause: str, inject: str, **more: Any) -> Fault:
    """Return a fault in scripts whose loaders can be changed."""
    return _in_step(title, cause, inject, **{"only": ("plain", "images"), **more})


BOUND = {"intra_op": 1, "placement": "cores"}
BESIDE: dict[str, Any] = {"most": 1, "missing": one_cpu}
"""One process, and something of its own on another CPU."""

FAULTS = {
    NOTHING: Fault("nothing (A/A)", ()),
    "quota": _quota(1),
    "quota_v2": _quota(2),
    "bound": Fault(
        "piled on one CPU by OMP_PROC_BIND=true", ("affinity_pileup",), "bound", missing=one_cpu
    ),
    "mask": Fault(
        "piled on one CPU by mask",
        ("affinity_pileup",),
        axes={"intra_op": 1, "placement": [str(CPUS[0])] * len(CPUS)},
        missing=one_cpu,
    ),
    "memory_hog": Fault(
        "a memory-bandwidth hog outside",
        ("foreign_load", "memory_bandwidth", "last_level_cache"),
        outside=lambda _: ("--hog", "memory", "--hogs", str(HALF)),
        single_process=True,
    ),
    "cpu_hog": Fault(
        "a CPU hog outside",
        ("foreign_load",),
        outside=lambda _: ("--hog", "cpu", "--hogs", str(HALF)),
    ),
    "spinning": Fault("spinning by default threads", ("spinning",), axes={}, missing=one_cpu),
    "threads": Fault(
        "more threads than CPUs, asleep while they wait",
        ("too_many_threads", "cpu_oversubscription"),
        axes={"intra_op": 4 * len(CPUS), "wait_policy": "passive"},
        single_process=True,
        promised=False,
    ),
    "one_cpu": Fault(
        "a mask of one CPU around the whole study",
        ("cpuset",),
        outside=lambda _: ("--cpu", str(CPUS[0])),
        missing=one_cpu,
        promised=False,
    ),
    "processes": Fault(
        "twice as many processes as CPUs", ("cpu_oversubscription",), most=2 * len(CPUS)
    ),
    "helper": Fault(
        "a thread that needs a CPU of its own",
        ("helper_threads",),
        "helper",
        dose=0.8,
        promised=False,
    ),
    "slow_blas": Fault(
        "a slow BLAS kernel",
        ("slow_blas",),
        axes={"intra_op": 1, "blas": str(SLOW_GEMM)},
        missing=no_slow_gemm,
        single_process=True,
    ),
    "dask": Fault(
        "Dask's trim threshold",
        ("page_faults",),
        controlled=True,
        axes={"intra_op": 1, "launcher": "dask"},
        control_axes={"intra_op": 1, "launcher": "dask", "allocator": "glibc-large-thresholds"},
        inherent={"helper_threads": "a Dask worker samples its own stack a hundred times a second"},
        single_process=True,
    ),
    "slow_exchange": _ranks(
        "a slow exchange of gradients between two ranks", "communication", "slow_exchange"
    ),
    "slow_rank": _ranks("a rank that is slower than the other", "imbalance", "slow_rank"),
    "file_lock": Fault(
        "contention on one file lock",
        ("lock_contention",),
        "file_lock",
        # Two processes wait for a lock only where a step holds it for more than half its time.
        dose=3.0,
        controlled=True,
        missing=one_cpu,
    ),
    "sync": _in_step("a log that waits for the disk", "file_io", "sync", controlled=True),
    "mapped": _in_step(
        "data in a mapped file that memory does not keep", "file_io", "mapped", controlled=True
    ),
    "pause": _in_step("a pause in every step", "pauses", "pause"),
    "gil": _in_step("a thread that holds the interpreter's lock", "interpreter", "gil", dose=0.8),
    "collector": _in_step("a garbage collection in every step", "interpreter", "collector"),
    "recompiling": _in_step(
        "recompilation for new shapes", "compilation", "recompiling", controlled=True
    ),
    "denormals": _in_step(
        "denormal numbers", "denormals", "denormals", dose=1.5, controlled=True, promised=True
    ),
    "slow_loader": Fault("a slow loader", ("loader_storage",), "slow_loader", single_process=True),
    "busy_loader": Fault(
        "a loader that works",
        # Which of them comes first depends on how free the CPUs are that workers would have.
        ("too_few_workers", "loader_preparation"),
        "busy_loader",
        dose=0.5,  # what one worker could make while training goes on
        **BESIDE,
        single_process=True,
        promised=False,
    ),
    "bound_loader": _in_step(
        "a loader that works, on its trainer's CPU",
        "loader_preparation",
        "busy_loader",
        controlled=True,
        axes=BOUND,
    ),
    "rows": _loader("a loader that makes its batches row by row", "loader_rows", "rows"),
    "copies": _loader(
        "a worker that sends views of larger tensors", "loader_copies", "copies", **BESIDE
    ),
    "working_workers": _loader(
        "loader workers that want more CPUs than there are",
        "loader_interference",
        "working_workers",
        **BESIDE,
    ),
    "loader_thread": _loader(
        "a loader's thread that computes in Python", "loader_lock", "loader_thread", **BESIDE
    ),
    "snapshots": _loader(
        "a loader that takes a large snapshot in every step",
        "loader_snapshots",
        "snapshots",
        most=1,
    ),
    "loader_starts": _in_step(
        "loader workers that restart in every epoch", "loader_starts", "loader_starts"
    ),
}
