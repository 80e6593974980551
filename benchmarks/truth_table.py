"""The cells that studies of the truth benchmark make together, and their table."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from doc_tables import write_table
from ledger import Entry, describe
from scipy import stats
from truth_list import ROWS

from scaling_study.stats.interval import Interval
from scaling_study.stats.thresholds import CONFIDENCE

if TYPE_CHECKING:
    from collections.abc import Sequence

LOW, HIGH = 0.97, 1.03
"""A study is true if its ratio's interval lies in this range."""
WIDEST = 0.02
"""Of the whole interval."""

OK, FAIL, COARSE, NONE = "ok", "FAIL", "not precise enough", "no number"


@dataclass(frozen=True, slots=True)
class Cell:
    """A script at a process count.

    Attributes:
        row: Name of the script's row.
        n: Processes.
        windows: Windows, or rounds of whole processes, that are compared.
        counts: Iterations or whole processes in them: the study's, and the script's.
        rates: Geometric means: the study's, and the script's.
        ratio: Of these two.
        cost: Time with the counter by that without it; None if it was not taken.
        reasons: Why runs of it failed.
    """

    row: str
    n: int
    windows: int
    counts: tuple[int, int]
    rates: tuple[float, float]
    ratio: Interval
    cost: Interval | None
    reasons: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """Whether the study is true."""
        low, high = self.ratio.low, self.ratio.high
        if math.isnan(self.ratio.value):
            return NONE
        if low is None or high is None or high - low > WIDEST:
            return COARSE
        return OK if low >= LOW and high <= HIGH else FAIL


def mean_ratio(ratios: Sequence[float]) -> Interval:
    """Return the geometric mean of ratios, with its t interval; NaN without any."""
    if not ratios:
        return Interval(math.nan, None, None)
    logs = np.log(ratios)
    mean = float(logs.mean())
    if len(ratios) == 1:
        return Interval(math.exp(mean), None, None)
    reach = stats.t.ppf((1 + CONFIDENCE) / 2, len(ratios) - 1) * stats.sem(logs)
    return Interval(math.exp(mean), math.exp(mean - reach), math.exp(mean + reach))


def median_ratio(ratios: Sequence[float]) -> Interval:
    """Return the median of ratios, among which are outliers, with its bootstrap interval."""
    rng = np.random.default_rng(1)
    found = stats.bootstrap((ratios,), np.median, confidence_level=CONFIDENCE, rng=rng)
    low, high = found.confidence_interval
    return Interval(float(np.median(ratios)), float(low), float(high))


def cell(entries: Sequence[Entry], name: str, n: int) -> Cell:
    """Put together what runs of one row say at a process count.

    Args:
        entries: All that count, of other rows too.
        name: The row's.
        n: Processes.
    """
    own = [entry for entry in entries if entry["row"] == name]
    ran = [entry for entry in own if entry["status"] == "ok"]
    studies = [entry for entry in ran if entry.get("n") == n]
    ratios = [ratio for entry in ran if "ratios" in entry for ratio in entry["ratios"]]
    rates = [pair for entry in studies for pair in entry["rates"]]
    said, counted = (
        statistics.geometric_mean(each) if rates else math.nan
        for each in ([pair[side] for pair in rates] for side in (0, 1))
    )
    return Cell(
        row=name,
        n=n,
        windows=sum(entry["windows"] for entry in studies),
        counts=(
            sum(entry["counts"][0] for entry in studies),
            sum(entry["counts"][1] for entry in studies),
        ),
        rates=(said, counted),
        ratio=mean_ratio([said / counted for said, counted in rates]),
        cost=median_ratio(ratios) if ratios and n == 1 else None,
        reasons=tuple(
            entry["reason"] for entry in own if entry["status"] != "ok" and entry["n"] in {n, None}
        ),
    )


HEAD = (
    *("script", "n", "windows", "count: study", "script", "compared", "study", "script"),
    *("study / script", "verdict", "cost of being measured"),
)


def markdown(cells: Sequence[Cell], older: Sequence[str], machines: Sequence[str]) -> str:
    """Return the table, its number of cells that are true, and where it was made.

    Args:
        cells: In the order of the table.
        older: Rows whose runs are of older code than is here now.
        machines: Those that the runs were done on.
    """
    rows = [
        (
            ROWS[one.row].what,
            str(one.n),
            *(f"{number:,}" for number in (one.windows, *one.counts)),
            ROWS[one.row].counts,
            *(f"{rate:.4g}" for rate in one.rates),
            describe(one.ratio, 4),
            one.verdict,
            describe(one.cost, 4),
        )
        for one in cells
    ]
    true = sum(one.verdict == OK for one in cells)
    notes = [
        f"- {true} of {len(cells)} cells are true.",
        *([f"- Runs of older code: {', '.join(older)}."] if older else []),
        *(f"- On {machine}." for machine in machines),
        *(f"- {one.row}, n = {one.n}: {why}" for one in cells for why in one.reasons),
    ]
    return write_table(HEAD, rows) + "\n" + "\n".join(notes) + "\n"
