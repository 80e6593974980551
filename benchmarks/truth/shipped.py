"""Run a training script as it ships; stamp when its process begins and ends."""

import runpy
import sys
from pathlib import Path

import counting  # noqa: F401 (it stamps)

sys.argv = sys.argv[1:]
sys.path[0] = str(Path(sys.argv[0]).parent)
runpy.run_path(sys.argv[0], run_name="__main__")
