"""Whether numbers too small for the usual form are kept."""

from scaling_study.launch.axes.axis import Axis


def apply(_value: str) -> None:
    """Flush them to zero, in this thread and those that it starts."""
    import torch

    torch.set_flush_denormal(True)


def observe() -> str:
    """Return what an operator of torch, in this thread, does with a denormal number."""
    import torch

    denormal = torch.full((64,), 1e-39, dtype=torch.float32, device="cpu")
    return "flush" if bool((denormal * 0.5 == 0).all()) else "keep"


AXIS = Axis(
    "numbers too small for the usual form, on which CPUs are slow (denormal numbers)",
    {"keep": "they are kept", "flush": "they become zero"},
    order=160,
    apply=apply,
    lines=lambda _value: "torch.set_flush_denormal(True)",
    observe=observe,
    numbers="coarser",
)
