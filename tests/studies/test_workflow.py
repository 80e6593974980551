"""The workflow as its users run it: real Snakemake, in a copy of the project."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from projects import KEY, SHORT, SNAKEMAKE, Project
from scaling_study.runner.environment import INHERITED

pytestmark = pytest.mark.slow

GREETING = 'it\'s $HOME; "here"'
SCRIPT = 'tests/workloads/a lööp\'s "own".py'


def study(script=SCRIPT, **launches):
    return {
        "study": "whole",
        "workload": {
            "script": script,
            "args": ["--steps", "300", "--report", "reported {member}.json"],
            "env": {"GREETING": GREETING},
            "pass_env": ["API_KEY"],
            "steps_per_model": 300,
        },
        "processes": [1, 2],
        "launches": {
            "baseline": {
                "intra_op": 1,
                "wait_policy": "passive",
                "placement": "compact",
                "membind": "local",
                "allocator": "glibc-large-thresholds",
            },
            **launches,
        },
        "measure": dict(SHORT),
        "profile": {"launches": ["baseline"], "samples": 12, "unprofiled_s": 0.5},
        "why": "off",
        "confirm": "off",
    }


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp('a project\'s "own" földer'))
    project.take_every_window()
    shutil.copy(project.folder / "tests/workloads/plain_loop.py", project.folder / SCRIPT)
    return project


@pytest.fixture(scope="module")
def whole(project):
    project.configure(study())
    done = project.snakemake()
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_it_says_what_it_will_do_and_what_came_out(project, whole):
    assert "3 launches" in whole.stdout
    assert "3 cohorts" in whole.stdout
    assert "minutes" in whole.stdout
    assert "Report: reports/whole.html" in whole.stdout
    block = whole.stdout.partition("processes: 1, 2")[2].splitlines()
    assert len(block) < 20
    said = [line.strip() for line in (whole.stdout + whole.stderr).splitlines() if line.strip()]
    assert max(Counter(said).values()) < 4
    for noise in ("Select jobs", "Execute", "Touching output", "rule measure"):
        assert noise not in whole.stdout + whole.stderr
    assert "measure: done in" in whole.stderr
    assert (project.folder / "reports/whole.html").stat().st_size > 20_000
    assert len(project.records("whole")) == 3


def test_members_inherit_nothing_of_the_callers_tuning(project, whole):
    for path in project.records("whole"):
        text = (project.folder / path).read_text()
        before, after = [
            record for record in map(json.loads, text.splitlines())
            if record["kind"] == "readback"
        ]  # fmt: skip
        for member in before["members"] + after["members"]:
            assert member["env"].get("OMP_NUM_THREADS") != "7"
            assert "MALLOC_ARENA_MAX" not in member["env"]
            assert "GREETING" not in member["env"]
    reported = sorted(project.folder.glob("reported *.json"))
    assert reported  # by the script itself
    for path in reported:
        assert json.loads(path.read_text())["greeting"] == GREETING


def test_a_key_of_the_shell_reaches_members_and_nothing_else(project, whole):
    assert all(json.loads(one.read_text())["has_key"] for one in project.folder.glob("reported *"))
    assert KEY not in whole.stdout + whole.stderr
    for path in project.folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            content = gzip.decompress(content) if path.suffix == ".gz" else content
            assert KEY.encode() not in content, path


def test_again_measures_nothing_and_one_value_more_that_launch_only(project, whole):
    before = project.records("whole")
    done = project.snakemake()
    assert done.returncode == 0
    assert "Nothing to be done" in done.stdout + done.stderr
    assert project.records("whole") == before
    project.configure(study(one_change={"placement": ["none"]}))
    done = project.snakemake()
    project.configure(study())
    assert done.returncode == 0, done.stdout + done.stderr
    after = project.records("whole")
    assert {path: after[path] for path in before} == before
    assert len(after) == len(before) + 1


@pytest.mark.parametrize(
    "change",
    [
        lambda config: config["workload"]["args"].append("--steps=400"),
        lambda config: config["measure"].update(steps=21),
        lambda config: config["workload"]["env"].update(NEW="1"),
    ],
)
def test_a_changed_config_measures_anew(project, whole, change):
    config = study()
    change(config)
    project.configure(config)
    done = project.snakemake("--dry-run")
    project.configure(study())
    assert "measure" in done.stdout.split("Rules with provenance triggered jobs:")[1]


def test_a_changed_script_measures_anew_and_a_touched_one_does_not(project, whole):
    script = project.folder / SCRIPT
    text = script.read_text()
    script.write_text(text + "# changed\n")
    changed = project.snakemake("--dry-run").stdout
    script.write_text(text)
    touched = project.snakemake("--dry-run").stdout
    assert "measure" in changed.split("Rules with provenance triggered jobs:")[1]
    # An earlier test changed the config and back: the plan is written again, nothing measured.
    assert "measure" not in touched


def test_the_recommended_launch_gives_what_it_says(project, whole):
    results = project.folder / "results/whole"
    (machine,) = json.loads((results / "analysis/recommendation.json").read_text())["machines"]
    assert machine["status"] == "ok", machine["reason"]
    recommended = machine["recommended"]
    for path in project.folder.glob("reported *.json"):
        path.unlink()

    def launch(**env):
        return subprocess.run(
            ["/bin/bash", results / "launch/recommended.sh", project.folder / "logs"],
            cwd=project.folder.parent,
            env={**os.environ, "OMP_NUM_THREADS": "7", **env},
            capture_output=True,
            text=True,
            check=False,
        )

    done = launch()
    assert done.returncode == 1
    assert "API_KEY: the script needs it" in done.stderr
    done = launch(API_KEY=KEY)
    assert done.returncode == 0, done.stdout + done.stderr
    first = json.loads(
        (results / f"measure/{recommended['launch']}/0.jsonl").read_text().splitlines()[1]
    )
    assert first["kind"] == "readback"
    measured = {member["slot"]: member for member in first["members"]}
    reported = sorted(project.folder.glob("reported *.json"))
    assert len(reported) == recommended["n"]
    for slot, path in enumerate(reported):
        got = json.loads(path.read_text())
        for key in ("cpus", "policy", "intra_op", "sgemm", "allocator", "isa", "torch", "python"):
            assert got[key] == measured[slot][key], key
        assert got["greeting"] == GREETING
        assert got["has_key"]
        # What is inherited is the caller's, there and here; all else is the launch's.
        ours, theirs = (
            {name: text for name, text in env.items() if name not in INHERITED}
            for env in (measured[slot]["env"], got["env"])
        )
        assert theirs == ours


def test_snakemakes_own_report_works(project, whole):
    done = project.snakemake("--report", "snakemake.html")
    assert done.returncode == 0, done.stderr
    assert (project.folder / "snakemake.html").stat().st_size > 100_000


HOLDER = """
from pathlib import Path
from scaling_study.study_run import StudyLock
lock = StudyLock(Path("results/whole"))
print("held", flush=True)
input()
"""


def test_two_runs_in_one_folder_are_refused(project, whole):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        cwd=project.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    holder.stdout.readline()
    done = project.snakemake("--forcerun", "probe")
    holder.communicate("\n")
    assert done.returncode != 0
    assert f"process {holder.pid}" in done.stdout + done.stderr


BAD = """
study: a/b
workload: {script: missing.py, arg: [1]}
launches: {baseline: {blas: openblass}, grid: {intra_op: [0]}}
processes: []
"""


def test_a_bad_config_is_told_at_once_and_completely(project):
    project.configure(BAD)
    before = sorted(project.folder.rglob("*"))
    done = project.snakemake()
    project.configure(study())
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "Traceback" not in said
    for word in ("study", "workload.script", "workload.arg", "launches.baseline.blas", "openblas",
                 "launches.grid.intra_op[0]", "processes"):  # fmt: skip
        assert word in said, word
    new = set(project.folder.rglob("*")) - set(before)
    assert not [path for path in new if ".snakemake" not in str(path)]


def test_a_broken_yaml_file_is_told_without_a_traceback(project):
    project.configure("study: [unclosed\n")
    done = project.snakemake()
    project.configure(study())
    assert done.returncode != 0
    assert "Traceback" not in done.stdout + done.stderr


def test_without_a_config_the_full_study_is_planned(project):
    done = subprocess.run(
        [*SNAKEMAKE, "--summary"], cwd=project.folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "results/tsmixerx/" in done.stdout


def test_the_plan_of_the_folder_is_the_configs(project, whole):
    plan = json.loads((project.folder / "results/whole/plan.json").read_text())
    assert plan["workload"]["script"] == SCRIPT
    assert Path(project.folder / "results/whole/machine.json").exists()
