"""Throughput of every point that was measured, drawn from all fresh starts of a machine together.

The logarithm of a start's throughput at a process count is a sum:

    point + drift of the batch + layout bias of the start + rest

A batch is a job that measures several launches side by side, or right after each other. So the
machine's drift is common to all its starts, and cancels between them. A start's layout bias (memory
layout, placement) is common to all counts of its cohort: windows of one cohort are no replicates.

A study has two or three starts of a launch. If two differ by a factor of 7, Student's t interval
reaches from nearly 0 to over 200,000 times the value. So each launch has variances of its own,
between starts and in the rest, that are drawn towards those of all launches of the machine
(moderated variances: Smyth, Statistical Applications in Genetics and Molecular Biology 3(1), 2004).
Machines are never pooled.

Nothing is taken as known: variances, drift, bias and points are drawn together, by Gibbs sampling
(Gelman and Hill 2007, Data Analysis Using Regression and Multilevel/Hierarchical Models, chapter
18). Levels, ratios, models/hour and probabilities of being the best are all functions of the same
draws, so none contradicts another.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
from scipy.special import gammaln

from scaling_study.stats.interval import Floats, Integers, Interval
from scaling_study.stats.thresholds import CONFIDENCE

Point = tuple[str, int]
"""A launch and a process count."""

SWEEPS, BURN_IN, EACH = 200, 40, 20
"""Sweeps of the sampler that count and those before them; draws of the points in each, given its
variances."""
DRAWS = SWEEPS * EACH
MOST_NUMBERS = 2e7
"""In all draws of all points: a grid of thousands of points gets fewer draws."""
DRIFT, LAYOUT_BIAS, REST = 0.02, 0.02, 0.02
"""Spreads on the log scale before anything is measured, as quiet machines showed them. Two starts
of one launch differ by some percent (Mytkowicz et al. 2009, Producing Wrong Data Without Doing
Anything Obviously Wrong)."""
DRIFT_FREEDOM = 2.0
"""Degrees of freedom that the prior of the drift's spread is worth."""
FREEDOM = 8.0
"""Degrees of freedom that the common spread is worth in a launch's own."""
STRAYS, STRAY_TIMES, STRAY_FREEDOM = 0.03, 8.0, 2.0
"""Prior share of strays, launches whose spread is many times the common one; how many times, and
how many degrees of freedom that is worth. A larger share covers strays more often, and leaves a
race in doubt about each launch that was started once."""
PRIOR_SHAPE = 0.3
"""Shape of the gamma distribution of a common variance around its prior."""
SMALLEST = 5e-4
"""The smallest spread: throughput is not measured more precisely."""


@dataclass(frozen=True, slots=True)
class Start:
    """A fresh start of a launch that was measured.

    Attributes:
        launch: its id.
        batch: the job that it was measured in.
        rates: steps/s, or models/hour, by process count; empty where it failed.
        members: number of members that were started.
        start_s: time from the start to the first window.
        windows_s: time of all its windows.
        lost: counts that were asked for and could not be measured, since members ended.
        round, node: where it was measured; batches of a node come one after another.
    """

    launch: str
    batch: int | str
    rates: Mapping[int, float]
    members: int = 1
    start_s: float = 0.0
    windows_s: float = 0.0
    lost: tuple[int, ...] = ()
    round: str = ""
    node: str = ""

    @property
    def wall_s(self) -> float:
        """Return the time of the start and of all its windows."""
        return self.start_s + self.windows_s


@dataclass(frozen=True, slots=True)
class Throughputs:
    """Joint draws of the logarithm of a quantity at all points that were measured.

    Attributes:
        column: the index of each point.
        means: of the logarithm, by point.
        logs: draws times points.
        sure: whether some launch has several starts; without, nothing has an interval.
        drifts: each batch's drift, which adds to the logarithm of every throughput in it.
    """

    column: Mapping[Point, int]
    means: Floats
    logs: Floats
    sure: bool
    drifts: Mapping[int | str, float]

    def of(self, point: Point) -> Floats:
        """Return the draws of a point; NaN where it was not measured."""
        at = self.column.get(point)
        return np.full(len(self.logs), np.nan) if at is None else self.logs[:, at]

    def mean(self, point: Point) -> float:
        """Return the mean logarithm of a point; NaN where it was not measured."""
        at = self.column.get(point)
        return np.nan if at is None else float(self.means[at])

    def level(self, point: Point) -> Interval:
        """Return the quantity at a point."""
        return interval_of(self.of(point), self.mean(point), sure=self.sure)

    def ratio(self, over: Point, under: Point) -> Interval:
        """Return the ratio of two points."""
        logs, mean = self.of(over) - self.of(under), self.mean(over) - self.mean(under)
        return interval_of(logs, mean, sure=self.sure)

    def scatter(self, launch: str) -> Floats:
        """Return the deviation of each point of a launch, by n, without the part that all share."""
        logs = self.logs[:, [at for (name, _), at in sorted(self.column.items()) if name == launch]]
        return np.asarray((logs - logs.mean(axis=1, keepdims=True)).std(axis=0))

    def probabilities(self, shown: Mapping[str, int], tolerance: float) -> dict[str, float]:
        """Return the probability that a point of each launch is as good as the best of all.

        Args:
            shown: n of the point in question, by launch; the best of a draw is that of all points
                of these launches.
            tolerance: share of the best below which a difference does not count.

        Returns:
            By launch; empty if no launch has two starts.
        """
        if not self.sure:
            return {}
        rivals = [at for (launch, _), at in self.column.items() if launch in shown]
        enough = self.logs[:, rivals].max(axis=1) + np.log1p(-tolerance)
        return {name: float((self.of((name, n)) >= enough).mean()) for name, n in shown.items()}

    def of_one_process(self) -> "Throughputs":
        """Return the throughput of one process, of each launch with its fewest processes."""
        fewest = dict(sorted(self.column, reverse=True))
        kept = [self.column[point] for point in fewest.items()]
        column = {point: at for at, point in enumerate(fewest.items())}
        alone = np.log([*fewest.values()])
        means, logs = self.means[kept] - alone, self.logs[:, kept] - alone
        return replace(self, column=column, means=means, logs=logs)

    def models_per_hour(
        self, steps_per_model: float, beside_s: Callable[[str, int], Floats | None]
    ) -> "Throughputs":
        """Return models per hour, where these are steps per second.

        A slot trains a model in the time beside its steps, which includes the first step, and that
        of its further steps, at its share of the throughput.

        Args:
            steps_per_model: steps that train one model.
            beside_s: returns draws of the time (s) beside the steps of a launch at a count; None if
                it is not known.
        """
        both = np.vstack([self.means, self.logs])
        for (launch, n), at in self.column.items():
            more_s = beside_s(launch, n)
            model_s = (steps_per_model - (more_s is not None)) * n / np.exp(both[:, at])
            if more_s is not None:
                mean_s = np.exp(np.log(more_s).mean())
                model_s += np.concatenate([[mean_s], more_s[: len(self.logs)]])
            both[:, at] = np.log(3600 * n / model_s)
        return replace(self, means=both[0], logs=both[1:])


def interval_of(logs: Floats, mean: float, *, sure: bool = True) -> Interval:
    """Return a quantity from draws of its logarithm, with the 95% interval if that is sure."""
    value, tail = float(np.exp(mean)), (1 - CONFIDENCE) / 2
    if not sure or np.isnan(mean):
        return Interval(value)
    low, high = np.exp(np.quantile(logs, (tail, 1 - tail)))
    return Interval(value, float(low), float(high))


def fit(
    starts: Sequence[Start], seed: int = 1, sweeps: int = SWEEPS, *, strays: float = STRAYS
) -> Throughputs:
    """Draw the throughputs of all points.

    Args:
        starts: starts on one machine.
        seed: seed of the draws.
        sweeps: sweeps of the sampler that count.
        strays: prior share of launches that scatter many times as much as others.

    Returns:
        No point if no start has a rate.
    """
    if not any(start.rates for start in starts):
        return Throughputs({}, np.empty(0), np.empty((sweeps * EACH, 0)), sure=False, drifts={})
    return _Sampler(starts, seed, strays).run(sweeps)


class _Sampler:
    """The Gibbs sampler. Effects of starts are in arrays (launches, most starts of a launch)."""

    def __init__(self, starts: Sequence[Start], seed: int, strays: float) -> None:
        self._strays = strays
        starts = [start for start in starts if start.rates]
        # Other data has other draws: two machines must not share their errors. Rates that differ
        # in their last digits only, as those read from a table do, have the same.
        rates = [
            (start.launch, n, f"{rate:.9g}") for start in starts for n, rate in start.rates.items()
        ]
        self._rng = np.random.default_rng([seed, zlib.crc32(repr(rates).encode())])
        rows = [(start, n) for start in starts for n in sorted(start.rates)]
        points = sorted({(start.launch, n) for start, n in rows})
        self._column = {point: at for at, point in enumerate(points)}
        names = [start.launch for start in starts]
        launches, launch_of, counts = np.unique(names, return_inverse=True, return_counts=True)
        place_of = pd.Series(names).groupby(names).cumcount().to_numpy()
        sizes = [len(start.rates) for start in starts]
        self._counts = counts.astype(np.float64)
        self._launch, self._start = np.repeat(launch_of, sizes), np.repeat(place_of, sizes)
        self._cell = np.array([self._column[start.launch, n] for start, n in rows])
        self._launch_of_cell = np.searchsorted(launches, [launch for launch, _ in points])
        # A batch with a single start shows no drift: it is part of the start's own bias.
        batches = [*dict.fromkeys(start.batch for start in starts)]
        self._batches = batches if len(batches) < len(starts) else []
        numbers = {batch: at for at, batch in enumerate(self._batches)}
        self._batch = np.array([numbers.get(start.batch, 0) for start, _ in rows])
        self._logs = np.log([start.rates[n] for start, n in rows])
        self._each = max(1, min(EACH, int(MOST_NUMBERS / (SWEEPS * len(points)))))
        self._prepare()

    def _prepare(self) -> None:
        """Compute the sums of products that all sweeps share, of deviations from cells' means."""
        most, batches, launches = int(self._counts.max()), len(self._batches), len(self._counts)
        self._mask = np.arange(most) < self._counts[:, None]
        of_start = np.eye(most)[self._start]
        of_batch = np.eye(batches)[self._batch] if batches else np.zeros((len(self._logs), 0))
        self._per_cell = np.bincount(self._cell).astype(np.float64)
        self._means = self._cell_means(self._logs)
        self._start_shares, self._batch_shares = map(self._cell_means, (of_start, of_batch))
        apart = of_start - self._start_shares[self._cell]
        drifting = of_batch - self._batch_shares[self._cell]
        logs = self._logs - self._means[self._cell]
        sums = partial(_sums, self._launch, launches)
        self._xx = sums(apart[:, :, None] * apart[:, None, :])
        self._xz = sums(apart[:, :, None] * drifting[:, None, :])
        self._zz = sums(drifting[:, :, None] * drifting[:, None, :])
        self._xy, self._zy = sums(apart * logs[:, None]), sums(drifting * logs[:, None])
        self._rows_of = np.bincount(self._launch, minlength=launches).astype(np.float64)

    def _cell_means(self, values: Floats) -> Floats:
        sums = _sums(self._cell, len(self._per_cell), values)
        return np.asarray(sums / self._per_cell.reshape(-1, *[1] * (values.ndim - 1)))

    def run(self, sweeps: int) -> Throughputs:
        """Sample, and return the draws."""
        launches = len(self._counts)
        drift = DRIFT**2
        bias_of, rest_of = (_Spreads(prior, self._strays) for prior in (LAYOUT_BIAS, REST))
        bias, rest = np.full(launches, LAYOUT_BIAS**2), np.full(launches, REST**2)
        points, drifts = [], []
        for _ in range(BURN_IN + sweeps):
            by_batch, by_start = self._effects(drift, bias, rest)
            logs = self._points(by_batch, by_start, rest)
            points.append(logs)
            drifts.append(by_batch[:, 0])
            # The first draw is the mean; the spreads are drawn beside the second one.
            start_bias = by_start[:, :, 1] * self._mask
            bias = bias_of.draw(self._rng, (start_bias**2).sum(axis=1), self._counts)
            left = self._logs - logs[1, self._cell] - start_bias[self._launch, self._start]
            if self._batches:
                left -= by_batch[self._batch, 1]
                square = float((by_batch[:, 1] ** 2).sum()) + DRIFT_FREEDOM * DRIFT**2
                count = len(self._batches) + DRIFT_FREEDOM
                drift = max(SMALLEST**2, square / (2 * self._rng.gamma(count / 2)))
            squares = np.bincount(self._launch, left**2, launches).astype(np.float64)
            rest = rest_of.draw(self._rng, squares, self._rows_of)
        drawn = np.array(points[BURN_IN:])
        return Throughputs(
            self._column,
            drawn[:, 0].mean(axis=0),
            drawn[:, 1:].reshape(-1, drawn.shape[2]),
            bool((self._counts > 1).any()),
            dict(zip(self._batches, np.mean(drifts[BURN_IN:], axis=0).tolist(), strict=True)),
        )

    def _effects(self, drift: float, bias: Floats, rest: Floats) -> tuple[Floats, Floats]:
        """Draw the drift (batches, draws) and the bias of starts (launches, starts, draws)."""
        batches, most = len(self._batches), self._mask.shape[1]
        within = rest[:, None, None]
        inverse = np.linalg.inv(self._xx / within + np.eye(most) / bias[:, None, None])
        xy, xz = self._xy / rest[:, None], self._xz / within
        by_batch = np.zeros((batches, 1 + self._each))
        if batches:
            gain = inverse @ xz
            precision = (self._zz / within).sum(axis=0) - np.einsum("ltb,ltc->bc", gain, xz)
            moment = (self._zy / rest[:, None]).sum(axis=0) - np.einsum("ltb,lt->b", gain, xy)
            covariance = np.linalg.inv(precision + np.eye(batches) / drift)
            noise = np.linalg.cholesky(covariance) @ self._noise(batches)
            by_batch = (covariance @ moment)[:, None] + noise
        by_start = inverse @ (xy[:, :, None] - xz @ by_batch)
        return by_batch, by_start + np.linalg.cholesky(inverse) @ self._noise(*self._mask.shape)

    def _points(self, by_batch: Floats, by_start: Floats, rest: Floats) -> Floats:
        """Draw the points (draws, points) beside some effects."""
        shared = np.einsum("cs,csj->cj", self._start_shares, by_start[self._launch_of_cell])
        means = self._means[:, None] - shared - self._batch_shares @ by_batch
        spreads = np.sqrt(rest[self._launch_of_cell] / self._per_cell)
        return np.asarray((means + self._noise(len(means)) * spreads[:, None]).T)

    def _noise(self, *shape: int) -> Floats:
        """Return standard normal numbers for all draws but the first, which is the mean."""
        noise = self._rng.standard_normal((*shape, 1 + self._each))
        noise[..., 0] = 0.0
        return noise


def _sums(group: Integers, groups: int, values: Floats) -> Floats:
    """Return the sums of the rows of each group."""
    totals = np.zeros((groups, *values.shape[1:]))
    np.add.at(totals, group, values)
    return totals


class _Spreads:
    """The variances of launches in one term, and what they have in common.

    Args:
        prior: the common spread before anything is measured.
        strays: prior share of launches with another spread.
    """

    def __init__(self, prior: float, strays: float) -> None:
        self._odds = strays / (1 - strays)
        self._prior, self._common = prior**2, prior**2

    def draw(self, rng: np.random.Generator, squares: Floats, counts: Floats) -> Floats:
        """Draw each launch's variance from its sum of squares, and then the common one."""
        freedoms = np.array([[FREEDOM], [STRAY_FREEDOM]])
        times = np.array([[1.0], [STRAY_TIMES**2]])
        prior = freedoms * times * self._common
        both = freedoms + counts
        evidence = gammaln(both / 2) - gammaln(freedoms / 2)
        evidence += freedoms / 2 * np.log(prior) - both / 2 * np.log(prior + squares)
        odds = np.exp(evidence[1] - evidence[0]) * self._odds
        stray = (rng.random(len(squares)) < odds / (1 + odds)).astype(np.int64)
        launch = np.arange(len(squares))
        freedom, scale = freedoms[stray, 0], times[stray, 0]
        drawn = (squares + prior[stray, 0]) / (2 * rng.gamma(both[stray, launch] / 2))
        variances = np.maximum(SMALLEST**2, drawn)
        rate = PRIOR_SHAPE / self._prior + float((freedom * scale / variances).sum()) / 2
        self._common = float(rng.gamma(PRIOR_SHAPE + freedom.sum() / 2) / rate)
        return np.asarray(variances)
