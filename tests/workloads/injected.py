"""A plain loop with an operator that takes longer only while another member trains too.

Each member touches a file of its own in every step. A member that finds another fresh file is not
alone.
"""

import argparse
import time
from pathlib import Path

import torch

from size import scaled

ALONE_AFTER_S = 0.25

parser = argparse.ArgumentParser()
parser.add_argument("--folder", type=Path, required=True)
parser.add_argument("--member", required=True)
args = parser.parse_args()


def alone():
    args.folder.mkdir(parents=True, exist_ok=True)
    own = args.folder / args.member
    own.touch()
    since = time.time() - ALONE_AFTER_S
    return all(path == own or path.stat().st_mtime < since for path in args.folder.iterdir())


def injected_mul(size):
    torch.mul(torch.ones(size), 1.5)


torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs = torch.randn(scaled(1024), 256)
targets = inputs.sum(dim=1, keepdim=True)
for _ in range(500):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(inputs), targets).backward()
    injected_mul(scaled(1000 if alone() else 10_000_000))
    optimizer.step()
