"""A plain loop that says in the end what its process really was: one JSON file per member."""

import argparse
import json
import os
from pathlib import Path

import torch

from scaling_study.member import readback

parser = argparse.ArgumentParser()
parser.add_argument("--output", type=Path, required=True)
parser.add_argument("--steps", type=int, default=300)
args = parser.parse_args()

model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs = torch.randn(512, 64)
targets = inputs.sum(dim=1, keepdim=True)
for _ in range(args.steps):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(inputs), targets).backward()
    optimizer.step()
report = readback.report(with_kernel=False)
got = {"greeting": os.environ.get("GREETING"), "has_key": bool(os.environ.get("API_KEY"))}
args.output.write_text(json.dumps({**report, **got}))
