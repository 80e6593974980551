"""A script that leaves by sys.exit(0) in the middle of its work."""

import argparse
import sys

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--at", type=int, default=200, help="steps that go well")
args = parser.parse_args()

model = torch.nn.Linear(64, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs = torch.randn(512, 64)
for _ in range(args.at):
    optimizer.zero_grad()
    model(inputs).square().mean().backward()
    optimizer.step()
print(f"leaving after {args.at} steps")
sys.exit(0)
