"""The OpenMP runtime, whose threads share the work of an operator.

torch's wheel brings GCC's libgomp, and both ATen and the MKL inside torch call GOMP_parallel.
Intel's libiomp5 and LLVM's libomp have that entry point too, so preloading one of them replaces
libgomp, although that stays mapped. With torch 2.13.0, libiomp5 2026.2 and libomp 14 on two CPUs,
the second thread spun for 10 ms of CPU time after a parallel region under libgomp, and for 200 ms
under the others (KMP_BLOCKTIME); with `wait_policy: passive` for less than 0.1 ms under each.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scaling_study.launch.axes import libraries
from scaling_study.launch.axes.axis import Axis, Effects, Library
from scaling_study.launch.axes.values import LIBRARY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scaling_study.launch.axes.axis import Where
    from scaling_study.records import window
    from scaling_study.records.readback import Readback

BUNDLED = "bundled"
RUNTIMES = {"intel": "libiomp5", "llvm": "libomp"}

LIBRARIES = {
    "libiomp5": Library(patterns=("libiomp5.so",), install="pip install intel-openmp"),
    "libomp": Library(patterns=("libomp.so.[0-9]*", "libomp.so"), install="apt install libomp5"),
}


def is_kmp(value: str) -> bool:
    """Whether a value, or a library's path, is Intel's runtime or LLVM's, which share settings."""
    return RUNTIMES.get(value, Path(value).name).startswith(tuple(RUNTIMES.values()))


def spins_long(environment: Mapping[str, str]) -> bool:
    """Whether a process's idle threads may spin for 200 ms, longer than a window's edge lasts."""
    sleeps = environment.get("KMP_BLOCKTIME") == "0"
    return not sleeps and any(map(is_kmp, environment.get("LD_PRELOAD", "").split(":")))


def _prepare(value: str, where: Where) -> Effects:
    return libraries.preload(RUNTIMES.get(value, value), where.machine, LIBRARIES)


def _holds(value: str, readback: Readback, _slot: window.Slot) -> bool:
    owner = readback.parallel
    if not libraries.is_preloaded(owner, readback):
        return value == BUNDLED
    return libraries.is_named(RUNTIMES.get(value, value), owner)


AXIS = Axis(
    "the OpenMP runtime, whose threads share the work of an operator (GOMP_parallel)",
    {
        BUNDLED: "the one that comes with torch, or with a preloaded BLAS library",
        "intel": "Intel's libiomp5, preloaded",
        "llvm": "LLVM's libomp, preloaded",
    },
    LIBRARY,
    variables=("LD_PRELOAD",),
    libraries=LIBRARIES,
    order=55,
    prepare=_prepare,
    effective=lambda _, got: str(got.parallel),
    holds=_holds,
)
