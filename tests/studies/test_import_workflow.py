"""Saved tables as a user imports them: real Snakemake, in a copy of the project."""

import json
import os
import shutil
import subprocess
import sys

import pytest
import yaml

from configs import IMPORTED, ROOT

pytestmark = pytest.mark.slow

PARTS = (
    *("Snakefile", "config", "envs", "profiles", "workflow"),
    *("scripts/workloads", "tests/data/profiler"),
)
STUDY = "import-example"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp('a project\'s "own" földer')
    for part in PARTS:
        target = folder / part
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / part).is_dir() else shutil.copy)(ROOT / part, target)
    return folder


def snakemake(project, *options, config="config/import-example.yaml"):
    command = [sys.executable, "-m", "snakemake", "--cores", "2", "--configfile", config, *options]
    done = subprocess.run(
        command, cwd=project, env=dict(os.environ), capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def said(project):
    code, said = snakemake(project)
    assert code == 0, said
    return said


def test_one_command_ends_in_a_report(project, said):
    assert "nothing is run" in said
    assert "A step takes 3.63× as long with 64 processes as with 4." in said  # noqa: RUF001
    assert "4 against 64 processes: the largest part of the added time" in said
    assert f"Report: reports/{STUDY}.html" in said
    assert "105" in (project / f"reports/{STUDY}.html").read_text(encoding="utf-8")
    results = project / "results" / STUDY
    assert (results / "tables/operators.csv").exists()
    assert (results / "figures/inflation.svg").exists()
    assert not (results / "measure").exists()
    assert [table["steps"] for table in json.loads(
        (results / "analysis/tables.json").read_text(encoding="utf-8")
    )["tables"]] == [550, 550, 1050]  # fmt: skip


def test_again_does_nothing_and_a_changed_table_is_read_again(project, said):
    code, text = snakemake(project)
    assert code == 0
    assert "Nothing to be done" in text
    table = project / "tests/data/profiler/tsmixerx-4.txt"
    whole = table.read_text(encoding="utf-8")
    table.write_text(whole.replace("28.782ms", "38.782ms"), encoding="utf-8")
    code, text = snakemake(project)
    table.write_text(whole, encoding="utf-8")
    assert code == 0
    assert "38.8 ms with 4 processes" in text


def test_mistakes_are_told_before_anything_runs(project):
    config = yaml.safe_load(IMPORTED.read_text(encoding="utf-8"))
    config["study"] = "bad"
    table = project / "cut.txt"
    whole = (ROOT / "tests/data/profiler/tsmixerx-4.txt").read_text(encoding="utf-8")
    table.write_text(whole.replace("9.307us", "9.307 parsecs"), encoding="utf-8")
    config["import"]["tables"] = {4: "cut.txt", 8: "missing.txt"}
    (project / "bad.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    code, text = snakemake(project, config="bad.yaml")
    assert code != 0
    assert "Traceback" not in text
    assert "import.tables[4] = 'cut.txt': line 5: " in text
    assert "import.tables[8] = 'missing.txt': does not exist" in text
    assert not (project / "results/bad").exists()
    assert not (project / "reports/bad.html").exists()


def test_other_studies_are_planned_as_before(project):
    code, text = snakemake(project, "--summary", config="config/quick.yaml")
    assert code == 0, text
    assert "results/quick/analysis/recommendation.json" in text
