"""The build axis: another interpreter, with an environment of its own."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from jobs import WORKLOADS, config, run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def other_python(tmp_path_factory):
    """An environment without anything of this one but torch and what torch needs."""
    folder = tmp_path_factory.mktemp("build")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    here = Path(torch.__file__).parents[1]
    (packages / "torch.pth").write_text(f"{here}\n")
    return str(folder / "bin/python")


def test_another_interpreter_is_measured_as_such(tmp_path, other_python):
    launch = {"build": other_python}
    records = run(config(WORKLOADS / "plain_loop.py", launch=launch, windows=1), tmp_path)
    assert records["end"][0]["status"] == "complete", records["end"]
    (check,) = (c for c in records["readback"][0]["checks"] if c["axis"] == "build")
    assert check["ok"]
    assert other_python in check["effective"]
