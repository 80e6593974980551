"""Axes of threads: how many an operator may use, how they wait, and their OpenMP runtime.

torch's wheel brings GCC's libgomp, and both ATen and the MKL inside torch call GOMP_parallel.
Intel's libiomp5 and LLVM's libomp have that entry point too, so preloading one of them replaces
libgomp, although that stays mapped. With torch 2.13.0, libiomp5 2026.2 and libomp 14 on two CPUs,
the second thread spun for 10 ms of CPU time after a parallel region under libgomp, and for 200 ms
under the others (KMP_BLOCKTIME). With `wait_policy: passive`, it spun for less than 0.1 ms under
each.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scaling_study.launch.axes.axis import (
    COUNT,
    LIBRARY,
    Axis,
    Effects,
    Library,
    is_named,
    is_preloaded,
    preload,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Never

    from scaling_study.common.axis_values import Value
    from scaling_study.launch.axes.axis import Where
    from scaling_study.records import window
    from scaling_study.records.readback import Readback


# ---- intra_op

NUMBERS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS")


def _prepare_intra_op(value: int, where: Where) -> Effects:
    # torch takes no more threads than mkl_get_max_threads() returns (init_num_threads in
    # aten/src/ATen/ParallelOpenMP.cpp). While MKL_DYNAMIC is on, that is at most the number of
    # physical cores. If they are enough, it stays on: MKL may take fewer for a small multiply.
    cores = {cpu.core for cpu in where.machine.topology.cpus}
    more = {"MKL_DYNAMIC": "FALSE"} if value > len(cores) else {}
    return Effects(dict.fromkeys(NUMBERS, str(value)) | more)


# ---- inter_op


def apply_inter_op(value: int) -> None:
    """Set the number of threads, which torch takes from no environment variable."""
    import torch

    torch.set_num_interop_threads(value)


# ---- wait_policy

# Before a thread sleeps, libgomp spins GOMP_SPINCOUNT times, and libiomp5 and libomp spin for
# KMP_BLOCKTIME milliseconds. All derive their defaults from OMP_WAIT_POLICY.
PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"}

# CPU time in the 20 ms after parallel work. Threads that sleep at once use far less than this; a
# default libgomp spins for several ms.
SPIN_LIMIT_S = 0.002


def _effective_wait_policy(_value: Value, readback: Readback) -> str:
    spin_s = readback.spin_s
    if spin_s is None:
        return "one thread, nothing to wait for"
    runtime = Path(readback.parallel or "no known runtime").name
    return f"{spin_s * 1e3:.1f} ms of CPU time spent waiting after a parallel region ({runtime})"


def _holds_wait_policy(value: str, readback: Readback, _slot: window.Slot) -> bool:
    spin_s = readback.spin_s
    return value == "default" or spin_s is None or spin_s < SPIN_LIMIT_S


# ---- openmp

BUNDLED = "bundled"
RUNTIMES = {"intel": "libiomp5", "llvm": "libomp"}

LIBRARIES = {
    "libiomp5": Library(patterns=("libiomp5.so",), install="pip install intel-openmp"),
    "libomp": Library(patterns=("libomp.so.[0-9]*", "libomp.so"), install="apt install libomp5"),
}


def is_kmp(value: str) -> bool:
    """Return whether a value or a path names Intel's or LLVM's runtime, which share settings."""
    return RUNTIMES.get(value, Path(value).name).startswith(tuple(RUNTIMES.values()))


def spins_long(environment: Mapping[str, str]) -> bool:
    """Return whether a process's idle threads may spin for 200 ms: longer than a snapshot takes."""
    sleeps = environment.get("KMP_BLOCKTIME") == "0"
    return not sleeps and any(map(is_kmp, environment.get("LD_PRELOAD", "").split(":")))


def _prepare_openmp(value: str, where: Where) -> Effects:
    return preload(RUNTIMES.get(value, value), where.machine, LIBRARIES)


def _holds_openmp(value: str, readback: Readback, _slot: window.Slot) -> bool:
    owner = readback.parallel
    if not is_preloaded(owner, readback):
        return value == BUNDLED
    return is_named(RUNTIMES.get(value, value), owner)


AXES: dict[str, Axis[Never]] = {
    "intra_op": Axis(
        "threads that one operator may use",
        {"default": "what torch chooses: as many as the process sees CPUs or cores"},
        COUNT,
        variables=(*NUMBERS[:2], "MKL_DYNAMIC", NUMBERS[2], "GOTO_NUM_THREADS", NUMBERS[3]),
        prepare=_prepare_intra_op,
        effective=lambda _, got: str(got.intra_op),
        holds=lambda value, got, _: value in ("default", got.intra_op),
    ),
    "inter_op": Axis(
        "threads for operators that run beside each other",
        {"default": "what torch chooses"},
        COUNT,
        apply=apply_inter_op,
        lines="torch.set_num_interop_threads({})".format,
        effective=lambda _, got: str(got.inter_op),
        holds=lambda value, got, _: value in ("default", got.inter_op),
    ),
    "wait_policy": Axis(
        "what an OpenMP thread does while it waits",
        {
            "default": "what the OpenMP runtime chooses: it spins first",
            "passive": "it sleeps at once, under each runtime of axis openmp",
        },
        variables=(*PASSIVE, "KMP_LIBRARY"),
        prepare=lambda _value, _where: Effects(PASSIVE),
        effective=_effective_wait_policy,
        holds=_holds_wait_policy,
    ),
    "openmp": Axis(
        "the OpenMP runtime, whose threads share the work of an operator (GOMP_parallel)",
        {
            BUNDLED: "the one that comes with torch, or with a preloaded BLAS library",
            "intel": "Intel's libiomp5, preloaded",
            "llvm": "LLVM's libomp, preloaded",
        },
        LIBRARY,
        variables=("LD_PRELOAD",),
        libraries=LIBRARIES,
        prepare=_prepare_openmp,
        effective=lambda _, got: str(got.parallel),
        holds=_holds_openmp,
    ),
}
