"""The time that the start of a process takes, from the cohorts of all launches of a machine.

A launch is started only a few times, and starts of one launch differ by a tenth. If a model trains
in seconds, this difference decides which launch seems best. So launches that start processes alike
(the same launcher, threads, build, ranks and compilation) share information: the mean of each is
shrunk towards their common mean, the more so the less launches differ beyond the spread of one
launch's starts (empirical Bayes: Efron and Morris, Journal of the American Statistical Association
70, 1975, on the log scale; the spread between launches by moments: DerSimonian and Laird,
Controlled Clinical Trials 7, 1986). Compilation before a member's first window is part of its
start.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from scaling_study.records.cohorts import CohortSummary
from scaling_study.stats.intervals import Floats

ALIKE = ("launcher", "intra_op", "build", "ranks", "compile")
"""Axes that decide how long a start takes."""
SHORTEST_S = 1e-6
SPREAD, FREEDOM = 0.1, 2.0
"""Prior standard deviation of the logarithms of one launch's starts, and the degrees of freedom
that it is worth."""


def process_starts(cohorts: Iterable[CohortSummary]) -> dict[tuple[str, str], float]:
    """Return the time that the start of a process takes (s), by machine and launch, where known.

    Args:
        cohorts: Cohorts of all machines.
    """
    groups: dict[tuple[str, ...], dict[str, list[tuple[bool, float]]]] = {}
    for cohort in cohorts:
        readback = cohort.readback
        if readback is not None and readback.start_s:
            alike = cohort.machine, *(str(cohort.axes.get(name)) for name in ALIKE)
            own = groups.setdefault(alike, {}).setdefault(cohort.launch, [])
            compiled = readback.compiled or ()
            # start_s already includes compilation in the first step.
            warm_up_s = [one.warm_up_s for one in compiled]
            start_s = float(np.mean(readback.start_s) + (np.mean(warm_up_s) if warm_up_s else 0.0))
            own.append((any(one.anew for one in compiled), start_s))
    found = {}
    for (machine, *_), launches in groups.items():
        logs = [np.log(np.maximum(_usual(own), SHORTEST_S)) for own in launches.values()]
        for launch, mean in zip(launches, _drawn_together(logs), strict=True):
            found[machine, launch] = float(np.exp(mean))
    return found


def _usual(starts: Sequence[tuple[bool, float]]) -> list[float]:
    """Return the starts (s) that compiled nothing anew, as most of many models do; else all."""
    return [one for anew, one in starts if not anew] or [one for _, one in starts]


def _drawn_together(logs: Sequence[Floats]) -> Floats:
    """Return the means of groups of values, shrunk towards a common mean."""
    counts = np.array([len(own) for own in logs], dtype=np.float64)
    means = np.array([own.mean() for own in logs])
    squares = sum(float(((own - own.mean()) ** 2).sum()) for own in logs)
    freedom = float((counts - 1).sum())
    within = (squares + FREEDOM * SPREAD**2) / (freedom + FREEDOM)
    weights = counts / within
    common = np.average(means, weights=weights)
    excess = float((weights * (means - common) ** 2).sum()) - (len(logs) - 1)
    scale = float(weights.sum() - (weights**2).sum() / weights.sum())
    between = max(0.0, excess / scale) if scale > 0 else 0.0
    own_weight = between / (between + within / counts)
    common = np.average(means, weights=1 / (between + within / counts))
    return np.asarray(common + own_weight * (means - common))
