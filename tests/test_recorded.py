"""A real study, recorded once: its tables and analyses are made anew from its records, and equal.

tests/data/recorded.tar.xz is the folder of a study of tests/workloads/loader_workers.py (race,
confirmation, profiles with calls, why and feed) on two CPUs, without what is drawn. A change that
is meant to change a result records it anew, and says in its message what became different.
"""

import json
import shutil
import tarfile

import pandas as pd
import pytest

from jobs import ROOT
from scaling_study import stages
from scaling_study.common.storage import read_json

RECORDED = ROOT / "tests/data/recorded.tar.xz"
TABLES = ("windows", "replicates", "between", "points", "operators", "experiments")
ANALYSES = (
    "attestation", "causes", "confirmation", "failures", "feed", "inflation", "noise", "pareto",
    "provenance", "recommendation", "scaling", "single_changes",
)  # fmt: skip


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
    plan = read_json(now / "searched.json")
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
    assert now == approximately(before)


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
