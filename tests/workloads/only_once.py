"""A script that can run only once in a process: torch refuses its first line the second time."""

import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=40)
options = parser.parse_args()

torch.set_num_interop_threads(1)
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(options.steps):
    optimizer.zero_grad()
    model(torch.ones(256, 64)).sum().backward()
    optimizer.step()
