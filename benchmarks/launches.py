"""How many models per hour does each way of launching a script give? By whole processes, in turn.

    python benchmarks/launches.py --make-study --rounds 0 --minutes 0   # the studies; nothing else
    python benchmarks/launches.py --output launches.jsonl               # 10 minutes a workload
    python benchmarks/launches.py --study-folder results/quick          # that study's launch script
    python benchmarks/launches.py --table launches.jsonl                # the table once more

Each way starts n processes of the same script at once, from their start to their end:

- default: `python script`, nothing set;
- one thread: the same with OMP_NUM_THREADS=1;
- run_cpu: `python -m torch.backends.xeon.run_cpu --ninstances n --ncores-per-instance k script`,
  with whatever it finds to preload in an activated environment;
- recommended: launch/recommended.sh of the workload's study, with the number that it recommends;
- recommended, --queue: the same with a list of four models for each slot; with --reuse each process
  trains one after the other.

A round runs every way once, in a shuffled order. models/hour are 3600 x models / seconds until the
last command has ended. `models alone` is the same ratio without the launchers' own time: from the
first model's start until the last one has ended. A launcher that loads torch itself costs the more,
the shorter models are. Ratios are paired by round; intervals are of 95%, over rounds. A figure is
reached if its ratio is, whatever the interval. Nothing else should run meanwhile. The status is 0
if all figures are reached.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml
from launches_list import WORKLOADS
from launches_table import done, rate, section
from launches_ways import ONE_THREAD, WAYS, Study, environment, read_study, run
from plant_runs import machine
from truth import count, stop_cleanly
from truth_list import ROOT
from truth_processes import folder, last_lines, started
from truth_studies import PROJECT
from truth_table import add_to_ledger, read_ledger

from scaling_study.measuring import family

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LEAST_ROUNDS = 3

Entry = dict[str, Any]


def study_folder(name: str, project: Path) -> Path:
    """Return where a workload's own study is."""
    return project / "results" / f"launches-{name.lower().replace(' ', '-')}"


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
    keep = [sys.executable, "-m", "scaling_study.measuring.keep", "--watch", str(os.getpid()), "--"]
    with folder("launches-") as own:
        file = own / "study.yaml"
        file.write_text(yaml.safe_dump(dict(config)), encoding="utf-8")
        snakemake = [sys.executable, "-m", "snakemake", "--cores", "all", "--configfile", str(file)]
        with started([*keep, *snakemake], own, project, environment()) as process:
            status = process.wait()
        if status:
            said = last_lines(own / "output")
            raise RuntimeError(f"{config['study']}: status {status}: {said}")


def rounds(name: str, study: Study, options: argparse.Namespace) -> Iterator[Entry]:
    """Run rounds of a workload until its time is up; give an entry for each run."""
    began_s = time.monotonic()
    rng = np.random.default_rng(options.seed)
    for number in itertools.count():
        minutes = (time.monotonic() - began_s) / 60
        if number >= options.rounds and minutes >= options.minutes:
            return
        if number == 0:
            run(ONE_THREAD, study, options.n)  # reads torch into the page cache; does not count
        for way in map(str, rng.permutation(WAYS)):
            at = datetime.now(UTC).isoformat(timespec="seconds")
            about = {"workload": name, "steps": study.steps, "n": options.n, "label": study.label}
            about |= {"round": number, "way": way, "started": at, "machine": machine()}
            entry = {**about, **run(way, study, options.n)}
            said = f"{rate(entry):.1f} models/hour" if done(entry) else f"failed: {entry['reason']}"
            print(f"{name}, round {number + 1}, {way}: {said}", file=sys.stderr, flush=True)
            yield entry


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    cpus = len(os.sched_getaffinity(0))
    parser.add_argument("--workload", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--n", type=count, default=cpus, help="processes; default: one per CPU")
    parser.add_argument("--minutes", type=float, default=10, help="of each workload")
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
    return options


def studies(options: argparse.Namespace) -> dict[str, Study]:
    """Return the studies of the workloads asked for; make them first where that is asked for.

    Raises:
        OSError: a file of a study is missing.
        RuntimeError: a study failed.
        ValueError: a study recommends nothing, or is of another script.
    """
    if options.study_folder:
        given = {study.script.name: study for study in map(read_study, options.study_folder)}
        names = {workload.script.name: name for name, workload in WORKLOADS.items()}
        if others := given.keys() - names.keys():
            raise ValueError(f"{', '.join(others)}: no script of this benchmark")
        return {names[script]: study for script, study in given.items()}
    project = options.project.resolve()
    for name in options.workload if options.make_study else ():
        study = study_folder(name, project).name
        make_config_study(WORKLOADS[name].config(study, options.budget_minutes), project)
    return {name: read_study(study_folder(name, project)) for name in options.workload}


def main() -> int:
    """Run the rounds, print the tables, and say whether all figures are reached."""
    options = arguments()
    stop_cleanly()
    family.adopt()
    entries = read_ledger(options.table) if options.table else []
    try:
        found = {} if options.table else studies(options)
    except (OSError, RuntimeError, ValueError) as error:
        sys.exit(f"launches: {error}")
    for name, study in found.items():
        for entry in rounds(name, study, options):
            entries.append(entry)
            if options.output:
                add_to_ledger(options.output, entry)
    sections = [
        section(name, own)
        for name in WORKLOADS
        if (own := [entry for entry in entries if entry["workload"] == name])
    ]
    print("\n".join(text for text, _ in sections))
    return int(not all(met for _, met in sections))


if __name__ == "__main__":
    sys.exit(main())
