"""A program without torch: it computes for a while, and notes each run that it has ended."""

import argparse
import os
import sys
import time
from pathlib import Path

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--notes", type=Path, required=True, help="gets a line for each run")
parser.add_argument("--name", default="0")
parser.add_argument("--seconds", type=float, default=0.3, help="of CPU time")
parser.add_argument("--skips", action="store_true", help="what it has done before")
parser.add_argument("--fails", action="store_true")
options = parser.parse_args()

notes = options.notes.read_text().split() if options.notes.exists() else []
if options.fails:
    sys.exit("no data")
if not (options.skips and options.name in notes):
    while time.process_time() < options.seconds:
        pass
with options.notes.open("a") as file:
    file.write(f"{options.name} {os.environ.get('OMP_NUM_THREADS', '-')}\n")
