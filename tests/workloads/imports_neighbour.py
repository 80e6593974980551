"""A script that imports a module of its own folder, as python lets it: it heads sys.path."""

import argparse

import torch

from neighbour import make_model

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=500)
args = parser.parse_args()

model = make_model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs = torch.randn(512, 64)
for _ in range(args.steps):
    optimizer.zero_grad()
    model(inputs).square().mean().backward()
    optimizer.step()
print(f"done after {args.steps} steps")
