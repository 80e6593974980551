"""Intervals, ratios, probabilities and quantiles.

The statistical unit is the replicate: windows and steps inside one cohort share its memory layout,
its placement and its neighbours, so they are averaged first. A study has few replicates, often two
or three. If two replicates differ by a factor of 7, Student's t interval reaches from nearly 0 to
over 200,000 times the value. Resampling two or three values never leaves their range. So the spread
between replicates is learnt from all launches and process counts of a machine together
(``variances``), on the log scale. Machines are never pooled.

Every mean then has a normal distribution on the log scale. Intervals, ratios and probabilities of
being best all come from these distributions, so none contradicts another. The interval of a ratio
of two launches joins the intervals of both (Zou and Donner, Statistics in Medicine 27, 2008).
Two process counts of one launch are measured in the same cohorts: their ratio is paired by
replicate, and the spread of such ratios is pooled over the launches.
"""

import dataclasses
import math
import zlib
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from scaling_study.stats import variances
from scaling_study.stats.interval import Interval
from scaling_study.stats.variances import QUANTILE

INTERVAL = (
    "95%, on the log scale: the spread between replicates is learnt from all launches and process "
    "counts of the machine together (moderated variances); paired by replicate within a launch; "
    "none where no launch has two replicates"
)
DRAWS = 4000  # a share near one half is then known to 0.008
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclasses.dataclass(frozen=True, slots=True)
class LogMean:
    """The logarithm of a geometric mean, and its standard deviation; NaN where not known."""

    mean: float
    deviation: float

    def interval(self) -> Interval:
        """Return the mean and its interval in the unit of the values."""
        if math.isnan(self.deviation):
            return Interval(float(np.exp(self.mean)))
        reach = QUANTILE * self.deviation
        ends = self.mean, self.mean - reach, self.mean + reach
        return Interval(*(float(np.exp(end)) for end in ends))


def geometric_means(values: Mapping[str, Floats]) -> dict[str, Interval]:
    """Return the geometric mean of each of some quantities that scatter alike; NaN is missing."""
    logs = {key: np.log(own)[:, None] for key, own in values.items()}
    deviations, _ = variances.deviations(logs)
    return {
        key: LogMean(
            float(np.nanmean(own)) if np.isfinite(own).any() else np.nan, float(deviations[key][0])
        ).interval()
        for key, own in logs.items()
    }


def ratio(over: LogMean, under: LogMean) -> Interval:
    """Return the ratio of two means that have no replicate in common."""
    deviation = float(np.hypot(over.deviation, under.deviation))
    return LogMean(over.mean - under.mean, deviation).interval()


class Means:
    """Geometric means of one quantity at all points of one machine.

    Args:
        rows: one machine's rows of the table of replicates, or some of them: columns launch, n,
            replicate.
        name: column of the positive values.
    """

    def __init__(self, rows: pd.DataFrame, name: str = "steps_per_s") -> None:
        logs = rows.assign(log=np.log(rows[name].to_numpy(dtype=np.float64)))
        # Each value is there once; pivot_table would aggregate, at many times the cost.
        table = logs.pivot(index=["launch", "replicate"], columns="n", values="log")  # noqa: PD010
        self._logs = {
            str(launch): own.droplevel("launch").dropna(axis="columns", how="all")
            for launch, own in table.groupby(level="launch")
        }
        matrices = {launch: own.to_numpy(np.float64) for launch, own in self._logs.items()}
        self._deviations, self._correlation = variances.deviations(matrices)
        self._points = {
            (launch, n): LogMean(float(mean), float(deviation))
            for launch, own in self._logs.items()
            for n, mean, deviation in zip(own, own.mean(), self._deviations[launch], strict=True)
        }

    def of(self, launch: str, n: int) -> LogMean:
        """Return the mean of a point; NaN where it has no replicate."""
        return self._points.get((launch, n), LogMean(np.nan, np.nan))

    def scatter(self, launch: str) -> Floats:
        """Return the deviation of each point of a launch, by n, without the part that all share."""
        return np.asarray(np.sqrt(1 - self._correlation) * self._deviations[launch])

    def ratio(self, over: tuple[str, int], under: tuple[str, int]) -> Interval:
        """Return the ratio of two points (launch, n), paired by replicate within a launch.

        Returns:
            No interval where no launch has two replicates, no value where a point has none.
        """
        if over == under:
            return Interval(1.0, 1.0, 1.0)
        if over[0] != under[0]:
            return ratio(self.of(*over), self.of(*under))
        launch, counts = over[0], (over[1], under[1])
        differences = {
            name: (own[counts[0]] - own[counts[1]]).dropna().to_numpy()[:, None]
            for name, own in self._logs.items()
            if set(counts) <= set(own.columns)
        }
        if not differences.get(launch, np.empty(0)).size:
            return Interval(np.nan)
        deviations, _ = variances.deviations(differences)
        mean = float(differences[launch].mean())
        return LogMean(mean, float(deviations[launch][0])).interval()

    def probabilities_of_best(
        self, shown: Mapping[str, int], *, tolerance: float, seed: int
    ) -> dict[str, float]:
        """Return the probability that a point of each launch is as good as the best of all.

        In every draw the best point of all these launches is found anew, and a point counts as best
        if it is within `tolerance` of it. Deviations of one launch's points are correlated, as
        their replicates are.

        Args:
            shown: n of the point in question, by launch.
            tolerance: Share of the best throughput below which a difference does not count.
            seed: Seed of the draws.

        Returns:
            Share of draws per launch; empty if no point at all has two replicates.
        """
        best = np.full(DRAWS, -np.inf)
        drawn = {}
        for launch, n in shown.items():
            own = self._logs[launch]
            if np.isnan(self._deviations[launch]).any():
                return {}
            draws = own.mean().to_numpy() + self._deviations[launch] * self._normals(launch, seed)
            best = np.maximum(best, draws.max(axis=1))
            drawn[launch] = draws[:, own.columns.get_loc(n)].copy()
        enough = best + np.log1p(-tolerance)
        return {launch: float((draws >= enough).mean()) for launch, draws in drawn.items()}

    def _normals(self, launch: str, seed: int) -> Floats:
        """Return an array (DRAWS, points of a launch) of correlated standard normal numbers."""
        rng = np.random.default_rng([seed, zlib.crc32(launch.encode())])
        shared = rng.standard_normal((DRAWS, 1))
        apart = rng.standard_normal((DRAWS, len(self._deviations[launch])))
        share = self._correlation
        return np.asarray(np.sqrt(share) * shared + np.sqrt(1 - share) * apart)


def pooled_means(rows: pd.DataFrame, point: Sequence[str], name: str) -> pd.DataFrame:
    """Return the geometric mean and interval of every point of every machine.

    Args:
        rows: Rows of the table of replicates, or some of them.
        point: Columns that name a point, machine, launch and n among them.
        name: Column of the positive values.

    Returns:
        By `point`, a column of this name and the ends of its interval, whose names end in `_low`
        and `_high`, in the unit of the values. The ends are NaN where no launch of the machine has
        two replicates.
    """
    means = {machine: Means(own, name) for machine, own in rows.groupby("machine", sort=False)}
    points = rows[list(point)].drop_duplicates()
    places = zip(points["machine"], points["launch"], points["n"], strict=True)
    found = [means[machine].of(launch, n).interval() for machine, launch, n in places]
    ends = [(one.value, one.low, one.high) for one in found]
    columns, index = [name, f"{name}_low", f"{name}_high"], pd.MultiIndex.from_frame(points)
    return pd.DataFrame(ends, index=index, columns=columns, dtype=np.float64)
