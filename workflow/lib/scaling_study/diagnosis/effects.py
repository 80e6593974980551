"""Shares with their intervals: ratios of means of quantities that are measured together.

A share is a ratio of two sums over the same units: the time that a relief brings back over the time
that was added. Its interval is that of Fieller's theorem (Fieller 1954, Some Problems in Interval
Estimation, Journal of the Royal Statistical Society B 16(2)), over units: blocks of one start, or
means of starts where there are at least three. It is not symmetric: where the whole is known badly,
a share may be much larger than it seems, but not as much smaller.

With six blocks the spread of a difference is itself hardly known. All reliefs of a job are measured
in the same blocks with the same kind of window, so that what is known of the others' spread is
used too: each variance is moderated towards a common one, with as many degrees of freedom as the
variances' own scatter supports (Smyth 2004, Statistical Applications in Genetics and Molecular
Biology 3(1):3, whose `fitFDist` this is).
"""

import dataclasses
from collections.abc import Sequence
from typing import Literal

import numpy as np
from scipy import optimize, special, stats

from scaling_study.stats.intervals import Floats, Integers

Units = Literal["blocks", "replicates"]
CONFIDENCE = 0.95
ENOUGH_REPLICATES = 3
"""From this many starts on, the starts are the units."""

FEWEST_VARIANCES = 4
"""Fewer variances than this say nothing about their own scatter."""
MOST_PRIOR = 20.0
"""The reference is in every comparison, so their variances scatter less than independent ones
would; more degrees of freedom than this are not believed."""


@dataclasses.dataclass(frozen=True, slots=True)
class Estimate:
    """A quantity with its 95% interval.

    Attributes:
        value: The estimate.
        low: Lower end; None without one.
        high: Upper end; None without one.
        sure: Lower end that holds also when it is the largest of many tests (Bonferroni).
    """

    value: float
    low: float | None
    high: float | None
    sure: float | None = None

    def to_dict(self) -> dict[str, float | None]:
        """As causes.json holds it."""
        return {"value": self.value, "low": self.low, "high": self.high}

    def plus(self, amount: float) -> "Estimate":
        """This quantity and a constant."""
        return self.times(1.0, amount)

    def times(self, factor: float, amount: float = 0.0) -> "Estimate":
        """This quantity in another unit; a negative factor turns the interval round."""
        low, high, sure = (
            None if end is None else factor * end + amount
            for end in (self.low, self.high, self.sure)
        )
        if factor < 0:
            low, high = high, low
        return Estimate(factor * self.value + amount, low, high, sure)


@dataclasses.dataclass(frozen=True, slots=True)
class Pairs:
    """Numerators and denominators of the same units."""

    over: Floats
    under: Floats

    def __len__(self) -> int:
        """How many units there are."""
        return int(self.over.size)


@dataclasses.dataclass(frozen=True, slots=True)
class Prior:
    """What other comparisons say about a variance: its size, and how many degrees that is worth."""

    variance: float
    degrees: float


NO_PRIOR = Prior(0.0, 0.0)


def mean(values: Floats) -> float:
    """Mean of the values that are there; NaN without one."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else np.nan


def pair(over: Floats, under: Floats, replicates: Integers, units: Units) -> Pairs:
    """Numerator and denominator of every unit that has both.

    Args:
        over: One per block; NaN where there is none.
        under: Likewise.
        replicates: Of each block.
        units: Means of replicates are taken for ``replicates``.
    """
    known = ~(np.isnan(over) | np.isnan(under))
    over, under, replicates = over[known], under[known], replicates[known]
    if units == "blocks":
        return Pairs(over, under)
    starts = np.unique(replicates)
    return Pairs(
        np.array([over[replicates == one].mean() for one in starts]),
        np.array([under[replicates == one].mean() for one in starts]),
    )


def residuals(pairs: Pairs) -> tuple[float, float]:
    """Ratio of the means, and the variance of what the numerators differ from it by."""
    ratio = float(pairs.over.mean() / pairs.under.mean())
    rest = pairs.over - ratio * pairs.under
    return ratio, float(rest.var(ddof=1)) if rest.size > 1 else np.nan


def ratio_of_means(
    pairs: Pairs,
    *,
    prior: Prior = NO_PRIOR,
    allowance: float = 0.0,
    tests: int = 1,
) -> Estimate | None:
    """Mean numerator over mean denominator.

    Args:
        pairs: Of `pair`.
        prior: What the variance is moderated towards.
        allowance: Standard deviation, in the unit of the numerator, of what the units cannot show.
        tests: Among how many tests `sure` must hold.

    Returns:
        None without units; no interval with one unit, or where the denominator may be zero.
    """
    count = len(pairs)
    if not count or not pairs.under.mean():
        return None
    ratio, variance = residuals(pairs)
    under = float(pairs.under.mean())
    degrees = count - 1 + prior.degrees
    if count < 2:  # noqa: PLR2004 - a spread needs two
        return Estimate(ratio, None, None)
    pooled = (prior.degrees * prior.variance + (count - 1) * variance) / degrees
    slope = _slope(pairs)
    spread = _Spread(
        ratio=ratio,
        error=float(np.sqrt(pooled / count)) / abs(under),
        allowance=allowance / abs(under),
        doubt=float(pairs.under.std(ddof=1) / np.sqrt(count)) / abs(under),
        slope=slope,
        free=_free(pairs, slope, variance),
    )
    low, high = spread.ends(float(stats.t.ppf((1 + CONFIDENCE) / 2, degrees)))
    alpha = (1 - CONFIDENCE) / max(1, tests)
    sure, _ = spread.ends(float(stats.t.ppf(1 - alpha / 2, degrees)))
    return Estimate(ratio, low, high, sure)


@dataclasses.dataclass(frozen=True, slots=True)
class _Spread:
    """What the ends of an interval follow from; errors are parts of the mean denominator.

    Attributes:
        ratio: The estimate.
        error: Standard error of what the mean numerator differs by from the ratio's.
        allowance: Standard deviation of what the units cannot show of the numerator.
        doubt: Standard error of the mean denominator.
        slope: By how much numerators rise with their denominators.
        free: The part of the error's square that does not come from the denominators.
    """

    ratio: float
    error: float
    allowance: float
    doubt: float
    slope: float
    free: float

    def ends(self, quantile: float) -> tuple[float | None, float | None]:
        """Fieller's limits; None where the denominator may be zero."""
        doubtful = (quantile * self.doubt) ** 2
        if doubtful >= 1:
            return None, None
        shift = doubtful * (self.ratio - self.slope)
        square = (1 - doubtful * self.free) * self.error**2
        reach = quantile * float(np.sqrt(square + (1 - doubtful) * self.allowance**2))
        low, high = ((shift + side * reach) / (1 - doubtful) for side in (-1, 1))
        return self.ratio + low, self.ratio + high


def _slope(pairs: Pairs) -> float:
    """By how much numerators rise with denominators (least squares)."""
    variance = float(pairs.under.var(ddof=1))
    return float(np.cov(pairs.over, pairs.under)[0, 1]) / variance if variance else 0.0


def _free(pairs: Pairs, slope: float, variance: float) -> float:
    """The part of the variance about the ratio's line that is left about the best line."""
    best = pairs.over - slope * pairs.under
    return min(1.0, float(best.var(ddof=1)) / variance) if variance else 0.0


def fit_prior(comparisons: Sequence[Pairs]) -> Prior:
    """What the variances of some comparisons have in common.

    Args:
        comparisons: Their pairs.

    Returns:
        `NO_PRIOR` where there are too few of them.
    """
    found = [(residuals(pairs)[1], len(pairs) - 1) for pairs in comparisons if len(pairs) > 1]
    known = [(variance, degrees) for variance, degrees in found if variance > 0]
    if len(known) < FEWEST_VARIANCES:
        return NO_PRIOR
    half = np.array([degrees for _, degrees in known]) / 2
    logs = np.log([variance for variance, _ in known]) - special.digamma(half) + np.log(half)
    scatter = float(logs.var(ddof=1) - special.polygamma(1, half).mean())
    shape = _inverse_trigamma(scatter) if scatter > 0 else np.inf
    shape = min(shape, MOST_PRIOR / 2)
    center = float(logs.mean() + special.digamma(shape) - np.log(shape))
    return Prior(float(np.exp(center)), 2 * shape)


def _inverse_trigamma(value: float) -> float:
    low, high = 1e-3, 1e6
    if value >= special.polygamma(1, low):
        return low
    if value <= special.polygamma(1, high):
        return high
    return float(optimize.brentq(lambda x: float(special.polygamma(1, x)) - value, low, high))


def together(parts: Sequence[Estimate]) -> Estimate | None:
    """Sum of shares; their uncertainties add up as those of independent quantities do."""
    if not parts:
        return None
    value = sum(part.value for part in parts)
    below = [part.value - part.low for part in parts if part.low is not None]
    above = [part.high - part.value for part in parts if part.high is not None]
    if len(above) < len(parts):
        return Estimate(value, None, None)
    return Estimate(
        value, value - float(np.hypot.reduce(below)), value + float(np.hypot.reduce(above))
    )


def geometric_ratio(pairs: Pairs) -> Estimate | None:
    """Geometric mean of the ratios of pairs, with Student's t interval on the log scale.

    For times themselves: those of a crowded machine scatter by factors, not by amounts.
    """
    if not len(pairs):
        return None
    logs = np.log(pairs.over / pairs.under)
    center = float(logs.mean())
    if logs.size < 2:  # noqa: PLR2004 - a spread needs two
        return Estimate(float(np.exp(center)), None, None)
    quantile = stats.t.ppf((1 + CONFIDENCE) / 2, logs.size - 1)
    reach = float(quantile * logs.std(ddof=1) / np.sqrt(logs.size))
    low, value, high = (float(np.exp(center + side * reach)) for side in (-1, 0, 1))
    return Estimate(value, low, high)
