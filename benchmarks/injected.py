"""Inject faults, and see whether the diagnosis names them: its self-test.

Every fault slows a real workload down in one known way: a CPU quota, processes piled on one CPU, a
hog outside, a slow loader, denormal numbers … Each run does the experiments of a study under the
fault, and asks for the verdict. Runs with a result in the ledger are not repeated, except those
that do not count, so the command can be stopped at any time. Nothing else should run meanwhile: a
run takes one to four minutes.

    python benchmarks/injected.py [--only quota mask] [--workload ncf] [--runs 5]
    python benchmarks/injected.py --ledger docs/evidence/injected-faults.jsonl  # resume its runs
    python benchmarks/injected.py --again --table TABLE.md    # judge the records anew
"""

from __future__ import annotations

import argparse
import itertools
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import ledger
from child_processes import stop_cleanly
from fault_list import FAULTS, NOTHING
from fault_runs import (
    WORKLOADS,
    Case,
    case_of,
    diagnose,
    experiment,
    measure_microbenchmarks,
    not_possible,
)
from fault_scores import disturbed, markdown, to_run
from ledger import ROOT

from scaling_study.common.doc_tables import fill, update

if TYPE_CHECKING:
    from collections.abc import Iterator

RESULTS = ROOT / "results/.faults"
ATTEMPTS = 3
"""At a run that was disturbed; disturbances last some minutes."""


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    promised = [name for name, fault in FAULTS.items() if fault.promised]
    parser.add_argument("--only", nargs="+", choices=FAULTS, default=promised)
    parser.add_argument("--workload", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--ledger", type=Path, default=RESULTS / "runs.jsonl", help="of all runs")
    parser.add_argument("--again", action="store_true", help="run nothing; judge the records anew")
    parser.add_argument("--table", type=Path, help="fill the table into this file too")
    return parser.parse_args()


def run_cases(
    faults: list[str], options: argparse.Namespace, known: dict[Case, ledger.Entry]
) -> Iterator[Case]:
    """Run what is missing, and again where the hypervisor disturbed it.

    Runs without a fault come first, and the first run of all cases comes first.

    Args:
        faults: those that can be injected here.
        options: the command line.
        known: the runs so far, which gets the new ones.

    Yields:
        Each case that was run.
    """
    measure_microbenchmarks(options.results)
    for run, workload, fault in itertools.product(
        range(options.runs), options.workload, [NOTHING, *faults]
    ):
        wanted = Case(workload, fault, run)
        suits = FAULTS[fault].suits(workload)
        for case in to_run(wanted, known.values(), datetime.now(UTC)) if suits else ():
            for _ in range(ATTEMPTS):
                entry = known[case] = experiment(case, options.results)
                yield case
                names = ", ".join(one["cause"] for one in entry.get("named", ()))
                said = f"{case.name}: {entry['status']}, {names or 'nothing named'}"
                print(said, file=sys.stderr, flush=True)
                if not disturbed(entry):
                    break


def main() -> None:
    """Run what is missing, and print the table."""
    options = arguments()
    stop_cleanly()
    missing = not_possible(options.only)
    entries = ledger.read(options.ledger)
    known = {case_of(one): one for one in entries if one["fault"] in FAULTS}
    if options.again:
        for case, entry in known.items():
            if (options.results / case.name / "0.jsonl").exists():
                known[case] = {**entry, **diagnose(case, options.results)}
        ledger.write(options.ledger, known.values())
    else:
        faults = [name for name in options.only if name not in missing]
        for _ in run_cases(faults, options, known):
            ledger.write(options.ledger, known.values())
    table = markdown(list(known.values()), missing)
    print(table)
    if options.table:
        update([str(options.table)], lambda text: fill(text, {"faults": lambda: table}))


if __name__ == "__main__":
    main()
