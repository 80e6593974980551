"""Fault: every batch of a DataLoader takes longer to fetch, as from storage far away.

With ``--busy`` the CPU works meanwhile, as for samples that must be decoded. The delay is where the
data set is read, so whoever gets a batch from elsewhere does not pay it.
"""

import argparse
import time

import real_workload

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--seconds", type=float, required=True, help="delay of each batch")
parser.add_argument("--busy", action="store_true", help="by working, not by sleeping")
options, command = real_workload.options_of(parser)
delay = real_workload.work if options.busy else time.sleep
real_workload.once(
    "slow_loader",
    lambda: real_workload.before_each_batch(lambda _: delay(options.seconds)),
)
real_workload.run(command)
