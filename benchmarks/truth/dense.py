"""Train a dense network on batches in memory."""

import argparse

import counting
import torch

HELD_OUT = 400_000
"""Rows of a validation, which takes some seconds."""

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=1_000_000)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--compile", action="store_true", help="by torch.compile")
parser.add_argument("--accumulate", type=int, default=1, help="batches of an optimizer's step")
parser.add_argument("--by-hand", action="store_true", help="update without an optimizer")
parser.add_argument("--validate-every", type=int, help="steps before each validation")
args = parser.parse_args()

torch.manual_seed(args.seed)
inputs = torch.randn(64, 256, 64)
targets = inputs.mean(dim=2, keepdim=True)
held_out = torch.randn(HELD_OUT if args.validate_every else 0, 64)
layers = torch.nn.Sequential(
    torch.nn.Linear(64, 352), torch.nn.ReLU(),
    torch.nn.Linear(352, 352), torch.nn.ReLU(),
    torch.nn.Linear(352, 352), torch.nn.ReLU(),
    torch.nn.Linear(352, 1),
)  # fmt: skip
model = torch.compile(layers) if args.compile else layers
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(1, args.steps + 1):
    model.zero_grad()
    for part in range(args.accumulate):
        batch = (step * args.accumulate + part) % len(inputs)
        loss = torch.nn.functional.mse_loss(model(inputs[batch]), targets[batch])
        (loss / args.accumulate).backward()
    if args.by_hand:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(parameter.grad, alpha=1e-2)
    else:
        optimizer.step()
    counting.iteration()
    if args.validate_every and step % args.validate_every == 0:
        total = 0.0
        with torch.no_grad():
            for rows in held_out.split(256):
                wanted = rows.mean(dim=1, keepdim=True)
                total += torch.nn.functional.mse_loss(model(rows), wanted, reduction="sum").item()
        print(f"validation loss {total / HELD_OUT:.5f}")
        counting.period()
print(f"seed {args.seed}: loss {loss.item():.4f} after {args.steps} steps")
