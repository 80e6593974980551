"""Train a small network in a plain loop; ``plain.py --seed SEED``."""

import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=1000)
options = parser.parse_args()
torch.manual_seed(options.seed)
features, target = torch.randn(10_000, 64), torch.randn(10_000, 1)
layers = [torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.ReLU()]
model = torch.nn.Sequential(*layers, torch.nn.Linear(512, 1))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(options.steps):
    batch = torch.randint(len(features), (256,))
    loss = torch.nn.functional.mse_loss(model(features[batch]), target[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
torch.save(model.state_dict(), f"plain-{options.seed}.pt")
