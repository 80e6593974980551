"""A script that comes to no step, in one of the ways in which scripts do not."""

import argparse
import importlib
import os
import signal
import sys
import time
from pathlib import Path

import torch

from size import PASSES

parser = argparse.ArgumentParser()
parser.add_argument("--how", required=True)
parser.add_argument("--file", type=Path, help="what it needs")
parser.add_argument("--steps", type=int, default=100, help="where it finds what it needs")
parser.add_argument("--seed", default="0")
args = parser.parse_args()

if args.how == "file":
    args.file.read_text()
elif args.how == "package":
    importlib.import_module("forgotten_package")
elif args.how == "message":
    sys.exit("no data is left")
elif args.how == "segfault":
    os.kill(os.getpid(), signal.SIGSEGV)
elif args.how == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
elif args.how == "nothing":
    sys.exit()
elif args.how == "second" and args.seed != "0":
    sys.exit("the second one has no data")

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs = torch.randn(16, 8)
if args.how in {"manual", "waits"}:
    for _ in range(args.steps):
        for _ in range(PASSES):
            model(inputs).square().mean().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(0.01 * parameter.grad)
    time.sleep(600 if args.how == "waits" else 0)
    sys.exit()
if args.how == "loud":
    for step in range(50_000):
        print("SPS:", step)
    raise ValueError("loss is nan")
for step in range(args.steps):
    optimizer.zero_grad()
    if args.how == "shape":
        inputs = inputs[:, :4]
    for _ in range(PASSES):
        model(inputs).square().mean().backward()
    optimizer.step()
    print("SPS:", step)
