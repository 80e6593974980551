"""How much starts of one launch differ, learnt from all launches of a machine together.

Two or three starts say little about the variance of one launch. All launches together say much:
their variances scatter around a common one, which is worth some degrees of freedom in the variance
of each. If the common variance is worth d0 of them and a launch has d of its own, its variance is
estimated as (d0 common + d own) / (d0 + d) (`moderated`). These are the moderated variances of
Smyth (Statistical Applications in Genetics and Molecular Biology 3(1), 2004). The common variance
comes from

- the variances' own scatter, integrated over its possible values, where launches have two or three
  replicates each (`deviations`; all intervals of throughputs);
- the moments of their logarithms, where all comparisons are of one kind (`fit_prior`; all shares
  from experiments);
- restricted maximum likelihood, where launches were raced and the machine drifted
  (``throughputs``);
- earlier measurements of quiet machines, where a single launch was started (`start_deviation`).

`deviations` has three levels. A spread is the standard deviation of log throughput between the
replicates of a point.

machine
    The launches' spreads are log-normal around a common one.
launch
    The spreads of a launch's process counts are log-normal around the launch's.
strays
    Some launches, and some counts of a launch, have a spread at least `STRAY_FROM` times larger, of
    any size (Phipson et al., Annals of Applied Statistics 10(2), 2016). A launch with a tenfold
    spread keeps it.

Smyth and Phipson estimate the common spread and then take it as known, which needs hundreds of
variances. A study may have two. Here the common spread and the scatter around it stay uncertain:
they are integrated over a grid, together with the spreads.

Counts of a launch are measured in the same cohorts, so their deviations are correlated. K counts
with correlation r show as much about a variance as K / (1 + (K - 1) r^2) independent ones. The
likelihood of a launch's counts is tempered to that number.

``benchmarks/intervals.py`` prints the coverage and width of the intervals.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import optimize
from scipy.special import digamma, ndtr, ndtri, polygamma

from scaling_study.stats.thresholds import CONFIDENCE

Floats = NDArray[np.float64]

Numbers = TypeVar("Numbers", float, "Floats")
"""A number, or an array of numbers."""
QUANTILE = float(ndtri((1 + CONFIDENCE) / 2))
SMALLEST = 5e-4
"""The smallest spread: throughput is not measured more precisely."""
LARGEST = 1.5
"""The largest spread: one start in three is then more than 4.5 times faster or slower than the
typical one. The worst launch that was seen (17, 90 and 193 s for the same models) has 1.3."""
SPREADS = np.geomspace(SMALLEST, LARGEST, 56)
STRAY_LAUNCHES = 0.25
"""Prior share of strays. It is high on purpose: a stray that is taken for an ordinary launch gets
an interval far too narrow; an ordinary launch that is taken for a stray, one a little too wide."""
STRAY_COUNTS = 0.05
STRAY_FROM = 5.0
LAUNCH_SCATTERS = (0.1, 0.2, 0.4)
"""Possible standard deviations of the logarithm of a launch's spread around the common one."""
COUNT_SCATTER = 0.3
"""The standard deviation of the logarithm of a count's spread around its launch's."""
DEPENDENT_LAUNCHES = 2
"""Fully correlated launches, added to those measured: a few launches cannot show independence."""
WIDEST = 3.0
"""Half an interval is less than this many times the largest deviation of its mixture."""
BISECTIONS = 16
"""Bisections of the logarithm of half an interval, which give it to within 0.0002 of itself."""
LEAST = 1e-300
"""The smallest likelihood, so that its logarithm stays finite."""
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


@dataclass(frozen=True, slots=True)
class Points:
    """All points of a machine, one after another.

    Attributes:
        launch: index of each point's launch.
        counts: replicates of each point.
        squares: sum of squares of each point around its mean.
    """

    launch: NDArray[np.intp]
    counts: NDArray[np.int64]
    squares: Floats

    @property
    def degrees(self) -> NDArray[np.int64]:
        """Return the degrees of freedom of each point's variance."""
        return np.maximum(self.counts - 1, 0)


def _kernel(strays: float, scatter: float) -> Floats:
    """Return the probabilities of `SPREADS` (columns) around each of them (rows)."""
    steps = np.log(SPREADS) - np.log(SPREADS)[:, None]
    near = np.exp(-((steps / scatter) ** 2) / 2)
    far = (steps >= np.log(STRAY_FROM)).astype(np.float64)
    far[far.sum(axis=1) == 0, -1] = 1.0
    near, far = (each / each.sum(axis=1, keepdims=True) for each in (near, far))
    return np.asarray((1 - strays) * near + strays * far)


COUNT_KERNEL = _kernel(STRAY_COUNTS, COUNT_SCATTER)
LAUNCH_PRIORS = np.concatenate([_kernel(STRAY_LAUNCHES, each) for each in LAUNCH_SCATTERS])


def deviations(logs: Mapping[str, Floats]) -> tuple[dict[str, Floats], float]:
    """Return the standard deviation of the mean of every point.

    Args:
        logs: Per launch of one machine, an array (replicates, points); NaN where a replicate lacks
            a point.

    Returns:
        Per launch, the standard deviation of a normal distribution that has the 95% interval of
        each point's mean, NaN if no point of the machine has two replicates; and the correlation
        between two counts of a launch.
    """
    if not logs:
        return {}, 1.0
    points = _points(logs)
    correlation = _correlation(logs)
    found = np.full(len(points.counts), np.nan)
    if (points.counts > 1).any():
        found = _reaches(points, _posteriors(points, correlation)) / QUANTILE
        found[points.counts == 0] = np.nan
    ends = np.cumsum([values.shape[1] for values in logs.values()])[:-1]
    return dict(zip(logs, np.split(found, ends), strict=True)), correlation


def _points(logs: Mapping[str, Floats]) -> Points:
    counts, squares = [], []
    for values in logs.values():
        count = np.isfinite(values).sum(axis=0)
        mean = np.nansum(values, axis=0) / np.where(count, count, np.nan)
        counts.append(count)
        squares.append(np.nansum((values - mean) ** 2, axis=0))
    sizes = [len(count) for count in counts]
    return Points(
        np.repeat(np.arange(len(sizes)), sizes), np.concatenate(counts), np.concatenate(squares)
    )


def _posteriors(points: Points, correlation: float) -> Floats:
    """Return the probabilities of `SPREADS` for every point."""
    degrees, launch = points.degrees, points.launch
    # chi-square likelihood of the point's own spread, up to a factor
    own = -degrees[:, None] * np.log(SPREADS) - points.squares[:, None] / (2 * SPREADS**2)
    own = np.exp(own - own.max(axis=1, keepdims=True))
    messages = np.log(np.maximum(own @ COUNT_KERNEL.T, LEAST))  # about the launch's spread
    sums = np.zeros((launch[-1] + 1, len(SPREADS)))
    np.add.at(sums, launch, np.where(degrees[:, None] > 0, messages, 0.0))
    informed = np.bincount(launch, weights=degrees > 0)
    effective = informed / (1 + np.maximum(informed - 1, 0) * correlation**2)
    tempered = np.exp((effective / np.maximum(informed, 1))[:, None] * sums)
    marginal = np.maximum(tempered @ LAUNCH_PRIORS.T, LEAST)  # launches times priors
    weights = np.log(marginal).sum(axis=0)
    weights = np.exp(weights - weights.max())
    # The other counts of a launch add the effective number of counts without the point itself.
    mine = (degrees > 0).astype(np.int64)
    share = (effective[launch] - mine) / np.maximum(informed[launch] - mine, 1)
    others = np.exp(share[:, None] * (sums[launch] - np.where(mine[:, None], messages, 0.0)))
    # Each launch's evidence is in the weights and again in its point: divide it out once.
    prior = ((weights / marginal) @ LAUNCH_PRIORS)[launch] * others
    found = (prior @ COUNT_KERNEL) * own
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def _correlation(logs: Mapping[str, Floats]) -> float:
    """Return the correlation between counts of a launch, from how often deviations agree in sign.

    Signs do not depend on spreads. For normal deviations their mean product is 2 / pi asin(r).
    """
    agreements = [1.0] * DEPENDENT_LAUNCHES
    for values in logs.values():
        several = values[:, np.isfinite(values).sum(axis=0) > 1]
        means = np.nansum(several, axis=0) / np.isfinite(several).sum(axis=0)
        signs = np.nan_to_num(np.sign(several - means))
        pairs = np.abs(signs).T @ np.abs(signs)
        np.fill_diagonal(pairs, 0.0)
        if pairs.any():
            agreements.append(float((signs.T @ signs)[pairs > 0].sum() / pairs.sum()))
    return float(np.sin(np.pi / 2 * max(float(np.mean(agreements)), 0.0)))


def _reaches(points: Points, weights: Floats) -> Floats:
    """Return half the 95% interval of each mean, which is a mixture of normal distributions."""
    deviations_ = SPREADS / np.sqrt(np.maximum(points.counts, 1))[:, None]
    low, high = deviations_[:, 0], WIDEST * deviations_[:, -1]
    for _ in range(BISECTIONS):
        middle = np.sqrt(low * high)
        outside = 2 * (weights * ndtr(-middle[:, None] / deviations_)).sum(axis=1)
        low = np.where(outside > 1 - CONFIDENCE, middle, low)
        high = np.where(outside > 1 - CONFIDENCE, high, middle)
    return high
