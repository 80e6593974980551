"""A study with the installed package: without a checkout, and without torch beside it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from configs import short
from jobs import ROOT, read
from processes import captured
from projects import SHORT, Project

pytestmark = pytest.mark.slow

DU = shutil.which("du")
MOST_MB = 750
"""What README.md says of the installed size, and a little more."""


def test_a_wheel_in_an_environment_without_torch_makes_a_whole_study(tmp_path):
    copy, folder, environment = (tmp_path / name for name in ("copy", "project", "environment"))
    folder.mkdir()
    project = Project(folder, copy)
    project.take_every_window()
    project.hurry()
    for name in ("pyproject.toml", "README.md", "LICENSE", "scripts/torch_scaling_study.pth"):
        shutil.copy(ROOT / name, copy / name)
    shutil.copytree(copy / "tests/workloads", folder / "tests/workloads")

    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, copy]
    subprocess.run([sys.executable, "-m", "pip", *build], check=True)
    shutil.rmtree(copy)
    (wheel,) = tmp_path.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    python = environment / "bin/python"
    install = ["install", "--quiet", "--constraint", ROOT / "requirements.lock", wheel]
    subprocess.run([python, "-m", "pip", *install], check=True)
    assert not [*environment.rglob("site-packages/torch")]
    assert int(subprocess.check_output([DU, "-sm", environment]).split()[0]) < MOST_MB

    # Stressors are made of the study's own numpy.
    why = {"effort": "quick", "launches": ["baseline"]}
    project.configure(short(study="installed", measure=SHORT, why=why))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    known = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    words = [environment / "bin/torch-scaling-study", "study.yaml"]
    done = captured(words, cwd=folder, env={**known, "PATH": path})
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"runs in {sys.executable}: " in done.stdout
    assert "`python` of your shell" in done.stdout
    assert (folder / "reports/installed.html").stat().st_size > 20_000
    assert json.loads((folder / "results/installed/microbenchmarks.json").read_text())["rows"]
    (first, *_) = project.records("installed")
    before = read(folder / first)["readback"][0]
    assert {member["python"] for member in before["members"]} == {sys.executable}
