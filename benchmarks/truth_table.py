"""The cells that runs of the truth benchmark make together, and their table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from ledger import Entry, describe
from scipy.stats import norm
from truth_list import ROWS

from scaling_study.common.doc_tables import write_table
from scaling_study.stats.thresholds import CONFIDENCE
from scaling_study.stats.throughputs import Start, Throughputs, fit, interval_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scaling_study.stats.interval import Interval
    from scaling_study.stats.intervals import Floats

LOW, HIGH = 0.97, 1.03
"""A study is true where this range and its ratio's interval meet."""
WIDEST = 0.04
"""Of each side of the interval: a wider one would meet the range too easily."""

OK, FAIL, COARSE = "ok", "FAIL", "not precise enough"
NO_LOOP, NO_STUDY = "no loop", "no number of the study"


@dataclass(frozen=True, slots=True)
class Cell:
    """A script at a process count.

    Attributes:
        row: Name of the script's row.
        n: Processes.
        loop: Log mean of what the shell loops counted; NaN without one.
        loops: How many loops were counted.
        study: Log mean of what studies say; NaN where they say nothing.
        ratio: Study by loop.
        verdict: OK, FAIL, COARSE, NO_LOOP or NO_STUDY.
        reasons: Where a side is missing: why its runs failed.
    """

    row: str
    n: int
    loop: float
    loops: int
    study: float
    ratio: Interval
    verdict: str
    reasons: tuple[str, ...]


def verdict(found: Interval) -> str:
    """Judge a ratio: a wide interval that misses the range fails all the same."""
    if found.low is None or found.high is None:
        return COARSE
    if found.high < LOW or found.low > HIGH:
        return FAIL
    reach = max(found.high / found.value - 1, 1 - found.low / found.value)
    return OK if reach <= WIDEST else COARSE


def pooled(entries: Iterable[Entry]) -> Throughputs:
    """Return draws of all loops and throughputs, by row and kind of run.

    Two loops of a script say little about how much loops differ; loops of all scripts say much.
    So it is learnt from all rows together, as a study learns how much starts of a launch differ.
    """
    values: dict[tuple[str, int], list[float]] = {}
    for entry in entries:
        for n in entry["counts"] if entry["status"] == "ok" else ():
            own = values.setdefault((f"{entry['row']} {entry['kind']}", n), [])
            if entry["kind"] == "loop":
                own.append(entry["rate"])
            else:
                own.extend(entry["points"][str(n)].get("values", ()))
    return fit(
        [
            Start(launch, f"{launch} {n} {number}", {n: value})
            for (launch, n), own in values.items()
            for number, value in enumerate(own)
        ]
    )


def confirmed(rounds: Sequence[Entry], draws: int) -> tuple[float, Floats]:
    """Return the log mean of confirmations, which have intervals of their own, and draws of it."""
    if not rounds:
        return math.nan, np.full(draws, math.nan)
    ends = [[one[key] for key in ("low", "value", "high")] for one in rounds]
    low, value, high = np.log(np.array(ends, np.float64)).T
    deviation = np.hypot.reduce((high - low) / 2 / norm.ppf((1 + CONFIDENCE) / 2)) / len(rounds)
    mean = float(value.mean())
    return mean, np.random.default_rng(1).normal(mean, deviation, draws)


def cell(entries: Sequence[Entry], name: str, n: int) -> Cell:
    """Put together what runs of one row say at a process count.

    Args:
        entries: All that count, of other rows too.
        name: The row's.
        n: Processes.
    """
    known = pooled(entries)
    own = [entry for entry in entries if entry["row"] == name and n in entry["counts"]]
    good = [entry for entry in own if entry["status"] == "ok"]
    loops = sum(entry["kind"] == "loop" for entry in good)
    ours, theirs = (f"{name} study", n), (f"{name} loop", n)
    loop, study, logs = known.mean(theirs), known.mean(ours), known.of(ours)
    if ROWS[name].confirmed:
        points = [entry["points"][str(n)] for entry in good if entry["kind"] == "study"]
        rounds = [one for point in points for one in point["rounds"]]
        study, logs = confirmed(rounds, len(logs))
    ratio = interval_of(logs - known.of(theirs), study - loop, sure=known.sure)
    judged = NO_LOOP if not loops else NO_STUDY if math.isnan(study) else verdict(ratio)
    reasons = tuple(
        f"the {entry['kind']} failed: {entry['reason']}"
        for entry in own
        if entry["status"] != "ok" and judged in {NO_LOOP, NO_STUDY}
    )
    return Cell(name, n, loop, loops, study, ratio, judged, reasons)


def gave_something(entry: Entry) -> bool:
    """Whether a run gave a number, so that it need not be done again."""
    if entry["status"] != "ok":
        return False
    points = entry["points"].values() if entry["kind"] == "study" else ()
    return entry["kind"] == "loop" or any(one.get("values") or one.get("rounds") for one in points)


def newest(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries of each row that are of the code of its last entry.

    Each process count of a row that is confirmed has studies of its own.
    """

    def row(entry: Entry) -> tuple[str, ...]:
        alone = ROWS[entry["row"]].confirmed
        return (entry["row"], *(map(str, entry["counts"]) if alone else ()))

    last = {row(entry): entry["code"] for entry in entries}
    return [entry for entry in entries if entry["code"] == last[row(entry)]]


HEAD = ("script", "n", "compared", "loop", "study", "study / loop", "verdict")


def markdown(cells: Sequence[Cell], older: Sequence[str], machines: Sequence[str]) -> str:
    """Return the table, its count of cells that are true, and where it was made.

    Args:
        cells: In the order of the table.
        older: Rows whose runs are of older code than is here now.
        machines: Those that the runs were done on.
    """
    rows = [
        (
            ROWS[one.row].what,
            str(one.n),
            ROWS[one.row].counts,
            f"{math.exp(one.loop):.4g} ({one.loops} times)" if one.loops else "",
            "" if math.isnan(one.study) else f"{math.exp(one.study):.4g}",
            describe(one.ratio),
            one.verdict,
        )
        for one in cells
    ]
    verdicts = pd.Series([one.verdict for one in cells]).value_counts()
    counts = ", ".join(f"{count} {name}" for name, count in verdicts.items() if name != OK)
    notes = [
        f"- {verdicts.get(OK, 0)} of {len(cells)} cells are true; {counts or 'all of them'}.",
        *([f"- Runs of older code: {', '.join(older)}."] if older else []),
        *(f"- On {machine}." for machine in machines),
        *(f"- {one.row}, n = {one.n}: {why}" for one in cells for why in one.reasons),
    ]
    return write_table(HEAD, rows) + "\n" + "\n".join(notes) + "\n"
