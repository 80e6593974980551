"""How many models per hour does each way of launching a script give? By whole processes, in turn.

    python benchmarks/launches.py --make-study --rounds 0 --minutes 0   # the studies; nothing else
    python benchmarks/launches.py --output launches.jsonl               # 10 minutes a workload
    python benchmarks/launches.py --rivals --output rivals.jsonl        # one model, one per CPU
    python benchmarks/launches.py --study-folder results/quick          # that study's launch script
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

The first three workloads have figures to reach: what the queue of forked models gives over other
ways. With --rivals the others run, as one model and as one per CPU, without queues: `recommended`
should nowhere be slower than another way by more than 2%, neither by whole processes nor by models
alone. `NCF as written` draws each sample by itself in every way; `NCF as recommended` has in every
way the arguments that its study recommends.

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
import shutil
import sys
import time
from datetime import UTC, datetime
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml
from fault_runs import machine
from launches_list import WORKLOADS
from launches_table import beaten, done, pairs, rate, section
from launches_ways import (
    ACCELERATE,
    LONGEST_S,
    ONE_THREAD,
    Study,
    environment,
    read_study,
    run,
)
from truth import count, stop_cleanly
from truth_list import ROOT
from truth_processes import folder, last_lines, started
from truth_studies import PROJECT
from truth_table import add_to_ledger, read_ledger

from scaling_study.runner import supervisor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

LEAST_ROUNDS = 3
SLOWEST = 10.0
"""Times one thread's time, after which a run is stopped: the default launch can take minutes."""
NO_ACCELERATE = """\
accelerate is missing, which the project does not need. Install it beside the project:
    python -m pip install --no-deps --target FOLDER accelerate huggingface_hub
and set PYTHONPATH=FOLDER"""

Entry = dict[str, Any]


def study_folder(name: str, n: int, project: Path) -> Path:
    """Return where a workload's own study of a process count is."""
    return project / "results" / f"launches-{name.lower().replace(' ', '-')}-{n}"


def make_config_study(config: Mapping[str, Any], project: Path) -> None:
    """Make a study, in a copy of the project unless that is the project itself.

    Raises:
        RuntimeError: the study failed.
    """
    for part in () if project == ROOT else (*PROJECT, config["workload"]["script"]):
        source, target = ROOT / part, project / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copy(source, target)
    with folder("launches-") as own:
        file = own / "study.yaml"
        file.write_text(yaml.safe_dump(dict(config)), encoding="utf-8")
        snakemake = [sys.executable, "-m", "snakemake", "--cores", "all", "--configfile", str(file)]
        words = [*supervisor.supervised(), *snakemake]
        with started(words, own, project, environment()) as process:
            status = process.wait()
        if status:
            said = last_lines(own / "output")
            raise RuntimeError(f"{config['study']}: status {status}: {said}")


def rounds(name: str, n: int, study: Study, options: argparse.Namespace) -> Iterator[Entry]:
    """Run rounds of a workload until its time is up; give an entry for each run."""
    entries: list[Entry] = []
    longest_s = LONGEST_S
    began_s = time.monotonic()
    rng = np.random.default_rng(options.seed)
    for number in itertools.count():
        minutes = (time.monotonic() - began_s) / 60
        if number >= options.rounds and minutes >= options.minutes:
            return
        if number == 0:
            # Reads torch into the page cache; does not count.
            longest_s = min(longest_s, SLOWEST * run(ONE_THREAD, study, n).get("wall_s", longest_s))
        ways = [way for way in WORKLOADS[name].ways if not beaten(pairs(entries, way))]
        for way in map(str, rng.permutation(ways)):
            at = datetime.now(UTC).isoformat(timespec="seconds")
            about = {"workload": name, "steps": study.steps, "n": n, "label": study.label}
            about |= {"round": number, "way": way, "started": at, "machine": machine()}
            if way == ACCELERATE:
                about["version"] = metadata.version(ACCELERATE)
            entry = {**about, **run(way, study, n, longest_s)}
            entries.append(entry)
            said = f"{rate(entry):.1f} models/hour" if done(entry) else f"failed: {entry['reason']}"
            print(
                f"{name}, n = {n}, round {number + 1}, {way}: {said}", file=sys.stderr, flush=True
            )
            yield entry


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    cpus = len(os.sched_getaffinity(0))
    parser.add_argument("--rivals", action="store_true", help="the workloads beside rivals")
    parser.add_argument(
        "--workload",
        nargs="+",
        choices=WORKLOADS,
        help="default: those with figures, or those beside rivals",
    )
    what = "processes; default: one per CPU, and 1 beside rivals"
    parser.add_argument("--n", nargs="+", type=count, help=what)
    parser.add_argument("--minutes", type=float, default=10, help="of each workload and n")
    parser.add_argument("--rounds", type=int, default=LEAST_ROUNDS, help="of each, at least")
    parser.add_argument("--seed", type=int, default=1, help="of the order of ways")
    parser.add_argument("--study-folder", nargs="+", type=Path, help="instead of own studies")
    parser.add_argument("--make-study", action="store_true", help="make the studies before")
    parser.add_argument("--budget-minutes", type=float, help="of a study; default: quick.yaml's")
    parser.add_argument("--project", type=Path, default=ROOT, help="own studies are made here")
    parser.add_argument("--output", type=Path, help="new file for all runs, as JSON lines")
    parser.add_argument("--table", type=Path, help="run nothing; print the table of such a file")
    options = parser.parse_args()
    if options.output and options.output.exists():
        parser.error(f"{options.output} is there already: rounds of two calls are no pairs")
    if options.table and not options.table.exists():
        parser.error(f"{options.table} is not there")
    options.workload = options.workload or [
        name for name, workload in WORKLOADS.items() if options.rivals != bool(workload.targets)
    ]
    options.n = options.n or sorted({1, cpus} if options.rivals else {cpus})
    rivals = any(ACCELERATE in WORKLOADS[name].ways for name in options.workload)
    if rivals and not options.table and find_spec(ACCELERATE) is None:
        parser.error(NO_ACCELERATE)
    return options


def studies(options: argparse.Namespace) -> dict[tuple[str, int], Study]:
    """Return the studies of workloads and process counts; make them first where that is asked for.

    Raises:
        OSError: a file of a study is missing.
        RuntimeError: a study failed.
        ValueError: a study recommends nothing, or is of another script.
    """
    if options.study_folder:
        given = map(read_study, options.study_folder)
        named = {workload_of(study, options.workload): study for study in given}
        return {(name, n): study for name, study in named.items() for n in options.n}
    project = options.project.resolve()
    asked = list(itertools.product(options.workload, options.n))
    for name, n in asked if options.make_study else ():
        study = study_folder(name, n, project).name
        make_config_study(WORKLOADS[name].config(study, n, options.budget_minutes), project)
    return {(name, n): read_study(study_folder(name, n, project)) for name, n in asked}


def workload_of(study: Study, names: Iterable[str]) -> str:
    """Return which of these workloads a study is of: its script, with parameters or without.

    Raises:
        ValueError: it is of none.
    """
    for name in names:
        one = WORKLOADS[name]
        if one.script.name == study.script.name and bool(one.parameters) == bool(study.parameters):
            return name
    raise ValueError(f"{study.script.name}: no script of these workloads")


def main() -> int:
    """Run the rounds, print the tables, and say whether all figures are reached."""
    options = arguments()
    stop_cleanly()
    supervisor.adopt()
    entries = read_ledger(options.table) if options.table else []
    try:
        found = {} if options.table else studies(options)
    except (OSError, RuntimeError, ValueError) as error:
        sys.exit(f"launches: {error}")
    for (name, n), study in found.items():
        for entry in rounds(name, n, study, options):
            entries.append(entry)
            if options.output:
                add_to_ledger(options.output, entry)
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
