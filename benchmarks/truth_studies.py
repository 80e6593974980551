"""A script as a study of its own, and what that says of one thread, or of the default launch."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import yaml
from truth_list import PROCESSES, ROOT, ROWS, SCRIPTS
from truth_processes import OverdueError, last_lines, started

from scaling_study.config import plan
from scaling_study.config.config import load_config
from scaling_study.runner.supervisor import supervised

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REPLICATES = 2
PROJECT = ("Snakefile", "config", "envs", "profiles", "scripts", "workflow", str(SCRIPTS))
"""What a copy of the project needs for a study."""

Entry = dict[str, Any]


def config(name: str, counts: Sequence[int]) -> dict[str, Any]:
    """Return a row's study: default settings, two replicates, no profiles and no experiments."""
    row = ROWS[name]
    model = {"steps_per_model": row.steps}
    return {
        "study": f"truth-{name}",
        "workload": {"script": str(row.script), "args": ["--seed", "{member}"], **model},
        "processes": list(counts),
        "launches": {"baseline": {"intra_op": 1}},
        "measure": {"replicates": REPLICATES},
        "profile": {"launches": []},
        "why": "off",
    }


def study(name: str, counts: tuple[int, ...], folder: Path, deadline: float) -> dict[str, Entry]:
    """Run a row's study in a copy of the project; return what it says for each count.

    Whole processes need the whole study. Of the others what is compared is measured and collected:
    the baseline and its repeat, not the default launch, which is no part of the comparison and can
    be twenty times slower.

    Raises:
        OverdueError: the deadline came first.
        RuntimeError: the study failed.
    """
    project = folder / "project"
    for part in PROJECT:
        source, target = ROOT / part, project / part
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
    (project / "study.yaml").write_text(yaml.safe_dump(config(name, counts)), encoding="utf-8")
    results = Path("results") / f"truth-{name}"
    whole = ROWS[name].compares == PROCESSES
    snakemake = [sys.executable, "-m", "snakemake", "--cores", "all", "--configfile", "study.yaml"]
    run = [*supervised(), *snakemake]
    if whole:
        commands = [run]
    else:
        targets = [f"{results}/plan.json", *map(str, records(name, counts, results))]
        collect = [sys.executable, "-m", "scaling_study", "analyse", "--study-folder", str(results)]
        commands = [[*run, "--", *targets], collect]
    for command in commands:
        with started(command, folder, project) as process:
            try:
                status = process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise OverdueError from None
        if status:
            raise RuntimeError(f"status {status}: {last_lines(folder / 'output')}")
    row, folder = ROWS[name], project / results
    return {
        str(n): read_point(folder, n, whole=whole, of_default=row.of_default(n)) for n in counts
    }


def records(name: str, counts: Sequence[int], results: Path) -> list[Path]:
    """Return the record files of the launches that a row compares."""
    made = plan.make_plan(load_config(config(name, counts)))
    return [
        results / "measure" / launch / f"{replicate}.jsonl"
        for launch in (made.baseline, made.repeat)
        for replicate in range(REPLICATES)
    ]


def read_point(results: Path, n: int, *, whole: bool, of_default: bool = False) -> Entry:
    """Return what a study says at a count: of the default launch, or of one thread per process.

    The baseline and its repeat are the same launch, so both count. Throughputs have their
    replicates' values; whole processes have an interval each.
    """
    planned = json.loads((results / "plan.json").read_text(encoding="utf-8"))
    roles = ("default",) if of_default else ("baseline", "repeat")
    launches = [planned[role] for role in roles]
    points, replicates, windows = (
        table[table["launch"].isin(launches) & (table["n"] == n)]
        for table in (
            pd.read_csv(results / f"tables/{one}.csv")
            for one in ("points", "replicates", "windows")
        )
    )
    between = {
        column: None if points[column].isna().all() else float(points[column].mean())
        for column in points.columns
        if column.startswith("between_") and pd.api.types.is_numeric_dtype(points[column])
    }
    # A point without a valid window has no row; a window has a row for each member.
    lost = windows[~windows["valid"]].drop_duplicates(["launch", "replicate", "cohort", "window"])
    common = {"invalid": len(lost), "between": between}
    if whole:
        return {**_processes(results, points, launches, n), **common}
    measured = points.dropna(subset="steps_per_s")
    value = None
    if len(measured):
        logs = np.log(measured["steps_per_s"])
        value = float(np.exp(np.average(logs, weights=measured["replicates"])))
    values = replicates["steps_per_s"].dropna().tolist()
    return {"source": "measured", "value": value, "values": values, **common}


def _processes(results: Path, points: pd.DataFrame, launches: list[str], n: int) -> Entry:
    """Return confirmed models/hour where the launch was confirmed, or else predicted ones."""
    file = results / "analysis/confirmation.json"
    (found,) = json.loads(file.read_text())["machines"] if file.exists() else [{"arms": []}]
    confirmed = [
        arm
        for arm in found["arms"]
        if arm["launch"] in launches and arm["n"] == n and arm["start"] == "fresh"
    ]
    if confirmed:
        return {"source": "confirmed", "rounds": [_interval(arm) for arm in confirmed]}
    rows = points.dropna(subset="models_per_hour").to_dict("records")
    ends = {
        "value": "models_per_hour",
        "low": "models_per_hour_low",
        "high": "models_per_hour_high",
    }
    predicted = [
        _interval({key: row[name] for key, name in ends.items()} | {"rounds": row["replicates"]})
        for row in rows
    ]
    return {"source": "predicted", "rounds": predicted}


def _interval(arm: Mapping[str, Any]) -> Entry:
    """Keep a number, its interval (None where it has none) and of how many rounds it is."""
    kept = {key: None if pd.isna(arm[key]) else float(arm[key]) for key in ("value", "low", "high")}
    return {**kept, "count": int(arm["rounds"])}
