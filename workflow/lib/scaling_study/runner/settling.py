"""Test of whether a script has settled: steps and non-step phases take as long late as early.

The speed of a training changes in its first seconds: memory is touched for the first time, files
are made for the first time, averages of dead units decay into denormal numbers. Windows of that
time do not represent a longer training.

Steps
    Steps of two members' earlier life are compared with those of their later life, as the early
    part of a chain is compared with its late part (Geweke, Evaluating the accuracy of
    sampling-based approaches, 1992). A few places are tried as the end of the earlier life. Members
    of a window share its disturbances, so only two count: one of each age.
Non-step phases
    They are rare: a handful of validations or checkpoints shows no trend. But if some take much
    longer than the shortest, and none of these is among the last ones, that is hardly chance.

Pure: steps go in, a number comes out.
"""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scaling_study.runner import non_step
from scaling_study.stats.interval import Floats, Integers

CHANGE = 0.03
"""A cohort has settled if its times change by a smaller part of all time."""

CHANCE = 0.01
"""A cohort has also settled if its change may be chance. This is the probability that steps show a
change where there is none (Student's t, Bonferroni's correction for the places)."""

PHASE_CHANCE = 0.1
"""The same for non-step phases: larger, because they are few, and a false alarm costs only time."""

LONGER = 1.5
"""A phase is a longer one if it takes over this many times the shortest of its process count."""

PLACES = 9
"""Number of places at which the later life may begin: the deciles of the steps."""

FEWEST_FREE = 3
"""With fewer degrees of freedom, no change is found."""


def change(windows: Sequence[non_step.LaunchSteps], phases: non_step.Found) -> float | None:
    """Return by which part of all time steps or phases change later in a member's life.

    Args:
        windows: the steps of each window, of all its members.
        phases: the phases that recur in all of these steps together.

    Returns:
        Positive if later ones take longer; None if all has settled, or too few windows were taken
        to tell.
    """
    if not windows:
        return None
    steps = non_step.LaunchSteps.concat(windows)
    known = ~steps.fresh
    whole_us = max(1, int(steps.us[known].sum()))
    changes = []
    for label in range(len(phases.kinds) + 1):
        mask = known & (phases.labels == label)
        at, us, n = steps.at[mask], steps.us[mask], steps.n[mask]
        if len(us):
            by = _of_phases(at, us, n) if label else _of_steps(windows, phases.labels)
            changes.append(by * float(us.sum()) / whole_us)
    largest = max(changes, key=abs, default=0.0)
    return largest if abs(largest) > CHANGE else None


def _of_steps(windows: Sequence[non_step.LaunchSteps], labels: Integers) -> float:
    """Return by which part ordinary steps take longer from some place on; 0 if it may be chance.

    Each window gives a value for each of two members: the median of the member's steps.
    """
    at, logs, group = [], [], []
    ends = np.cumsum([len(window.us) for window in windows])[:-1]
    chosen = _two_members(windows)
    for window, own_labels in zip(windows, np.split(labels, ends), strict=True):
        for member in chosen:
            mask = (window.member == member) & ~window.fresh & (own_labels == 0)
            if mask.any():
                at.append(float(np.median(window.at[mask])))
                logs.append(math.log(max(1.0, float(np.median(window.us[mask])))))
                group.append(f"{window.n[mask][0]} {member}")
    if not at:
        return 0.0
    groups = np.unique(group, return_inverse=True)[1]
    return float(np.expm1(_jump(np.array(at), np.array(logs), groups)))


def _two_members(windows: Sequence[non_step.LaunchSteps]) -> list[int]:
    """Return the member with the most windows, and that with the most among those with fewer."""
    counts = Counter(int(member) for window in windows for member in np.unique(window.member))
    oldest, *others = sorted(counts, key=lambda member: (-counts[member], member))
    younger = [member for member in others if counts[member] < counts[oldest]]
    return [oldest, *younger[:1]]


def _jump(x: Floats, y: Floats, group: NDArray[np.intp]) -> float:
    """Return by how much values are higher from some place on; 0 if it may be chance.

    Args:
        x: the place of each value in its member's life.
        y: the values.
        group: the group of each value, with a level of its own: a member at a process count.
    """
    from scipy import stats  # noqa: PLC0415 (takes half a second, which few cohorts need)

    free = len(y) - len(np.unique(group)) - 1
    if free < FEWEST_FREE:
        return 0.0
    level = _without_means(y, group)
    rise, best = 0.0, float(stats.t.ppf(1 - CHANCE / 2 / (PLACES + 1), free))
    places = np.unique(np.quantile(x, np.linspace(0, 1, PLACES + 2)[1:-1]))
    # The last shape has no place: a line, whose later half is higher by half of its rise.
    shapes = [*((x > place).astype(np.float64) for place in places), 2 * x / max(1.0, x.max())]
    for shape in shapes:
        late = _without_means(shape, group)
        if np.allclose(late, 0):
            continue
        spread = float(late @ late)
        jump = float(late @ level) / spread
        error = float(np.sqrt(np.sum((level - jump * late) ** 2) / free / spread))
        if abs(jump) > best * error:
            rise, best = jump, abs(jump) / max(error, 1e-12)
    return rise


def _without_means(values: Floats, group: NDArray[np.intp]) -> Floats:
    means = np.bincount(group, weights=values) / np.maximum(np.bincount(group), 1)
    return np.asarray(values - means[group], dtype=np.float64)


def _of_phases(at: Integers, us: Integers, n: Integers) -> float:
    """Return by which part the last phases are shorter, below 0; 0 if it may be chance."""
    shortest = {count: us[n == count].min() for count in np.unique(n)}
    ratios = us / np.array([max(1, shortest[count]) for count in n])
    ratios = ratios[np.argsort(at, kind="stable")]
    longer = np.flatnonzero(ratios > LONGER)
    if not len(longer):
        return 0.0
    # The probability that, by chance, no longer phase is among this many at the end.
    count, last = len(ratios), len(ratios) - 1 - int(longer[-1])
    chance = math.comb(count - last, len(longer)) / math.comb(count, len(longer))
    return float(ratios[-last:].mean() / ratios.mean() - 1) if chance <= PHASE_CHANCE else 0.0
