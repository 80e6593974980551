"""The vector instructions that libraries may use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scaling_study.common.unavailable import UnavailableError
from scaling_study.launch.axes.axis import Axis, Effects

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scaling_study.launch.axes.axis import Where


@dataclass(frozen=True, slots=True)
class Isa:
    """An instruction set: the CPU flags it needs, and its name for each library that obeys."""

    flags: tuple[str, ...]
    aten: str
    env: Mapping[str, str]


# ATen and oneDNN obey everywhere. OpenBLAS and BLIS take the kernel of a CPU that has the set;
# MKL obeys on Intel's CPUs only.
ISAS = {
    "avx2": Isa(
        flags=("avx2", "fma"),
        aten="AVX2",
        env={
            "ATEN_CPU_CAPABILITY": "avx2",
            "ONEDNN_MAX_CPU_ISA": "AVX2",
            "OPENBLAS_CORETYPE": "Haswell",
            "BLIS_ARCH_TYPE": "haswell",
            "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        },
    ),
    "avx512": Isa(
        flags=("avx512f", "avx512dq", "avx512bw", "avx512vl"),
        aten="AVX512",
        env={
            "ATEN_CPU_CAPABILITY": "avx512",
            "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
            "OPENBLAS_CORETYPE": "SkylakeX",
            "BLIS_ARCH_TYPE": "skx",
            "MKL_ENABLE_INSTRUCTIONS": "AVX512",
        },
    ),
}


def _prepare(value: str, where: Where) -> Effects:
    missing = [flag for flag in ISAS[value].flags if flag not in where.machine.isa]
    if missing:
        raise UnavailableError(
            f"this CPU has no {', '.join(missing)}", f"leave isa {value} to a machine that has it"
        )
    return Effects(ISAS[value].env)


AXIS = Axis(
    "the vector instructions that ATen, oneDNN and BLAS may use",
    {
        "default": "all that the CPU has",
        "avx2": "at most AVX2",
        "avx512": "at most AVX-512",
    },
    variables=(
        "ATEN_CPU_CAPABILITY",
        "ONEDNN_MAX_CPU_ISA",
        "DNNL_MAX_CPU_ISA",
        "MKL_ENABLE_INSTRUCTIONS",
        "OPENBLAS_CORETYPE",
        "BLIS_ARCH_TYPE",
    ),
    order=70,
    prepare=_prepare,
    effective=lambda _, got: str(got.isa),
    holds=lambda value, got, _: value == "default" or bool(got.isa == ISAS[value].aten),
)
