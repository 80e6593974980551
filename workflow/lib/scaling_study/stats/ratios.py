"""Ratios of means of quantities that are measured together, with their intervals.

A share is a ratio of two sums over the same units: the time that an intervention recovers over the
time that was added. Its interval is that of Fieller's theorem (Fieller 1954, Some Problems in
Interval Estimation, Journal of the Royal Statistical Society B 16(2)), over units: blocks, or means
of starts where there are at least three. With a noisy denominator it is skewed upwards.

With six blocks the spread of a difference is itself hardly known. All interventions of a job are
measured in the same blocks with the same kind of window, and their variances scatter around a
common one. That is worth some degrees of freedom in the variance of each: if it is worth d0 of them
and a quantity has d of its own, its variance is estimated as (d0 common + d own) / (d0 + d)
(`moderated`). These are the moderated variances of Smyth (Statistical Applications in Genetics and
Molecular Biology 3(1), 2004). The common variance comes from the moments of their logarithms
(`fit_prior`; all shares from experiments), or from earlier measurements of quiet machines, where a
single launch was started (`start_deviation`). Throughputs have a joint model of their own
(``throughputs``).
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
import pandas as pd
from scipy import optimize, stats
from scipy.special import digamma, polygamma

from scaling_study.stats.interval import Floats, Integers, Interval
from scaling_study.stats.thresholds import CONFIDENCE

Units = Literal["blocks", "replicates"]
ENOUGH_REPLICATES = 3
"""From this many starts on, the starts are the units."""
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


@dataclasses.dataclass(frozen=True, slots=True)
class Prior:
    """A common variance, and how many degrees of freedom it is worth."""

    variance: float
    degrees: float


NO_PRIOR = Prior(0.0, 0.0)


def moderated(squares: float, degrees: float, prior: Prior) -> float:
    """Return a variance, moderated towards a common one.

    Args:
        squares: its sum of squares.
        degrees: its degrees of freedom.
        prior: the common variance.
    """
    return (squares + prior.degrees * prior.variance) / (degrees + prior.degrees)


@dataclasses.dataclass(frozen=True, slots=True)
class Pairs:
    """Numerators and denominators of the same units."""

    over: Floats
    under: Floats

    def __len__(self) -> int:
        """Return the number of units."""
        return int(self.over.size)


def mean(values: Floats) -> float:
    """Return the mean of the values that are not NaN; NaN without one."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else np.nan


def pair(over: Floats, under: Floats, replicates: Integers, units: Units) -> Pairs:
    """Return the numerator and denominator of every unit that has both.

    Args:
        over: Numerator of each block; NaN where there is none.
        under: Denominator of each block, likewise.
        replicates: Replicate of each block.
        units: ``replicates`` takes the mean of each replicate's blocks.
    """
    known = ~(np.isnan(over) | np.isnan(under))
    over, under, replicates = over[known], under[known], replicates[known]
    if units == "blocks":
        return Pairs(over, under)
    starts = np.unique(replicates)
    return Pairs(
        np.array([over[replicates == start].mean() for start in starts]),
        np.array([under[replicates == start].mean() for start in starts]),
    )


def residuals(pairs: Pairs) -> tuple[float, float]:
    """Return the ratio of the means, and the variance of the numerators about that ratio."""
    ratio = float(pairs.over.mean() / pairs.under.mean())
    rest = pairs.over - ratio * pairs.under
    return ratio, float(rest.var(ddof=1)) if rest.size > 1 else np.nan


def fit_prior(comparisons: Sequence[Pairs]) -> Prior:
    """Return the common prior of the variances of some comparisons (Smyth's ``fitFDist``).

    It comes from the moments of their logarithms.

    Returns:
        The prior; `NO_PRIOR` if too few comparisons have a variance.
    """
    variances = [(residuals(pairs)[1], len(pairs) - 1) for pairs in comparisons if len(pairs) > 1]
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


def ratio_of_means(
    pairs: Pairs, *, prior: Prior = NO_PRIOR, allowance: float = 0.0, tests: int = 1
) -> Interval | None:
    """Return mean numerator over mean denominator, with its interval.

    Args:
        pairs: As `pair` returns them.
        prior: The prior that the variance is moderated towards.
        allowance: Standard deviation, in the unit of the numerator, of what the units cannot show.
        tests: Number of tests among which `corrected_low` must hold.

    Returns:
        None without units or with a mean denominator of zero; no interval with one unit, or where
        the denominator may be zero.
    """
    count = len(pairs)
    if not count or not pairs.under.mean():
        return None
    ratio, variance = residuals(pairs)
    if count < 2:  # noqa: PLR2004 - a spread needs two
        return Interval(ratio)
    # Errors over the mean denominator: of the numerators about the ratio, and of the denominator.
    under = abs(float(pairs.under.mean()))
    pooled = moderated((count - 1) * variance, count - 1, prior)
    error, allowance = float(np.sqrt(pooled / count)) / under, allowance / under
    doubt = float(pairs.under.std(ddof=1) / np.sqrt(count)) / under
    # Slope of numerators over denominators (least squares), and the variance left about it.
    scatter = float(pairs.under.var(ddof=1))
    slope = float(np.cov(pairs.over, pairs.under)[0, 1]) / scatter if scatter else 0.0
    best = float((pairs.over - slope * pairs.under).var(ddof=1))
    free = min(1.0, best / variance) if variance else 0.0

    def ends(confidence: float) -> tuple[float | None, float | None]:
        """Return Fieller's limits; None where the denominator may be zero."""
        quantile = float(stats.t.ppf((1 + confidence) / 2, count - 1 + prior.degrees))
        doubtful = (quantile * doubt) ** 2
        if doubtful >= 1:
            return None, None
        shift = doubtful * (ratio - slope)
        square = (1 - doubtful * free) * error**2 + (1 - doubtful) * allowance**2
        reach = quantile * float(np.sqrt(square))
        return ratio + (shift - reach) / (1 - doubtful), ratio + (shift + reach) / (1 - doubtful)

    corrected, _ = ends(1 - (1 - CONFIDENCE) / max(1, tests))
    return Interval(ratio, *ends(CONFIDENCE), corrected)


def geometric_ratio(pairs: Pairs) -> Interval | None:
    """Return the geometric mean of the ratios of pairs, with Student's t interval on the log scale.

    It is for times themselves: those of a crowded machine scatter by factors, not by amounts.
    """
    logs = np.log(pairs.over / pairs.under)
    log = ratio_of_means(Pairs(logs, np.ones_like(logs)))
    if log is None:
        return None
    ends = (end if end is None else float(np.exp(end)) for end in (log.low, log.high))
    return Interval(float(np.exp(log.value)), *ends)


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
