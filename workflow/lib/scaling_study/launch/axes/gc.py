"""The objects that Python's garbage collector examines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaling_study.launch.axes.axis import Axis

if TYPE_CHECKING:
    from torch.optim import Optimizer


def apply(_value: str) -> None:
    """Leave all objects that exist at the first step of an optimizer out of later collections."""
    import gc

    from torch.optim import optimizer

    def freeze(one: Optimizer, _args: object, _kwargs: object) -> None:
        if not hasattr(one, "had_objects_frozen"):  # SGD without momentum never has any state
            vars(one)["had_objects_frozen"] = True
            gc.collect()
            gc.freeze()

    optimizer.register_optimizer_step_pre_hook(freeze)


def observe() -> str:
    """Return whether objects are left out."""
    import gc

    return "frozen" if gc.get_freeze_count() else "no optimizer took a step"


AXIS = Axis(
    "the objects that Python's garbage collector examines",
    {
        "default": "all objects that may be part of a cycle",
        "frozen": "only those made after the first optimizer step (gc.freeze)",
    },
    order=170,
    apply=apply,
    lines=lambda _value: "gc.collect(); gc.freeze()  # once, before the training loop",
    observe=observe,
)
