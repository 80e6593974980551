"""A script that dies of a segmentation fault, as a broken extension would."""

import argparse
import ctypes

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
print(f"reading address 0 after {args.at} steps", flush=True)
ctypes.string_at(0)
