"""Train 400 steps, validate for some seconds, and so on."""

import argparse

import torch
from counting import Counter

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=10_000)
parser.add_argument("--steps", type=int, default=400, help="before each validation")
parser.add_argument("--rows", type=int, default=400_000, help="that are validated")
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()

torch.manual_seed(args.seed)
inputs = torch.randn(64, 256, 64)
targets = inputs.mean(dim=2, keepdim=True)
held_out = torch.randn(args.rows, 64)
model = torch.nn.Sequential(
    torch.nn.Linear(64, 352), torch.nn.ReLU(),
    torch.nn.Linear(352, 352), torch.nn.ReLU(),
    torch.nn.Linear(352, 352), torch.nn.ReLU(),
    torch.nn.Linear(352, 1),
)  # fmt: skip
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
counter = Counter()
for _ in range(args.epochs):
    model.train()
    for step in range(args.steps):
        batch = step % len(inputs)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs[batch]), targets[batch])
        loss.backward()
        optimizer.step()
        counter.iteration()
    model.eval()
    total = 0.0
    with torch.no_grad():
        for rows in held_out.split(256):
            wanted = rows.mean(dim=1, keepdim=True)
            total += torch.nn.functional.mse_loss(model(rows), wanted, reduction="sum").item()
    print(f"validation loss {total / args.rows:.5f}")
    counter.period()
