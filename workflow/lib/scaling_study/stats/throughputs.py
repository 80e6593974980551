"""Throughput of every point that was measured, estimated from all fresh starts together.

The logarithm of a start's throughput at a process count is a sum:

    point + drift of the batch + layout bias of the start + rest

A batch is a job that measures several launches side by side, or right after each other. So the
machine's drift is common to all its starts, and cancels between them. A start's layout bias (memory
layout, placement) is common to all counts of its cohort: windows of one cohort are no replicates.
Points have a flat prior; the other terms are random effects. Their spreads are those that make the
data most likely (restricted maximum likelihood, by expectation and maximisation over Henderson's
equations: Robinson, Statistical Science 6(1), 1991), with weak priors, since a race begins with
three starts. Each launch has spreads of its own, between starts and in the rest, which are
moderated towards those of all launches (``variances``). So a launch with two modes has large
spreads and leaves the others' small.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scaling_study.stats.intervals import Floats, Integers
from scaling_study.stats.variances import SMALLEST, START_SD, Prior, moderated

Point = tuple[str, int]
"""A launch and a process count."""

PRIOR_FREEDOM = 2.0
"""Number of batches that the prior of the drift's spread is worth."""
PRIOR_LAUNCHES = 0.5
"""Number of launches that the prior of a common spread is worth. It is small, since small spreads
weigh most in a harmonic mean."""
DRIFT, LAYOUT_BIAS, REST = 0.02, START_SD, 0.01
"""Spreads on the log scale before anything is measured, as quiet machines showed them."""
MODERATION = 4.0
"""Degrees of freedom that the launches' common spread between starts is worth in a launch's own."""
REST_MODERATION = 12.0
"""The same for the rest: fewer launches differ in it, and each has more observations."""
ITERATIONS = 25
"""Rounds of expectation and maximisation. After these the spreads change by less than 1%."""


@dataclass(frozen=True, slots=True)
class Start:
    """A fresh start of a launch that was measured.

    Attributes:
        launch: its id.
        batch: number of the job that it was measured in.
        rates: steps/s, or models/hour, by process count; empty where it failed.
        members: number of members that were started.
        start_s: time from the start to the first window.
        windows_s: time of all its windows.
        lost: counts that were asked for and could not be measured, since members ended.
        round, node: where it was measured; batches of a node come one after another.
    """

    launch: str
    batch: int
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


class Throughputs:
    """Log throughputs of all points that were measured, with their uncertainty.

    Args:
        starts: starts on one machine; some with rates.

    Attributes:
        points: all points that were measured.
        column: index of each point in ``points``.
        drift, luck: spreads of the batches' drift and the starts' layout bias, on the log scale.
        drifts: each batch's drift, which adds to the logarithm of every throughput in it.
        freedom: degrees of freedom of the spreads.
    """

    def __init__(self, starts: Sequence[Start]) -> None:
        rows = [
            (start, number, n, rate)
            for number, start in enumerate(starts)
            for n, rate in sorted(start.rates.items())
        ]
        self.points: list[Point] = sorted({(start.launch, n) for start, _, n, _ in rows})
        self.column = {point: at for at, point in enumerate(self.points)}
        self._logs = np.log([rate for *_, rate in rows])
        self._cells = np.array([self.column[start.launch, n] for start, _, n, _ in rows])
        self._batches, batch_of = np.unique([one.batch for one, *_ in rows], return_inverse=True)
        numbers, cohort_of = np.unique([number for _, number, *_ in rows], return_inverse=True)
        names = sorted({launch for launch, _ in self.points})
        self._launch_of = np.array([names.index(starts[number].launch) for number in numbers])
        self._launch_of_cell = np.array([names.index(launch) for launch, _ in self.points])
        of_batch, of_cohort = np.eye(len(self._batches)), np.eye(len(numbers))
        self._effects = np.hstack([of_batch[batch_of], of_cohort[cohort_of]])
        self._counts = np.bincount(self._cells).astype(np.float64)
        self.freedom = len(numbers) - len(names) + MODERATION
        self._fit()

    def _per_cell(self, values: Floats) -> Floats:
        """Return the means of rows of values over the observations of each point."""
        sums = np.zeros((len(self._counts), *values.shape[1:]))
        np.add.at(sums, self._cells, values)
        return sums / self._counts.reshape(-1, *[1] * (values.ndim - 1))

    def _fit(self) -> None:
        """Estimate the spreads, and with them the points."""
        effects = self._effects
        means, shares = self._per_cell(self._logs), self._per_cell(effects)
        # Logs and effects as deviations from the mean of their point.
        logs, apart = self._logs - means[self._cells], effects - shares[self._cells]
        launches = int(self._launch_of.max()) + 1
        starts_of = _sums(self._launch_of, launches)
        cells_of = np.bincount(self._launch_of_cell, minlength=launches)
        launch_of_row = self._launch_of_cell[self._cells]
        rows_of = _sums(launch_of_row, launches)
        drift, common, common_rest = DRIFT**2, LAYOUT_BIAS**2, REST**2
        luck, rest = np.full(launches, common), np.full(launches, common_rest)
        for _ in range(ITERATIONS):
            spreads = np.concatenate([np.full(len(self._batches), drift), luck[self._launch_of]])
            weighted = apart / rest[launch_of_row, None]
            covariance = np.linalg.inv(weighted.T @ apart + np.diag(1 / spreads))
            found = covariance @ (weighted.T @ logs)
            squares = found**2 + covariance.diagonal()
            of_drift = float(squares[: len(self._batches)].sum())
            drift = moderated(of_drift, len(self._batches), Prior(DRIFT**2, PRIOR_FREEDOM))
            drift = max(SMALLEST**2, drift)
            of_launch = _sums(self._launch_of, launches, squares[len(self._batches) :])
            luck = moderated(of_launch, starts_of, Prior(common, MODERATION))
            common = _common(luck, LAYOUT_BIAS)
            left = (logs - apart @ found) ** 2 + np.einsum("ij,jk,ik->i", apart, covariance, apart)
            of_rest = _sums(launch_of_row, launches, left) + rest * cells_of
            rest = moderated(of_rest, rows_of, Prior(common_rest, REST_MODERATION))
            common_rest = _common(rest, REST)
        self._shares, self._covariance = shares, covariance
        self._rest = rest[self._launch_of_cell]
        self._means = means - shares @ found
        self.drift, self.luck = float(np.sqrt(drift)), float(np.sqrt(common))
        self.drifts = dict(zip(self._batches.tolist(), found.tolist(), strict=False))

    def mean(self, point: Point) -> float:
        """Return the log throughput of a point that was measured."""
        return float(self._means[self.column[point]])

    def draws(self, count: int, seed: int) -> Floats:
        """Draw log throughputs of all points together.

        The spreads are known from few starts, so the draws have Student's t distribution.

        Args:
            count: number of draws.
            seed: seed of the generator.

        Returns:
            Draws times points, in the order of ``points``.
        """
        rng = np.random.default_rng(seed)
        root = np.linalg.cholesky(self._covariance)
        effects = rng.standard_normal((count, len(root))) @ root.T
        rests = rng.standard_normal((count, len(self._counts))) * np.sqrt(self._rest / self._counts)
        scales = np.sqrt(self.freedom / rng.chisquare(self.freedom, (count, 1)))
        return np.asarray(self._means + scales * (rests - effects @ self._shares.T))


def _sums(groups: Integers, count: int, values: Floats | None = None) -> Floats:
    """Return the sums of values in groups; without values, the sizes of the groups."""
    return np.bincount(groups, values, count).astype(np.float64)


def _common(variances: Floats, prior: float) -> float:
    """Return the scale of the launches' prior that makes their own variances most likely."""
    whole = (1 / variances).sum() + PRIOR_LAUNCHES / prior**2
    return float(max(SMALLEST**2, (len(variances) + PRIOR_LAUNCHES) / whole))
