"""Is what a study says what the machine delivers? Ordinary scripts, counted by themselves.

Each script stamps the end of each of its iterations while a study measures it. In each window the
study's count and rate are compared with the script's own, so no drift of the machine enters. Whole
processes stamp their begin and end in the rounds of a confirmation. A cell (a script at a process
count) is true if the 95% interval of study / script lies within 0.97 to 1.03 and is narrower than
2%. The cost of being measured is a figure of its own: turns with the counter and without it.

    python benchmarks/truth.py                              # all rows: an hour and a half
    python benchmarks/truth.py --only gan ends --n 1        # some rows
    python benchmarks/truth.py --only gan --n               # only the cost of being measured
    python benchmarks/truth.py --minutes 0                  # run nothing; print the table

Every run is a line of the ledger, docs/evidence/truth.jsonl, when it ends. A rerun adds a study to
cells that are not true, and keeps the others. A changed script or package starts its rows anew. The
table goes to docs/evidence/truth.md.

Studies run in a temporary folder, which is removed, also after Ctrl-C. Nothing else should run
meanwhile. The status is 0 if every cell of the rows is true, with the code that is here now.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import ledger
from child_processes import OverdueError, folder, stop_cleanly
from doc_tables import fill, update
from ledger import ROOT, Entry, machine
from truth_list import ROWS
from truth_runs import code, cost, study
from truth_table import OK, cell, markdown

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNTS = (1, 2)
EMPTY = {"status": "failed", "reason": "no window was valid, so nothing was measured or confirmed"}

Run = tuple[str, Sequence[int]]
"""A row, and the process counts of its study; none for its cost."""


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=ROWS, default=list(ROWS), help="rows")
    parser.add_argument("--n", nargs="*", type=int, default=COUNTS, help="process counts")
    parser.add_argument("--minutes", type=float, default=120, help="no run begins later")
    parser.add_argument("--ledger", type=Path, default=ROOT / "docs/evidence/truth.jsonl")
    parser.add_argument("--table", type=Path, default=ROOT / "docs/evidence/truth.md")
    return parser.parse_args()


def run(name: str, counts: Sequence[int]) -> list[Entry]:
    """Run a row's study, or, without a process count, the turns that show its cost."""
    began, at = time.monotonic(), datetime.now(UTC)
    try:
        with folder("truth-") as place:
            ran = study(name, counts, place) if counts else cost(name, place)
            found = [one | (EMPTY if one.get("rates") == [] else {"status": "ok"}) for one in ran]
    except (OverdueError, RuntimeError, ValueError, OSError) as error:
        found = [{"n": n, "status": "failed", "reason": str(error)} for n in counts or [None]]
    about = {
        "started": at.isoformat(timespec="seconds"),
        "wall_s": round(time.monotonic() - began, 1),
        "machine": machine(),
        "code": code(name),
    }
    return [{"row": name, **one, **about} for one in found]


def wanted(names: Sequence[str], counts: Sequence[int], known: Sequence[Entry]) -> Iterator[Run]:
    """Go through the runs that are missing.

    Args:
        names: Rows.
        counts: Process counts.
        known: The runs so far that count.
    """
    costs = {entry["row"] for entry in known if "ratios" in entry}
    for name in names:
        if ROWS[name].block and name not in costs:
            yield name, ()
        for own in ROWS[name].studies(counts):
            if any(cell(known, name, n).verdict != OK for n in own):
                yield name, own


def is_current(entry: Entry) -> bool:
    """Whether a run is of the code that is here now."""
    return bool(entry["code"] == code(entry["row"]))


def newest(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries of each row that are of the code of its last one; failures if no other."""
    last = {entry["row"]: entry["code"] for entry in entries}
    current = [entry for entry in entries if entry["code"] == last[entry["row"]]]
    ran = {(entry["row"], entry.get("n")) for entry in current if entry["status"] == "ok"}
    return [
        entry
        for entry in current
        if entry["status"] == "ok" or (entry["row"], entry.get("n")) not in ran
    ]


def main() -> int:
    """Run what is missing, print the table, and say whether all cells of the rows are true."""
    options = arguments()
    stop_cleanly()
    entries = ledger.read(options.ledger)
    known = [entry for entry in entries if is_current(entry)]
    deadline = time.monotonic() + 60 * options.minutes
    for name, counts in wanted(options.only, options.n, known):
        if time.monotonic() >= deadline:
            break
        ran = run(name, counts)
        entries += ran
        ledger.write(options.ledger, newest(entries))
        for entry in ran:
            said = entry.get("reason") or [*map(entry.get, ("counts", "rates"))]
            print(f"{name} {counts}: {said}", file=sys.stderr, flush=True)
    shown = newest(entries)
    cells = [cell(shown, name, n) for name in ROWS for n in COUNTS]
    older = sorted({entry["row"] for entry in shown if not is_current(entry)})
    table = markdown(cells, older, sorted({entry["machine"] for entry in shown}))
    print(table)
    update([str(options.table)], lambda text: fill(text, {"truth": lambda: table}))
    rows = [one for one in cells if one.row in options.only]
    return int(any(one.verdict != OK or one.row in older for one in rows))


if __name__ == "__main__":
    sys.exit(main())
