"""The order in memory of what convolutions read and write.

Channels-last weights suffice: torch then brings a convolution's input into their order, and what
follows keeps it. They are converted before optimizers and DistributedDataParallel are made, which
take over the order that they find: in torch 2.13.0 a fused AdamW steps to wrong weights, without a
word, where a weight and its gradient or state differ in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaling_study.launch.axes.axis import Axis
from scaling_study.launch.axes.living import living, the_one

if TYPE_CHECKING:
    from collections.abc import Callable


def apply(_value: str) -> None:
    """Convert the weights of all convolutions each time an optimizer is about to be made."""
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
                # A computed weight is none of its parameters.
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


def observe() -> str:
    """Return the order of the weights of all convolutions that live."""
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


AXIS = Axis(
    "the order in memory of what convolutions of two and three dimensions read and write",
    {
        "default": "as the script says: mostly channel by channel",
        "channels_last": "all channels of a pixel together",
    },
    order=145,
    apply=apply,
    lines=lambda _value: "model = model.to(memory_format=torch.channels_last)",
    observe=observe,
    numbers="rounding",
)
