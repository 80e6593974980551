"""A plain loop that saves its model every few steps, under the name that it is given."""

import argparse
from pathlib import Path

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--out", type=Path, required=True)
args = parser.parse_args()

args.out.parent.mkdir(parents=True, exist_ok=True)
model = torch.nn.Linear(64, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs = torch.randn(512, 64)
for step in range(10_000):
    optimizer.zero_grad()
    model(inputs).square().mean().backward()
    optimizer.step()
    if step % 10 == 0:
        torch.save(model.state_dict(), args.out)
