"""The implementation that an optimizer takes its steps with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaling_study.launch.axes.axis import Axis
from scaling_study.launch.axes.living import living, the_one

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch.optim import Optimizer

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
"""In a script's line: the class of the script's optimizer."""


def apply(value: str) -> None:
    """Choose the implementation of each optimizer at its first step.

    State tells nothing of that: SGD without momentum never has any.
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


def observe() -> str:
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
    """Return the classes of a script's optimizers that have this implementation, to be written.

    Args:
        value: of this axis.
        names: of all classes that the script used; ``UNKNOWN`` stands for none that is known.
    """
    known = [name for name in dict.fromkeys(names) if name in KERNELS.get(value, ())]
    return [f"torch.optim.{name}" for name in known] or [UNKNOWN]


AXIS = Axis(
    "the implementation that an optimizer takes its steps with",
    {
        "default": "what torch chooses on a CPU: a loop over the parameters",
        "foreach": "operators over lists of parameters",
        "fused": f"one operator for a whole step ({', '.join(FUSED)})",
    },
    order=120,
    apply=apply,
    lines=lambda value: f"optimizer = {UNKNOWN}(model.parameters(), ..., {value}=True)",
    observe=observe,
    numbers="rounding",
)
