"""A real study, recorded once: its tables and analyses are made anew from its records, and equal.

tests/data/recorded.tar.xz is the folder of a study of tests/workloads/loader_workers.py (race,
confirmation, profiles with calls, why and data loader) on two CPUs, without what is drawn. A change
that is meant to change a result records it anew, and says in its message what became different.
"""

import json
import shutil
import tarfile

import pandas as pd
import pytest

from jobs import ROOT
from scaling_study import stages
from scaling_study.common.storage import read_json
from scaling_study.config.plan import read_plan

RECORDED = ROOT / "tests/data/recorded.tar.xz"
TABLES = ("windows", "replicates", "between", "points", "operators", "experiments")
ANALYSES = (
    "readback", "causes", "confirmation", "failures", "data_loader", "inflation", "noise", "pareto",
    "provenance", "recommendation", "scaling", "single_changes",
)  # fmt: skip

REMOVED = (
    # One knee is told, that of the scaling law; the boundary that it coincides with stands by it.
    "causes.machines.targets.signature", "causes.machines.targets.knee",
    # What nothing read: the tables, cohorts.json and the plan have it, or the page says it itself.
    *(f"scaling.machines.{key}" for key in ("interval", "launches.label", "launches.role")),
    *(f"scaling.machines.launches.{key}" for key in ("points", "best_n", "recommended_n")),
    *(f"scaling.machines.launches.laws.{key}" for key in ("curve", "not_fitted")),
    *(f"single_changes.machines.baseline.{key}" for key in ("label", "ranks_wait")),
    *(f"single_changes.machines.changes.{key}" for key in ("label", "ranks_wait")),
    *(f"single_changes.machines.changes.{key}" for key in ("work", "compiled")),
    *("noise.machines.text", "inflation.machines.comparisons.rows.per_step_ratio"),
    *("recommendation.machines.ratio.text", "recommendation.machines.ratio_same_n.text"),
    *(f"provenance.{key}" for key in ("study", "seed", "left_out", "interval", "machines.seeds")),
)  # fmt: skip
"""Keys that the recorded analyses have and today's do not."""
REWORDED = (
    "causes.machines.targets.summary",
    *(
        f"causes.machines.targets.{scope}.{status}.{key}"
        for scope in ("scaling_loss", "single_process_loss")
        for status in ("named", "ruled_out", "inconclusive")
        for key in ("for.text", "against.text", "looks", "remedy.text", "remedy.command")
    ),
    *(
        f"causes.machines.targets.{scope}.not_tested.reason"
        for scope in ("scaling_loss", "single_process_loss")
    ),
)
"""Sentences and commands that are worded differently today."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The study as it was, and as it is now."""
    base = tmp_path_factory.mktemp("recorded")
    with tarfile.open(RECORDED) as packed:
        packed.extractall(base, filter="data")
    before, now = base / "recorded", base / "now"
    shutil.copytree(before, now)
    for made in ("tables", "analysis"):
        shutil.rmtree(now / made)
    plan = read_plan(now / "searched.json")
    stages.collect(now, plan)
    stages.analyse(now, plan)
    stages.judge(now, plan)
    return before, now


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_equal(folders, name):
    before, now = (pd.read_csv(folder / f"tables/{name}.csv") for folder in folders)
    pd.testing.assert_frame_equal(before, now, rtol=1e-9)


@pytest.mark.parametrize("name", ANALYSES)
def test_analyses_are_equal(folders, name):
    before, now = (read_json(folder / f"analysis/{name}.json") for folder in folders)
    for path in (*REMOVED, *REWORDED):
        file, *keys = path.split(".")
        if file == name:
            before, now = without(before, keys), without(now, keys)
    assert now == approximately(before)


def without(value, keys):
    """A value less what is at the end of a path of keys; lists are looked into."""
    if isinstance(value, list):
        return [without(item, keys) for item in value]
    if not isinstance(value, dict):
        return value
    first, *rest = keys
    return {
        key: without(item, rest) if key == first else item
        for key, item in value.items()
        if rest or key != first
    }


def approximately(value):
    """Numbers to nine digits: another processor's sums may differ in the last ones."""
    if isinstance(value, dict):
        return {key: approximately(item) for key, item in value.items()}
    if isinstance(value, list):
        return [approximately(item) for item in value]
    return pytest.approx(value, rel=1e-9, nan_ok=True) if isinstance(value, float) else value


def test_all_cohorts_are_there(folders):
    before, now = (folder / "tables/cohorts.json" for folder in folders)
    assert json.loads(now.read_text()) == json.loads(before.read_text())
