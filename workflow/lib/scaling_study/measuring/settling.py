"""Has a script settled? Its steps, and what lies between them, take as long late as early.

A training changes its speed in its first seconds: memory that is touched for the first time, files
that are made for the first time, averages of dead units that decay into denormal numbers. Windows
of that time say what a longer training does not do.

Steps
    As a chain's early part is compared with its late one (Geweke, Evaluating the accuracy of
    sampling-based approaches, 1992), those of a member's earlier life are compared with those of
    its later life, at each of a few places where one may end and the other begin.
What lies between
    is rare: a handful of validations or checkpoints shows no trend. But a few that take several
    times as long as the others take their mean away from their median.

Pure: steps go in, a number comes out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scaling_study.measuring import between

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

CHANGE = 0.03
"""A cohort of which a smaller part of all time changes has settled …"""

CHANCE = 0.01
"""… and so has one whose change may be chance: with this probability one is seen where there is
none (Student's t, Bonferroni's correction for the places)."""

PLACES = 9
"""Where the later life may begin: at deciles of the steps' places."""

FEWEST_FREE = 3
"""Degrees of freedom below which nothing is said."""


def change(windows: Sequence[between.Steps]) -> float | None:
    """Return which part of all time more, or less, steps take later in a member's life.

    Args:
        windows: the steps of each window, of all its members.

    Returns:
        Positive where what comes later takes longer; None where all has settled, or too few windows
        were taken to tell.
    """
    steps = between.Steps.concat(windows)
    known = ~steps.fresh
    labels = between.find(steps).labels[known]
    window = np.repeat(np.arange(len(windows)), [len(one.us) for one in windows])[known]
    group = np.stack([steps.n[known], steps.member[known]], axis=1)
    at, us = steps.at[known], steps.us[known]
    changes = []
    for label in np.unique(labels):
        own = labels == label
        share = us[own].sum() / us.sum()
        if label == 0:
            x, y, groups = _medians(
                at[own], np.log(np.maximum(us[own], 1)), group[own], window[own]
            )
            jump = _jump(x, y, np.unique(groups, axis=0, return_inverse=True)[1].ravel())
            changes.append(float(share * np.expm1(jump)))
        else:
            changes.append(float(share * _skew(at[own], us[own], steps.n[known][own])))
    largest = max(changes, key=abs, default=0.0)
    return largest if abs(largest) > CHANGE else None


def _medians(
    x: Integers, y: Floats, groups: Integers, window: Integers
) -> tuple[Floats, Floats, Integers]:
    """Return one value for each member's ordinary steps in a window: steps of it are alike."""
    keys, of = np.unique(np.column_stack([groups, window]), axis=0, return_inverse=True)
    order = np.argsort(of.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(of.ravel()))[:-1]
    return (
        np.array([np.median(one) for one in np.split(x[order], ends)]),
        np.array([np.median(one) for one in np.split(y[order], ends)]),
        keys[:, :2],
    )


def _skew(at: Integers, us: Integers, n: Integers) -> float:
    """Return how far means are from medians; below 0 where the longer ones come first."""
    ratios, away = np.empty(len(us)), np.empty(len(us))
    for count in np.unique(n):
        own = n == count
        ratios[own] = us[own] / np.median(us[own])
        away[own] = abs(ratios[own].mean() - 1)
    late = at > np.median(at)
    shorter_late = not late.any() or ratios[late].mean() < ratios[~late].mean()
    return float(-away.mean() if shorter_late else away.mean())


def _jump(x: Floats | Integers, y: Floats, group: Integers) -> float:
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
    found, best = 0.0, float(stats.t.ppf(1 - CHANCE / 2 / PLACES, free))
    for place in np.unique(np.quantile(x, np.linspace(0, 1, PLACES + 2)[1:-1])):
        late = _without_means((x > place).astype(np.float64), group)
        if np.allclose(late, 0):
            continue
        spread = float(late @ late)
        jump = float(late @ level) / spread
        error = float(np.sqrt(np.sum((level - jump * late) ** 2) / free / spread))
        if abs(jump) > best * error:
            found, best = jump, abs(jump) / max(error, 1e-12)
    return found


def _without_means(values: Floats, group: Integers) -> Floats:
    counts = np.bincount(group)
    means = np.bincount(group, weights=values) / np.maximum(counts, 1)
    return np.asarray(values - means[group], dtype=np.float64)
