"""The next run of the truth benchmark: a pure function of the runs so far."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from truth_list import PROCESSES, ROWS
from truth_runs import Run
from truth_studies import REPLICATES
from truth_table import COARSE, NO_STUDY, Cell, cell

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ATTEMPTS = 2
"""At a study that gives no number, in one pass."""
START_S = 10.0
"""Of a script's processes, where no loop of it is known yet."""
STUDY_S = 60.0 * REPLICATES
"""Of a study of one or two counts, where none is known yet: two launches' replicates."""
CONFIRM_S = 450.0
"""What the default launch and the stages after the tables take, the confirmation foremost."""

Entry = dict[str, Any]


def first_runs(name: str, counts: tuple[int, ...]) -> list[Run]:
    """Return what every row gets, in turn: loops, studies, loops."""
    loops = [Run(name, "loop", (n,)) for n in counts]
    return [*loops, *(Run(name, "study", own) for own in ROWS[name].studies(counts)), *loops]


def next_runs(
    entries: Sequence[Entry], names: Sequence[str], counts: tuple[int, ...]
) -> Iterator[Run]:
    """Go through runs that could come next, the most wanted first.

    First comes what a row lacks, row by row. Then come second attempts where a study gave no
    number, and what makes cells more precise, beginning with the rows of which there are the fewest
    runs.
    """
    done = Counter(run_of(entry) for entry in entries)
    for name in names:
        left = done.copy()
        for run in first_runs(name, counts):
            if not left[run]:
                yield run
                break
            left[run] -= 1
    runs = Counter(entry["row"] for entry in entries)
    for name in sorted(names, key=lambda name: runs[name]):
        cells = [cell(entries, name, n) for n in counts]
        studies = [
            run_of(entry) for entry in entries if entry["row"] == name and entry["kind"] == "study"
        ]
        for one in cells:
            run = _study_of(one, counts)
            if one.verdict == NO_STUDY and 0 < studies.count(run) < ATTEMPTS:
                yield run
        coarse = [one for one in cells if one.verdict == COARSE]
        for one in sorted(coarse, key=lambda one: -_reach(one)):
            yield _more(one, counts, entries)


def _reach(one: Cell) -> float:
    return math.inf if math.isnan(one.ratio.reach) else one.ratio.reach


def run_of(entry: Mapping[str, Any]) -> Run:
    """Return the run that an entry is of."""
    return Run(entry["row"], entry["kind"], tuple(entry["counts"]))


def _study_of(one: Cell, counts: tuple[int, ...]) -> Run:
    """Return the study that gives a cell its number."""
    (own,) = (studied for studied in ROWS[one.row].studies(counts) if one.n in studied)
    return Run(one.row, "study", own)


def _more(one: Cell, counts: tuple[int, ...], entries: Sequence[Entry]) -> Run:
    """Return the run that makes a cell more precise in the least time."""
    options = {Run(one.row, "loop", (one.n,)): one.loop, _study_of(one, counts): one.study}

    def gain(run: Run) -> float:
        side = options[run]
        if side is None or math.isnan(side.error):
            return math.inf
        done = sum(run_of(entry) == run for entry in entries)
        return side.error**2 / (done + 1) / expected_s(run, entries)

    return max(options, key=gain)


def expected_s(run: Run, entries: Sequence[Entry]) -> float:
    """Return what a run will take (s): what the same one took last, or an estimate."""
    for entry in reversed(entries):
        if run_of(entry) == run:
            return float(entry["wall_s"])
    row = ROWS[run.row]
    if run.kind == "loop":
        return START_S + row.loop_s
    return STUDY_S + CONFIRM_S * (row.compares == PROCESSES)
