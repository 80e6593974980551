"""Train a plain loop of dense layers: the model of benchmarks/truth/plain.py, of so many steps."""

import argparse

import torch

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=3000)
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()

torch.manual_seed(args.seed)
inputs = torch.randn(64, 256, 64)
targets = inputs.mean(dim=2, keepdim=True)
model = torch.nn.Sequential(
    torch.nn.Linear(64, 352), torch.nn.ReLU(),
    torch.nn.Linear(352, 352), torch.nn.ReLU(),
    torch.nn.Linear(352, 352), torch.nn.ReLU(),
    torch.nn.Linear(352, 1),
)  # fmt: skip
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(args.steps):
    batch = step % len(inputs)
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs[batch]), targets[batch])
    loss.backward()
    optimizer.step()
print(f"seed {args.seed}: loss {loss.item():.4f} after {args.steps} steps")
