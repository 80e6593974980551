"""The A/A check: the baseline measured twice shows how far no difference reaches here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scaling_study.stats import intervals

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from scaling_study.analysis.unequal_work import Finding
    from scaling_study.config.plan import Plan


@dataclass(frozen=True, slots=True)
class Repeated:
    """The repeat over the baseline at a process count, with its interval."""

    n: int
    ratio: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Noise:
    """A machine's entry of noise.json, without the machine.

    Attributes:
        points: What both have.
        spread: The largest difference; None without a point.
        unequal_work: What shows that steps differ in work.
    """

    points: list[Repeated]
    spread: float | None
    unequal_work: list[Finding]


def noise(rates: pd.DataFrame, plan: Plan, unequal: list[Finding]) -> Noise:
    """The A/A check: the repeat of the baseline against the baseline.

    Args:
        rates: The machine's rows of the table of replicates.
        plan: plan.json.
        unequal: As `unequal_work` finds it.
    """
    counts = [set(rates.loc[rates["launch"] == name, "n"]) for name in (plan.baseline, plan.repeat)]
    means = intervals.Means(rates)
    points = []
    for n in sorted(set.intersection(*counts)):
        found = means.ratio((plan.repeat, n), (plan.baseline, n))
        points.append(Repeated(int(n), found.value, found.low, found.high))
    spread = max((abs(one.ratio - 1) for one in points), default=None)
    return Noise(points, spread, unequal)


def spread_at(noise: Mapping[str, Any] | None, *counts: int) -> float | None:
    """Difference between the baseline and its repeat at some process counts.

    Args:
        noise: a machine's entry of noise.json; None without one.
        counts: process counts of what is compared.

    Returns:
        The largest at these counts; at a count that the repeat lacks, the largest of all; None
        without a repeat.
    """
    if noise is None or noise["spread"] is None:
        return None
    found = {int(point["n"]): abs(float(point["ratio"]) - 1) for point in noise["points"]}
    largest = float(noise["spread"])
    return max((found.get(n, largest) for n in counts), default=largest)
