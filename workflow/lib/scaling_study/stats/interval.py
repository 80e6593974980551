"""A quantity with its 95% interval: computed by the analyses, kept in their files and shown."""

import math
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

if TYPE_CHECKING:
    Number = float
else:
    Number = float | None  # null in a file

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Interval(Struct, frozen=True, omit_defaults=True):
    """A quantity with its 95% interval."""

    value: Number = math.nan
    """The estimate; NaN where there is none, which a file holds as null."""
    low: float | None = None
    """Lower end; None without one."""
    high: float | None = None
    """Upper end; None without one."""
    corrected_low: float | None = None
    """Lower end that still holds if it is the largest of many tests (Bonferroni)."""

    def __post_init__(self) -> None:
        """Read null as NaN."""
        if self.value is None:
            structs.force_setattr(self, "value", math.nan)

    @property
    def sure(self) -> bool:
        """Return whether the quantity has an interval."""
        return self.low is not None and self.high is not None

    @property
    def above_one(self) -> bool:
        """Return whether the whole interval is above 1."""
        return self.sure and self.low is not None and self.low > 1

    @property
    def below_one(self) -> bool:
        """Return whether the whole interval is below 1."""
        return self.sure and self.high is not None and self.high < 1

    def over(self, amount: float) -> "Interval":
        """Return an amount divided by this quantity."""
        if self.low is None or self.high is None:
            return Interval(amount / self.value)
        return Interval(amount / self.value, amount / self.high, amount / self.low)

    def plus(self, amount: float) -> "Interval":
        """Return this quantity plus a constant."""
        return self.times(1.0, amount)

    def times(self, factor: float, amount: float = 0.0) -> "Interval":
        """Return this quantity times a factor, plus an amount.

        A negative factor swaps the ends, and leaves none that holds among many tests.
        """
        low, high, corrected = (
            None if end is None else factor * end + amount
            for end in (self.low, self.high, self.corrected_low)
        )
        if factor < 0:
            low, high, corrected = high, low, None
        return Interval(factor * self.value + amount, low, high, corrected)
