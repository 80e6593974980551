"""A bare loop under a path with spaces and an umlaut, which reads a file beside itself."""

import argparse
from pathlib import Path

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=500)
args = parser.parse_args()

table = Path(__file__).with_name("größen der schritte.txt").read_text(encoding="utf-8")
learning_rate = float(table.splitlines()[-1])
model = torch.nn.Linear(64, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
inputs = torch.randn(512, 64)
for _ in range(args.steps):
    optimizer.zero_grad()
    model(inputs).square().mean().backward()
    optimizer.step()
print(f"fertig: {args.steps} Schritte in »{Path(__file__).parent.name}«")
