"""Whether the script tests/workloads/paced.py waits in each step."""

from scaling_study.launch.axes.axis import Axis


def apply(value: str) -> None:
    """Tell the script."""
    import torch

    torch.pace = value


def observe() -> str:
    """Return the pace that holds."""
    import torch

    return torch.pace


AXIS = Axis(
    "whether the toy script waits in each step",
    {"slow": "it waits", "quick": "it does not"},
    apply=apply,
    lines="torch.pace = {!r}".format,
    observe=observe,
)
