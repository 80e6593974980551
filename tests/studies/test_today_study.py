"""Today's launch in a real workflow: what a run finds, what its jobs know, and a whole study."""

import json
import os

import pytest

from configs import short
from projects import SHORT, Project

PILED = {"OMP_PROC_BIND": "close", "OMP_NUM_THREADS": "1"}
LAUNCHES = {"baseline": {"intra_op": 1}, "today": "auto"}


class Shell(Project):
    """A project in a shell that exports this, and nothing else that makes a launch."""

    exported = {}

    def environment(self):
        library = super().environment()["PYTHONPATH"]
        return {**os.environ, **self.exported, "PYTHONPATH": library}


@pytest.fixture
def project(tmp_path):
    made = Shell(tmp_path)
    sections = {"measure": SHORT, "why": "quick", "confirm": {"seconds": 60}}
    made.configure(short(study="todays", launches=LAUNCHES, **sections))
    return made


@pytest.mark.slow
def test_jobs_know_what_the_run_found_where_the_user_started_it(project):
    path = project.folder / "results/todays/plan.json"

    def planned(*options, **exported):
        project.exported = exported
        said = project.succeeds("results/todays/plan.json", *options)
        return said, json.loads(path.read_text())

    said, first = planned(**PILED)
    assert "default one with OMP_NUM_THREADS=1, OMP_PROC_BIND=close\n" in said
    assert first["today"]
    # A job of a cluster reads the workflow again, where Snakemake has set threads of its own.
    _, again = planned("--mode", "remote", "--force", OMP_NUM_THREADS="16")
    assert again == first
    said, other = planned()
    assert "today's launch: the default one\n" in said
    assert other["today"] is None


@pytest.mark.long
@pytest.mark.alone
def test_a_variable_that_piles_processes_up_is_what_is_slow_today(project):
    """Two processes of one thread each on CPU 0 of two."""
    project.exported = PILED
    project.succeeds()
    found = project.machine("todays", "recommendation")
    assert found["today"]["shell"] == ["OMP_NUM_THREADS=1", "OMP_PROC_BIND=close"]
    assert found["ratio"]["value"] > 1.3
    seen = project.machine("todays", "confirmation")
    assert seen["against"] == "today"
    assert seen["ratio"]["value"] > 1.3
    targets = project.machine("todays", "causes")["targets"]
    today = next(one for one in targets if one["role"] == "today")
    first = today["scaling_loss"]["named"][0]
    assert first["cause"] == "affinity_pileup"
    assert first["share"]["value"] > 0.5
    report = (project.folder / "reports/todays.html").read_text()
    assert "Today&#39;s launch is the default one with OMP_NUM_THREADS=1" in report
    assert "unset OMP_PROC_BIND" in report
