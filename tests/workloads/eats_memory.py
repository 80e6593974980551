"""A script that keeps memory at every step, until it gets no more or is killed."""

import argparse
import resource
from pathlib import Path

import torch

MIB = 1024 * 1024

parser = argparse.ArgumentParser()
parser.add_argument("--at", type=int, default=200, help="steps before it starts to")
parser.add_argument("--each-mib", type=int, default=16, help="memory kept at every step")
parser.add_argument(
    "--limit-mib",
    type=int,
    default=512,
    help="address space it may add to what it has by then; 0: no limit of its own",
)
args = parser.parse_args()

model = torch.nn.Linear(64, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs = torch.randn(512, 64)
kept = []
step = 0
while True:
    optimizer.zero_grad()
    model(inputs).square().mean().backward()
    optimizer.step()
    step += 1
    if step == args.at and args.limit_mib:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limit_bytes = pages * resource.getpagesize() + args.limit_mib * MIB
        resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, resource.RLIM_INFINITY))
    if step >= args.at:
        kept.append(b"x" * (args.each_mib * MIB))
