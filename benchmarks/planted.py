"""Plant causes, and see whether they are found: the self-test of `why`.

Every plant slows a real workload down in one known way: a CPU quota, processes piled on one CPU, a
hog outside, a slow loader, denormal numbers … Each run does the experiments of a study under the
plant, and asks the verdict. Runs whose result is in the ledger are not done again, but for those
that do not count, so the command can be stopped at any time. Nothing else should run meanwhile: a
job takes one to four minutes.

    python benchmarks/planted.py [--only quota mask] [--workload ncf] [--runs 5]
    python benchmarks/planted.py --ledger docs/evidence/planted.jsonl        # go on with the table's runs
    python benchmarks/planted.py --again --table docs/evidence/planted.md    # new rules, the same records
    python benchmarks/planted.py --bare                             # only: do the plants bite here?
"""

from __future__ import annotations

import argparse
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from plant_list import NOTHING, PLANTS, ROOT, WORKLOADS, Case

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from plant_runs import Ledger

ATTEMPTS = 3
"""At a run that was disturbed; what disturbs lasts some minutes."""

INTRODUCTION = """\
# Planted causes, and what was found

Every plant slows a workload down in one known way; `benchmarks/plant_list.py` says how. A run does
the experiments of one launch (`why: quick`) under the plant and asks for the verdict. *Right*: the
cause with the largest share is the planted one. *Accounted for*: the seconds of a step that named
causes hold, by the seconds that the plant adds to it: of all runs together, and in brackets of the
runs that have the least and the most. (A single run is compared with one other start, on a machine
whose speed differs between starts by up to a third.) What the plant adds is told against the
workload without the plant or, where the plant needs code of its own, with that code but without its
cause: against its step some minutes before, or, where the plant leaves one process alone as fast as
it is, against that process in the same run, times what the workload grows of itself. The dose
differs from run to run. The first row counts runs without a plant in which any cause was named. A
run in which the hypervisor took a tenth of a CPU does not count, whatever it names, and is done
again. A quota of the cgroup version that a machine does not have is planted by
`benchmarks/emulated_quota.py`.

[planted.md](planted.md) is of an AMD processor: five runs of each promised case, with windows of
eight steps or more. [planted-intel.md](planted-intel.md) is of an Intel one, with windows of four
or more, as today: five runs of most promised cases; it counts the others. Three rules come from
there. Threads that sleep cost a process that is alone more time on that processor, and so less than
90% of spinning was accounted for. Processes that take turns on one CPU find their caches cold, so
less than 90% of a pile-up with TSMixerx was. (Spinning was run anew, since in two of its first runs
windows of eight steps did not come to an end in time.) And the memory-bandwidth hog slows a process
that is alone too, which no rule can tell: in five runs whose records are lost 86% of it was
accounted for with TSMixerx. No cause is named for that part, but the hog is no longer ruled out.
The runs of planted.md are older than all three, as are some of planted-intel.md. All are older than
today's windows, in which a step counts by when it begins, and than the rule that rules a cause out
only where its share is surely below a tenth. They were not repeated. Each table counts
its verdicts of earlier rules; the .jsonl beside it has its runs.

"""


def stop(signum: int, _frame: FrameType | None) -> None:
    """Leave by an exception, so that what was planted is taken away."""
    sys.exit(128 + signum)


def cases(plants: list[str], workloads: list[str], runs: int) -> Iterator[Case]:
    """Go through all runs: those without a plant first, and the first run of all first."""
    for run in range(runs):
        for workload in workloads:
            for plant in [NOTHING, *plants]:
                if PLANTS[plant].suits(workload):
                    yield Case(workload, plant, run)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    promised = [name for name, plant in PLANTS.items() if plant.promised]
    parser.add_argument("--only", nargs="+", choices=PLANTS, default=promised)
    parser.add_argument("--workload", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--results", type=Path, default=ROOT / "results/.planted")
    parser.add_argument("--ledger", type=Path, help="of all runs (default: in RESULTS)")
    parser.add_argument("--again", action="store_true", help="run nothing; ask the verdict anew")
    parser.add_argument("--bare", action="store_true", help="run the scripts alone, and time them")
    parser.add_argument("--table", type=Path, help="write the table to this file too")
    return parser.parse_args()


def bare(plants: list[str], workloads: list[str]) -> None:
    """Print what the plants do to the scripts themselves."""
    import plant_bare  # noqa: PLC0415 (the two modes need different things)

    for plant in plants:
        for workload in filter(PLANTS[plant].suits, workloads):
            found = plant_bare.effect(workload, plant)
            clean, planted = found["clean_ms"], found["planted_ms"]
            print(
                f"{plant:12} {workload:9} alone {clean[0]:7.2f} -> {planted[0]:7.2f} ms   "
                f"together {clean[1]:7.2f} -> {planted[1]:7.2f} ms   {found['slowdown']:.2f} times",
                flush=True,
            )


def run_quietly(case: Case, ledger: Ledger, results: Path) -> None:
    """Run a case into the ledger, and again where the hypervisor disturbed it."""
    from plant_runs import experiment  # noqa: PLC0415 (see main)
    from plant_table import disturbed  # noqa: PLC0415

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
    sys.path.insert(0, str(Path(__file__).parent))
    from plant_runs import Ledger, case_of, diagnose, measure_fingerprint, not_possible  # noqa: PLC0415 (the verdict is not needed to run bare)
    from plant_table import markdown, to_run  # noqa: PLC0415

    missing = not_possible(options.only)
    plants = [name for name in options.only if name not in missing]
    if options.bare:
        bare(plants, options.workload)
        return
    ledger = Ledger(options.ledger or options.results / "runs.jsonl")
    if options.again:
        for entry in list(ledger):
            case = case_of(entry)
            if (options.results / case.name / "0.jsonl").exists():
                ledger.add({**entry, **diagnose(case, options.results)})
    else:
        measure_fingerprint(options.results)
        for wanted in cases(plants, options.workload, options.runs):
            for case in to_run(wanted, ledger, datetime.now(UTC)):
                run_quietly(case, ledger, options.results)
    ledger.write()
    table = markdown(list(ledger), missing)
    print(table)
    if options.table:
        options.table.write_text(INTRODUCTION + table, encoding="utf-8")


if __name__ == "__main__":
    main()
