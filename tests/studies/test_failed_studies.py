"""Studies that have nothing to show, as their users meet them, and the same command once more."""

import pytest

from configs import short
from projects import SHORT, SHORT_RACE, Project

pytestmark = pytest.mark.slow

BUSY = """

INVALID = frozenset({"few_steps", "foreign_cpu"})
_seen = flags


def flags(*args, **settings):
    found = [one for one in _seen(*args, **settings) if one != "foreign_cpu"]
    from pathlib import Path

    return [*found, "foreign_cpu"] if Path("busy").exists() else found
"""


@pytest.fixture
def project(tmp_path):
    """A project on a machine that is busy exactly while there is a file `busy`."""
    project = Project(tmp_path)
    windows = tmp_path / "workflow/lib/scaling_study/runner/windows.py"
    windows.write_text(windows.read_text() + BUSY)
    return project


WORKLOAD = {
    "script": "tests/workloads/fails.py",
    "args": ["--how", "file", "--file", "forgotten.txt"],
}
GRID = {"measure": {**SHORT, "retries": 0}}
RACE = {"search": {"budget_minutes": 3}, "measure": {**SHORT_RACE, "retries": 0}}


@pytest.mark.parametrize("sections", [GRID, RACE], ids=["grid", "race"])
def test_what_failed_or_was_lost_is_measured_by_the_same_command(project, sections):
    project.configure(short(study="failed", workload=WORKLOAD, processes=[1], **sections))
    folder = project.folder / "results/failed"
    # A file is missing: the first start ends the study.
    done = project.snakemake()
    text = done.stdout + done.stderr
    assert done.returncode != 0
    assert "The study stopped: tests/workloads/fails.py cannot be measured." in text
    assert "Reason: ended with status 1: FileNotFoundError: [Errno 2] No such file" in text
    assert "  |     args.file.read_text()" in text
    assert text.count("member 0: ended with status 1") == 1
    assert "all jobs are being stopped" not in text
    assert [path.parent.name for path in folder.glob("measure/*/*.part")] == ["default-44136f"]
    assert not (project.folder / "reports/failed.html").exists()
    # It is there, and every window is lost to other programs.
    (project.folder / "forgotten.txt").touch()
    (project.folder / "busy").touch()
    text = project.fails()
    assert "The study has no result: no window of any launch is valid." in text
    assert "Report: reports/failed.html" in text
    assert project.machine("failed", "recommendation")["status"] == "none"
    # A dry run says what it would do, and does nothing.
    before = sorted(map(str, folder.rglob("*")))
    text = project.succeeds("--dry-run")
    assert ("decide" if sections is RACE else "measure") in text
    assert sorted(map(str, folder.rglob("*"))) == before
    # The machine is quiet again.
    (project.folder / "busy").unlink()
    text = project.succeeds()
    logs = [path.read_text() for path in folder.glob("logs/*/*.log")]
    assert any("records of an earlier run" in log for log in logs)
    found = project.machine("failed", "recommendation")
    assert found["status"] == "ok"
    # The script ends: its ends tell how many steps a model has.
    assert found["objective"] == "models_per_hour"
    assert found["model_length"]["steps"] == 100
    assert "models/hour" in text
    assert sections is RACE or not list(folder.glob("measure/*/*.again"))
    measured = project.records("failed")
    assert len(measured) >= 3
    assert "Nothing to be done" in project.succeeds()
    assert project.records("failed") == measured
