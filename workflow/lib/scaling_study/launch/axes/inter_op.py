"""Threads for operators that run beside each other."""

from scaling_study.launch.axes.axis import Axis
from scaling_study.launch.axes.values import COUNT


def apply(value: int) -> None:
    """Set them: torch takes their number from no environment variable."""
    import torch

    torch.set_num_interop_threads(value)


AXIS = Axis(
    "threads for operators that run beside each other",
    {"default": "what torch chooses"},
    COUNT,
    order=40,
    apply=apply,
    lines="torch.set_num_interop_threads({})".format,
    effective=lambda _, got: str(got.inter_op),
    holds=lambda value, got, _: value in ("default", got.inter_op),
)
