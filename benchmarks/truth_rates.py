"""Rates that a shell loop counted, and the ratio of a study's number to them, with an interval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIDENCE = 0.95
LEAST_EDGES = 3
"""Two ends of a period make one period, which says nothing of how much periods differ."""
HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Counted:
    """Iterations or whole processes of all slots of a loop.

    Attributes:
        rate: Iterations per second, or whole processes per hour, of all processes.
        count: How many were counted.
        seconds: In what time, mean over processes.
    """

    rate: float
    count: int
    seconds: float


def throughput(logs: Sequence[Sequence[float]]) -> Counted:
    """Count iterations in the time in which all processes ran.

    That time is from the last process's first iteration end to the first process's last one. In it
    each process counts from one edge to another: ends of periods where the script has periods, so
    that only whole ones count, or else ends of iterations.

    Args:
        logs: Of each process its stamps in s, in order: an iteration's end, or less than 0 for a
            period's.

    Raises:
        ValueError: a process has too few edges in that time.
    """
    if not all(logs):
        raise ValueError("a process counted nothing")
    begin = max(abs(log[0]) for log in logs)
    end = min(abs(log[-1]) for log in logs)
    rates, counts, spans = [], [], []
    for log in logs:
        periods = [-stamp for stamp in log if stamp < 0]
        iterations = [stamp for stamp in log if stamp > 0]
        edges = [edge for edge in periods or iterations if begin <= edge <= end]
        if len(edges) < LEAST_EDGES:
            what = "periods" if periods else "iterations"
            raise ValueError(f"{len(edges)} ends of {what} while all ran; {LEAST_EDGES} are needed")
        counts.append(sum(edges[0] < stamp <= edges[-1] for stamp in iterations))
        spans.append(edges[-1] - edges[0])
        rates.append(counts[-1] / spans[-1])
    return Counted(sum(rates), sum(counts), sum(spans) / len(spans))


def whole_processes(ends: Sequence[Sequence[float]]) -> Counted:
    """Count whole processes of slots that are busy all the time.

    Each slot counts from its first process's end to its last one's: whole processes, with their
    starts, and without the loop's own. All slots are busy until the loop is stopped.

    Args:
        ends: Of each slot when its processes ended, in s.

    Raises:
        ValueError: a slot has too few.
    """
    few = min(map(len, ends))
    if few < LEAST_EDGES:
        raise ValueError(f"{few} processes ended in a slot; {LEAST_EDGES} are needed")
    spans = [slot[-1] - slot[0] for slot in ends]
    counts = [len(slot) - 1 for slot in ends]
    rates = [count / span * HOUR_S for count, span in zip(counts, spans, strict=True)]
    return Counted(sum(rates), sum(counts), sum(spans) / len(spans))


@dataclass(frozen=True, slots=True)
class Side:
    """A positive number, known to some precision.

    Attributes:
        value: The number: a geometric mean.
        error: Standard error of its logarithm; NaN where unknown.
        freedom: Degrees of freedom of that error.
    """

    value: float
    error: float
    freedom: int


def side_of_values(values: Sequence[float]) -> Side:
    """Return the geometric mean of values that were measured independently."""
    logs = np.log(np.asarray(values, dtype=np.float64))
    freedom = len(logs) - 1
    error = float(logs.std(ddof=1) / math.sqrt(len(logs))) if freedom else math.nan
    return Side(float(np.exp(logs.mean())), error, freedom)


def side_of_interval(value: float, low: float | None, high: float | None, count: int) -> Side:
    """Return a number of which a 95% interval over `count` rounds is known, or is not."""
    if low is None or high is None or count < 2:
        return Side(value, math.nan, 0)
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, count - 1))
    return Side(value, math.log(high / low) / 2 / reach, count - 1)


def mean_side(sides: Sequence[Side]) -> Side:
    """Return the geometric mean of sides that were measured independently."""
    count = len(sides)
    value = math.exp(sum(math.log(side.value) for side in sides) / count)
    error = math.sqrt(sum(side.error**2 for side in sides)) / count
    return Side(value, error, sum(side.freedom for side in sides))


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio with its 95% interval; NaN where there is none."""

    value: float
    low: float
    high: float

    @property
    def reach(self) -> float:
        """The interval's wider side, as a share of the ratio; NaN where there is none."""
        return max(self.high / self.value - 1, 1 - self.low / self.value)


def ratio(study: Side, loop: Side) -> Ratio:
    """Return study / loop, with Welch's interval on the log scale."""
    value = study.value / loop.value
    squares = study.error**2, loop.error**2
    error = math.sqrt(sum(squares))
    if math.isnan(error):
        return Ratio(value, math.nan, math.nan)
    if error == 0:
        return Ratio(value, value, value)
    # Welch and Satterthwaite's degrees of freedom.
    freedom = sum(squares) ** 2 / sum(
        square**2 / side.freedom for square, side in zip(squares, (study, loop), strict=True)
    )
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom)) * error
    return Ratio(value, value * math.exp(-reach), value * math.exp(reach))
