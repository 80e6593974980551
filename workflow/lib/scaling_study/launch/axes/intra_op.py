"""Threads that one operator may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaling_study.launch.axes.axis import Axis, Effects
from scaling_study.launch.axes.values import COUNT

if TYPE_CHECKING:
    from scaling_study.launch.axes.axis import Where

NAMES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS")


def _prepare(value: int, where: Where) -> Effects:
    # torch takes no more threads than mkl_get_max_threads() says (init_num_threads in
    # aten/src/ATen/ParallelOpenMP.cpp), and MKL says at most the machine's physical cores. Where
    # they are enough it keeps its freedom to take fewer for a small multiply.
    cores = {cpu.core for cpu in where.machine.topology.cpus}
    more = {"MKL_DYNAMIC": "FALSE"} if value > len(cores) else {}
    return Effects(dict.fromkeys(NAMES, str(value)) | more)


AXIS = Axis(
    "threads that one operator may use",
    {"default": "what torch chooses: as many as the process sees CPUs or cores"},
    COUNT,
    variables=(*NAMES[:2], "MKL_DYNAMIC", "OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", NAMES[3]),
    order=30,
    prepare=_prepare,
    effective=lambda _, got: str(got.intra_op),
    holds=lambda value, got, _: value in ("default", got.intra_op),
)
