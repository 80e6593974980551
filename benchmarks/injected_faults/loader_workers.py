"""Fault: every DataLoader gets worker processes, as guides advise, and has no CPUs for them."""

import argparse
import functools

import real_workload

from scaling_study.member.after_torch import change_arguments

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--workers", type=int, required=True, help="processes for each loader")
options, command = real_workload.options_of(parser)
real_workload.once(
    "loader_workers",
    functools.partial(change_arguments, lambda given: given.update(num_workers=options.workers)),
)
real_workload.run(command)
