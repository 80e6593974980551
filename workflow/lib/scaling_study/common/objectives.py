"""The goals of a study: the most models in an hour, or one model soonest.

Both come from one rate, that of all processes of a point together. The time of one model is the
inverse of the rate of one process, so launches are compared by a rate that is to be large in any
case, and a ratio of two is how many times more, or sooner. Without a number of steps that train a
model, a step (of equal work) stands for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

Rate = TypeVar("Rate", float, "NDArray[np.float64]", "pd.Series[float]")

ONE_MODEL = "one_model"
"""The config's word for one model soonest; the other one is models_per_hour."""
PERIOD_S = {"models_per_hour": 3600.0, "steps_per_s": 1.0}
"""The period of each rate."""


def time_s(rate: float, n: int, column: str) -> float:
    """Return the time of one model, or step, from its start to its end.

    Args:
        rate: Of all processes together.
        n: How many these are.
        column: What the rate is, of `PERIOD_S`.
    """
    return PERIOD_S[column] * n / rate


@dataclass(frozen=True, slots=True)
class Objective:
    """A quantity that is to be large, or small.

    Attributes:
        rate: Column of the rate of all processes together.
        single: Whether the time of one model (or step) is to be small, instead of the rate large.
    """

    rate: str
    single: bool = False

    def gain(self, rate: Rate, n: Rate | int) -> Rate:
        """Return what is compared, which is to be large."""
        return rate / n if self.single else rate


OBJECTIVES = {
    "models_per_hour": Objective("models_per_hour"),
    "steps_per_s": Objective("steps_per_s"),
    "model_s": Objective("models_per_hour", single=True),
    "iteration_s": Objective("steps_per_s", single=True),
}
"""By the name that analyses have for each."""


def named(rate: str, *, single: bool) -> str:
    """Return the name of an objective, a key of `OBJECTIVES`."""
    return next(name for name, one in OBJECTIVES.items() if one == Objective(rate, single))
