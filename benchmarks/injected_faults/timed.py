"""Run a script, or a wrapper with a script, and print when its steps ended, nothing else.

    python timed.py --seconds 8 -- SCRIPT ARGS...

Prints one JSON list: for every step its end (s of the monotonic clock that all processes share) and
the CPU time (s) that the training thread had used by then. Ends the process so many seconds after
the first step.
"""

import argparse
import json
import os
import sys
import time
from typing import Any

import real_workload


def attach(seconds: float) -> None:
    """Note the end of every step, and leave after the last."""
    from torch.optim import optimizer  # noqa: PLC0415 (a wrapper may set what torch reads)

    ends: list[tuple[float, float]] = []

    def step_end(*_: Any) -> None:
        ends.append((time.perf_counter(), time.thread_time()))
        if ends[-1][0] > ends[0][0] + seconds:
            sys.stdout.write(f"\n{json.dumps(ends)}\n")
            sys.stdout.flush()
            os._exit(0)

    optimizer.register_optimizer_step_post_hook(step_end)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--seconds", type=float, required=True)
options, command = real_workload.options_of(parser)
from scaling_study.member import after_torch  # noqa: E402 (after the arguments: a mistake is told at once)

after_torch.call_back(lambda: attach(options.seconds))
while True:
    real_workload.run(command)
