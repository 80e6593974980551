"""A study of a script of the truth benchmark, and what the script counted while it was measured."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import truth_stamps
import yaml
from child_processes import run, snakemake
from ledger import ROOT, Entry
from truth_list import ROWS, SCRIPTS, Row

from scaling_study.common import code_digest
from scaling_study.config import plan
from scaling_study.config.config import load_config
from scaling_study.config.workload import RUN
from scaling_study.member import iterations
from scaling_study.runner import jobs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


REPLICATES = 2
LONGEST_S = 560.0
"""Of a study, and of the turns with and without the counter."""
COST_S = 40.0
"""Time of the turns within one process."""
PAIRS = 8
"""Of whole processes with and without the counter."""


@functools.cache
def code(name: str) -> str:
    """Return the digest of the code that a row's numbers depend on."""
    row = ROWS[name]
    further = ("confirm/one_round", "confirm/timeline") if row.whole else ("analysis/rates",)
    own = (Path(__file__), Path(truth_stamps.__file__))
    files = (*own, ROOT / SCRIPTS / "counting.py", ROOT / row.script)
    scripts = code_digest.of_modules(further=files)
    return jobs.digest(jobs.harness_digest(*further), row.args, scripts)


# The study


def config(name: str, counts: Sequence[int], log: Path) -> Entry:
    """Return a row's study: default settings, two replicates, no profiles and no experiments."""
    row = ROWS[name]
    return {
        "study": f"truth-{name}",
        "workload": {
            "script": str(ROOT / row.script),
            "args": [*arguments(row), "--seed", "{member}"],
            "env": {"TRUTH_LOG": str(log)},
            "step": row.step,
            **({} if row.step == RUN else {"steps_per_model": row.steps}),
        },
        "processes": list(counts),
        "launches": {"baseline": {"intra_op": 1}},
        "measure": {"replicates": REPLICATES},
        "confirm": {"seconds": row.confirm_s},
        "profile": "off",
        "why": "off",
    }


def arguments(row: Row) -> list[str]:
    """Return the arguments of a row's script; a script among them has its whole path."""
    return [str(ROOT / one) if one.endswith(".py") else one for one in row.args]


def study(name: str, counts: Sequence[int], folder: Path) -> list[Entry]:
    """Run a row's study, and compare what it says with what the script counted meanwhile.

    Returns:
        An entry for each count.

    Whole processes need the whole study. Windows need the baseline and its repeat only, not the
    default launch, which can be twenty times slower.

    Raises:
        OverdueError: It takes too long.
        RuntimeError: The study failed.
        ValueError: The script counted too little.
    """
    row, log = ROWS[name], folder / "log"
    log.mkdir()
    mapping = config(name, counts, log)
    file = folder / "study.yaml"
    file.write_text(yaml.safe_dump(mapping), encoding="utf-8")
    results = Path("results", mapping["study"])
    commands = [snakemake(file)]
    if row.whole:
        commands[0] += ["--", f"{results}/analysis/confirmation.json"]
    else:
        made = plan.make_plan(load_config(mapping))
        commands[0] += ["--", f"{results}/plan.json"]
        commands[0] += [
            f"{results}/measure/{launch}/{replicate}.jsonl"
            for launch in (made.baseline, made.repeat)
            for replicate in range(REPLICATES)
        ]
        analyse = [sys.executable, "-m", "scaling_study", "analyse", "--study-folder", str(results)]
        commands.append(analyse)
    for command in commands:
        run(command, folder, folder, LONGEST_S)
    logs = truth_stamps.read_logs(log)
    if row.steps is not None:
        (n,) = counts
        return [{"n": n, **truth_stamps.compare_rounds(folder / results, logs, row.steps)}]
    return [{"n": n, **truth_stamps.compare_windows(folder / results, n, logs)} for n in counts]


# The cost of being measured


def cost(name: str, folder: Path) -> list[Entry]:
    """Return a row's time with the counter by that without it: `ratios` of turns side by side.

    Returns:
        One entry.

    Raises:
        RuntimeError: The script failed.
    """
    if ROWS[name].whole:
        return [{"ratios": whole_cost(ROWS[name], folder, os.environ)}]
    file = folder / "ratios"
    attached = [str(ROOT / "benchmarks/attached.py"), "--case", name, "--seconds", f"{COST_S:g}"]
    run([sys.executable, *attached, "--ratios", str(file)], folder, folder, LONGEST_S)
    return [{"ratios": json.loads(file.read_text())}]


def whole_cost(row: Row, folder: Path, environment: Mapping[str, str]) -> list[float]:
    """Return the ratios of whole processes with and without the counter of a confirmation."""
    command = [sys.executable, str(ROOT / row.script), *arguments(row), "--seed", "0"]
    bare = {**environment, "OMP_NUM_THREADS": "1"}
    counted = {**bare, **iterations.environment(folder, row.step, bare)}
    ratios = []
    for pair in range(PAIRS):
        took_s = {}
        for attached in (pair % 2 == 0, pair % 2 == 1):
            began_s = time.monotonic()
            subprocess.run(
                command,
                cwd=folder,
                env=counted if attached else bare,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=True,
            )
            took_s[attached] = time.monotonic() - began_s
        ratios.append(took_s[True] / took_s[False])
    return ratios
