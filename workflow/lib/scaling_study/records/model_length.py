"""The number of steps that train one model, seen in starts of a script that have ended."""

from collections.abc import Iterable
from dataclasses import dataclass

from scaling_study.records.field import Amount, Count

SAME_LENGTH = 0.01
"""A script that ends this close to a model's steps ends with a model: epochs are rounded."""


@dataclass(frozen=True, slots=True)
class ModelLength:
    """Steps of starts of a script that have ended, as members counted them.

    Attributes:
        starts: How many have ended; without any, nothing else is known.
        steps: Mean steps of a start.
    """

    starts: Count = 0
    steps: Amount | None = None
    shortest: Amount | None = None
    longest: Amount | None = None

    @property
    def differs(self) -> bool:
        """Whether models differ in length."""
        if self.shortest is None or self.longest is None:
            return False
        return not is_model(self.shortest, self.longest)

    def times(self, work: float) -> "ModelLength":
        """Return the length in other steps; a step of this length is ``work`` of them."""
        ends = (None if end is None else end * work for end in (self.shortest, self.longest))
        return ModelLength(self.starts, None if self.steps is None else self.steps * work, *ends)


def is_model(steps: float, steps_per_model: float, same: float = SAME_LENGTH) -> bool:
    """Return whether a start of the script that ended after so many steps trained one model."""
    return abs(steps - steps_per_model) <= max(1, same * steps_per_model)


def pool(ended: Iterable[ModelLength]) -> ModelLength:
    """Return the pooled length of starts that have ended."""
    lengths = [length for length in ended if length.starts]
    if not lengths:
        return ModelLength()
    starts = sum(length.starts for length in lengths)
    return ModelLength(
        starts,
        sum(length.starts * (length.steps or 0.0) for length in lengths) / starts,
        min(length.shortest or 0.0 for length in lengths),
        max(length.longest or 0.0 for length in lengths),
    )
