"""A bare training loop: one SGD step per iteration, and what else the options ask for."""

import argparse
import json
import os
import time
from pathlib import Path

import torch

from size import scaled

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=500)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--every", type=int, help="steps, after which a long phase follows")
parser.add_argument("--phase-s", type=float, default=1.0, help="how long such a phase takes")
parser.add_argument("--out", type=Path, help="a file to which the model is saved every few steps")
parser.add_argument("--once", action="store_true", help="refuse to run twice in a process")
parser.add_argument("--report", type=Path, help="a file for what the process really was")
args = parser.parse_args()

if args.once:
    torch.set_num_interop_threads(1)  # torch refuses this the second time
if args.out:
    args.out.parent.mkdir(parents=True, exist_ok=True)
torch.manual_seed(args.seed)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs = torch.randn(scaled(512), 64)
targets = inputs.sum(dim=1, keepdim=True)
for step in range(args.steps):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    if args.every and step % args.every == 0:
        time.sleep(args.phase_s)
    if args.out and step % 10 == 0:
        torch.save(model.state_dict(), args.out)
if args.report:
    from scaling_study.member import readback

    own = {"greeting": os.environ.get("GREETING"), "has_key": bool(os.environ.get("API_KEY"))}
    args.report.write_text(json.dumps(readback.report() | own))
print(f"loss {loss.item():.4f} after {args.steps} steps")
