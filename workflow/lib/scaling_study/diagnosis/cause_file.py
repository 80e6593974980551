"""All targets of a study: tables/experiments and analysis/causes.json."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from scaling_study.analysis import experiment_runs
from scaling_study.analysis.experiment_runs import WhyRun
from scaling_study.analysis.record_schema import RecordError
from scaling_study.analysis.signature import signature
from scaling_study.common.columns import POINTS, REPLICATES
from scaling_study.common.storage import read_json, read_table
from scaling_study.diagnosis import verdict
from scaling_study.diagnosis.case import REFERENCE

SCHEMA_VERSION = 1

Json = dict[str, Any]


def gather(
    paths: Sequence[Path], study_folder: Path, fingerprint: Path | None
) -> tuple[pd.DataFrame, Json]:
    """Read and judge all experiments of a study.

    Args:
        paths: why/<target>/<replicate>.jsonl of all targets.
        study_folder: results/<study>; the tables of its ladder give the signature of T(n).
        fingerprint: fingerprint.json of the machine; None without one.

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
    if fingerprint is not None and fingerprint.exists():
        alone = read_json(fingerprint)
    tables = _tables(study_folder)
    machines: dict[str, list[Json]] = {}
    for (machine, _), runs in by_target.items():
        own = alone if alone["machine"] == machine else None
        shape = _signature(tables, runs[0])
        machines.setdefault(machine, []).append(verdict.judge(runs, own, shape))
    content = {
        "schema_version": SCHEMA_VERSION,
        "machines": [
            {"machine": machine, "targets": targets} for machine, targets in machines.items()
        ],
    }
    return experiment_runs.frame(run for runs in by_target.values() for run in runs), content


def read_causes(results: Path) -> dict[str, list[Json]]:
    """Targets of analysis/causes.json by machine; none in a study without experiments on causes."""
    path = results / "analysis/causes.json"
    if not path.exists():
        return {}
    return {entry["machine"]: entry["targets"] for entry in read_json(path)["machines"]}


def _tables(study_folder: Path) -> tuple[pd.DataFrame, pd.DataFrame] | None:
    """Points and replicates of the ladder, where they were collected."""
    folder = study_folder / "tables"
    if not (folder / f"{POINTS.name}.parquet").exists():
        return None
    return read_table(folder, POINTS), read_table(folder, REPLICATES)


def _signature(tables: tuple[pd.DataFrame, pd.DataFrame] | None, run: WhyRun) -> Json | None:
    """How T(n) of a launch grows; None where its ladder was not measured."""
    if tables is None:
        return None
    head = run.head
    points, replicates = (
        table[(table["launch"] == head["launch"]) & (table["machine"] == head["machine_hash"])]
        for table in tables
    )
    if points.empty:
        return None
    attested = run.attestations.get(REFERENCE)
    member: Mapping[str, Any] = attested["members"][0] if attested else {}
    return signature(points, replicates, head["machine"], member.get("intra_op"))
