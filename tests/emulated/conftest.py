"""Boots each emulated machine once, and hands its tests what was found inside.

A boot takes minutes. With EMULATED_RESULTS=FOLDER its results are kept there, and a machine whose
results are there already is not booted again.
"""

import json
import os
import sys
from functools import lru_cache
from pathlib import Path

import pytest

from emulator import run
from shapes import MACHINES

HERE = Path(__file__).parent

# Over three times what a boot takes on two CPUs that have nothing else to do.
LIMIT_S = 1500


def boot(name, folder):
    """Boot a machine and look at everything in it."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = (f"PYTHONPATH={HERE.parent}/support:{HERE}", "PYTHONDONTWRITEBYTECODE=1")
    inside = [sys.executable, str(HERE / "inside.py"), name]
    run(MACHINES[name], ["env", *environment, *inside], folder, LIMIT_S)


@pytest.fixture(scope="session")
def found(tmp_path_factory):
    """What was found in a machine of a name."""
    kept = os.environ.get("EMULATED_RESULTS")
    top = Path(kept).resolve() if kept else tmp_path_factory.mktemp("emulated")

    @lru_cache
    def found(name):
        folder = top / name
        if not (folder / "status").exists():
            boot(name, folder)
        path = folder / "found.json"
        if not path.exists():
            pytest.fail(f"nothing found in {name}\n{(folder / 'output').read_text()[-3000:]}")
        return json.loads(path.read_text())

    return found
