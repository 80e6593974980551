"""A curve that is level up to a knee and then a power of n, fitted to the times of a step.

Model
    T(n) is level up to a knee k and then grows as a power of n: log T = a + b * s * softplus((log n
    - log k) / s), whose limit s = 0 is a sharp knee. b = 1 is growth in proportion, as when a
    resource of fixed size is shared out: throughput stays where it is. b > 1 is worse, throughput
    falls. The model describes what was measured; it is never extrapolated.

Scatter
    Cohorts differ in level (memory layout, neighbours), which says nothing about shape, so each
    replicate has a level of its own. What remains between replicates at the same n is the pure
    error; the scatter of the means around the model is lack of fit (Draper and Smith, Applied
    Regression Analysis, 1998, ch. 2). Where the two agree they are pooled, otherwise the lack of
    fit is the error, since then more replicates do not make the model truer.

Intervals
    Profile likelihood: all knees (exponents) whose best fit is not significantly worse than the
    best of all, by F on the error's degrees of freedom (Bates and Watts, Nonlinear Regression
    Analysis, 1988, ch. 6). A percentile bootstrap over three replicates would cover the truth three
    times in four (see ``stats``); tests/test_signature.py shows that these intervals cover it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats as distributions

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from scaling_study.stats.intervals import Floats

CONFIDENCE = 0.95
COUNTS_FOR_SHARPNESS = 6
"""A fourth parameter, and still two counts more than parameters."""
SHARPNESS = (0.0, 0.1, 0.2, 0.4, 0.8)
"""Natural logarithm of n over which the bend goes: 0.8 is a factor of 2 either way."""
KNEES = 600
"""Of the grid: 1% apart on a ladder to 192."""
RESOLUTION = 1e-3
"""Relative: no step time is known better, whatever the scatter of a few."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Means of log T over replicates, at each count, and the pure error of single values."""

    n: Floats
    logs: Floats
    weights: Floats
    error: float
    error_df: int


@dataclass(frozen=True, slots=True)
class Fit:
    """A grid of fits: exponent, squares and their curvature by knee and sharpness."""

    knees: Floats
    exponents: Floats
    squares: Floats
    curvatures: Floats
    limit: float
    """Squares up to this are not significantly worse than the best."""
    growth: float
    p_flat: float

    @property
    def accepted(self) -> NDArray[np.bool_]:
        """Whether each fit is within the interval."""
        return self.squares <= self.limit

    @property
    def best(self) -> tuple[np.intp, ...]:
        """Index of the best fit; the sharpest of equal ones."""
        return np.unravel_index(int(self.squares.argmin()), self.squares.shape)


def curve_of(rows: pd.DataFrame, counts: Floats) -> Curve:
    """Separate counts from replicates by least squares (additive in the logarithm)."""
    n = rows["n"].to_numpy(dtype=np.float64)
    logs = np.log(n / rows["steps_per_s"].to_numpy(dtype=np.float64))
    at = np.searchsorted(counts, n)
    names, of = np.unique(rows["replicate"].to_numpy(), return_inverse=True)
    design = np.zeros((len(rows), len(counts) + len(names) - 1))
    design[np.arange(len(rows)), at] = 1.0
    later = of > 0  # the first replicate has the level of the counts
    design[np.flatnonzero(later), len(counts) + of[later] - 1] = 1.0
    found, _, rank, _ = np.linalg.lstsq(design, logs, rcond=None)
    error = float(((logs - design @ found) ** 2).sum())
    weights = np.bincount(at, minlength=len(counts)).astype(np.float64)
    return Curve(counts, found[: len(counts)], weights, error, len(rows) - int(rank))


def fit_knee(curve: Curve) -> Fit:
    """Fit every knee and sharpness of a grid; level and exponent have a closed form."""
    sharp = SHARPNESS if len(curve.n) >= COUNTS_FOR_SHARPNESS else SHARPNESS[:1]
    knees = np.union1d(np.geomspace(curve.n[0], curve.n[-1], KNEES), curve.n)[:-1]
    past = np.log(curve.n) - np.log(knees)[:, None]
    shapes = np.stack(
        [s * np.logaddexp(0.0, past / s) if s else past.clip(min=0.0) for s in sharp], axis=1
    )
    shapes -= np.average(shapes, axis=2, weights=curve.weights)[..., None]
    logs = curve.logs - np.average(curve.logs, weights=curve.weights)
    curvatures = (curve.weights * shapes**2).sum(axis=2)
    exponents = ((curve.weights * shapes * logs).sum(axis=2) / curvatures).clip(min=0.0)
    left = logs - exponents[..., None] * shapes
    squares = (curve.weights * left**2).sum(axis=2)
    parameters = 3 if len(sharp) == 1 else 4
    variance, df = _error(curve, float(squares.min()), len(curve.n) - parameters)
    reach = float(distributions.f.ppf(CONFIDENCE, 1, df))
    flat = float((curve.weights * logs**2).sum())
    tested = parameters - 1
    f_flat = (flat - float(squares.min())) / tested / variance
    knee, s = np.unravel_index(int(squares.argmin()), squares.shape)
    rise = exponents[knee, s] * (shapes[knee, s, -1] - shapes[knee, s, 0])
    return Fit(
        knees=knees,
        exponents=exponents,
        squares=squares,
        curvatures=curvatures,
        limit=float(squares.min()) + variance * reach,
        growth=float(np.exp(rise)),
        p_flat=float(distributions.f.sf(f_flat, tested, df)),
    )


def _error(curve: Curve, squares: float, df: int) -> tuple[float, int]:
    """The variance of a single value, and its degrees of freedom."""
    variance = squares / df
    if curve.error_df:
        pure = curve.error / curve.error_df
        lack = variance / pure if pure > 0 else np.inf
        if distributions.f.sf(lack, df, curve.error_df) >= 1 - CONFIDENCE:
            df, variance = df + curve.error_df, (squares + curve.error) / (df + curve.error_df)
    return max(variance, RESOLUTION**2), df


def knee_interval(fit: Fit) -> dict[str, float]:
    """The knee of the best fit and its interval, in processes: value, low, high."""
    inside = np.flatnonzero(fit.accepted.any(axis=1))
    # The interval's ends lie between the last accepted knees of the grid and the next.
    low, high = max(inside[0] - 1, 0), min(inside[-1] + 1, len(fit.knees) - 1)
    return {
        "value": float(fit.knees[fit.best[0]]),
        "low": float(fit.knees[low]),
        "high": float(fit.knees[high]),
    }


def exponent_interval(fit: Fit) -> dict[str, float]:
    """The exponent of the best fit and its interval: value, low, high."""
    accepted = fit.accepted
    reach = np.sqrt((fit.limit - fit.squares[accepted]) / fit.curvatures[accepted])
    middle = fit.exponents[accepted]
    return {
        "value": float(fit.exponents[fit.best]),
        "low": float((middle - reach).clip(min=0.0).min()),
        "high": float((middle + reach).max()),
    }
