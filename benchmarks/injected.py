"""Inject faults, and see whether the diagnosis names them: its self-test.

Every fault slows a real workload down in one known way: a CPU quota, processes piled on one CPU, a
hog outside, a slow loader, denormal numbers … Each run does the experiments of a study under the
fault, and keeps what they recorded in docs/evidence/injected-faults. Today's rules then judge all
kept runs, and the table in docs/evidence/injected-faults.md is theirs. A kept run is not repeated,
so the command can be stopped at any time. Nothing else should run meanwhile: a run takes one to
four minutes.

    python benchmarks/injected.py [--only quota mask] [--workload ncf] [--runs 5]
    python benchmarks/injected.py --runs 0    # measure nothing; judge all kept runs
"""

from __future__ import annotations

import argparse
import itertools
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from child_processes import OverdueError, stop_cleanly
from doc_tables import publish
from fault_list import FAULTS
from fault_runs import WORKLOADS, Case, kept_runs, measure_case, measure_microbenchmarks
from fault_scores import LOST_CPUS, due, markdown
from ledger import ROOT

if TYPE_CHECKING:
    from fault_runs import Run

KEPT = ROOT / "docs/evidence/injected-faults"
DOCUMENT = KEPT.with_suffix(".md")
ATTEMPTS = 3
"""At a run that others disturb; disturbances last some minutes."""


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    promised = [name for name, fault in FAULTS.items() if fault.promised]
    parser.add_argument("--only", nargs="+", choices=FAULTS, default=promised)
    parser.add_argument("--workload", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--runs", type=int, default=1, help="of each case")
    return parser.parse_args()


def measure(case: Case) -> Run | None:
    """Run a case, and again while others disturb it; None if no run of it counts."""
    for _ in range(ATTEMPTS):
        try:
            run = measure_case(case, KEPT)
        except (OverdueError, RuntimeError) as error:
            print(f"{case.name}: {error}", file=sys.stderr, flush=True)
            return None
        named = ", ".join(cause.cause for cause in run.named) or "nothing named"
        lost = f"{run.lost_cpus:.2f} CPUs lost to others"
        print(f"{case.name}: {run.status}, {named}; {lost}", file=sys.stderr, flush=True)
        if run.lost_cpus <= LOST_CPUS:
            return run
        (KEPT / case.file).unlink()
    return None


def main() -> None:
    """Run what is missing, the first run of each case first, and fill the table."""
    options = arguments()
    stop_cleanly()
    runs = {run.case: run for run in kept_runs(KEPT)}
    host = measure_microbenchmarks() if options.runs else ""
    for number, workload, fault in itertools.product(
        range(options.runs), options.workload, options.only
    ):
        for case in due(Case(workload, fault, number), runs.values(), host, datetime.now(UTC)):
            run = measure(case)
            if run is None:
                break  # it is compared with this one
            runs[case] = run
    publish(markdown([runs[case] for case in sorted(runs)]), "faults", DOCUMENT)


if __name__ == "__main__":
    main()
