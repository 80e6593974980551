"""What runs in a member's interpreter can be imported by the oldest Python that is allowed."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from jobs import ROOT
from scaling_study.launch.axes.axis_table import AXES
from scaling_study.runner.resolve import OLDEST_PYTHON

LIBRARY = ROOT / "workflow/lib"
# Where numpy and torch are not installed, what needs them at once cannot be imported.
NOT_IN_MEMBERS = {"model_queue"}
IMPORT = """
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "numpy"):
            raise
"""


def test_members_modules_are_imported_by_the_oldest_python():
    version = ".".join(map(str, OLDEST_PYTHON))
    pyenv = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python"))
    python = next(map(str, pyenv), shutil.which(f"python{version}"))
    if python is None:
        pytest.skip(f"there is no Python {version} here")
    modules = [
        f"scaling_study.{folder}.{path.stem}"
        for folder in ("member", "queues")
        for path in (LIBRARY / "scaling_study" / folder).glob("*.py")
        if path.stem not in NOT_IN_MEMBERS
    ]
    modules += [axis.apply.__module__ for axis in AXES.values() if axis.apply is not None]
    modules += ["scaling_study.launch.launchers.dask"]
    env = {**os.environ, "PYTHONPATH": str(LIBRARY)}
    subprocess.run([python, "-c", IMPORT, *modules], env=env, check=True)
