"""Gradients of four batches are accumulated before each step of the optimizer."""

import argparse

import torch
from counting import Counter

BATCHES = 4

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--batches", type=int, default=1_000_000)
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()

torch.manual_seed(args.seed)
inputs = torch.randn(64, 128, 64)
targets = inputs.mean(dim=2, keepdim=True)
model = torch.nn.Sequential(
    torch.nn.Linear(64, 320), torch.nn.ReLU(),
    torch.nn.Linear(320, 320), torch.nn.ReLU(),
    torch.nn.Linear(320, 1),
)  # fmt: skip
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
counter = Counter()
optimizer.zero_grad()
for number in range(1, args.batches + 1):
    batch = number % len(inputs)
    loss = torch.nn.functional.mse_loss(model(inputs[batch]), targets[batch])
    (loss / BATCHES).backward()
    if number % BATCHES == 0:
        optimizer.step()
        optimizer.zero_grad()
        counter.iteration()  # one step of the optimizer
