"""Inject faults, and see whether the diagnosis names them: its self-test.

Every fault slows a real workload down in one known way: a CPU quota, processes piled on one CPU, a
hog outside, a slow loader, denormal numbers … Each run does the experiments of a study under the
fault, and asks for the verdict. Runs with a result in the ledger are not repeated, except those
that do not count, so the command can be stopped at any time. Nothing else should run meanwhile: a
run takes one to four minutes.

    python benchmarks/injected.py [--only quota mask] [--workload ncf] [--runs 5]
    python benchmarks/injected.py --ledger docs/evidence/injected-faults.jsonl  # resume its runs
    python benchmarks/injected.py --again --table TABLE.md    # judge the records anew
    python benchmarks/injected.py --bare    # only: do the faults slow the scripts down?
"""

from __future__ import annotations

import argparse
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import fault_bare
from fault_cases import WORKLOADS, Case
from fault_list import FAULTS, NOTHING, ROOT
from fault_runs import Ledger, case_of, diagnose, experiment, measure_microbenchmarks, not_possible
from fault_scores import disturbed, markdown, to_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

ATTEMPTS = 3
"""At a run that was disturbed; disturbances last some minutes."""

INTRODUCTION = """\
# Injected faults, and what the diagnosis found

Every fault slows a workload down in one known way; `benchmarks/fault_list.py` lists them. A run
does the experiments of one launch (`why: quick`) under the fault and asks for the verdict.

- *Right*: the cause with the largest share is the injected one.
- *Accounted for*: the seconds of a step that named causes hold, over the seconds that the fault
  adds: of all runs together, and in brackets of the lowest and the highest run. A single run is
  compared with one other start, on a machine whose speed differs between starts by up to a third.
- The added time is measured against the same workload without the fault, some minutes before. A
  fault that needs code of its own is compared with that code without its cause. A fault that leaves
  a single process as fast as it was is compared with that process in the same run, times the growth
  of the workload itself.
- The dose differs from run to run. The first row counts runs without a fault that name any cause.
- A run in which the hypervisor took a tenth of a CPU does not count, whatever it names, and is
  repeated.
- `benchmarks/emulated_quota.py` injects a quota of the cgroup version that a machine does not have.

[injected-faults.md](injected-faults.md) was measured on an AMD processor: five runs of each
promised case, in windows of eight steps or more.
[injected-faults-intel.md](injected-faults-intel.md) was measured on an Intel processor, in windows
of four steps or more, as today; it has five runs of most promised cases, and counts the others. The
Intel runs led to three rules:

- Sleeping threads cost a single process more time there, so less than 90% of spinning was accounted
  for.
- Processes that take turns on one CPU find their caches cold, so less than 90% of a pile-up with
  TSMixerx was accounted for.
- The memory-bandwidth hog slows a single process too, which no rule can detect. In five runs whose
  records are lost, 86% of it was accounted for with TSMixerx. No cause is named for that part, but
  the hog is no longer ruled out.

Spinning was measured again, because in two of its first runs windows of eight steps did not end in
time. The runs of injected-faults.md are older than these rules, as are some of
injected-faults-intel.md. All runs are older than two later changes: a step counts by when it
begins, and a cause is ruled out only if its share is surely below a tenth. They were not repeated.
Each table counts its verdicts of earlier rules; the .jsonl file beside it holds its runs.

"""


def stop(signum: int, _frame: FrameType | None) -> None:
    """Leave by an exception, so that what was injected is taken away."""
    sys.exit(128 + signum)


def cases(faults: list[str], workloads: list[str], runs: int) -> Iterator[Case]:
    """Go through all runs: those without a fault first, and the first run of all first."""
    for run in range(runs):
        for workload in workloads:
            for fault in [NOTHING, *faults]:
                if FAULTS[fault].suits(workload):
                    yield Case(workload, fault, run)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    promised = [name for name, fault in FAULTS.items() if fault.promised]
    parser.add_argument("--only", nargs="+", choices=FAULTS, default=promised)
    parser.add_argument("--workload", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--results", type=Path, default=ROOT / "results/.faults")
    parser.add_argument("--ledger", type=Path, help="of all runs (default: in RESULTS)")
    parser.add_argument("--again", action="store_true", help="run nothing; judge the records anew")
    parser.add_argument("--bare", action="store_true", help="run the scripts alone, and time them")
    parser.add_argument("--table", type=Path, help="write the table to this file too")
    return parser.parse_args()


def bare(faults: list[str], workloads: list[str]) -> None:
    """Print what the faults do to the scripts themselves."""
    for fault in faults:
        for workload in filter(FAULTS[fault].suits, workloads):
            found = fault_bare.effect(workload, fault)
            clean, injected = found["clean_ms"], found["injected_ms"]
            print(
                f"{fault:12} {workload:9} alone {clean[0]:7.2f} -> {injected[0]:7.2f} ms   "
                f"together {clean[1]:7.2f} -> {injected[1]:7.2f} ms   "
                f"{found['slowdown']:.2f} times",
                flush=True,
            )


def run_quietly(case: Case, ledger: Ledger, results: Path) -> None:
    """Run a case into the ledger, and again where the hypervisor disturbed it."""
    for _ in range(ATTEMPTS):
        entry = experiment(case, results)
        ledger.add(entry)
        names = ", ".join(one["cause"] for one in entry.get("named", ())) or "nothing named"
        print(f"{case.name}: {entry['status']}, {names}", file=sys.stderr, flush=True)
        if not disturbed(entry):
            return


def main() -> None:
    """Run what is missing, and print the table."""
    options = arguments()
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, stop)
    missing = not_possible(options.only)
    faults = [name for name in options.only if name not in missing]
    if options.bare:
        bare(faults, options.workload)
        return
    ledger = Ledger(options.ledger or options.results / "runs.jsonl")
    if options.again:
        for entry in list(ledger):
            case = case_of(entry)
            if (options.results / case.name / "0.jsonl").exists():
                ledger.add({**entry, **diagnose(case, options.results)})
    else:
        measure_microbenchmarks(options.results)
        for wanted in cases(faults, options.workload, options.runs):
            for case in to_run(wanted, ledger, datetime.now(UTC)):
                run_quietly(case, ledger, options.results)
    ledger.write()
    table = markdown(list(ledger), missing)
    print(table)
    if options.table:
        options.table.write_text(INTRODUCTION + table, encoding="utf-8")


if __name__ == "__main__":
    main()
