"""The implementation that an optimizer takes its steps with."""

from __future__ import annotations

from scaling_study.axes.axis import Axis
from scaling_study.axes.living import living, the_one


def apply(value: str) -> None:
    """Choose the implementation of each optimizer at its first step."""
    from torch.optim import optimizer

    def choose(one: object, _args: object, _kwargs: object) -> None:
        if not one.state or not any(one.state.values()):  # type: ignore[attr-defined]
            for group in one.param_groups:  # type: ignore[attr-defined]
                if value in group:
                    group.update({"fused": None, "foreach": None, value: True})

    optimizer.register_optimizer_step_pre_hook(choose)


def observe() -> str:
    """Return the implementation of all optimizers that took a step."""
    from torch.optim import Optimizer

    found = {
        next((name for name in ("fused", "foreach") if group.get(name)), "default")
        for one in living(Optimizer)
        if one.state
        for group in one.param_groups
    }
    return the_one(found, "no optimizer took a step")


AXIS = Axis(
    "the implementation that an optimizer takes its steps with",
    {
        "default": "what torch chooses on a CPU: a loop over the parameters",
        "foreach": "operators over lists of parameters",
        "fused": "one operator for a whole step (Adam, AdamW, SGD, Adagrad)",
    },
    order=120,
    apply=apply,
    lines="optimizer = torch.optim.AdamW(model.parameters(), ..., {}=True)".format,
    observe=observe,
    numbers="rounding",
)
