"""All targets of a study: tables/experiments and analysis/causes.json."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from scaling_study.analysis import experiment_runs
from scaling_study.analysis.boundary import coinciding, read_knee
from scaling_study.analysis.experiment_runs import WhyRun
from scaling_study.common.storage import read_json, read_table
from scaling_study.diagnosis import verdict
from scaling_study.diagnosis.case import REFERENCE
from scaling_study.records.analysis import Machines
from scaling_study.records.codec import RecordError, read_file
from scaling_study.records.columns import POINTS
from scaling_study.records.verdict import Causes, Target

SCHEMA_VERSION = 1

Json = dict[str, Any]


def gather(
    paths: Sequence[Path], study_folder: Path, microbenchmarks: Path | None
) -> tuple[pd.DataFrame, Json]:
    """Read and judge all experiments of a study.

    Args:
        paths: why/<target>/<replicate>.jsonl of all targets.
        study_folder: results/<study>, whose analysis has the knees of its launches.
        microbenchmarks: microbenchmarks.json of the machine; None without one.

    Returns:
        tables/experiments and the content of analysis/causes.json, in the order of the paths.

    Raises:
        RecordError: A file cannot be read, or files must not be pooled.
    """
    by_target: dict[tuple[str, str], list[WhyRun]] = {}
    for path in paths:
        run = experiment_runs.read_run(path)
        key = run.head["machine_hash"], run.head["target"]
        others = by_target.setdefault(key, [])
        if any(one.head["measured_hash"] != run.head["measured_hash"] for one in others):
            raise RecordError(
                f"{path}: the workload (script, arguments, environment, inputs or build) changed "
                "since the other replicates: delete the older ones and run the study again"
            )
        others.append(run)
    alone = {"machine": None}
    if microbenchmarks is not None and microbenchmarks.exists():
        alone = read_json(microbenchmarks)
    machines: dict[str, list[Json]] = {}
    for (machine, _), runs in by_target.items():
        own = alone if alone["machine"] == machine else None
        knee = _knee(study_folder, runs[0])
        machines.setdefault(machine, []).append(verdict.judge(runs, own, knee))
    content = {
        "schema_version": SCHEMA_VERSION,
        "machines": [
            {"machine": machine, "targets": targets} for machine, targets in machines.items()
        ],
    }
    return experiment_runs.frame(run for runs in by_target.values() for run in runs), content


def read_causes(results: Path) -> dict[str, tuple[Target, ...]]:
    """Targets of analysis/causes.json by machine; none in a study without experiments on causes."""
    path = results / "analysis/causes.json"
    if not path.exists():
        return {}
    return {one.machine: one.targets for one in read_file(path, Machines[Causes]).machines}


def _knee(study_folder: Path, run: WhyRun) -> Json | None:
    """Where the throughput of a run's launch bends, and the boundary that this coincides with."""
    launch, machine = run.head["launch"], run.head["machine_hash"]
    knee = read_knee(study_folder, machine, launch)
    if knee is None:
        return None
    points = read_table(study_folder / "tables", POINTS)
    own = points[(points["launch"] == launch) & (points["machine"] == machine)]
    read_back = run.readbacks.get(REFERENCE)
    member: Mapping[str, Any] = read_back["members"][0] if read_back else {}
    found = coinciding(knee, own, run.head["machine"], member.get("intra_op"))
    return {**knee.at.to_dict(), "boundary": found}
