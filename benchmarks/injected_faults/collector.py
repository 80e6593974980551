"""Fault: every step ends with a garbage collection, as some do to save memory.

What it costs depends on how many objects there are: with torch imported, some hundred thousand.
"""

import argparse
import gc
from typing import Any

import real_workload


def inject() -> None:
    """Before each optimizer's step, collect."""

    def collect(*_: Any) -> None:
        gc.collect()

    real_workload.before_each_step(collect)


parser = argparse.ArgumentParser(description=__doc__)
_, command = real_workload.options_of(parser)
real_workload.once("collector", inject)
real_workload.run(command)
