"""Fault a CPU quota of cgroup v2 in an emulated machine: for hosts whose cgroups are v1.

    python benchmarks/emulated_quota.py [--run 0] [--ledger docs/evidence/injected-faults.jsonl]

QEMU boots a machine of two CPUs (tests/emulated), the experiments of one run of injected.py are
done in it with a plain loop of small tensors, and what the verdict says of their records joins
injected.py's ledger. Some ten minutes on two CPUs. All is thirty times slower in there, multiplies
hundreds of times, so its times mean nothing; the cause that is named, and its share, do. (The
verdict is asked out here: in there, with QEMU 7.2, numpy's argsort crashed now and then.)
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from fault_cases import WORKLOADS, Case
from fault_list import ROOT
from fault_runs import Ledger, diagnose, leave_records

sys.path.insert(0, str(ROOT / "tests/emulated"))

from emulator import RESULTS, Machine, Node, run

MACHINE = Machine(
    name="small",
    sockets=1,
    dies=1,
    cores=2,
    threads=1,
    nodes=(Node("0-1", 10240),),
    distances=((10,),),
)
LIMIT_S = 3600
SMALL = ("--width", "128", "--batch-size", "64", "--rows", "4096")
FOLDER = Path("/tmp/faults")  # noqa: S108 (of a machine that is gone with it)


def inside(case: Case) -> None:
    """Do the run in the emulated machine, and leave its records."""
    # A group's children get a quota only where the group hands the controller on.
    Path("/sys/fs/cgroup/cgroup.subtree_control").write_text("+cpu")
    WORKLOADS[case.workload] = replace(WORKLOADS[case.workload], args=SMALL)
    entry = leave_records(case, FOLDER)
    shutil.copytree(FOLDER / case.name, RESULTS / case.name)
    (RESULTS / "entry.json").write_text(json.dumps(entry))


def main() -> None:
    """Boot the machine, or be in it already."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=int, default=0)
    parser.add_argument("--results", type=Path, default=ROOT / "results/.faults")
    parser.add_argument("--ledger", type=Path, help="of all runs (default: in RESULTS)")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    case = Case("plain", "quota_v2", options.run)
    if options.inside:
        inside(case)
        return
    again = [sys.executable, __file__, "--inside", "--run", str(options.run)]
    command = ["env", "PYTHONDONTWRITEBYTECODE=1", *again]
    with tempfile.TemporaryDirectory(prefix="quota-") as name:
        left = Path(name)
        if status := run(MACHINE, command, left, LIMIT_S):
            sys.exit(f"{(left / 'output').read_text()}\nended with status {status}")
        entry = json.loads((left / "entry.json").read_text())
        folder = options.results / case.name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(left / case.name, folder)
    if "status" not in entry:
        entry = {**diagnose(case, options.results), **entry}
    entry["machine"] += ", emulated"
    Ledger(options.ledger or options.results / "runs.jsonl").add(entry)
    print(json.dumps(entry, indent=1))


if __name__ == "__main__":
    main()
