"""A race as its users run it: real Snakemake, real members, from the first round to the report."""

import json
import shutil

import pytest

from configs import short
from projects import SHORT_RACE, Project

pytestmark = pytest.mark.slow

SCRIPT = "tests/workloads/plain_loop.py"


def study(**more):
    sections = {
        "workload": {"script": SCRIPT, "steps_per_model": 300},
        "launches": {"baseline": {"intra_op": 1}, "one_change": {"wait_policy": ["passive"]}},
        "search": {"budget_minutes": 5, "confidence": 0.5, "tolerance": 0.2},
    }
    return short(study="raced", measure=SHORT_RACE, **sections | more)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("raced"))
    project.take_every_window()
    return project


@pytest.fixture(scope="module")
def raced(project):
    project.configure(study())
    return project.succeeds()


def rounds(project):
    folder = project.folder / "results/raced/rounds"
    files = sorted(folder.glob("[0-9]*.json"), key=lambda path: int(path.stem))
    return [json.loads(path.read_text()) for path in files]


def read(project, name):
    return json.loads((project.folder / "results/raced" / name).read_text())


def test_it_says_that_it_races_and_what_came_out(project, raced):
    assert "a race of 5 minutes" in raced
    assert "Report: reports/raced.html" in raced
    report = (project.folder / "reports/raced.html").read_text()
    assert "The race took" in report
    assert "It ended because" in report


def test_the_baseline_comes_first_and_every_other_launch_after_it(project, raced):
    found = rounds(project)
    assert found[0]["batches"][0][0]["launch"] == read(project, "plan.json")["baseline"]
    assert found[1]["stage"] == "screen"
    assert found[-1]["not_screened"] == []
    made = read(project, "searched.json")["made"]
    assert len(project.records("raced")) == sum(made.values())


def test_what_the_race_chose_is_what_is_recommended(project, raced):
    choice = read(project, "searched.json")["searched"]["choice"]
    found = project.machine("raced", "recommendation")
    chosen = found["recommended"]
    assert found["raced"]
    assert (chosen["launch"], chosen["n"]) == (choice["launch"], choice["n"])
    assert chosen["probability_best"] == choice["probability"]


def test_the_same_again_measures_nothing_and_a_launch_that_is_added_enters_the_race(project, raced):
    before = project.records("raced")
    project.succeeds()
    assert project.records("raced") == before
    more = {"wait_policy": ["passive"], "inter_op": [1]}
    project.configure(study(launches={"baseline": {"intra_op": 1}, "one_change": more}))
    project.succeeds()
    after = project.records("raced")
    assert before.items() <= after.items()
    assert any("inter_op-1" in path for path in after.keys() - before.keys())


def test_another_script_is_another_race_and_its_old_records_are_kept(project, raced):
    other = SCRIPT.replace("plain_loop", "other")
    shutil.copy(project.folder / SCRIPT, project.folder / other)
    project.configure(study(workload={"script": other, "steps_per_model": 300}))
    project.succeeds("--until", "decide")
    assert rounds(project)[0]["stage"] == "first"
    assert len(list((project.folder / "results/raced/superseded").glob("*/*/*.jsonl"))) > 0
