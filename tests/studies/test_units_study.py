"""Whole studies of programs that make no steps: the unit of work is found, and said."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from processes import PATIENCE_S, wait_until, written
from projects import SHORT, Project

SCRIPT = """\
set -e
for part in 1 2; do
  {python} tests/workloads/whole.py --notes notes --name "$1-$part" --seconds 0.2
done
"""


def test_a_shell_script_is_studied_at_the_first_try(tmp_path):
    project = Project(tmp_path)
    project.take_every_window()
    (project.folder / "train.sh").write_text(SCRIPT.format(python=shlex.quote(sys.executable)))
    workload = {"command": ["bash", "train.sh", "{member}"], "step": "auto"}
    launches = {"include": [{"intra_op": 1}, {"optimizer_kernel": "fused"}]}
    sections = {"measure": {**SHORT, "replicates": 2}, "confirm": {"seconds": 10}}
    study = {"study": "shell", "workload": workload, "processes": [1, 2], "launches": launches}
    project.configure(study | sections)
    said = project.succeeds()
    assert "unit of work: a whole run of the program" in said
    assert "models/hour" in said
    observed = json.loads((project.folder / "results/shell/observed.json").read_text())
    assert (observed["observed"]["step"], observed["observed"]["pool"]) == ("run", False)
    page = (project.folder / "reports/shell.html").read_text()
    assert "#step" not in page
    for words in (
        "The unit of work is a whole run of the program", "Throughput, runs/s",
        "optimizer_kernel changes a Python process from inside",
    ):  # fmt: skip
        assert words in page
    found = project.machine("shell", "recommendation")
    assert found["status"] == "ok"
    # A run is a model, with its start.
    best = found["recommended"]
    assert abs(best["models_per_hour"] / (3600 * best["steps_per_s"]) - 1) < 1e-6
    before = (project.folder / "notes").read_text()
    script = project.folder / "results/shell/launch/recommended.sh"
    subprocess.run(["/bin/bash", str(script), "logs"], cwd=project.folder, check=True)
    names = (project.folder / "notes").read_text().removeprefix(before).split()[::2]
    assert {f"{slot}-2" for slot in range(best["n"])} <= set(names)
    (project.folder / "models").write_text("7\n8\n9\n")
    words = ["/bin/bash", script, "--queue", "models"]
    assert "3 trained" in subprocess.check_output(words, cwd=project.folder, text=True)
    # The start is not observed again.
    assert "one start is observed" not in project.succeeds("--dry-run")


def test_a_program_without_a_unit_says_so_before_anything_is_measured(tmp_path):
    project = Project(tmp_path)
    (project.folder / "train.sh").write_text("echo no such data set >&2; exit 3\n")
    workload = {"command": ["bash", "train.sh"], "step": "auto"}
    project.configure({"study": "shell", "workload": workload, "measure": SHORT})
    said = project.fails()
    assert "The study has not begun: the program ended with status 3: no such data set" in said
    assert not (project.folder / "results/shell/measure").exists()


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_study_that_is_stopped_while_a_start_is_observed_leaves_nothing(tmp_path, signum):
    project = Project(tmp_path)
    begun, ended = tmp_path / "begun", tmp_path / "pipe"
    os.mkfifo(ended)
    words = f"echo $$ > {begun}.part; mv {begun}.part {begun}; exec 3<> {ended}; read -u 3"
    workload = {"command": ["/bin/bash", "-c", words], "step": "auto"}
    project.configure({"study": "shell", "workload": workload, "measure": SHORT})
    running = project.start()
    program = Path("/proc", written(begun))
    os.killpg(running.pid, signum)
    assert running.wait(PATIENCE_S) != 0
    assert "Traceback" not in project.said()
    wait_until(lambda: not program.exists(), "the program's end")
