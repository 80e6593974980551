"""The precision in which oneDNN multiplies matrices of 32-bit numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaling_study.common.unavailable import UnavailableError
from scaling_study.launch.axes.axis import Axis, Effects

if TYPE_CHECKING:
    from scaling_study.launch.axes.axis import Where

FLAGS = ("amx_bf16", "avx512_bf16", "bf16")
"""One of them is needed: without, oneDNN would only imitate the type (x86, then ARM)."""


def apply(value: str) -> None:
    """Have oneDNN multiply in this type."""
    import torch

    torch.backends.mkldnn.matmul.fp32_precision = value


def observe() -> str:
    """Return the type that oneDNN multiplies in."""
    import torch

    return str(torch.backends.mkldnn.matmul.fp32_precision)


def need_bf16(_value: str, where: Where) -> Effects:
    """Do nothing before the process starts; refuse a machine without the instructions.

    Raises:
        UnavailableError: it has none.
    """
    if not set(FLAGS) & set(where.machine.isa):
        raise UnavailableError(
            "this CPU has no instructions for bf16", "leave it to a machine with AVX512_BF16 or AMX"
        )
    return Effects()


AXIS = Axis(
    "the precision in which matrices of 32-bit numbers are multiplied",
    {
        "default": "32 bits",
        "bf16": "bfloat16, with sums of 32 bits; oneDNN takes the multiplication from BLAS",
    },
    order=130,
    prepare=need_bf16,
    apply=apply,
    lines="torch.backends.mkldnn.matmul.fp32_precision = {!r}".format,
    observe=observe,
    numbers="coarser",
)
