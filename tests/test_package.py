"""The package as pip installs it: its files, its requirements, and what it does without torch."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

from configs import ROOT, short
from jobs import read
from processes import captured
from projects import SHORT, hurry, take_every_window
from scaling_study.records.analysis import STAGE_TIMES

EXTRA = (
    *("torch", "neuralforecast", "pytorch_lightning", "torchdata", "spdl"),
    *("dask", "distributed", "cryptography", "snakemake_executor_plugin_slurm"),
)
"""Modules of the extras."""

WITHOUT_THEM = f"""
import importlib, pkgutil, sys
from importlib.machinery import PathFinder
from pathlib import Path

find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *where: (
    None if name.partition(".")[0] in {EXTRA!r} else find(name, *where)
)

import rendering, scaling_study
from scaling_study import cli

folder, config = map(Path, sys.argv[1:])
in_members = [f"scaling_study.member.{{name}}" for name in ("readback", "stacked", "hook")]
for module in pkgutil.walk_packages(scaling_study.__path__, "scaling_study."):
    if not module.name.startswith((*in_members,)):
        importlib.import_module(module.name)

sys.argv[1:] = ["check", str(config), str(folder / "plan.json")]
try:
    cli.main()
except SystemExit as ended:
    assert not ended.code, ended
_, now = rendering.remake_recorded(folder)
rendering.render(now, "searched.json")
"""

FOLDERS = ("Snakefile", "config", "profiles", "scripts/workloads", "workflow")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {name: these for name, these in PROJECT["optional-dependencies"].items() if name != "dev"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", folder, ROOT], check=True
    )
    (path,) = folder.iterdir()
    return path


def test_the_wheel_has_every_file_that_a_study_reads(wheel):
    command = [shutil.which("git"), "ls-files", "-z", *FOLDERS]
    tracked = subprocess.check_output(command, cwd=ROOT, text=True)
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"torch_scaling_study/{path}" for path in tracked.split("\0") if path} <= names
    assert not [name for name in names if name.endswith(".pyc")]


PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
"""On which `python` is the one of these tests, which has torch."""


@pytest.fixture
def command(wheel, tmp_path):
    """Runs the command of the installed wheel in a folder with a script, as its user types it."""
    place, folder = tmp_path / "installed", tmp_path / "project"
    options = ["--quiet", "--no-deps", "--no-index", "--target", place]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, wheel], check=True)
    shutil.copytree(ROOT / "tests/workloads", folder)
    library = place / "torch_scaling_study/workflow/lib"
    take_every_window(library / "scaling_study")

    def run(*words):
        words = [sys.executable, "-P", "-m", "scaling_study.study.command", *words]
        env = {**os.environ, "PATH": PATH, "PYTHONPATH": str(library)}
        return captured(words, cwd=folder, env=env)

    return folder, run


@pytest.mark.slow
def test_the_installed_command_studies_a_script_without_the_checkout(command):
    folder, run = command
    typed = "--", "python", "plain_loop.py", "--seed", "{}"
    planned = run("--dry-run", *typed)
    assert planned.returncode == 0, planned.stdout + planned.stderr
    assert "search.budget_minutes" not in planned.stderr
    config, results = folder / "plain_loop.yaml", folder / "results/plain_loop"
    assert not (results / "measure").exists()
    # What a user may change there: a study of a minute.
    workload = yaml.safe_load(config.read_text())["workload"]
    changed = short(study="plain_loop", workload=workload, measure=SHORT)
    config.write_text(yaml.safe_dump(changed))
    done = run(*typed)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / "reports/plain_loop.html").stat().st_size > 20_000
    (first, *_) = results.glob("measure/*/0.jsonl")
    assert str(ROOT / "workflow") not in first.read_text().splitlines()[0]
    assert {"observe", "measure"} <= json.loads((results / STAGE_TIMES).read_text()).keys()


MOST_MB = 750
"""What README.md says of the installed size, and a little more."""


@pytest.mark.long
def test_a_wheel_in_an_environment_without_torch_makes_a_whole_study(wheel, tmp_path):
    folder, environment = tmp_path / "project", tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    install = ["install", "--quiet", "--constraint", ROOT / "requirements.lock", wheel]
    subprocess.run([environment / "bin/python", "-m", "pip", *install], check=True)
    assert not [*environment.rglob("site-packages/torch")]
    size = subprocess.check_output([shutil.which("du"), "-sm", environment])
    assert int(size.split()[0]) < MOST_MB
    (library,) = environment.glob("lib/*/*/torch_scaling_study/workflow/lib/scaling_study")
    take_every_window(library)
    hurry(library)

    shutil.copytree(ROOT / "tests/workloads", folder / "tests/workloads")
    # Stressors are made of the study's own numpy.
    why = {"effort": "quick", "launches": ["baseline"]}
    launches = {"baseline": {"intra_op": 1}, "today": "off"}
    study = short(study="installed", measure=SHORT, why=why, launches=launches)
    study["workload"]["step"] = "optimizer"
    (folder / "study.yaml").write_text(yaml.safe_dump(study))
    known = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    words = [environment / "bin/torch-scaling-study", "study.yaml"]
    done = captured(words, cwd=folder, env={**known, "PATH": PATH})
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"runs in {sys.executable}: " in done.stdout
    assert "`python` of your shell" in done.stdout
    assert (folder / "reports/installed.html").stat().st_size > 20_000
    assert json.loads((folder / "results/installed/microbenchmarks.json").read_text())["rows"]
    (first, *_) = folder.glob("results/installed/measure/*/0.jsonl")
    before = read(first)["readback"][0]
    assert {member["python"] for member in before["members"]} == {sys.executable}


def pins(name):
    lines = (ROOT / name).read_text().splitlines()
    wanted = [Requirement(line) for line in lines if not line.startswith("#")]
    return {one.name.lower().replace("_", "-"): one for one in wanted}


def test_the_lock_file_has_the_core_and_all_extras():
    locked = pins("requirements.lock")
    wanted = [*PROJECT["dependencies"], *(one for these in EXTRAS.values() for one in these)]
    for requirement in map(Requirement, wanted):
        if requirement.name == PROJECT["name"]:
            assert requirement.extras == EXTRAS.keys() - {"all"}
        else:
            pin = locked[requirement.name]
            (version,) = pin.specifier
            assert requirement.specifier.contains(Version(version.version)), requirement
            assert str(pin.marker) == str(requirement.marker)


def test_a_plan_an_analysis_and_a_report_need_no_extra(tmp_path):
    """Members run in `python` of PATH, which has torch."""
    paths = os.pathsep.join(filter(None, sys.path))
    words = [sys.executable, "-c", WITHOUT_THEM, tmp_path, ROOT / "config/quick.yaml"]
    env = {**os.environ, "PATH": PATH, "PYTHONPATH": paths}
    done = captured(words, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"runs in {sys.executable}: " in done.stdout
    assert (tmp_path / "now/report.html").exists()
