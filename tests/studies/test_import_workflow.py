"""Saved tables as a user imports them: real Snakemake, in a copy of the project."""

import json

import pytest

from configs import IMPORTED
from projects import Project

pytestmark = pytest.mark.slow

TABLES = "config/tables"
STUDY = "import-example"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp('a project\'s "own" földer'))
    project.configure(IMPORTED.read_text(encoding="utf-8"))
    return project


@pytest.fixture(scope="module")
def said(project):
    return project.succeeds()


def test_one_command_ends_in_a_report(project, said):
    assert "nothing is run" in said
    assert "A step takes 3.63× as long with 64 processes as with 4." in said  # noqa: RUF001
    assert "4 against 64 processes: the largest part of the added time" in said
    assert f"Report: reports/{STUDY}.html" in said
    assert "105" in (project.folder / f"reports/{STUDY}.html").read_text(encoding="utf-8")
    results = project.folder / "results" / STUDY
    assert (results / "tables/operators.csv").exists()
    assert (results / "figures/inflation.svg").exists()
    assert not (results / "measure").exists()
    tables = json.loads((results / "analysis/tables.json").read_text(encoding="utf-8"))["tables"]
    assert [table["steps"] for table in tables] == [550, 550, 1050]


def test_again_does_nothing_and_a_changed_table_is_read_again(project, said):
    assert "Nothing to be done" in project.succeeds()
    table = project.folder / TABLES / "tsmixerx-4.txt"
    whole = table.read_text(encoding="utf-8")
    table.write_text(whole.replace("28.782ms", "38.782ms"), encoding="utf-8")
    text = project.succeeds()
    table.write_text(whole, encoding="utf-8")
    assert "A step takes 2.69× as long with 64 processes as with 4." in text  # noqa: RUF001
