"""Test of whether a script has settled: steps and non-step phases take as long late as early.

A training changes its speed in its first seconds: memory that is touched for the first time, files
that are made for the first time, averages of dead units that decay into denormal numbers. Windows
of that time say what a longer training does not do.

Steps
    As a chain's early part is compared with its late one (Geweke, Evaluating the accuracy of
    sampling-based approaches, 1992), those of two members' earlier life are compared with those of
    their later life, at each of a few places where one may end and the other begin. Members of a
    window share what disturbs it, so only two count: one of each age.
What lies between
    is rare: a handful of validations or checkpoints shows no trend. But where some take much longer
    than the shortest, and all of these come before all the last ones, that is hardly chance.

Pure: steps go in, a number comes out.
"""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scaling_study.runner import non_step

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

CHANGE = 0.03
"""A cohort of which a smaller part of all time changes has settled …"""

CHANCE = 0.01
"""… and so has one whose change may be chance: with this probability one is seen in its steps where
there is none (Student's t, Bonferroni's correction for the places) …"""

PHASE_CHANCE = 0.1
"""… or in what lies between: more, because there is little of it, and all that it costs is time."""

LONGER = 1.5
"""A phase that takes this many times the shortest of its process count is a longer one."""

PLACES = 9
"""The later life may begin at so many places: the deciles of the steps."""

FEWEST_FREE = 3
"""Degrees of freedom below which nothing is said."""


def change(windows: Sequence[non_step.Steps], found: non_step.Found) -> float | None:
    """Return which part of all time more, or less, steps take later in a member's life.

    Args:
        windows: the steps of each window, of all its members.
        found: what comes back in them, put together.

    Returns:
        Positive where what comes later takes longer; None where all has settled, or too few windows
        were taken to tell.
    """
    if not windows:
        return None
    steps = non_step.Steps.concat(windows)
    known = ~steps.fresh
    whole_us = max(1, int(steps.us[known].sum()))
    changes = []
    for label in range(len(found.kinds) + 1):
        own = known & (found.labels == label)
        at, us, n = steps.at[own], steps.us[own], steps.n[own]
        if len(us):
            by = _of_phases(at, us, n) if label else _of_steps(windows, found.labels)
            changes.append(by * float(us.sum()) / whole_us)
    largest = max(changes, key=abs, default=0.0)
    return largest if abs(largest) > CHANGE else None


def _of_steps(windows: Sequence[non_step.Steps], labels: Integers) -> float:
    """Return by which part ordinary steps take longer from some place on; 0 if that may be chance.

    Each window has a value for each of two members, the median of its steps in it.
    """
    at, logs, group = [], [], []
    ends = np.cumsum([len(one.us) for one in windows])[:-1]
    chosen = _two_members(windows)
    for one, own_labels in zip(windows, np.split(labels, ends), strict=True):
        for member in chosen:
            own = (one.member == member) & ~one.fresh & (own_labels == 0)
            if own.any():
                at.append(float(np.median(one.at[own])))
                logs.append(math.log(max(1.0, float(np.median(one.us[own])))))
                group.append(f"{one.n[own][0]} {member}")
    if not at:
        return 0.0
    groups = np.unique(group, return_inverse=True)[1]
    return float(np.expm1(_jump(np.array(at), np.array(logs), groups)))


def _two_members(windows: Sequence[non_step.Steps]) -> list[int]:
    """Return the member of most windows, and that of most among those with fewer."""
    counts = Counter(int(member) for one in windows for member in np.unique(one.member))
    oldest, *others = sorted(counts, key=lambda member: (-counts[member], member))
    younger = [member for member in others if counts[member] < counts[oldest]]
    return [oldest, *younger[:1]]


def _jump(x: Floats, y: Floats, group: NDArray[np.intp]) -> float:
    """Return by how much values are higher from some place on; 0 where that may be chance.

    Args:
        x: the place of each value in its member's life.
        y: the values.
        group: whose level each value has: a member's beside so many others.
    """
    from scipy import stats  # noqa: PLC0415 (takes half a second, which few cohorts need)

    free = len(y) - len(np.unique(group)) - 1
    if free < FEWEST_FREE:
        return 0.0
    level = _without_means(y, group)
    found, best = 0.0, float(stats.t.ppf(1 - CHANCE / 2 / (PLACES + 1), free))
    places = np.unique(np.quantile(x, np.linspace(0, 1, PLACES + 2)[1:-1]))
    # Or no place: a line, of which the later half is higher by half of its rise.
    shapes = [*((x > place).astype(np.float64) for place in places), 2 * x / max(1.0, x.max())]
    for shape in shapes:
        late = _without_means(shape, group)
        if np.allclose(late, 0):
            continue
        spread = float(late @ late)
        jump = float(late @ level) / spread
        error = float(np.sqrt(np.sum((level - jump * late) ** 2) / free / spread))
        if abs(jump) > best * error:
            found, best = jump, abs(jump) / max(error, 1e-12)
    return found


def _without_means(values: Floats, group: NDArray[np.intp]) -> Floats:
    means = np.bincount(group, weights=values) / np.maximum(np.bincount(group), 1)
    return np.asarray(values - means[group], dtype=np.float64)


def _of_phases(at: Integers, us: Integers, n: Integers) -> float:
    """Return by which part the last phases are shorter, below 0; 0 if that may be chance."""
    shortest = {count: us[n == count].min() for count in np.unique(n)}
    ratios = us / np.array([max(1, shortest[count]) for count in n])
    ratios = ratios[np.argsort(at, kind="stable")]
    longer = np.flatnonzero(ratios > LONGER)
    if not len(longer):
        return 0.0
    # How likely it is that all longer ones leave so many places at the end free.
    count, last = len(ratios), len(ratios) - 1 - int(longer[-1])
    chance = math.comb(count - last, len(longer)) / math.comb(count, len(longer))
    return float(ratios[-last:].mean() / ratios.mean() - 1) if chance <= PHASE_CHANCE else 0.0
