"""The A/A check: the baseline measured twice shows how far no difference reaches here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scaling_study.analysis.recommend import ratio_entry
from scaling_study.stats import intervals

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

Json = dict[str, Any]


def noise(rates: pd.DataFrame, plan: Mapping[str, Any]) -> Json:
    """The A/A check: the repeat of the baseline against the baseline.

    Args:
        rates: The machine's rows of the table of replicates.
        plan: plan.json.

    Returns:
        The machine's entry of noise.json, without the machine. `spread` is None without a point
        that both have.
    """
    counts = [set(rates.loc[rates["launch"] == plan[name], "n"]) for name in ("baseline", "repeat")]
    means = intervals.Means(rates)
    ratios = {
        int(n): means.ratio((plan["repeat"], n), (plan["baseline"], n))
        for n in sorted(set.intersection(*counts))
    }
    if not ratios:
        return {"points": [], "spread": None, "text": "the baseline and its repeat share no point"}
    spread = max(abs(found.value - 1) for found in ratios.values())
    return {
        "points": [
            {"n": n, "ratio": found["value"], "low": found["low"], "high": found["high"]}
            for n, found in ((n, ratio_entry(each)) for n, each in ratios.items())
        ],
        "spread": spread,
        "text": f"the same launch measured twice differs by up to {spread:.1%} here",
    }


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
