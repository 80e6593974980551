"""A script with a mistake: it raises after some steps."""

import argparse

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
raise RuntimeError(f"a mistake after {args.at} steps")
