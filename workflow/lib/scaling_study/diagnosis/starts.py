"""How much starts of one launch differ for no other reason than where their memory lies.

A comparison of two cohorts is one of two starts. Blocks of a start cannot show by how much another
start would differ, but its members can: they are starts of the same launch in the same windows.
How much they differ beyond what their blocks scatter is the variance component of a two-way layout
without repetitions (Searle, Casella and McCulloch 1992, Variance Components, chapter 4).
"""

from collections.abc import Sequence

import numpy as np

from scaling_study.analysis.experiment_runs import WhyRun
from scaling_study.stats.intervals import Floats

START_SD = 0.02
"""Two starts of one launch differ by some percent (Mytkowicz et al. 2009, Producing Wrong Data
Without Doing Anything Obviously Wrong). At least this much is taken, and few members say little
more: it has the weight of START_DEGREES further ones."""
START_DEGREES = 4.0


def start_sd(runs: Sequence[WhyRun], step_s: float) -> float:
    """Return the standard deviation between starts of a launch, as part of its step.

    Args:
        runs: Replicates of one target.
        step_s: Mean step of the reference where several processes run.

    Returns:
        At least `START_SD`.
    """
    total, degrees = START_DEGREES * START_SD**2, START_DEGREES
    for run in runs:
        for _, cohort in run.members.groupby(["name", "n"]):
            table = cohort.pivot_table(index="block", columns="slot", values="unhindered_s")
            members = table.shape[1] - 1
            component = _between(table.dropna().to_numpy() / step_s)
            if component is not None:
                total, degrees = total + members * component, degrees + members
    return max(START_SD, float(np.sqrt(max(0.0, total / degrees))))


def _between(times: Floats) -> float | None:
    """Variance between columns beyond what rows scatter; None where that cannot be told."""
    blocks, members = times.shape
    if blocks < 2 or members < 2:  # noqa: PLR2004 - a spread needs two
        return None
    means = times.mean(axis=0)
    rest = times - means - times.mean(axis=1, keepdims=True) + times.mean()
    noise = (rest**2).sum() / ((blocks - 1) * (members - 1))
    return float(means.var(ddof=1) - noise / blocks)
