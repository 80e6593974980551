"""Scripts and slots with switches."""

from pathlib import Path

import pytest

from scaling_study.host import probe
from scaling_study.launch.axes.axis_table import place

SCRIPT = Path(__file__).parents[1] / "workloads" / "switched.py"


def placed_here(values):
    """The slot of one member of a launch on this machine, if it has several CPUs."""
    topology = probe.read_machine().usable
    if len(topology.cpus) == 1:
        pytest.skip("one CPU")
    return place(values, topology, 1)[0]
