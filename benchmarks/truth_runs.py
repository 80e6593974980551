"""A run of the truth benchmark: a script under a plain shell loop, or as a study of its own."""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import yaml
from child_processes import OverdueError, folder, last_lines, run, snakemake, started
from ledger import ROOT, Entry
from truth_list import ROWS, SCRIPTS, Row

from scaling_study.config import plan
from scaling_study.config.config import load_config
from scaling_study.config.workload import RUN
from scaling_study.runner import measure
from scaling_study.runner.supervisor import supervised

if TYPE_CHECKING:
    from collections.abc import Sequence

START_LIMIT_S = 240.0
"""For n processes to end their first iteration: compilation takes minutes on a slow machine."""
POLL_S = 0.2
LEAST_EDGES = 3
"""Two ends of a period make one period, which says nothing of how much periods differ."""
HOUR_S = 3600.0
REPLICATES = 2


class Run(NamedTuple):
    """One loop or study of a row; `counts` are the process counts that it gives a number for."""

    row: str
    kind: str
    counts: tuple[int, ...]


@functools.cache
def code(name: str) -> str:
    """Return the digest of the code that a row's numbers depend on."""
    row = ROWS[name]
    further = ("analysis/analyse", *(["confirm/confirm"] if row.confirmed else []))
    scripts = (SCRIPTS / "counting.py", SCRIPTS / "loop.sh", row.script)
    files = [Path(__file__), *(ROOT / script for script in scripts)]
    texts = [file.read_text(encoding="utf-8") for file in files]
    return measure.digest(measure.harness_digest(*further), row.args, texts)


def execute(asked: Run, deadline: float) -> Entry:
    """Do a run; return what it found, or why it failed.

    Args:
        asked: The run.
        deadline: When it is stopped (s of the monotonic clock).

    Raises:
        OverdueError: it was stopped.
    """
    try:
        with folder("truth-") as own:
            if asked.kind == "loop":
                found = loop(ROWS[asked.row], asked.counts[0], own, deadline)
            else:
                found = {"points": study(asked.row, asked.counts, own, deadline)}
            return {"status": "ok", **found}
    except (RuntimeError, ValueError, OSError) as error:
        return {"status": "failed", "reason": str(error)}


# The shell loop


def loop(row: Row, n: int, folder: Path, deadline: float) -> Entry:
    """Run n processes of a script under a shell loop; return what they counted.

    Raises:
        OverdueError: the deadline came first.
        RuntimeError: a process failed, or did not start in time.
        ValueError: too little was counted.
    """
    log, work = folder / "log", folder / "work"
    log.mkdir()
    work.mkdir()
    command = [
        *supervised(),
        *("bash", str(ROOT / SCRIPTS / "loop.sh"), str(n), str(log)),
        *(sys.executable, str(ROOT / row.script), *row.args, "--seed", "{member}"),
    ]
    threads = {} if row.of_default(n) else {"OMP_NUM_THREADS": "1"}
    others = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    with started(command, folder, work, {**others, **threads}):
        _wait_for_start(row, n, log, deadline)
        _sleep(row.loop_s, log, deadline)
    if row.whole:
        return whole_processes([read_ends(log / f"{slot}.ends") for slot in range(n)])
    if any(log.glob("*.ends")):
        raise RuntimeError("a process ended before its time")
    return throughput([read_stamps(log / f"{slot}.0") for slot in range(n)])


def _wait_for_start(row: Row, n: int, log: Path, deadline: float) -> None:
    """Wait until each slot has ended its first iteration, or its first whole process."""
    latest = time.monotonic() + START_LIMIT_S
    for slot in range(n):
        while not (
            read_ends(log / f"{slot}.ends") if row.whole else read_stamps(log / f"{slot}.0", 1)
        ):
            if time.monotonic() > latest:
                raise RuntimeError(f"not all processes started within {START_LIMIT_S:g} s")
            _sleep(POLL_S, log, deadline)


def _sleep(seconds: float, log: Path, deadline: float) -> None:
    """Sleep, while the loop runs."""
    time.sleep(max(0.0, min(seconds, deadline - time.monotonic())))
    for failed in log.glob("*.failed"):
        status = failed.read_text(encoding="utf-8").strip()
        raise RuntimeError(f"status {status}: {last_lines(failed.with_suffix('.out'))}")
    if time.monotonic() >= deadline:
        raise OverdueError


def read_stamps(file: Path, most: int = -1) -> list[float]:
    """Return the stamps of a process (see truth/counting.py), or the first ones.

    There is no file before its script has made its counter.
    """
    if not file.exists():
        return []
    stamps = np.fromfile(file, np.float64, most)
    return [float(stamp) for stamp in stamps[stamps != 0]]


def read_ends(file: Path) -> list[float]:
    """Return when the processes of a slot ended; there is no file before the first end."""
    return [float(line) for line in file.read_text().splitlines()] if file.exists() else []


def throughput(logs: Sequence[Sequence[float]]) -> Entry:
    """Count iterations in the time in which all processes ran.

    That time is from the last process's first iteration end to the first process's last one. In it
    each process counts from one edge to another: ends of periods where the script has periods, so
    that only whole ones count, or else ends of iterations.

    Args:
        logs: Of each process its stamps in s, in order: an iteration's end, or less than 0 for a
            period's.

    Raises:
        ValueError: a process has too few edges in that time.
    """
    if not all(logs):
        raise ValueError("a process counted nothing")
    begin = max(abs(log[0]) for log in logs)
    end = min(abs(log[-1]) for log in logs)
    counts, spans = [], []
    for log in logs:
        periods = [-stamp for stamp in log if stamp < 0]
        iterations = [stamp for stamp in log if stamp > 0]
        edges = [edge for edge in periods or iterations if begin <= edge <= end]
        if len(edges) < LEAST_EDGES:
            what = "periods" if periods else "iterations"
            raise ValueError(f"{len(edges)} ends of {what} while all ran; {LEAST_EDGES} are needed")
        counts.append(sum(edges[0] < stamp <= edges[-1] for stamp in iterations))
        spans.append(edges[-1] - edges[0])
    return _counted(counts, spans, 1.0)


def whole_processes(ends: Sequence[Sequence[float]]) -> Entry:
    """Count whole processes of slots that are busy all the time.

    Each slot counts from its first process's end to its last one's: whole processes, with their
    starts, and without the loop's own. All slots are busy until the loop is stopped.

    Args:
        ends: Of each slot when its processes ended, in s.

    Raises:
        ValueError: a slot has too few.
    """
    few = min(map(len, ends))
    if few < LEAST_EDGES:
        raise ValueError(f"{few} processes ended in a slot; {LEAST_EDGES} are needed")
    return _counted([len(slot) - 1 for slot in ends], [slot[-1] - slot[0] for slot in ends], HOUR_S)


def _counted(counts: Sequence[int], spans: Sequence[float], unit_s: float) -> Entry:
    """Return the rate of all processes, how many iterations were counted, and in what mean time."""
    rates = [unit_s * count / span for count, span in zip(counts, spans, strict=True)]
    return {"rate": sum(rates), "count": sum(counts), "seconds": sum(spans) / len(spans)}


# The study


def config(name: str, counts: Sequence[int]) -> Entry:
    """Return a row's study: default settings, two replicates, no profiles and no experiments."""
    row = ROWS[name]
    return {
        "study": f"truth-{name}",
        "workload": {
            "script": str(ROOT / row.script),
            "args": [*row.args, "--seed", "{member}"],
            "step": row.step,
            **({} if row.step == RUN else {"steps_per_model": row.steps}),
        },
        "processes": list(counts),
        "launches": {"baseline": {"intra_op": 1}},
        "measure": {"replicates": REPLICATES},
        "profile": {"launches": []},
        "why": "off",
    }


def study(name: str, counts: tuple[int, ...], folder: Path, deadline: float) -> dict[str, Entry]:
    """Run a row's study; return what it says for each count.

    Whole processes need the whole study. Throughputs need the baseline and its repeat only, not the
    default launch, which is not compared and can be twenty times slower.

    Raises:
        OverdueError: the deadline came first.
        RuntimeError: the study failed.
    """
    row = ROWS[name]
    mapping = config(name, counts)
    file = folder / "study.yaml"
    file.write_text(yaml.safe_dump(mapping), encoding="utf-8")
    results = Path("results", mapping["study"])
    commands = [snakemake(file)]
    if not row.confirmed:
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
        run(command, folder, folder, deadline - time.monotonic())
    read = confirmed if row.confirmed else replicates
    return {str(n): read(folder / results, n, row) for n in counts}


def _launches(results: Path, n: int, row: Row) -> list[str]:
    """Return the launches that are compared; the baseline and its repeat are the same launch."""
    planned: dict[str, Any] = json.loads((results / "plan.json").read_text(encoding="utf-8"))
    roles = ("default",) if row.of_default(n) else ("baseline", "repeat")
    return [planned[role] for role in roles]


def replicates(results: Path, n: int, row: Row) -> Entry:
    """Return the steps/s of each replicate, or the whole runs/h."""
    table = pd.read_csv(results / "tables/replicates.csv")
    own = table[table["launch"].isin(_launches(results, n, row)) & (table["n"] == n)]
    unit_s = HOUR_S if row.whole else 1.0
    return {"values": (unit_s * own["steps_per_s"].dropna()).tolist()}


def confirmed(results: Path, n: int, row: Row) -> Entry:
    """Return the confirmed models/hour with their interval; nothing where none were confirmed."""
    launches = _launches(results, n, row)
    (found,) = json.loads((results / "analysis/confirmation.json").read_text())["machines"]
    arms = [
        arm
        for arm in found["arms"]
        if arm["launch"] in launches and (arm["n"], arm["start"]) == (n, "fresh")
    ]
    return {"rounds": [{key: arm.get(key) for key in ("value", "low", "high")} for arm in arms]}
