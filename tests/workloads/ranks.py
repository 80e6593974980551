"""Data parallel training, as under torchrun: a rank for each process that was started."""

import argparse
import json
import os
import time
from pathlib import Path

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from size import PASSES

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100_000)
parser.add_argument("--pause", type=float, default=0.0, help="s in each step")
parser.add_argument("--local", type=int, default=1, help="steps of rank 1 for each that it joins")
parser.add_argument("--variables", help="a file, per rank, for what torchrun sets")
args = parser.parse_args()

rank = int(os.environ["RANK"])
if args.variables:
    Path(f"{args.variables}-{rank}").write_text(json.dumps(dict(os.environ)))
torch.manual_seed(1)
distributed.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs = torch.randn(8, 16)
for _ in range(args.steps):
    time.sleep(args.pause)
    optimizer.zero_grad()
    for _ in range(PASSES):
        model(inputs).square().mean().backward()
    optimizer.step()
    for _ in range(args.local - 1 if rank else 0):
        optimizer.step()
distributed.destroy_process_group()
