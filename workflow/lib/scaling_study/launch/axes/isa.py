"""The vector instructions that libraries may use."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scaling_study.common.unavailable import UnavailableError
from scaling_study.launch.axes.axis import Axis, Effects

if TYPE_CHECKING:
    from scaling_study.launch.axes.axis import Where


VARIABLES = (
    *("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "OPENBLAS_CORETYPE", "BLIS_ARCH_TYPE"),
    "MKL_ENABLE_INSTRUCTIONS",
)
"""ATen and oneDNN obey everywhere. OpenBLAS and BLIS take the kernel of a CPU that has the set; MKL
obeys on Intel's CPUs only."""


class Isa(NamedTuple):
    """An instruction set.

    Attributes:
        flags: of a CPU that has it.
        aten: its name, as ATen reports it.
        values: of ``VARIABLES``.
    """

    flags: tuple[str, ...]
    aten: str
    values: tuple[str, ...]


ISAS = {
    "avx2": Isa(
        flags=("avx2", "fma"),
        aten="AVX2",
        values=("avx2", "AVX2", "Haswell", "haswell", "AVX2"),
    ),
    "avx512": Isa(
        flags=("avx512f", "avx512dq", "avx512bw", "avx512vl"),
        aten="AVX512",
        values=("avx512", "AVX512_CORE", "SkylakeX", "skx", "AVX512"),
    ),
}


def _prepare(value: str, where: Where) -> Effects:
    missing = [flag for flag in ISAS[value].flags if flag not in where.machine.isa]
    if missing:
        raise UnavailableError(
            f"this CPU has no {', '.join(missing)}", f"leave isa {value} to a machine that has it"
        )
    return Effects(dict(zip(VARIABLES, ISAS[value].values, strict=True)))


AXIS = Axis(
    "the vector instructions that ATen, oneDNN and BLAS may use",
    {
        "default": "all that the CPU has",
        "avx2": "at most AVX2",
        "avx512": "at most AVX-512",
    },
    variables=(*VARIABLES, "DNNL_MAX_CPU_ISA"),
    order=70,
    prepare=_prepare,
    effective=lambda _, got: str(got.isa),
    holds=lambda value, got, _: value == "default" or bool(got.isa == ISAS[value].aten),
)
