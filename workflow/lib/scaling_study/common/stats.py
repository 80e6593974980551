"""Intervals, ratios, probabilities and quantiles.

The statistical unit is the replicate: windows and steps inside one cohort share its memory layout,
its placement and its neighbours, so they are averaged first. A study has few replicates, often
three. Resampling three values with replacement never leaves their range, and the percentile
interval that this gives covers the truth three times in four instead of 95 in 100
(tests/test_stats.py shows it). What is done instead is a bootstrap over replicates with Gaussian
multipliers (van der Vaart and Wellner, Weak Convergence and Empirical Processes, 1996, ch. 2.9) on
the logarithm. Studentised, its interval has a closed form, Student's t interval, so intervals need
no drawing. Two process counts of one launch are measured in the same cohorts, so their ratio is
paired by replicate; two launches have replicates of their own, so their ratio is Welch's.

Probabilities are drawn, without studentising: among hundreds of points the heavy tails of a t
distribution with two degrees of freedom would make some far slower point "best" in most draws.
"""

import dataclasses
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

CONFIDENCE = 0.95
INTERVAL = (
    "95%: studentised bootstrap over replicates on the log scale, in its closed form: Student's t "
    "(paired by replicate within a launch, Welch's between launches); none with one replicate"
)
DRAWS = 4000  # a share near one half is then known to 0.008
STEP_BITS = 32  # record_schema.LARGEST_STEP_US
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclasses.dataclass(frozen=True, slots=True)
class Estimate:
    """A positive quantity with its 95% interval; NaN where there is none."""

    value: float
    low: float
    high: float


def geometric_means(logs: "pd.api.typing.SeriesGroupBy[Any, Any]") -> pd.DataFrame:
    """Geometric mean and interval of every group at once.

    Args:
        logs: Logarithm of one value per replicate, grouped.

    Returns:
        Columns value, low, high in the unit of the values; a row per group. Low and high are NaN
        in a group of one.
    """
    mean, count = logs.mean(), logs.count()
    reach = stats.t.ppf((1 + CONFIDENCE) / 2, count - 1) * logs.std() / np.sqrt(count)
    return pd.DataFrame(
        {"value": np.exp(mean), "low": np.exp(mean - reach), "high": np.exp(mean + reach)},
    )


def ratio(over: Floats, under: Floats) -> Estimate:
    """Ratio of the geometric means of two launches.

    Args:
        over: One positive value per replicate.
        under: Those of another launch, in the same unit; the replicates are not paired.

    Returns:
        over / under with Welch's interval on the log scale; no interval if either has one
        replicate, no value if either has none.
    """
    if not over.size or not under.size:
        return Estimate(np.nan, np.nan, np.nan)
    logs = np.log(over), np.log(under)
    value = float(np.exp(logs[0].mean() - logs[1].mean()))
    if min(over.size, under.size) < 2:  # noqa: PLR2004 - a spread needs two
        return Estimate(value, np.nan, np.nan)
    if not over.std() and not under.std():
        return Estimate(value, value, value)
    interval = stats.ttest_ind(*logs, equal_var=False).confidence_interval(CONFIDENCE)
    return Estimate(value, float(np.exp(interval.low)), float(np.exp(interval.high)))


def paired_ratio(over: Floats, under: Floats) -> Estimate:
    """Ratio of two process counts of one launch.

    Args:
        over: One positive value per replicate, NaN where it is missing.
        under: The same replicates' values, in the same unit.

    Returns:
        over / under over the replicates that have both; no interval with one, no value with none.
    """
    logs = pd.Series(np.log(over / under)).dropna()
    if logs.empty:
        return Estimate(np.nan, np.nan, np.nan)
    value, low, high = geometric_means(logs.groupby(np.zeros(len(logs)))).iloc[0].tolist()
    return Estimate(value, low, high)


def probabilities_of_best(
    throughputs: Mapping[str, Floats],
    shown: Mapping[str, int],
    *,
    tolerance: float,
    seed: int,
) -> dict[str, float]:
    """How surely a point of each launch is as good as the best of all.

    In every draw each launch's replicates are given Gaussian multipliers, the same for all of its
    process counts, and the best point of all launches is found anew. A point counts as best in a
    draw if it is within `tolerance` of that. A point with one replicate takes the median spread of
    the others.

    Args:
        throughputs: Per launch, replicates times points; NaN where a replicate lacks a point.
        shown: Per launch, the index of the point that is asked for.
        tolerance: Share of the best throughput that is no difference.
        seed: Of the draws.

    Returns:
        Share of draws per launch; empty if no point at all has two replicates.
    """
    logs = {launch: np.log(rates) for launch, rates in throughputs.items()}
    spreads = np.concatenate([_spread(values) for values in logs.values()] or [np.empty(0)])
    if np.isnan(spreads).all():
        return {}
    lone_spread = float(np.nanmedian(spreads))
    best = np.full(DRAWS, -np.inf)
    drawn = {}
    for launch, values in logs.items():
        rng = np.random.default_rng([seed, zlib.crc32(launch.encode())])
        draws = _draw(values, lone_spread, rng)
        best = np.maximum(best, draws.max(axis=1))
        drawn[launch] = draws[:, shown[launch]].copy()
    enough = best + np.log1p(-tolerance)
    return {launch: float((draws >= enough).mean()) for launch, draws in drawn.items()}


def _spread(values: Floats) -> Floats:
    """Standard deviation per column; NaN with fewer than two values."""
    return pd.DataFrame(values).std().to_numpy(dtype=np.float64)


def _draw(values: Floats, lone_spread: float, rng: np.random.Generator) -> Floats:
    """DRAWS means of every column under shared multipliers of the rows."""
    count = np.isfinite(values).sum(axis=0)
    mean = np.nanmean(values, axis=0)
    # sum of z_r (x_r - mean) / sqrt(R (R - 1)) has the variance of a mean of R values: s^2 / R.
    deviations = np.nan_to_num(values - mean) / np.sqrt(np.maximum(count * (count - 1), 1))
    draws = mean + rng.standard_normal((DRAWS, len(values))) @ deviations
    lone = count == 1
    draws[:, lone] += lone_spread * rng.standard_normal((DRAWS, lone.sum()))
    return np.asarray(draws, dtype=np.float64)


def grouped_quantiles(
    groups: Integers,
    values: Integers,
    count: int,
    quantiles: Sequence[float],
) -> Floats:
    """Quantiles within groups, all groups in one sort.

    Args:
        groups: Group of each value, from 0.
        values: Non-negative, below 2**STEP_BITS.
        count: Number of groups, below 2**31.
        quantiles: Each from 0 to 1.

    Returns:
        Groups times quantiles, linear between order statistics as numpy.quantile does by default;
        NaN for an empty group.
    """
    ordered = np.sort((groups << STEP_BITS) | values) & (2**STEP_BITS - 1)
    sizes = np.bincount(groups, minlength=count)
    starts = np.cumsum(sizes) - sizes
    found = np.full((count, len(quantiles)), np.nan)
    filled = sizes > 0
    for column, quantile in enumerate(quantiles):
        position = starts[filled] + quantile * (sizes[filled] - 1)
        below = np.floor(position).astype(np.int64)
        above = np.ceil(position).astype(np.int64)
        found[filled, column] = ordered[below] + (position - below) * (
            ordered[above] - ordered[below]
        )
    return found
