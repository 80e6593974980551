"""Fault: every step pauses, as scripts do that ask again and again, or keep to a rate."""

import argparse
import time

import real_workload


def inject(seconds: float) -> None:
    """Before each optimizer's step, sleep."""
    real_workload.before_each_step(lambda *_: time.sleep(seconds))


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--seconds", type=float, required=True)
options, command = real_workload.options_of(parser)
real_workload.once("pause", lambda: inject(options.seconds))
real_workload.run(command)
