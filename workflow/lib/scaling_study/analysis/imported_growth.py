"""How operators of saved tables grew with the number of processes, for the same work. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

CLEARLY = 0.5
"""An operator shares in a slowdown if it has at least this part of the step's growth."""


@dataclass(frozen=True, slots=True)
class Growth:
    """How an operator, or a group of them, grew for the same work.

    Attributes:
        name: of the operator or group.
        group: that it belongs to.
        expected_s: self time of a step at the higher count, had the same work taken the same time.
        actual_s: what it took.
    """

    name: str
    group: str
    expected_s: float
    actual_s: float

    @property
    def ratio(self) -> float:
        """How many times as long the same work took."""
        return self.actual_s / self.expected_s


@dataclass(frozen=True, slots=True)
class Evidence:
    """What two tables show of each other.

    Attributes:
        low: entry of the table with the fewest processes (see `Imported.to_dict`).
        high: of the one with the most.
        operators: that both show, the least grown first.
        groups: the same, summed.
    """

    low: Mapping[str, Any]
    high: Mapping[str, Any]
    operators: tuple[Growth, ...]
    groups: Mapping[str, Growth]

    @property
    def ratio(self) -> float:
        """How many times as long a step takes."""
        return float(self.high["step_s"] / self.low["step_s"])

    @property
    def added_s(self) -> float:
        """What a step takes longer (s)."""
        return float(self.high["step_s"] - self.low["step_s"])

    def shares_in_growth(self, growth: Growth) -> bool:
        """Whether an operator has a clear part of the step's growth."""
        return growth.ratio - 1 >= CLEARLY * (self.ratio - 1)


def compare_work(operators: pd.DataFrame, low: int, high: int) -> tuple[Growth, ...]:
    """Compare operators of two tables for the same work.

    Work is counted in floating-point operations where both tables have them, else in calls.

    Args:
        operators: tables/operators.
        low: the lower number of processes.
        high: the higher one.
    """
    columns = ["calls_per_step", "self_s_per_step", "flops_per_step"]
    a, b = (operators[operators["n"] == n].set_index("operator") for n in (low, high))
    both = a[columns].merge(
        b[[*columns, "group"]], left_index=True, right_index=True, suffixes=("_a", "_b")
    )
    both = both[(both["self_s_per_step_a"] > 0) & (both["self_s_per_step_b"] > 0)]
    counted = (both["flops_per_step_a"] > 0) & (both["flops_per_step_b"] > 0)
    work = (both["calls_per_step_b"] / both["calls_per_step_a"]).mask(
        counted, both["flops_per_step_b"] / both["flops_per_step_a"]
    )
    expected = both["self_s_per_step_a"] * work
    found = [
        Growth(str(name), str(group), float(before), float(after))
        for name, group, before, after in zip(
            both.index, both["group"], expected, both["self_s_per_step_b"], strict=True
        )
    ]
    return tuple(sorted(found, key=lambda growth: growth.ratio))


def sum_groups(growths: Sequence[Growth]) -> dict[str, Growth]:
    """Sum operators of the same group."""
    return {
        name: Growth(
            name,
            name,
            sum(growth.expected_s for growth in growths if growth.group == name),
            sum(growth.actual_s for growth in growths if growth.group == name),
        )
        for name in dict.fromkeys(growth.group for growth in growths)
    }
