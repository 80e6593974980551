"""The faults that can be injected, each with the causes that a verdict should name for it.

A fault slows training down in one known way: by the launch, by a script around the workload's
(`benchmarks/injected_faults`), by something outside of the study, or by several of them.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scaling_study.host import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "benchmarks/injected_faults"
SLOW_GEMM = ROOT / "results/.faults/libslow_gemm.so"
CPUS = sorted(os.sched_getaffinity(0))
HALF = max(1, len(CPUS) // 2)
NOTHING = "nothing"

# About how long each takes; the doses of a fault differ with the machine.
DENORMAL_S = 21e-6  # what denormals add to a call of denormals.py
COMPILE_S = 10e-3  # to compile a small function
PAGE_READ_S = 0.1e-3  # to read a page from a fast disk
COPY_BYTES_PER_S = 8e9  # from memory to memory, by one CPU


@dataclass(frozen=True, slots=True)
class Dose:
    """What the options of a fault may depend on.

    Attributes:
        step_s: about what a step of the workload takes alone.
        strength: one of STRENGTHS.
        multiplies: of the workload.
        folder: of this run, for files that members share.
    """

    step_s: float
    strength: float
    multiplies: int
    folder: Path

    def seconds(self, factor: float = 1.0) -> str:
        """Return this part of a step, in seconds."""
        return f"{factor * self.strength * self.step_s:.5f}"


Options = tuple[str, ...]


def _none(_dose: Dose) -> Options:
    return ()


def _no_variables(_dose: Dose) -> Mapping[str, str]:
    return {}


def _possible() -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that slows training down, and what a verdict should call it.

    Attributes:
        title: for people.
        causes: any of them, named first, is right; empty: none may be named.
        axes: the launch; one thread where nothing is said.
        env: further variables of the script's environment.
        most: processes at the reference n.
        clean_most: processes of the clean workload that it is compared with.
        wrapper: a file in FOLDER and options, around the script.
        control: the same wrapper without what makes it slow; empty: the bare script.
        control_axes: the launch without what makes it slow; None: one thread.
        outside: options of injected_faults/outside.py, around the whole job.
        missing: why it cannot be injected here, or None.
        own: causes that come with what is around the fault, in its control too; as of a workload.
        single_process: whether it slows one process alone already.
        promised: whether the self-test runs it unasked; others are for whoever writes causes.
        only: the workloads that it can be injected into; empty: all.
    """

    title: str
    causes: tuple[str, ...]
    axes: Mapping[str, Any] = field(default_factory=lambda: {"intra_op": 1})
    env: Callable[[Dose], Mapping[str, str]] = _no_variables
    most: int = len(CPUS)
    clean_most: int = len(CPUS)
    wrapper: Callable[[Dose], Options] = _none
    control: Callable[[Dose], Options] = _none
    control_axes: Mapping[str, Any] | None = None
    outside: Callable[[Dose], Options] = _none
    missing: Callable[[], str | None] = _possible
    own: Mapping[str, str] = field(default_factory=dict)
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

    @property
    def controlled(self) -> bool:
        """Whether its runs are compared with a control of their own."""
        return self.control is not _none or self.control_axes is not None


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


def _slow_loader(dose: Dose, *more: str) -> Options:
    return ("slow_loader.py", "--seconds", dose.seconds(), *more)


def _half_busy_loader(dose: Dose) -> Options:
    """Half a dose: what one worker could make while training goes on."""
    return _slow_loader(replace(dose, strength=dose.strength / 2), "--busy")


def _loader_workers(dose: Dose, count: int) -> Options:
    busy, *options = _slow_loader(dose, "--busy")
    return ("loader_workers.py", "--workers", str(count), "--", str(FOLDER / busy), *options)


def _step_thread(dose: Dose, *more: str) -> Options:
    return ("step_thread.py", "--seconds", dose.seconds(0.8), *more)


def _denormals(dose: Dose, *more: str) -> Options:
    calls = round(1.5 * dose.strength * dose.step_s / DENORMAL_S)
    return ("denormals.py", "--calls", str(calls), *more)


def _recompiling(dose: Dose, *more: str) -> Options:
    every = max(1, round(COMPILE_S / (dose.strength * dose.step_s)))
    return ("recompiling.py", "--every", str(every), *more)


def _mapped(dose: Dose, *more: str) -> Options:
    pages = round(dose.strength * dose.step_s / PAGE_READ_S)
    return ("mapped_file.py", "--folder", str(dose.folder), "--pages", str(pages), *more)


def _sync(dose: Dose, *more: str) -> Options:
    return ("sync_file.py", "--folder", str(dose.folder), *more)


def _stream(dose: Dose, *more: str) -> Options:
    size = 3 * dose.strength * dose.step_s * COPY_BYTES_PER_S
    return ("stream.py", "--bytes", str(round(size)), *more)


def _bandwidth(dose: Dose) -> Options:
    return ("--quota-cpus", f"{0.6 * len(CPUS) / dose.strength:.3f}")


def _lock(title: str, kind: str, *, promised: bool) -> Fault:
    def wrapper(dose: Dose, *more: str) -> Options:
        # Two processes wait for a lock only where a step holds it for more than half its time.
        where = ("--folder", str(dose.folder), "--seconds", dose.seconds(3.0))
        return ("lock.py", "--kind", kind, *where, *more)

    return Fault(
        title,
        ("lock_contention",),
        wrapper=wrapper,
        control=lambda dose: wrapper(dose, "--private"),
        missing=one_cpu,
        promised=promised,
    )


def _ranks(title: str, cause: str, option: str) -> Fault:
    return Fault(
        title,
        (cause,),
        axes={"intra_op": 1, "ranks": 2},
        most=1,
        clean_most=1,
        wrapper=lambda dose: ("ranks.py", option, dose.seconds()),
        control=lambda _: ("ranks.py",),
        missing=one_cpu,
        own={"communication": "the ranks exchange their gradients in every step"},
        single_process=True,
        promised=False,
        only=("ncf", "plain"),
    )


def _loader(title: str, cause: str, kind: str, **more: Any) -> Fault:
    """Return a fault of injected_faults/loaders.py, in scripts whose loaders it can change."""
    return Fault(
        title,
        (cause,),
        wrapper=lambda dose: ("loaders.py", kind, "--seconds", dose.seconds()),
        single_process=True,
        promised=False,
        **{"only": ("plain", "images"), **more},
    )


ALONE: dict[str, Any] = {"most": 1, "clean_most": 1}
BOUND = {"intra_op": 1, "placement": "cores"}
BUSY = "every batch takes CPU time, so that workers have something to do"

_ALL = {
    NOTHING: Fault("nothing (A/A)", ()),
    "quota": Fault(
        "CPU quota of a cgroup (v1)",
        ("cpu_quota",),
        outside=_bandwidth,
        missing=lambda: no_quota(1),
    ),
    "quota_v2": Fault(
        "CPU quota of a cgroup (v2)",
        ("cpu_quota",),
        outside=_bandwidth,
        missing=lambda: no_quota(2),
    ),
    "stopped": Fault(
        "a program that stops the processes again and again",
        ("stopped",),
        outside=lambda dose: ("--stop", f"{0.5 * dose.strength:.3f}"),
        single_process=True,
        promised=False,
    ),
    "bound": Fault(
        "piled on one CPU by OMP_PROC_BIND=true",
        ("affinity_pileup",),
        wrapper=lambda _: ("bound.py",),
        missing=one_cpu,
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
        wrapper=lambda dose: _step_thread(dose, "--native"),
        promised=False,
    ),
    "slow_blas": Fault(
        "a slow BLAS kernel",
        ("slow_blas",),
        axes={"intra_op": 1, "blas": str(SLOW_GEMM)},
        env=lambda dose: {"SLOW_GEMM_PASSES": str(round(dose.multiplies * dose.strength))},
        missing=no_slow_gemm,
        single_process=True,
    ),
    "dask": Fault(
        "Dask's trim threshold",
        ("page_faults",),
        axes={"intra_op": 1, "launcher": "dask"},
        control_axes={"intra_op": 1, "launcher": "dask", "allocator": "glibc-large-thresholds"},
        own={"helper_threads": "a Dask worker samples its own stack a hundred times a second"},
        single_process=True,
    ),
    "slow_exchange": _ranks(
        "a slow exchange of gradients between two ranks", "communication", "--exchange"
    ),
    "slow_rank": _ranks("a rank that is slower than the other", "imbalance", "--slow"),
    "file_lock": _lock("contention on one file lock", "flock", promised=True),
    "polled_lock": _lock("a file lock that is tried again and again", "poll", promised=False),
    "semaphore": _lock("a semaphore that processes share", "semaphore", promised=False),
    "sync": Fault(
        "a checkpoint that waits for the disk",
        ("file_io",),
        wrapper=_sync,
        control=lambda dose: _sync(dose, "--buffered"),
        single_process=True,
        promised=False,
    ),
    "mapped": Fault(
        "data in a mapped file that memory does not keep",
        ("file_io",),
        wrapper=_mapped,
        control=lambda dose: _mapped(dose, "--keep"),
        single_process=True,
        promised=False,
    ),
    "stream": Fault(
        "steps that copy more than caches hold",
        ("memory_bandwidth", "last_level_cache"),
        wrapper=_stream,
        control=lambda dose: _stream(dose, "--cached"),
        missing=one_cpu,
        promised=False,
    ),
    "pause": Fault(
        "a pause in every step",
        ("pauses",),
        wrapper=lambda dose: ("pause.py", "--seconds", dose.seconds()),
        single_process=True,
        promised=False,
    ),
    "gil": Fault(
        "a thread that holds the interpreter's lock",
        ("interpreter",),
        wrapper=_step_thread,
        single_process=True,
        promised=False,
    ),
    "collector": Fault(
        "a garbage collection in every step",
        ("interpreter",),
        wrapper=lambda _: ("collector.py",),
        single_process=True,
        promised=False,
    ),
    "recompiling": Fault(
        "recompilation for new shapes",
        ("compilation",),
        wrapper=_recompiling,
        control=lambda dose: _recompiling(dose, "--same"),
        single_process=True,
        promised=False,
    ),
    "denormals": Fault(
        "denormal numbers",
        ("denormals",),
        wrapper=_denormals,
        control=lambda dose: _denormals(dose, "--normal"),
        single_process=True,
    ),
    "slow_loader": Fault(
        "a slow loader",
        # Older records do not time the making of batches.
        ("loader_storage", "data_loading"),
        wrapper=_slow_loader,
        single_process=True,
    ),
    "busy_loader": Fault(
        "a loader that works",
        # Which of them comes first depends on how free the CPUs are that workers would have.
        ("too_few_workers", "loader_preparation"),
        **ALONE,
        wrapper=_half_busy_loader,
        missing=one_cpu,
        single_process=True,
        promised=False,
    ),
    "bound_loader": Fault(
        "a loader that works, on its trainer's CPU",
        ("loader_preparation",),
        axes=BOUND,
        control_axes=BOUND,
        wrapper=lambda dose: _slow_loader(dose, "--busy"),
        single_process=True,
        promised=False,
    ),
    "workers": Fault(
        "more loader workers than CPUs",
        (
            *("data_loading", "loader_interference", "loader_preparation", "loader_copies"),
            *("helper_threads", "cpu_oversubscription"),
        ),
        wrapper=lambda dose: _loader_workers(dose, 2 * len(CPUS)),
        control=lambda dose: _loader_workers(dose, 0),
        own={"too_few_workers": BUSY, "loader_preparation": BUSY},
        single_process=True,
        promised=False,
    ),
    "rows": _loader("a loader that makes its batches row by row", "loader_rows", "rows"),
    "copies": _loader(
        "a worker that sends views of larger tensors",
        "loader_copies",
        "copies",
        **ALONE,
        missing=one_cpu,
    ),
    "copying_workers": _loader(
        "loader workers that copy more than caches hold",
        "loader_interference",
        "copying_workers",
        **ALONE,
        missing=one_cpu,
        only=("ncf",),  # whose step is small enough to be in caches
    ),
    "working_workers": _loader(
        "loader workers that want more CPUs than there are",
        "loader_interference",
        "working_workers",
        **ALONE,
        missing=one_cpu,
    ),
    "loader_thread": _loader(
        "a loader's thread that computes in Python",
        "loader_lock",
        "thread",
        **ALONE,
        missing=one_cpu,
    ),
    "snapshots": _loader(
        "a loader that takes a large snapshot in every step",
        "loader_snapshots",
        "snapshots",
        **ALONE,
    ),
    "loader_starts": _loader(
        "loader workers that are started again and again", "loader_starts", "starts", only=()
    ),
}
# Those that have no control are compared with the run of nothing, so they come right after it: the
# machine drifts.
FAULTS = {name: _ALL[name] for name in sorted(_ALL, key=lambda name: _ALL[name].controlled)}
