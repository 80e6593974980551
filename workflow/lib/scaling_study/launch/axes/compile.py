"""Whether models are compiled."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from scaling_study.common.unavailable import UnavailableError
from scaling_study.launch.axes.axis import Axis, Effects
from scaling_study.launch.axes.living import living

if TYPE_CHECKING:
    from scaling_study.launch.axes.axis import Where

COMPILERS = ("g++", "clang++")


def apply(_value: str) -> None:
    """Compile the outermost modules that are called before the first optimizer step.

    The first step runs as it is: torch.compile must not meet the wrapper that finds the modules.
    """
    import functools
    import threading

    import torch
    from torch._dynamo.external_utils import wrap_inline
    from torch.optim import optimizer

    call = torch.nn.Module.__call__
    inside = threading.local()
    found: dict[int, torch.nn.Module] = {}

    @functools.wraps(call)
    def note(module: torch.nn.Module, *args: object, **kwargs: object) -> object:
        if getattr(inside, "module", None) is not None:
            return call(module, *args, **kwargs)
        inside.module = module
        if module.training and next(module.parameters(), None) is not None:
            found[id(module)] = module
        try:
            return call(module, *args, **kwargs)
        finally:
            inside.module = None

    def compile_all(_one: object, _args: object, _kwargs: object) -> None:
        torch.nn.Module.__call__ = call
        for module in found.values():
            # As torch.compile(module): the compiler skips calls of torch's own modules otherwise.
            inline = wrap_inline(module._call_impl)  # noqa: SLF001 (as Module.compile)
            module._compiled_call_impl = torch.compile(inline)  # noqa: SLF001
        found.clear()

    torch.nn.Module.__call__ = note
    optimizer.register_optimizer_step_post_hook(compile_all)


def observe() -> str:
    """Return whether modules were compiled, from the modules that live."""
    import torch

    compiled = any(
        module._compiled_call_impl is not None  # noqa: SLF001
        for module in living(torch.nn.Module)
    )
    return "default" if compiled else "no module was called before the first optimizer step"


def _prepare(_value: str, _where: Where) -> Effects:
    if not any(map(shutil.which, COMPILERS)):
        raise UnavailableError(
            "torch.compile needs a C++ compiler (g++ or clang++)", "apt install g++"
        )
    return Effects()


AXIS = Axis(
    "whether models are compiled (torch.compile)",
    {
        "off": "as the script says",
        "default": "the outermost modules that are called, after the first optimizer step",
    },
    order=150,
    prepare=_prepare,
    apply=apply,
    lines=lambda _value: "model = torch.compile(model)",
    observe=observe,
    numbers="rounding",
)
