"""Variances of few values, each drawn towards what all have in common.

Two or three values say little about the variance of one quantity. All quantities of a kind together
say much: their variances scatter around a common one, which is worth some degrees of freedom in the
variance of each. If the common variance is worth d0 of them and a quantity has d of its own, its
variance is estimated as (d0 common + d own) / (d0 + d) (`moderated`). These are the moderated
variances of Smyth (Statistical Applications in Genetics and Molecular Biology 3(1), 2004). The
common variance comes from the moments of their logarithms (`fit_prior`; all shares from
experiments), or from earlier measurements of quiet machines, where a single launch was started
(`start_deviation`). Throughputs have a joint model of their own (``throughputs``).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pandas as pd
from scipy import optimize
from scipy.special import digamma, polygamma

from scaling_study.stats.intervals import Floats

Numbers = TypeVar("Numbers", float, "Floats")
"""A number, or an array of numbers."""
FEWEST_VARIANCES = 4
"""Fewer variances than this say nothing about their own scatter."""
MOST_PRIOR = 20.0
"""The most degrees of freedom of a fitted prior. Comparisons with one reference share its scatter,
so their variances scatter less than independent ones."""
START_SD = 0.02
"""Two starts of one launch differ by some percent (Mytkowicz et al. 2009, Producing Wrong Data
Without Doing Anything Obviously Wrong)."""
START_DEGREES = 4.0
"""Degrees of freedom that `START_SD` is worth: few members say little more."""


@dataclass(frozen=True, slots=True)
class Prior:
    """A common variance, and how many degrees of freedom it is worth."""

    variance: float
    degrees: float


NO_PRIOR = Prior(0.0, 0.0)


def moderated(squares: Numbers, degrees: Numbers, prior: Prior) -> Numbers:
    """Return variances, each moderated towards a common one.

    Args:
        squares: their sums of squares.
        degrees: degrees of freedom of each.
        prior: the common variance.
    """
    return (squares + prior.degrees * prior.variance) / (degrees + prior.degrees)


def fit_prior(variances: Sequence[tuple[float, int]]) -> Prior:
    """Return the common prior of some variances, by the moments of their logarithms.

    Args:
        variances: each with its degrees of freedom (Smyth's ``fitFDist``).

    Returns:
        The prior; `NO_PRIOR` if there are too few variances.
    """
    known = [(variance, degrees) for variance, degrees in variances if variance > 0]
    if len(known) < FEWEST_VARIANCES:
        return NO_PRIOR
    half = np.array([degrees for _, degrees in known]) / 2
    logs = np.log([variance for variance, _ in known]) - digamma(half) + np.log(half)
    scatter = float(logs.var(ddof=1) - polygamma(1, half).mean())
    shape = _inverse_trigamma(scatter) if scatter > 0 else np.inf
    shape = min(shape, MOST_PRIOR / 2)
    center = float(logs.mean() + digamma(shape) - np.log(shape))
    return Prior(float(np.exp(center)), 2 * shape)


def _inverse_trigamma(value: float) -> float:
    low, high = 1e-3, 1e6
    if value >= polygamma(1, low):
        return low
    if value <= polygamma(1, high):
        return high
    return float(optimize.brentq(lambda x: float(polygamma(1, x)) - value, low, high))


def start_deviation(members: Iterable[pd.DataFrame], step_s: float) -> float:
    """Return the standard deviation between starts of one launch, as a fraction of its step.

    A comparison of two cohorts is one of two starts. Blocks of a start cannot show by how much
    another start would differ, but its members can: they are starts of the same launch in the same
    windows. Their variance beyond the scatter of blocks is the variance component of a two-way
    layout without repetitions (Searle, Casella and McCulloch 1992, Variance Components, chapter 4).

    Args:
        members: per replicate, rows with `name` and `n` of a cohort, `block`, `slot` and
            `unhindered_s`.
        step_s: mean step where several processes run.

    Returns:
        At least `START_SD`.
    """
    squares, degrees = 0.0, 0
    for rows in members:
        for _, cohort in rows.groupby(["name", "n"]):
            table = cohort.groupby(["block", "slot"])["unhindered_s"].mean().unstack()  # noqa: PD010 (pivot_table costs five times as much)
            component = _between(table.dropna().to_numpy() / step_s)
            if component is not None:
                squares += (table.shape[1] - 1) * component
                degrees += table.shape[1] - 1
    variance = moderated(squares, degrees, Prior(START_SD**2, START_DEGREES))
    return max(START_SD, float(np.sqrt(max(0.0, variance))))


def _between(times: Floats) -> float | None:
    """Return the variance between columns beyond the scatter of rows; None without two of each."""
    blocks, members = times.shape
    if blocks < 2 or members < 2:  # noqa: PLR2004 - a spread needs two
        return None
    means = times.mean(axis=0)
    rest = times - means - times.mean(axis=1, keepdims=True) + times.mean()
    noise = (rest**2).sum() / ((blocks - 1) * (members - 1))
    return float(means.var(ddof=1) - noise / blocks)
