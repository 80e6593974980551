"""Fault: OMP_PROC_BIND=true, set by the script itself before torch is imported.

libgomp then binds the first thread of every process to the first place, CPU 0 (OpenMP 5.2, section
6.4 and 21.1.8): processes that know nothing of each other share one CPU while others idle.
"""

import argparse
import os

import real_workload

parser = argparse.ArgumentParser(description=__doc__)
_, command = real_workload.options_of(parser)
os.environ["OMP_PROC_BIND"] = "true"
real_workload.run(command)
