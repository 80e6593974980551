"""Axes that change how a script computes: optimizers, precision, compilation, garbage collection.

A member imports this module. The file of a launch's switches gets copies of its ``apply_…``
functions.
"""

from __future__ import annotations

import gc
import shutil
from typing import TYPE_CHECKING

from scaling_study.common.unavailable import UnavailableError
from scaling_study.launch.axes.axis import Axis, Effects, living, the_one

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Never

    from torch.optim import Optimizer

    from scaling_study.launch.axes.axis import Where


# ---- optimizer_kernel

FUSED = ("Adam", "AdamW", "SGD", "Adagrad")
KERNELS = {
    "fused": FUSED,
    "foreach": (
        *FUSED,
        *("Adadelta", "Adafactor", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop"),
    ),
}
"""The classes of torch.optim that have an implementation on CPUs (torch 2.13)."""
UNKNOWN = "YourOptimizer"
"""Stands for the class of the script's optimizer in a line for the script."""


def apply_optimizer_kernel(value: str) -> None:
    """Choose the implementation of each optimizer at its first step.

    A mark shows that there was a step: SGD without momentum never has any state.
    """
    from torch.optim import optimizer

    def choose(one: Optimizer, _args: object, _kwargs: object) -> None:
        first = not hasattr(one, "has_stepped")
        vars(one)["has_stepped"] = True
        if first and not any(one.state.values()):
            for group in one.param_groups:
                if value in group:
                    group.update({"fused": None, "foreach": None, value: True})

    optimizer.register_optimizer_step_pre_hook(choose)


def observe_optimizer_kernel() -> str:
    """Return the implementation of all optimizers that took a step."""
    from torch.optim import Optimizer

    found = {
        next((name for name in ("fused", "foreach") if group.get(name)), "default")
        for one in living(Optimizer)
        if hasattr(one, "has_stepped")
        for group in one.param_groups
    }
    return the_one(found, "no optimizer took a step")


def classes(value: str, names: Iterable[str]) -> list[str]:
    """Return the classes of a script's optimizers that have this implementation, as code.

    Args:
        value: the implementation, a value of this axis.
        names: names of all classes that the script used.

    Returns:
        ``UNKNOWN`` alone if none of the classes is known to have it.
    """
    known = [name for name in dict.fromkeys(names) if name in KERNELS.get(value, ())]
    return [f"torch.optim.{name}" for name in known] or [UNKNOWN]


# ---- matmul_precision

FLAGS = ("amx_bf16", "avx512_bf16", "bf16")
"""CPU flags (x86, then ARM). Without any of them, oneDNN would only emulate the type."""


FPMATH = "onednn-bf16"


def apply_matmul_precision(value: str) -> None:
    """Make oneDNN multiply matrices in this type, unless a variable has told it already."""
    import torch

    if value == "bf16":
        torch.backends.mkldnn.matmul.fp32_precision = value


def observe_matmul_precision() -> str:
    """Return the type in which oneDNN multiplies matrices."""
    import os

    import torch

    if os.environ.get("DNNL_DEFAULT_FPMATH_MODE") == "BF16":
        return FPMATH
    return str(torch.backends.mkldnn.matmul.fp32_precision)


def _prepare_bf16(value: str, where: Where) -> Effects:
    if not set(FLAGS) & set(where.machine.isa):
        raise UnavailableError(
            "this CPU has no instructions for bf16", "leave it to a machine with AVX512_BF16 or AMX"
        )
    return Effects({"DNNL_DEFAULT_FPMATH_MODE": "BF16"} if value == FPMATH else {})


# ---- autocast


def apply_autocast(_value: str) -> None:
    """Run the outermost modules that are called under torch.autocast.

    Their results are cast back to 32 bits, because losses outside of them may not accept fewer.
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


def observe_autocast() -> str:
    """Return the autocast type of the outermost modules that were called."""
    import torch

    calls = getattr(torch.nn.Module.__call__, "calls", None)
    if calls is None:
        return "off"
    return "bf16" if calls else "no module was called"


# ---- memory_format


def apply_memory_format(_value: str) -> None:
    """Convert the weights of all convolutions before optimizers and DDP models are made.

    Channels-last weights suffice: torch then brings a convolution's input into their order, and
    later operators keep it. Optimizers and DistributedDataParallel take over the order that they
    find, so weights are converted before. In torch 2.13.0, a fused AdamW silently steps to wrong
    weights if the order of a weight differs from that of its gradient or state. The state that an
    optimizer loads gets the order of its weight.
    """
    import functools
    import gc

    import torch
    from torch.nn.modules.conv import _ConvNd
    from torch.nn.parallel import DistributedDataParallel
    from torch.nn.parameter import is_lazy
    from torch.optim import Optimizer

    formats = {4: torch.channels_last, 5: torch.channels_last_3d}

    def convert_before(kind: type[Optimizer | DistributedDataParallel]) -> None:
        make: Callable[..., None] = vars(kind)["__init__"]

        @functools.wraps(make)
        def made(self: object, *args: object, **kwargs: object) -> None:
            for one in gc.get_objects():
                # A weight that is computed anew each time is not among the parameters.
                weight = one._parameters.get("weight") if issubclass(type(one), _ConvNd) else None  # noqa: SLF001
                if weight is not None and not is_lazy(weight) and weight.dim() in formats:
                    weight.data = weight.data.contiguous(memory_format=formats[weight.dim()])
            make(self, *args, **kwargs)

        kind.__init__ = made

    load = Optimizer.load_state_dict

    @functools.wraps(load)
    def loaded(optimizer: Optimizer, state_dict: dict[str, object]) -> None:
        load(optimizer, state_dict)
        for weight, state in optimizer.state.items():
            for name, one in state.items():
                if isinstance(one, torch.Tensor) and one.shape == weight.shape:
                    state[name] = torch.empty_like(weight, dtype=one.dtype).copy_(one)

    convert_before(Optimizer)
    convert_before(DistributedDataParallel)
    Optimizer.load_state_dict = loaded


def observe_memory_format() -> str:
    """Return the order in memory of the weights of all live convolutions."""
    import torch
    from torch.nn.modules.conv import _ConvNd
    from torch.nn.parameter import is_lazy

    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    weights = (one._parameters.get("weight") for one in living(_ConvNd))  # noqa: SLF001
    found = {
        one.is_contiguous(memory_format=formats[one.dim()])
        for one in weights
        if one is not None and not is_lazy(one) and one.dim() in formats
    }
    return the_one({"channels_last" if last else "default" for last in found}, "no convolution")


# ---- compile

COMPILERS = ("g++", "clang++")


def apply_compile(_value: str) -> None:
    """Compile the outermost modules that are called before the first optimizer step.

    The first step runs uncompiled: torch.compile must not see the wrapper that finds the modules.
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
            # As torch.compile(module) does: the compiler would skip calls of torch's own modules.
            inline = wrap_inline(module._call_impl)  # noqa: SLF001 (as Module.compile)
            module._compiled_call_impl = torch.compile(inline)  # noqa: SLF001
        found.clear()

    torch.nn.Module.__call__ = note
    optimizer.register_optimizer_step_post_hook(compile_all)


def observe_compile() -> str:
    """Return whether any live module was compiled."""
    import torch

    compiled = any(
        module._compiled_call_impl is not None  # noqa: SLF001
        for module in living(torch.nn.Module)
    )
    return "default" if compiled else "no module was called before the first optimizer step"


def _need_compiler(_value: str, _where: Where) -> Effects:
    if not any(map(shutil.which, COMPILERS)):
        raise UnavailableError(
            "torch.compile needs a C++ compiler (g++ or clang++)", "apt install g++"
        )
    return Effects()


# ---- denormals


def apply_denormals(_value: str) -> None:
    """Flush denormal numbers to zero, in this thread and those that it starts."""
    import torch

    torch.set_flush_denormal(True)


def observe_denormals() -> str:
    """Return whether torch's operators, in this thread, keep or flush a denormal number."""
    import torch

    denormal = torch.full((64,), 1e-39, dtype=torch.float32, device="cpu")
    return "flush" if bool((denormal * 0.5 == 0).all()) else "keep"


# ---- gc


def apply_gc(_value: str) -> None:
    """Exclude all objects that exist at an optimizer's first step from later collections."""
    import gc

    from torch.optim import optimizer

    def freeze(one: Optimizer, _args: object, _kwargs: object) -> None:
        if not hasattr(one, "had_objects_frozen"):  # SGD without momentum never has any state
            vars(one)["had_objects_frozen"] = True
            gc.collect()
            gc.freeze()

    optimizer.register_optimizer_step_pre_hook(freeze)


AXES: dict[str, Axis[Never]] = {
    "optimizer_kernel": Axis(
        "the implementation that an optimizer takes its steps with",
        {
            "default": "what torch chooses on a CPU: a loop over the parameters",
            "foreach": "operators over lists of parameters",
            "fused": f"one operator for a whole step ({', '.join(FUSED)})",
        },
        apply=apply_optimizer_kernel,
        lines=lambda value: f"optimizer = {UNKNOWN}(model.parameters(), ..., {value}=True)",
        observe=observe_optimizer_kernel,
        numbers="rounding",
    ),
    "matmul_precision": Axis(
        "the precision in which matrices of 32-bit numbers are multiplied",
        {
            "default": "32 bits",
            "bf16": "bfloat16, with sums of 32 bits; oneDNN takes the multiplication from BLAS",
            FPMATH: "bfloat16 wherever oneDNN computes, which on Arm multiplies most matrices "
            "(DNNL_DEFAULT_FPMATH_MODE)",
        },
        variables=("DNNL_DEFAULT_FPMATH_MODE",),
        prepare=_prepare_bf16,
        apply=apply_matmul_precision,
        lines=lambda value: (
            'os.environ["DNNL_DEFAULT_FPMATH_MODE"] = "BF16"  # before `import torch`'
            if value == FPMATH
            else f"torch.backends.mkldnn.matmul.fp32_precision = {value!r}"
        ),
        observe=observe_matmul_precision,
        numbers="coarser",
    ),
    "autocast": Axis(
        "whether forward passes cast to a smaller type where torch deems it safe",
        {
            "off": "they do not",
            "bf16": "to bfloat16 (torch.autocast), around the outermost modules that are called",
        },
        prepare=_prepare_bf16,
        apply=apply_autocast,
        lines=lambda _value: (
            'with torch.autocast("cpu", dtype=torch.bfloat16):\n    output = model(batch)\n'
            "output = output.float()"
        ),
        observe=observe_autocast,
        numbers="coarser",
    ),
    "memory_format": Axis(
        "the order in memory of what convolutions of two and three dimensions read and write",
        {
            "default": "as the script says: mostly channel by channel",
            "channels_last": "all channels of a pixel together",
        },
        apply=apply_memory_format,
        lines=lambda _value: "model = model.to(memory_format=torch.channels_last)",
        observe=observe_memory_format,
        numbers="rounding",
    ),
    "compile": Axis(
        "whether models are compiled (torch.compile)",
        {
            "off": "as the script says",
            "default": "the outermost modules that are called, after the first optimizer step",
        },
        prepare=_need_compiler,
        apply=apply_compile,
        lines=lambda _value: "model = torch.compile(model)",
        observe=observe_compile,
        numbers="rounding",
    ),
    "denormals": Axis(
        "numbers too small for the usual form, which slow CPUs down (denormals)",
        {"keep": "they are kept", "flush": "they become zero"},
        apply=apply_denormals,
        lines=lambda _value: "torch.set_flush_denormal(True)",
        observe=observe_denormals,
        numbers="coarser",
    ),
    "gc": Axis(
        "the objects that Python's garbage collector examines",
        {
            "default": "all objects that may be part of a cycle",
            "frozen": "only those made after the first optimizer step (gc.freeze)",
        },
        apply=apply_gc,
        lines=lambda _value: "gc.collect(); gc.freeze()  # once, before the training loop",
        observe=lambda: "frozen" if gc.get_freeze_count() else "no optimizer took a step",
    ),
}
