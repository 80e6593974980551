"""Ratios of means of quantities that are measured together, with their intervals.

A share is a ratio of two sums over the same units: the time that an intervention recovers over the
time that was added. Its interval is that of Fieller's theorem (Fieller 1954, Some Problems in
Interval Estimation, Journal of the Royal Statistical Society B 16(2)), over units: blocks, or means
of starts where there are at least three. With a noisy denominator it is skewed upwards.

With six blocks the spread of a difference is itself hardly known. All interventions of a job are
measured in the same blocks with the same kind of window, so each variance is moderated towards
what all have in common (``variances``).
"""

import dataclasses
from collections.abc import Sequence
from typing import Literal

import numpy as np
from scipy import stats

from scaling_study.stats import variances
from scaling_study.stats.interval import Interval
from scaling_study.stats.intervals import Floats, Integers
from scaling_study.stats.thresholds import CONFIDENCE
from scaling_study.stats.variances import NO_PRIOR, Prior

Units = Literal["blocks", "replicates"]
ENOUGH_REPLICATES = 3
"""From this many starts on, the starts are the units."""


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
        np.array([over[replicates == one].mean() for one in starts]),
        np.array([under[replicates == one].mean() for one in starts]),
    )


def residuals(pairs: Pairs) -> tuple[float, float]:
    """Return the ratio of the means, and the variance of the numerators about that ratio."""
    ratio = float(pairs.over.mean() / pairs.under.mean())
    rest = pairs.over - ratio * pairs.under
    return ratio, float(rest.var(ddof=1)) if rest.size > 1 else np.nan


def fit_prior(comparisons: Sequence[Pairs]) -> Prior:
    """Return the common prior of the variances of some comparisons; `NO_PRIOR` for too few."""
    return variances.fit_prior(
        [(residuals(pairs)[1], len(pairs) - 1) for pairs in comparisons if len(pairs) > 1]
    )


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
    pooled = variances.moderated((count - 1) * variance, count - 1, prior)
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
    if not len(pairs):
        return None
    logs = np.log(pairs.over / pairs.under)
    center = float(logs.mean())
    if logs.size < 2:  # noqa: PLR2004 - a spread needs two
        return Interval(float(np.exp(center)))
    quantile = stats.t.ppf((1 + CONFIDENCE) / 2, logs.size - 1)
    reach = float(quantile * logs.std(ddof=1) / np.sqrt(logs.size))
    low, value, high = (float(np.exp(center + side * reach)) for side in (-1, 0, 1))
    return Interval(value, low, high)
