"""The workloads and the plants of the self-test: each plant is an entry here.

A plant is a launch, a wrapper around the script, something outside the study, or several of them.
The workload scripts stay as they are.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ROOT = Path(__file__).parent.parent
PLANTS_FOLDER = Path(__file__).parent / "plants"
SLOW_GEMM = ROOT / "results/.planted/libslow_gemm.so"
CPUS = sorted(os.sched_getaffinity(0))
HALF = max(1, len(CPUS) // 2)
NOTHING = "nothing"

STRENGTHS = (1.0, 0.85, 1.15, 0.9, 1.1)
"""How much of a plant a run gets, in turn: a rule that fits one dose only would show."""

DENORMAL_S = 21e-6
"""What denormals add to a call of denormals.py on the CPU that its doses were chosen on; elsewhere
the dose differs."""

COPY_BYTES_PER_S = 8e9
"""About what one CPU copies from memory to memory; the dose differs with the machine."""

COMPILE_S = 10e-3
"""About what it takes to compile a small function; the dose differs with the CPU."""

PAGE_READ_S = 0.1e-3
"""About what it takes to read a page from a fast disk; the dose differs with the disk."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A training script whose tensors are large enough that every plant can bite.

    Attributes:
        title: for people.
        script: relative to the project.
        args: of it.
        step_s: about what a step takes alone (s): doses are chosen by it, nothing is judged by it.
        multiplies: a slow multiply is this much slower still, where a step has few of them.
        own: causes that it has without any plant, each with how that is known: naming one is true.
            `own_causes` has those of the processor too.
    """

    title: str
    script: str
    args: tuple[str, ...]
    step_s: float
    multiplies: int = 1
    own: Mapping[str, str] = field(default_factory=dict)


OWN_ON_AMD = {
    "slow_blas": "on AMD, torch's MKL takes a kernel for older CPUs: OpenBLAS multiplies faster"
}
"""As of a workload, of each of them where the processor is AMD's."""

WORKLOADS = {
    "tsmixerx": Workload(
        "TSMixerx",
        "scripts/workloads/tsmixerx.py",
        ("--ff-dim", "64", "--batch-size", "64", "--steps", "2000"),
        0.014,
        multiplies=4,
    ),
    "ncf": Workload(
        "NCF",
        "scripts/workloads/ncf.py",
        ("--batch-size", "8", "--negatives", "511"),
        0.006,
        own={"data_loading": "drawing negatives takes a fifth of a step (of its CPU time, alone)"},
    ),
    "plain": Workload(
        "plain loop",
        "benchmarks/plants/plain_loop.py",
        (),
        0.009,
        own={
            "page_faults": "its tensors are allocated anew in each step, with some hundred faults"
        },
    ),
}


def own_causes(workload: str, machine: str) -> dict[str, str]:
    """Return the causes that a workload has of itself on a machine, as its entries name it."""
    return {**WORKLOADS[workload].own, **(OWN_ON_AMD if "AMD" in machine else {})}


@dataclass(frozen=True, slots=True)
class Dose:
    """What a plant's options may depend on.

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


Options = tuple[str, ...]


def _none(_dose: Dose) -> Options:
    return ()


def _no_variables(_dose: Dose) -> Mapping[str, str]:
    return {}


def _possible() -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Plant:
    """Something that slows training down, and what a verdict should call it.

    Attributes:
        title: for people.
        causes: any of them, named first, is right; empty: none may be named.
        axes: the launch; one thread where nothing is said.
        env: further variables of the script's environment.
        most: processes at the reference n.
        clean_most: processes of the clean workload that it is compared with.
        wrapper: file in plants/ and options, around the script.
        control: the same wrapper without what makes it slow; empty: the bare script.
        control_axes: the launch without what makes it slow; None: one thread.
        outside: options of plants/outside.py, around the whole job.
        missing: why it cannot be planted here, or None.
        own: causes that come with what is around the plant, in its control too; as of a workload.
        level: whether it slows one process alone already.
        promised: whether the self-test runs it unasked; others are for whoever writes rules.
        only: the workloads that it can be planted in; empty: all.
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
    level: bool = False
    promised: bool = True
    only: tuple[str, ...] = ()

    def suits(self, workload: str) -> bool:
        """Whether it can be planted in a workload, a key of WORKLOADS."""
        return not self.only or workload in self.only

    @property
    def counts(self) -> list[int]:
        """Process counts of its study."""
        return sorted({1, min(len(CPUS), self.most), self.most})

    @property
    def controlled(self) -> bool:
        """Whether its runs are compared with a control of their own."""
        return self.control is not _none or self.control_axes is not None


def _quota(dose: Dose) -> Options:
    return ("--quota-cpus", f"{0.6 * len(CPUS) / dose.strength:.3f}")


def _lock(dose: Dose, kind: str, *more: str) -> Options:
    # Two processes wait for a lock only where a step holds it for more than half its time.
    seconds = f"{3 * dose.strength * dose.step_s:.5f}"
    return ("lock.py", "--kind", kind, "--folder", str(dose.folder), "--seconds", seconds, *more)


def _lock_plant(title: str, kind: str, *, promised: bool) -> Plant:
    return Plant(
        title,
        ("lock_contention",),
        wrapper=lambda dose: _lock(dose, kind),
        control=lambda dose: _lock(dose, kind, "--private"),
        missing=_one_cpu,
        promised=promised,
    )


def _denormals(dose: Dose, *more: str) -> Options:
    calls = round(1.5 * dose.strength * dose.step_s / DENORMAL_S)
    return ("denormals.py", "--calls", str(calls), *more)


def _mapped(dose: Dose, *more: str) -> Options:
    pages = round(dose.strength * dose.step_s / PAGE_READ_S)
    return ("mapped_file.py", "--folder", str(dose.folder), "--pages", str(pages), *more)


def _stream(dose: Dose, *more: str) -> Options:
    size = 3 * dose.strength * dose.step_s * COPY_BYTES_PER_S
    return ("stream.py", "--bytes", str(round(size)), *more)


def _step_thread(dose: Dose, *more: str) -> Options:
    seconds = 0.8 * dose.strength * dose.step_s
    return ("step_thread.py", "--seconds", f"{seconds:.5f}", *more)


def _recompiling(dose: Dose, *more: str) -> Options:
    every = max(1, round(COMPILE_S / (dose.strength * dose.step_s)))
    return ("recompiling.py", "--every", str(every), *more)


def _slow_loader(dose: Dose, *more: str) -> Options:
    return ("slow_loader.py", "--seconds", f"{dose.strength * dose.step_s:.5f}", *more)


def _ranks(dose: Dose, *what: str) -> Options:
    seconds = f"{dose.strength * dose.step_s:.5f}"
    return ("ranks.py", *(word for option in what for word in (option, seconds)))


def _ranks_plant(title: str, cause: str, what: str) -> Plant:
    return Plant(
        title,
        (cause,),
        axes={"intra_op": 1, "ranks": 2},
        most=1,
        clean_most=1,
        wrapper=lambda dose: _ranks(dose, what),
        control=_ranks,
        missing=_one_cpu,
        own={"communication": "the ranks exchange their gradients in every step"},
        level=True,
        promised=False,
        only=("ncf", "plain"),
    )


def _loader_workers(dose: Dose, count: int) -> Options:
    busy, *options = _slow_loader(dose, "--busy")
    return ("loader_workers.py", "--workers", str(count), "--", str(PLANTS_FOLDER / busy), *options)


@functools.cache
def no_quota(version: int | None = None) -> str | None:
    """Say why no quota can be set here, by cgroups of this version if one is given."""
    from scaling_study.probing import limits  # noqa: PLC0415 (not needed to run bare)

    hierarchy = limits.read_hierarchy("cpu")
    if version is not None and hierarchy is not None and hierarchy.version != version:
        return f"cgroup v{hierarchy.version} governs CPU time here"
    command = [sys.executable, str(PLANTS_FOLDER / "outside.py"), "--quota-cpus", "1", "--", "true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else None


@functools.cache
def _no_slow_gemm() -> str | None:
    """Compile the slow multiply, unless that cannot be."""
    compiler = shutil.which("cc")
    if compiler is None:
        return "there is no C compiler: apt install gcc libc6-dev"
    SLOW_GEMM.parent.mkdir(parents=True, exist_ok=True)
    source = str(PLANTS_FOLDER / "slow_gemm.c")
    flags = ["-O3", "-march=native", "-shared", "-fPIC"]
    subprocess.run([compiler, *flags, "-o", str(SLOW_GEMM), source], check=True)
    return None


def _one_cpu() -> str | None:
    return None if len(CPUS) > 1 else "there is one CPU only"


PLANTS = {
    NOTHING: Plant("nothing (A/A)", ()),
    # These are compared with the run above, so they come right after it: the machine drifts.
    "slow_loader": Plant(
        "a slow loader",
        ("data_loading",),
        wrapper=_slow_loader,
        level=True,
    ),
    "slow_blas": Plant(
        "a slow BLAS kernel",
        ("slow_blas",),
        axes={"intra_op": 1, "blas": str(SLOW_GEMM)},
        env=lambda dose: {"SLOW_GEMM_PASSES": str(round(dose.multiplies * dose.strength))},
        missing=_no_slow_gemm,
        level=True,
    ),
    "memory_hog": Plant(
        "a memory-bandwidth hog outside",
        ("foreign_load", "memory_bandwidth", "last_level_cache"),
        outside=lambda _: ("--hog", "memory", "--hogs", str(HALF)),
        level=True,
    ),
    "quota": Plant(
        "CPU quota of a cgroup (v1)",
        ("cpu_quota",),
        outside=_quota,
        missing=lambda: no_quota(1),
    ),
    "quota_v2": Plant(
        "CPU quota of a cgroup (v2)",
        ("cpu_quota",),
        outside=_quota,
        missing=lambda: no_quota(2),
    ),
    "bound": Plant(
        "piled on one CPU by OMP_PROC_BIND=true",
        ("affinity_pileup",),
        wrapper=lambda _: ("bound.py",),
        missing=_one_cpu,
    ),
    "mask": Plant(
        "piled on one CPU by mask",
        ("affinity_pileup",),
        axes={"intra_op": 1, "placement": [str(CPUS[0])] * len(CPUS)},
        missing=_one_cpu,
    ),
    "processes": Plant(
        "twice as many processes as CPUs", ("cpu_oversubscription",), most=2 * len(CPUS)
    ),
    "spinning": Plant("spinning by default threads", ("spinning",), axes={}, missing=_one_cpu),
    "dask": Plant(
        "Dask's trim threshold",
        ("page_faults",),
        axes={"intra_op": 1, "launcher": "dask"},
        control_axes={"intra_op": 1, "launcher": "dask", "allocator": "glibc-large-thresholds"},
        own={"helper_threads": "a Dask worker samples its own stack a hundred times a second"},
        level=True,
    ),
    "cpu_hog": Plant(
        "a CPU hog outside",
        ("foreign_load",),
        outside=lambda _: ("--hog", "cpu", "--hogs", str(HALF)),
    ),
    "file_lock": _lock_plant("contention on one file lock", "flock", promised=True),
    "denormals": Plant(
        "denormal numbers",
        ("denormals",),
        wrapper=_denormals,
        control=lambda dose: _denormals(dose, "--normal"),
        level=True,
    ),
    "polled_lock": _lock_plant("a file lock that is tried again and again", "poll", promised=False),
    "semaphore": _lock_plant("a semaphore that processes share", "semaphore", promised=False),
    "sync": Plant(
        "a checkpoint that waits for the disk",
        ("file_io",),
        wrapper=lambda dose: ("sync_file.py", "--folder", str(dose.folder)),
        control=lambda dose: ("sync_file.py", "--folder", str(dose.folder), "--buffered"),
        level=True,
        promised=False,
    ),
    "mapped": Plant(
        "data in a mapped file that memory does not keep",
        ("file_io",),
        wrapper=_mapped,
        control=lambda dose: _mapped(dose, "--keep"),
        level=True,
        promised=False,
    ),
    "stream": Plant(
        "steps that copy more than caches hold",
        ("memory_bandwidth", "last_level_cache"),
        wrapper=_stream,
        control=lambda dose: _stream(dose, "--cached"),
        missing=_one_cpu,
        promised=False,
    ),
    "pause": Plant(
        "a pause in every step",
        ("pauses",),
        wrapper=lambda dose: ("pause.py", "--seconds", f"{dose.strength * dose.step_s:.5f}"),
        level=True,
        promised=False,
    ),
    "stopped": Plant(
        "a program that stops the processes again and again",
        ("stopped",),
        outside=lambda dose: ("--stop", f"{0.5 * dose.strength:.3f}"),
        level=True,
        promised=False,
    ),
    "one_cpu": Plant(
        "a mask of one CPU around the whole study",
        ("cpuset",),
        outside=lambda _: ("--cpu", str(CPUS[0])),
        missing=_one_cpu,
        promised=False,
    ),
    "gil": Plant(
        "a thread that holds the interpreter's lock",
        ("interpreter",),
        wrapper=_step_thread,
        level=True,
        promised=False,
    ),
    "helper": Plant(
        "a thread that needs a CPU of its own",
        ("helper_threads",),
        wrapper=lambda dose: _step_thread(dose, "--native"),
        promised=False,
    ),
    "busy_loader": Plant(
        "a loader that works",
        ("data_loading",),
        wrapper=lambda dose: _slow_loader(dose, "--busy"),
        level=True,
        promised=False,
    ),
    "workers": Plant(
        "more loader workers than CPUs",
        ("data_loading", "helper_threads", "cpu_oversubscription"),
        wrapper=lambda dose: _loader_workers(dose, 2 * len(CPUS)),
        control=lambda dose: _loader_workers(dose, 0),
        own={"data_loading": "every batch takes CPU time, so that workers have something to do"},
        level=True,
        promised=False,
    ),
    "collector": Plant(
        "a garbage collection in every step",
        ("interpreter",),
        wrapper=lambda _: ("collector.py",),
        level=True,
        promised=False,
    ),
    "recompiling": Plant(
        "recompilation for new shapes",
        ("compilation",),
        wrapper=_recompiling,
        control=lambda dose: _recompiling(dose, "--same"),
        level=True,
        promised=False,
    ),
    "slow_rank": _ranks_plant("a rank that is slower than the other", "imbalance", "--slow"),
    "slow_exchange": _ranks_plant(
        "a slow exchange of gradients between two ranks", "communication", "--exchange"
    ),
    "threads": Plant(
        "more threads than CPUs, asleep while they wait",
        ("too_many_threads", "cpu_oversubscription"),
        axes={"intra_op": 4 * len(CPUS), "wait_policy": "passive"},
        level=True,
        promised=False,
    ),
}


@dataclass(frozen=True, slots=True)
class Case:
    """One job to run: a workload under a plant, or under the plant's control.

    Attributes:
        workload: key of WORKLOADS.
        plant: key of PLANTS.
        run: which repetition.
        control: without what makes it slow.
    """

    workload: str
    plant: str
    run: int
    control: bool = False

    @property
    def name(self) -> str:
        """Its folder below the results."""
        part = f"{self.plant}-control" if self.control else self.plant
        return f"{self.workload}/{part}/{self.run}"

    def config(self, folder: Path) -> dict[str, Any]:
        """Return a study's config for it.

        Args:
            folder: of this run, for files that members share.

        Raises:
            RuntimeError: it cannot be planted here.
        """
        workload, plant = WORKLOADS[self.workload], PLANTS[self.plant]
        if reason := plant.missing():
            raise RuntimeError(f"{plant.title}: {reason}")
        wrap = (plant.control if self.control else plant.wrapper)(self.dose(folder))
        axes = (plant.control_axes if self.control else None) or plant.axes
        command = [str(ROOT / workload.script), *workload.args, "--seed", "{member}"]
        if wrap:
            command = [str(PLANTS_FOLDER / wrap[0]), *wrap[1:], "--", *command]
        return {
            "study": "planted",
            "workload": {
                "script": command[0],
                "args": command[1:],
                "env": dict(plant.env(self.dose(folder))),
            },
            "processes": plant.counts,
            "launches": {"baseline": dict(axes)},
            "why": "quick",
        }

    def outside(self, folder: Path) -> Options:
        """Return the options of plants/outside.py."""
        return () if self.control else PLANTS[self.plant].outside(self.dose(folder))

    def dose(self, folder: Path) -> Dose:
        """Return how much of the plant this run gets."""
        strength = STRENGTHS[self.run % len(STRENGTHS)]
        workload = WORKLOADS[self.workload]
        return Dose(workload.step_s, strength, workload.multiplies, folder)


def clean_of(case: Case) -> Case:
    """Return what a run is compared with: its control, or the workload with nothing planted."""
    own = PLANTS[case.plant].controlled
    return Case(case.workload, case.plant if own else NOTHING, case.run, control=own)
