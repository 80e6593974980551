"""The time that the start of a process takes, from the cohorts of all launches of a machine.

A launch is started only a few times, and starts of one launch differ by a tenth. If a model trains
in seconds, this difference decides which launch seems best. So launches that start processes alike
(the same launcher, threads, build, ranks and compilation) share information: the logarithms of one
launch's starts scatter around its mean, and the means of launches around a common one. Both spreads
and all means are drawn together by Gibbs sampling, as those of ``throughputs``. Compilation before
a member's first window is part of its start.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from scaling_study.records.cohorts import CohortSummary
from scaling_study.stats.intervals import Floats
from scaling_study.stats.throughputs import DRAWS

ALIKE = ("launcher", "intra_op", "build", "ranks", "compile")
"""Axes that decide how long a start takes."""
SHORTEST_S = 1e-6
SPREAD, FREEDOM = 0.1, 2.0
"""Prior standard deviation of the logarithms of one launch's starts, and the degrees of freedom
that it is worth."""
BETWEEN, BETWEEN_FREEDOM = 0.03, 1.0
"""The same for the means of launches that start alike."""
BURN_IN = 100
SEED = 1


def process_starts(cohorts: Iterable[CohortSummary]) -> dict[tuple[str, str], Floats]:
    """Return draws of the time that the start of a process takes (s), by machine and launch.

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
    for machine in dict.fromkeys(key[0] for key in groups):
        own_groups = [launches for key, launches in groups.items() if key[0] == machine]
        logs = [
            [np.log(np.maximum(_usual(starts), SHORTEST_S)) for starts in launches.values()]
            for launches in own_groups
        ]
        names = [launch for launches in own_groups for launch in launches]
        for launch, draws in zip(names, np.exp(drawn(logs)).T, strict=True):
            found[machine, launch] = draws
    return found


def beside_s(cohorts: Iterable[CohortSummary]) -> dict[str, Floats]:
    """Return draws of the time (s) of a model beside its steps, by launch of one machine."""
    return {launch: draws for (_, launch), draws in process_starts(cohorts).items()}


def _usual(starts: Sequence[tuple[bool, float]]) -> list[float]:
    """Return the starts (s) that compiled nothing anew, as most of many models do; else all."""
    return [one for anew, one in starts if not anew] or [one for _, one in starts]


def drawn(groups: Sequence[Sequence[Floats]]) -> Floats:
    """Return draws (draws, launches) of the means of launches, in groups with a common mean."""
    rng = np.random.default_rng(SEED)
    logs = [own for launches in groups for own in launches]
    group = np.repeat(np.arange(len(groups)), [len(launches) for launches in groups])
    counts = np.array([len(own) for own in logs], dtype=np.float64)
    means = np.array([own.mean() for own in logs])
    squares = sum(float(((own - own.mean()) ** 2).sum()) for own in logs)
    within, between = SPREAD**2, BETWEEN**2
    draws, centers = [], []
    for _ in range(BURN_IN + DRAWS):
        weights = 1 / (between + within / counts)
        sums = np.bincount(group, weights)
        center = np.bincount(group, weights * means) / sums
        common = center + rng.standard_normal(len(sums)) / np.sqrt(sums)
        precision = counts / within + 1 / between
        share = counts / within / precision  # of a launch's own starts in its mean
        levels = share * means + (1 - share) * common[group]
        levels += rng.standard_normal(len(means)) / np.sqrt(precision)
        draws.append(levels)
        centers.append(share * means + (1 - share) * center[group])
        left = squares + float((counts * (means - levels) ** 2).sum()) + FREEDOM * SPREAD**2
        within = left / (2 * rng.gamma((counts.sum() + FREEDOM) / 2))
        left = float(((levels - common[group]) ** 2).sum()) + BETWEEN_FREEDOM * BETWEEN**2
        between = left / (2 * rng.gamma((len(means) + BETWEEN_FREEDOM) / 2))
    found = np.array(draws[BURN_IN:])
    return np.asarray(found - found.mean(axis=0) + np.mean(centers[BURN_IN:], axis=0))
