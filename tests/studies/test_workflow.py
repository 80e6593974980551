"""The workflow as its users run it: real Snakemake, from a folder of their own.

The checkout is elsewhere, and nobody writes into it.
"""

import gzip
import json
import os
import re
import shutil
import sys
from collections import Counter

import pytest
import yaml

import launch_scripts
from configs import short
from jobs import read
from made_records import read_lines
from projects import KEY, SHORT, SNAKEMAKE, Project
from scaling_study.runner.environment import INHERITED

pytestmark = pytest.mark.slow

GREETING = 'it\'s $HOME; "here"'
SCRIPT = 'src/a lööp\'s "own".py'
OUTER = """
configfile: "outer.yaml"


rule mine:
    input:
        "reports/whole.html",
    output:
        "outer.txt",
    resources:
        quiet=1,
    shell:
        "cp {{input}} {{output}}"


module study:
    snakefile:
        {snakefile!r}
    config:
        config["study"]
{more}

use rule * from study as study_*
"""


def study(**launches):
    workload = {
        "script": SCRIPT,
        "args": ["--steps", "{steps}", "--report", "reported {member}.json"],
        "parameters": {"steps": 300},
        "env": {"GREETING": GREETING},
        "pass_env": ["API_KEY"],
        "steps_per_model": 300,
    }
    baseline = {"intra_op": 1, "wait_policy": "passive", "allocator": "glibc-large-thresholds"}
    bound = {"placement": "compact", "membind": "local"}
    launches = {"baseline": baseline | bound, **launches}
    profile = {"effort": "quick", "launches": ["baseline"]}
    sections = {"launches": launches, "measure": dict(SHORT), "profile": profile}
    return short(study="whole", workload=workload, **sections)


def allow(checkout, *, writing):
    for path in (checkout, *checkout.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200 if writing else path.stat().st_mode & ~0o222)


def files_of(checkout):
    """What root may write all the same."""
    return {path: path.stat().st_mtime_ns for path in checkout.rglob("*")}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp('a user\'s "own" földer')
    project = Project(folder, tmp_path_factory.mktemp('a checkout\'s "own" földer'))
    project.take_every_window()
    (folder / SCRIPT).parent.mkdir()
    workloads = project.checkout / "tests/workloads"
    shutil.copy(workloads / "plain_loop.py", folder / SCRIPT)
    shutil.copy(workloads / "size.py", folder / "src")
    # Names of modules that Python would take from here, if it looked here.
    for name in ("logging", "queue", "yaml"):
        (folder / f"{name}.py").write_text(f"raise SystemExit('{name}: another one')\n")
    project.configure(study())
    allow(project.checkout, writing=False)
    before = files_of(project.checkout)
    yield project
    assert files_of(project.checkout) == before
    allow(project.checkout, writing=True)  # pytest removes it


@pytest.fixture(scope="module")
def whole(project):
    command = [sys.executable, "-P", "-m", "scaling_study.study.command"]
    done = project.execute([*command, "study.yaml", "--cores", "192"])
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


def test_measurements_are_alone(project, whole):
    """By what Snakemake writes down of each output: when its job began, and when it was there."""
    kept = (project.folder / ".snakemake/metadata").rglob("*")
    jobs = [json.loads(path.read_text()) for path in kept if path.is_file()]
    measurements = [job for job in jobs if job["rule"] == "measure"]
    assert len(measurements) == 3
    for one in measurements:
        for other in (job for job in jobs if job is not one):
            apart = other["endtime"] <= one["starttime"] or one["endtime"] <= other["starttime"]
            assert apart, (one, other)


def test_the_same_folder_is_the_same_study_however_it_is_named(project, whole):
    where = ["--directory", project.folder, "--configfile", project.folder / "study.yaml"]
    done = project.execute([*SNAKEMAKE, *where, "--dry-run"], cwd=project.checkout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Nothing to be done" in done.stdout + done.stderr


def test_members_inherit_nothing_of_the_callers_tuning(project, whole):
    for path in project.records("whole"):
        before, after = read(project.folder / path)["readback"]
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
    assert "Nothing to be done" in project.succeeds()
    assert project.records("whole") == before
    project.configure(study(one_change={"placement": ["none"]}))
    project.succeeds()
    project.configure(study())
    after = project.records("whole")
    assert {path: after[path] for path in before} == before
    assert len(after) == len(before) + 1


def due(project, config=None):
    """What a dry run would do again, and why."""
    project.configure(config or study())
    said = project.succeeds("--dry-run")
    project.configure(study())
    return said.partition("Rules with provenance triggered jobs:")[2]


def test_a_changed_config_or_script_measures_anew_and_a_touched_script_does_not(project, whole):
    changes = {"workload": {"args": ["--steps={steps}"]}, "measure": {"steps": 21}}
    for section, changed in changes.items():
        config = study()
        config[section] |= changed
        assert "measure" in due(project, config)
    script = project.folder / SCRIPT
    text = script.read_text()
    script.write_text(text + "# changed\n")
    assert "measure" in due(project)
    script.write_text(text)
    # An earlier test changed the config and back: the plan is written again, nothing measured.
    assert "measure" not in due(project)


def test_changed_code_of_the_project_is_run_again(project, whole):
    code = project.checkout / "workflow/lib/scaling_study/report/page.py"
    text, before = code.read_text(), code.stat()
    code.chmod(0o644)
    code.write_text(f"{text}\n")
    said = project.succeeds("--dry-run", "--quiet", "reason")
    code.write_text(text)
    code.chmod(before.st_mode)
    os.utime(code, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert re.search(r"^render +1$", said, re.MULTILINE), said
    assert not re.search(r"^measure +", said, re.MULTILINE)


def test_the_recommended_launch_gives_what_it_says(project, whole):
    results = project.folder / "results/whole"
    machine = project.machine("whole", "recommendation")
    assert machine["status"] == "ok", machine["reason"]
    recommended = machine["recommended"]
    for path in project.folder.glob("reported *.json"):
        path.unlink()

    words = results / "launch/recommended.sh", project.folder / "logs"
    done = launch_scripts.run(*words, status=1, OMP_NUM_THREADS="7")
    assert "API_KEY: the script needs it" in done.stderr
    launch_scripts.run(*words, OMP_NUM_THREADS="7", API_KEY=KEY)
    assert " after 300 steps\n" in (project.folder / "logs/member-0.log").read_text()
    first = read_lines(results / f"measure/{recommended['launch']}/0.jsonl")[1]
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
    project.succeeds("--report", "snakemake.html")
    assert (project.folder / "snakemake.html").stat().st_size > 100_000


@pytest.fixture
def as_module(project):
    """Run this workflow as a module of another one."""
    config = yaml.safe_load((project.folder / "study.yaml").read_text())
    outer = yaml.safe_dump({"study": config, "own": 1})
    (project.folder / "outer.yaml").write_text(outer)
    snakefile = str(project.checkout / "Snakefile")

    def run(*options, more=""):
        (project.folder / "Snakefile").write_text(OUTER.format(snakefile=snakefile, more=more))
        done = project.execute([*SNAKEMAKE, *options])
        return done.returncode, done.stdout + done.stderr

    return run


def test_a_module_says_what_it_does_and_its_rules_are_not_the_first(project, whole, as_module):
    code, said = as_module()
    assert code == 0, said
    assert (project.folder / "outer.txt").exists()  # of the outer workflow's first rule
    assert "3 of 3 cohorts are measured already" in said
    assert "Report: reports/whole.html" in said
    assert "rule study_measure:" not in said


def test_a_module_with_a_prefix_is_refused(as_module):
    code, said = as_module("--dry-run", more='    prefix:\n        "sub"\n')
    assert code != 0
    assert "allowed: a module without prefix" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("name", [None, "quick", "loader-images"])
def test_the_shipped_studies_find_their_scripts(project, tmp_path, name):
    given = ["--configfile", project.checkout / f"config/{name}.yaml"] if name else []
    words = [*SNAKEMAKE, "--snakefile", project.checkout / "Snakefile", "--dry-run", *given]
    done = project.execute(words, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


BAD = """
study: a/b
workload: {script: missing.py, arg: [1]}
launches: {baseline: {blas: openblass}, grid: {intra_op: [0]}}
processes: []
"""


def test_a_bad_config_is_told_at_once_and_completely(project):
    project.configure(BAD)
    before = sorted(project.folder.rglob("*"))
    said = project.fails()
    project.configure(study())
    for word in ("study", "workload.script", "workload.arg", "launches.baseline.blas", "openblass",
                 "launches.grid.intra_op[0]", "processes"):  # fmt: skip
        assert word in said, word
    new = set(project.folder.rglob("*")) - set(before)
    assert not [path for path in new if ".snakemake" not in str(path)]
