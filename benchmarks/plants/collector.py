"""Plant: every step ends with a garbage collection, as some do to save memory.

What it costs depends on how many objects there are: with torch imported, some hundred thousand.
"""

import argparse
import gc
from typing import Any

import real_workload


def plant() -> None:
    """Before each optimizer's step, collect."""
    from torch.optim import optimizer  # noqa: PLC0415 (torch is the member's to import)

    def collect(*_: Any) -> None:
        gc.collect()

    optimizer.register_optimizer_step_pre_hook(collect)


parser = argparse.ArgumentParser(description=__doc__)
_, command = real_workload.options_of(parser)
real_workload.once("collector", plant)
real_workload.run(command)
