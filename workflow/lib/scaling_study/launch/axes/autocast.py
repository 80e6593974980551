"""Whether a model's forward pass casts to a smaller type where torch deems it safe."""

from __future__ import annotations

from scaling_study.launch.axes.axis import Axis
from scaling_study.launch.axes.matmul_precision import need_bf16


def apply(_value: str) -> None:
    """Let the outermost modules that are called run under torch.autocast.

    What they return is cast back to 32 bits, since losses outside of them may not take less.
    """
    import functools
    import threading

    import torch
    from torch.utils._pytree import tree_map_only

    call = torch.nn.Module.__call__
    inside = threading.local()

    @functools.wraps(call)
    def cast(module: object, *args: object, **kwargs: object) -> object:
        if getattr(inside, "module", None) is not None:
            return call(module, *args, **kwargs)
        inside.module = module
        cast.calls += 1  # type: ignore[attr-defined]
        try:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                found = call(module, *args, **kwargs)
        finally:
            inside.module = None
        return tree_map_only(
            torch.Tensor, lambda one: one.float() if one.dtype is torch.bfloat16 else one, found
        )

    cast.calls = 0  # type: ignore[attr-defined]
    torch.nn.Module.__call__ = cast


def observe() -> str:
    """Return the type of the outermost modules that were called."""
    import torch

    calls = getattr(torch.nn.Module.__call__, "calls", None)
    if calls is None:
        return "off"
    return "bf16" if calls else "no module was called"


AXIS = Axis(
    "whether forward passes cast to a smaller type where torch deems it safe",
    {
        "off": "they do not",
        "bf16": "to bfloat16 (torch.autocast), around the outermost modules that are called",
    },
    order=140,
    prepare=need_bf16,
    apply=apply,
    lines=lambda _value: (
        'with torch.autocast("cpu", dtype=torch.bfloat16):\n    output = model(batch)\n'
        "output = output.float()"
    ),
    observe=observe,
    numbers="coarser",
)
