"""An axis, a launcher, counters and a cause, a file each outside the package: whole studies."""

import os

import pandas as pd
import pytest

import launch_scripts
from configs import short
from jobs import ROOT, read
from projects import SHORT, Project

pytestmark = pytest.mark.slow

TOYS = ROOT / "tests/toys"
SCRIPT = "tests/workloads/paced.py"
STUDY = short(
    study="toys",
    # Steps alone: beside other tests a start takes longer than all steps of a model.
    workload={
        "script": str(ROOT / "benchmarks/injected_faults/inject.py"),
        "args": ["pause", "--seconds", "0.006", "--", SCRIPT],
        "steps_per_model": None,
    },
    processes=[1],
    launches={"baseline": {"intra_op": 1}, "include": [{"pace": "quick", "launcher": "polite"}]},
    measure=SHORT,
    why={"effort": "quick", "launches": ["baseline"]},
    confirm={"seconds": 10},
)


class ToyProject(Project):
    """A project whose Python path has the toys."""

    def environment(self):
        found = super().environment()
        return {**found, "PYTHONPATH": os.pathsep.join([found["PYTHONPATH"], str(TOYS)])}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = ToyProject(tmp_path_factory.mktemp("toys"))
    project.take_every_window()
    project.hurry()
    project.configure(STUDY)
    project.succeeds()
    return project


def records(project, launch, kind):
    (path, *_) = (project.folder / "results/toys/measure").glob(f"{launch}/0.jsonl")
    found = read(path)[kind]
    assert found
    return found


def test_both_took_effect_and_that_was_read_in_the_member(project):
    for record in records(project, "*polite*", "readback"):
        rows = {row["axis"]: row for row in record["checks"]}
        took_effect = {"requested": "quick", "effective": "quick", "ok": True}
        assert rows["pace"] == {"axis": "pace", **took_effect}
        assert rows["launcher"]["effective"] == "polite"
        assert record["members"][0]["switches"] == {"pace": "quick"}


def test_the_launch_is_recommended_and_confirmed(project):
    found = project.machine("toys", "recommendation")
    assert found["recommended"]["label"] == "launcher polite, intra_op 1, pace quick"
    # A step takes 10 ms less without it.
    assert project.machine("toys", "confirmation")["ratio"]["value"] > 1.2
    text = (project.folder / "reports/toys.html").read_text()
    assert "launcher polite, intra_op 1, pace quick" in text
    assert "torch.pace = &#39;quick&#39;" in text


@pytest.mark.parametrize("queue", [False, True])
def test_the_launch_script_does_what_was_measured_without_this_package(project, queue, tmp_path):
    paused = f"pause --seconds 0.006 -- {project.folder / SCRIPT}"
    (tmp_path / "models").write_text(f"{paused} --steps 3\n{paused} --steps 4\n")
    words = ["--queue", "--forked", tmp_path / "models"] if queue else []
    script = project.folder / "results/toys/launch/recommended.sh"
    launch_scripts.run(script, *words, tmp_path / "logs")
    logs = sorted((tmp_path / "logs").glob("*.log"))
    assert [log.read_text() for log in logs] == ["pace quick\n"] * (2 if queue else 1)
    assert "scaling_study" not in script.with_name("recommended.switches.py").read_text()


def test_a_counter_reaches_records_and_tables(project):
    windows = records(project, "intra_op-1-*", "window")
    members = [member for window in windows for member in window["members"]]
    assert all(member["waits_s"] > 0.006 * member["steps"] for member in members)
    assert all(member["reads"] >= 0 for member in members)
    points = pd.read_csv(project.folder / "results/toys/tables/points.csv")
    waits_s = points.groupby(points["label"].str.contains("quick"))["waits_s_per_step"].mean()
    assert 0.006 <= waits_s[True] < waits_s[False] - 0.005  # the script itself waits for 10 ms
    assert points["reads_per_step"].ge(0).all()


def test_a_cause_is_named_where_a_fault_is_injected(project):
    (target,) = project.machine("toys", "causes")["targets"]
    first, *_ = target["single_process_loss"]["named"]
    assert first["cause"] == "dozing"
    assert first["share"]["value"] > 0.3
    text = (project.folder / "reports/toys.html").read_text()
    assert "A script that dozes" in text
    assert "Let it not doze." in text
