"""Is what a study says what the machine delivers? Ordinary scripts, counted by themselves.

Each script runs under a plain shell loop of n background processes of one thread and counts its own
iterations, and as a study of its own (default settings, two replicates). They take turns: loop,
study, loop. The ratio study / loop of every cell (a script at a process count) has a 95% interval.
A cell fails if that misses 0.97 to 1.03, or is wider than 4% on a side. Cells that are not precise
enough get more loops and studies until the time is up.

    python benchmarks/truth.py                              # a pass of 60 minutes
    python benchmarks/truth.py                              # the second pass goes on
    python benchmarks/truth.py --only gan ends --n 1        # some rows
    python benchmarks/truth.py --minutes 0                  # run nothing; print the table

Every run is a line of the ledger, docs/evidence/truth.jsonl, when it ends; a rerun goes on from
there. Runs of older code do not count: a changed script or package starts its rows anew. A run that
the deadline cuts is dropped. The table goes to docs/evidence/truth.md. It has all rows of the
ledger, of the newest code of each, and names those of older code than is here now.

Each row says which number it compares: see benchmarks/truth_list.py. Studies run in a temporary
folder, which is removed, also after Ctrl-C. Throughputs need the records of one thread per process
only; whole processes need all of a study, with the confirmation. Nothing else should run meanwhile.
The status is 0 if every cell asked for is true, with the code that is here now.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import ledger
from child_processes import OverdueError, stop_cleanly
from ledger import ROOT, Entry, describe, machine
from truth_list import ROWS
from truth_runs import Run, code, execute
from truth_table import COARSE, NO_STUDY, OK, cell, gave_something, markdown, newest

from scaling_study.common.doc_tables import fill, update

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ATTEMPTS = 2
"""At a study that gives no number, in one pass."""


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=ROWS, default=list(ROWS), help="rows")
    parser.add_argument("--n", nargs="+", type=int, default=[1, 2], help="process counts")
    parser.add_argument("--minutes", type=float, default=60, help="of this pass")
    parser.add_argument("--ledger", type=Path, default=ROOT / "docs/evidence/truth.jsonl")
    parser.add_argument("--table", type=Path, default=ROOT / "docs/evidence/truth.md")
    return parser.parse_args()


def first_runs(name: str, counts: tuple[int, ...]) -> list[Run]:
    """Return what every row gets, in turn: loops, studies, loops."""
    loops = [Run(name, "loop", (n,)) for n in counts]
    return [*loops, *(Run(name, "study", own) for own in ROWS[name].studies(counts)), *loops]


def run_of(entry: Entry) -> Run:
    """Return the run that an entry is of."""
    return Run(entry["row"], entry["kind"], tuple(entry["counts"]))


def next_runs(
    entries: Sequence[Entry], names: Sequence[str], counts: tuple[int, ...]
) -> Iterator[Run]:
    """Go through runs that could come next, the most wanted first.

    First comes what a row lacks, row by row. Then come second attempts where a study gave no
    number, and what makes cells more precise, beginning with the rows of which there are the fewest
    runs: two loops for each study.
    """
    done = Counter(map(run_of, entries))
    for name in names:
        left = done.copy()
        for run in first_runs(name, counts):
            if not left[run]:
                yield run
                break
            left[run] -= 1
    runs = Counter(entry["row"] for entry in entries)
    for name in sorted(names, key=lambda name: runs[name]):
        for n in counts:
            verdict = cell(entries, name, n).verdict
            loop = Run(name, "loop", (n,))
            (own,) = (studied for studied in ROWS[name].studies(counts) if n in studied)
            study = Run(name, "study", own)
            if verdict == COARSE:
                yield loop if done[loop] < 2 * done[study] else study
            elif verdict == NO_STUDY and 0 < done[study] < ATTEMPTS:
                yield study


def expected_s(run: Run, entries: Sequence[Entry]) -> float:
    """Return what a run will take (s): what the same one took last; 0 where none is known."""
    return next((float(one["wall_s"]) for one in reversed(entries) if run_of(one) == run), 0.0)


def run_all(options: argparse.Namespace, known: list[Entry]) -> Iterator[Entry]:
    """Do runs until nothing is left to do, or no run fits into the time that is left.

    Args:
        options: The command line.
        known: The runs so far that count.

    Yields:
        The new runs.
    """
    entries = [*known]
    counts = tuple(sorted(set(options.n)))
    deadline = time.monotonic() + 60 * options.minutes
    while (left_s := deadline - time.monotonic()) > 0:
        wanted = next_runs(entries, options.only, counts)
        run = next((one for one in wanted if expected_s(one, entries) <= left_s), None)
        if run is None:
            return
        began, at = time.monotonic(), datetime.now(UTC)
        try:
            found = execute(run, deadline)
        except OverdueError:
            return
        entry = {
            **run._asdict(),
            **found,
            "started": at.isoformat(timespec="seconds"),
            "wall_s": round(time.monotonic() - began, 1),
            "machine": machine(),
            "code": code(run.row),
        }
        entries.append(entry)
        yield entry
        for one in (cell(entries, run.row, n) for n in run.counts):
            said = entry.get("reason") or f"{describe(one.ratio)} {one.verdict}"
            print(f"{run.row}, {run.kind} of n = {one.n}: {said}", file=sys.stderr, flush=True)


def is_current(entry: Entry) -> bool:
    """Whether a run is of the code that is here now."""
    return bool(entry["code"] == code(entry["row"]))


def main() -> int:
    """Run what is missing, print the table, and say whether all cells asked for are true."""
    options = arguments()
    stop_cleanly()
    entries = [entry for entry in ledger.read(options.ledger) if entry["row"] in ROWS]
    # Runs that gave nothing are done again.
    known = [entry for entry in entries if is_current(entry) and gave_something(entry)]
    for entry in run_all(options, known):
        entries.append(entry)
        ledger.write(options.ledger, entries)
    shown = newest(entries)
    asked = {(name, n) for name in options.only for n in options.n}
    wanted = asked | {(entry["row"], n) for entry in shown for n in entry["counts"]}
    order = list(ROWS)
    cells = [
        cell(shown, *one) for one in sorted(wanted, key=lambda one: (order.index(one[0]), one[1]))
    ]
    older = {entry["row"] for entry in shown if not is_current(entry)}
    table = markdown(cells, sorted(older), sorted({entry["machine"] for entry in shown}))
    print(table)
    update([str(options.table)], lambda text: fill(text, {"truth": lambda: table}))
    true = {(one.row, one.n) for one in cells if one.verdict == OK and one.row not in older}
    return int(not asked <= true)


if __name__ == "__main__":
    sys.exit(main())
