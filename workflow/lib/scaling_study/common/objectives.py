"""The goals of a study: the most models in an hour, or one model soonest.

Both come from one rate, that of all processes of a point together. The time of one model is the
inverse of the rate of one process. So in both cases a larger rate is better, and the ratio of two
rates is the speedup. If the number of steps per model is not known, a step (of equal work) takes
the place of the model.
"""

from dataclasses import dataclass

ONE_MODEL = "one_model"
"""The config's word for one model soonest; the other word is models_per_hour."""
PERIOD_S = {"models_per_hour": 3600.0, "steps_per_s": 1.0}
"""The period (s) of each rate, by the rate's column."""


def time_s(rate: float, n: int, column: str) -> float:
    """Return the time of one model, or step, from its start to its end.

    Args:
        rate: Rate of all processes together.
        n: Number of these processes.
        column: Column of the rate, a key of `PERIOD_S`.
    """
    return PERIOD_S[column] * n / rate


@dataclass(frozen=True, slots=True)
class Objective:
    """A quantity to maximise or to minimise.

    Attributes:
        rate: Column of the rate of all processes together.
        single: Whether to minimise the time of one model (or step), not to maximise the rate.
    """

    rate: str
    single: bool = False


OBJECTIVES = {
    "models_per_hour": Objective("models_per_hour"),
    "steps_per_s": Objective("steps_per_s"),
    "model_s": Objective("models_per_hour", single=True),
    "iteration_s": Objective("steps_per_s", single=True),
}
"""The objectives, by their names in analyses."""


def named(rate: str, *, single: bool) -> str:
    """Return the name of an objective, a key of `OBJECTIVES`."""
    return next(
        name for name, objective in OBJECTIVES.items() if objective == Objective(rate, single)
    )
