"""Today's launch in a real workflow: what a run finds, what its jobs know, and a whole study."""

import json
import os
import subprocess

import pytest

from projects import SHORT, Project

PILED = {"OMP_PROC_BIND": "close", "OMP_NUM_THREADS": "1"}
STUDY = {
    "study": "todays",
    "workload": {
        "script": "tests/workloads/plain_loop.py",
        "args": ["--steps", "300"],
        "steps_per_model": 300,
    },
    "processes": [1, 2],
    "launches": {"baseline": {"intra_op": 1}, "today": "auto"},
    "measure": SHORT,
    "profile": {"launches": []},
    "confirm": {"seconds": 60},
}


def run(project, *options, **exported):
    """Run the study in a shell that exports this, and nothing else that makes a launch."""
    environment = {**os.environ, **exported}
    environment["PYTHONPATH"] = project.environment()["PYTHONPATH"]
    done = subprocess.run(
        project.command(*options),
        cwd=project.folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def project(tmp_path):
    made = Project(tmp_path)
    made.configure(STUDY)
    return made


@pytest.mark.slow
def test_jobs_know_what_the_run_found_where_the_user_started_it(project):
    path = project.folder / "results/todays/plan.json"

    def planned(*options, **exported):
        said = run(project, "results/todays/plan.json", *options, **exported)
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
def test_a_variable_that_piles_processes_up_is_what_is_slow_today(project):
    """Two processes of one thread each on CPU 0 of two."""
    run(project, **PILED)
    results = project.folder / "results/todays"
    (found,) = json.loads((results / "analysis/recommendation.json").read_text())["machines"]
    assert found["today"]["shell"] == ["OMP_NUM_THREADS=1", "OMP_PROC_BIND=close"]
    assert found["ratio"]["value"] > 1.3
    (seen,) = json.loads((results / "analysis/confirmation.json").read_text())["machines"]
    assert seen["against"] == "today"
    assert seen["ratio"]["value"] > 1.3
    (machine,) = json.loads((results / "analysis/causes.json").read_text())["machines"]
    today = next(one for one in machine["targets"] if one["role"] == "today")
    first = today["scaling_loss"]["named"][0]
    assert first["cause"] == "affinity_pileup"
    assert first["share"]["value"] > 0.5
    report = (project.folder / "reports/todays.html").read_text()
    assert "Today&#39;s launch is the default one with OMP_NUM_THREADS=1" in report
    assert "unset OMP_PROC_BIND" in report
