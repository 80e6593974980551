"""Train on episodes whose lengths differ a hundredfold, one an optimizer step, to an end."""

import argparse
import random

import counting  # noqa: F401 (it stamps the process's begin and end)
import torch

EPISODES, LENGTHS = 150, (1, 2, 5, 100)

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()

torch.manual_seed(args.seed)
lengths = random.Random(args.seed)  # noqa: S311 (work, no secret)
model = torch.nn.Sequential(torch.nn.Linear(16, 128), torch.nn.ReLU(), torch.nn.Linear(128, 4))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(EPISODES):
    loss = torch.zeros(())
    for _ in range(lengths.choice(LENGTHS)):
        loss = loss + model(torch.randn(1, 16)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
