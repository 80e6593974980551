"""Is what a study says what the machine delivers? Twelve ordinary scripts, counted by themselves.

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

Each row says which number it compares: see benchmarks/truth_list.py. Studies run in a copy of the
project in a temporary folder, which is removed, also after Ctrl-C. Throughputs need the records of
one thread per process only; whole processes need all of a study, with the confirmation. Nothing
else should run meanwhile. The status is 0 if every cell asked for is true, with the code that is
here now.
"""

from __future__ import annotations

import argparse
import math
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from fault_runs import machine
from truth_list import ROOT, ROWS
from truth_plan import expected_s, next_runs
from truth_processes import OverdueError
from truth_runs import Entry, Run, code, execute
from truth_table import (
    INTRODUCTION,
    OK,
    add_to_ledger,
    cell,
    gave_something,
    markdown,
    newest,
    read_ledger,
)

from scaling_study.runner import supervisor

if TYPE_CHECKING:
    from types import FrameType

    from truth_rates import Ratio

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def stop(signum: int, _frame: FrameType | None) -> None:
    """Leave by an exception, so that what runs is ended and removed; that is not disturbed."""
    for another in STOP_SIGNALS:
        signal.signal(another, signal.SIG_IGN)
    sys.exit(128 + signum)


def stop_cleanly() -> None:
    """Have the signals that ask this program to end leave nothing behind."""
    for signum in STOP_SIGNALS:
        signal.signal(signum, stop)


def count(text: str) -> int:
    """Read a process count.

    Raises:
        ValueError: it is none.
    """
    if int(text) < 1:
        raise ValueError
    return int(text)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=ROWS, default=list(ROWS), help="rows")
    parser.add_argument("--n", nargs="+", type=count, default=[1, 2], help="process counts")
    parser.add_argument("--minutes", type=float, default=60, help="of this pass")
    parser.add_argument("--ledger", type=Path, default=ROOT / "docs/evidence/truth.jsonl")
    parser.add_argument("--table", type=Path, default=ROOT / "docs/evidence/truth.md")
    return parser.parse_args()


def run_all(options: argparse.Namespace, known: list[Entry]) -> list[Entry]:
    """Do runs until nothing is left to do, or no run fits into the time that is left.

    Args:
        options: The command line.
        known: The runs so far that count.

    Returns:
        The new runs.
    """
    entries = [*known]
    counts = tuple(sorted(set(options.n)))
    began = time.monotonic()
    deadline = began + 60 * options.minutes
    while True:
        left_s = deadline - time.monotonic()
        wanted = next_runs(entries, options.only, counts)
        run = next((one for one in wanted if expected_s(one, entries) <= left_s), None)
        if run is None:
            return entries[len(known) :]
        try:
            entries.append(entry_of(run, deadline))
        except OverdueError:
            say(began, run, "stopped: the time is up")
            return entries[len(known) :]
        add_to_ledger(options.ledger, entries[-1])
        say(began, run, describe(run, entries))


def entry_of(run: Run, deadline: float) -> Entry:
    """Do a run; return its entry for the ledger.

    Raises:
        OverdueError: the deadline came first.
    """
    began, at = time.monotonic(), datetime.now(UTC)
    found = execute(run, deadline)
    return {
        **run._asdict(),
        **found,
        "started": at.isoformat(timespec="seconds"),
        "wall_s": round(time.monotonic() - began, 1),
        "machine": machine(),
        "code": code(run.row),
    }


def describe(run: Run, entries: list[Entry]) -> str:
    """Say what a run has found, and what its cells are now."""
    last = entries[-1]
    if last["status"] != "ok":
        return f"failed: {last['reason']}"
    cells = [cell(entries, run.row, n) for n in run.counts]
    texts = [f"n = {one.n}: {_ratio(one.ratio)}{one.verdict}" for one in cells]
    if run.kind == "loop":
        texts.insert(0, f"{last['rate']:.4g}, {last['count']:,} in {last['seconds']:.1f} s")
    return "; ".join(texts)


def _ratio(found: Ratio) -> str:
    if math.isnan(found.value):
        return ""
    return f"{found.value:.3f} ({found.low:.3f} to {found.high:.3f}), "


def say(began: float, run: Run, text: str) -> None:
    """Print a line of progress."""
    minutes = (time.monotonic() - began) / 60
    counts = " and ".join(map(str, run.counts))
    line = f"{minutes:5.1f} min  {run.row}, {run.kind} of n = {counts}: {text}"
    print(line, file=sys.stderr, flush=True)


def is_current(entry: Entry) -> bool:
    """Whether a run is of the code that is here now."""
    return bool(entry["code"] == code(entry["row"]))


def main() -> int:
    """Run what is missing, print the table, and say whether all cells asked for are true."""
    options = arguments()
    stop_cleanly()
    supervisor.adopt()
    ledger = [entry for entry in read_ledger(options.ledger) if entry["row"] in ROWS]
    # Runs that gave nothing are done again.
    known = [entry for entry in ledger if is_current(entry) and gave_something(entry)]
    shown = newest([*ledger, *run_all(options, known)])
    asked = {(name, n) for name in options.only for n in options.n}
    wanted = asked | {(entry["row"], n) for entry in shown for n in entry["counts"]}
    order = list(ROWS)
    cells = [
        cell(shown, *one) for one in sorted(wanted, key=lambda one: (order.index(one[0]), one[1]))
    ]
    older = {entry["row"] for entry in shown if not is_current(entry)}
    table = markdown(cells, sorted(older), sorted({entry["machine"] for entry in shown}))
    print(table)
    options.table.write_text(INTRODUCTION + table, encoding="utf-8")
    true = {(one.row, one.n) for one in cells if one.verdict == OK and one.row not in older}
    return int(not asked <= true)


if __name__ == "__main__":
    sys.exit(main())
