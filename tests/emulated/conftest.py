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

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "emulated")]

from emulator import run  # noqa: E402 (as above)
from shapes import MACHINES  # noqa: E402

# Over three times what a boot takes on two CPUs that have nothing else to do.
LIMIT_S = 1500


def boot(name, folder):
    """Boot a machine and run all parts in it."""
    environment = (f"PYTHONPATH={TESTS}:{TESTS / 'emulated'}", "PYTHONDONTWRITEBYTECODE=1")
    inside = [sys.executable, str(TESTS / "emulated/inside.py"), name]
    run(MACHINES[name], ["env", *environment, *inside], folder, LIMIT_S)


@pytest.fixture(scope="session")
def found(tmp_path_factory):
    """What a part found in a machine: ``found("two", "placements")``."""
    kept = os.environ.get("EMULATED_RESULTS")
    top = Path(kept).resolve() if kept else tmp_path_factory.mktemp("emulated")

    @lru_cache
    def results(name):
        folder = top / name
        if not (folder / "status").exists():
            folder.mkdir(parents=True, exist_ok=True)
            boot(name, folder)
        return folder

    def found(name, part):
        folder = results(name)
        path = folder / f"{part}.json"
        if not path.exists():
            pytest.fail(f"no {part} of {name}\n{(folder / 'output').read_text()[-3000:]}")
        return json.loads(path.read_text())["found"]

    return found
