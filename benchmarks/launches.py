"""How many models per hour does each way of launching a script give? By whole processes, in turn.

    python benchmarks/launches.py --output launches.jsonl               # 10 minutes a workload
    python benchmarks/launches.py --rivals --output rivals.jsonl        # one model, one per CPU
    python benchmarks/launches.py --workload TSMixerx --study-folder results/quick
    python benchmarks/launches.py --table launches.jsonl                # the table once more

Each way starts n processes of the same script at once, from their start to their end:

- default: `python script`, nothing set;
- one thread: the same with OMP_NUM_THREADS=1;
- run_cpu: `python -m torch.backends.xeon.run_cpu --ninstances n --ncores-per-instance k script`,
  with whatever it finds to preload in an activated environment;
- accelerate: n times `accelerate launch --cpu --num_processes n script`, whose default is a thread
  per core, divided by n. Without that number it sets one thread, as `one thread` does;
- recommended: launch/recommended.sh of the workload's study, with the number that it recommends:
  own studies have no other number than n;
- recommended, --queue: the same with a list of ten models for each slot, whose models start fresh,
  forked or in one process.

The study of a workload is made first where results/ does not have it. The first three workloads
have figures to reach: what the queue of forked models gives over other ways. With --rivals the
others run, as one model and as one per CPU, without queues: `recommended` should nowhere be slower
than another way by more than 2%, neither by whole processes nor by models alone. `NCF as written`
draws each sample by itself in every way; `NCF as recommended` has in every way the arguments that
its study recommends.

A round runs every way once, in a shuffled order. models/hour are 3600 x models / seconds until the
last command has ended. `models alone` is the same ratio without the launchers' own time: from the
first model's start until the last one has ended. A launcher that loads torch itself costs the more,
the shorter models are. Ratios are paired by round; intervals are of 95%, over rounds. A figure is
reached if its ratio is, whatever the interval; beside rivals the interval decides. A way that takes
three times as long as ours in its first two rounds is beaten and does not run again; a run
that takes ten times as long as one thread is stopped. Nothing else should run meanwhile. The status
is 0 if all figures are reached.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
from datetime import UTC, datetime
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import child_processes
import ledger
import numpy as np
import yaml
from child_processes import OverdueError, folder, snakemake, stop_cleanly
from launches_table import HOUR_S, beaten, ratios, section
from launches_ways import (
    ACCELERATE,
    LONGEST_S,
    ONE_THREAD,
    WORKLOADS,
    Study,
    environment,
    read_study,
    run,
)
from ledger import ROOT, Entry, machine

if TYPE_CHECKING:
    from collections.abc import Iterator

SLOWEST = 10.0
"""Times one thread's time, after which a run is stopped: the default launch can take minutes."""
NO_ACCELERATE = (
    "accelerate is missing: python -m pip install --no-deps --target FOLDER accelerate "
    "huggingface_hub, and set PYTHONPATH=FOLDER"
)


def study_of(name: str, n: int, options: argparse.Namespace) -> Study:
    """Return the study of a workload at a process count, and make it first where it is missing.

    Raises:
        OSError: a file of the study is missing.
        RuntimeError: the study failed.
        ValueError: the study recommends nothing.
    """
    if options.study_folder:
        return read_study(options.study_folder)
    study = f"launches-{name.lower().replace(' ', '-')}-{n}"
    results = ROOT / "results" / study
    if not (results / "launch/recommended.sh").exists():
        with folder("launches-") as own:
            file = own / "study.yaml"
            mapping = WORKLOADS[name].config(study, n, options.budget_minutes)
            file.write_text(yaml.safe_dump(mapping), encoding="utf-8")
            child_processes.run(snakemake(file), own, ROOT, LONGEST_S, environment())
    return read_study(results)


def rounds(name: str, n: int, study: Study, options: argparse.Namespace) -> Iterator[Entry]:
    """Run rounds of a workload until its time is up; give an entry for each run."""
    entries: list[Entry] = []
    began_s = time.monotonic()
    # Reads torch into the page cache; does not count.
    longest_s = min(LONGEST_S, SLOWEST * run(ONE_THREAD, study, n).get("wall_s", LONGEST_S))
    for number in itertools.count():
        minutes = (time.monotonic() - began_s) / 60
        if number >= options.rounds and minutes >= options.minutes:
            return
        ways = [way for way in WORKLOADS[name].ways if not beaten(ratios(entries, way))]
        for way in map(str, np.random.default_rng(number).permutation(ways)):
            at = datetime.now(UTC).isoformat(timespec="seconds")
            about = {"workload": name, "steps": study.steps, "n": n, "label": study.best.label}
            about |= {"round": number, "way": way, "started": at, "machine": machine()}
            if way == ACCELERATE:
                about["version"] = metadata.version(ACCELERATE)
            entry = {**about, **run(way, study, n, longest_s)}
            entries.append(entry)
            said = f"failed: {entry.get('reason')}"
            if entry["status"] == "ok":
                said = f"{entry['models'] * HOUR_S / entry['wall_s']:.1f} models/hour"
            print(f"{name}, n = {n}, round {number + 1}, {way}: {said}", file=sys.stderr)
            yield entry


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    cpus = len(os.sched_getaffinity(0))
    parser.add_argument("--rivals", action="store_true", help="the workloads beside rivals")
    parser.add_argument("--workload", nargs="+", choices=WORKLOADS, help="instead of those")
    what = "processes; default: one per CPU, and 1 beside rivals"
    parser.add_argument("--n", nargs="+", type=int, help=what)
    parser.add_argument("--minutes", type=float, default=10, help="of each workload and n")
    parser.add_argument("--rounds", type=int, default=3, help="of each, at least")
    parser.add_argument("--study-folder", type=Path, help="of the workload, instead of its own")
    parser.add_argument("--budget-minutes", type=float, help="of a study; default: quick.yaml's")
    parser.add_argument("--output", type=Path, help="new file for all runs, as JSON lines")
    parser.add_argument("--table", type=Path, help="run nothing; print the table of such a file")
    options = parser.parse_args()
    if options.output and options.output.exists():
        parser.error(f"{options.output} is there already: rounds of two calls are no pairs")
    options.workload = options.workload or [
        name for name, workload in WORKLOADS.items() if options.rivals != bool(workload.targets)
    ]
    options.n = options.n or sorted({1, cpus} if options.rivals else {cpus})
    rivals = any(ACCELERATE in WORKLOADS[name].ways for name in options.workload)
    if rivals and not options.table and find_spec(ACCELERATE) is None:
        parser.error(NO_ACCELERATE)
    return options


def main() -> int:
    """Run the rounds, print the tables, and say whether all figures are reached."""
    options = arguments()
    stop_cleanly()
    entries = ledger.read(options.table) if options.table else []
    for name, n in () if options.table else itertools.product(options.workload, options.n):
        try:
            study = study_of(name, n, options)
        except (OSError, OverdueError, RuntimeError, ValueError) as error:
            sys.exit(f"launches: {error}")
        for entry in rounds(name, n, study, options):
            entries.append(entry)
            if options.output:
                ledger.write(options.output, entries)
    sections = [
        section(name, own)
        for name in WORKLOADS
        for n in sorted({entry["n"] for entry in entries})
        if (own := [entry for entry in entries if (entry["workload"], entry["n"]) == (name, n)])
    ]
    print("\n".join(text for text, _ in sections))
    return int(not all(met for _, met in sections))


if __name__ == "__main__":
    sys.exit(main())
