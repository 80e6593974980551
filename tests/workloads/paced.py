"""A loop that waits in each step, unless the toy axis ``pace`` tells it not to."""

import argparse
import time

import torch

from size import PASSES, scaled

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    steps = parser.parse_args().steps
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = torch.randn(scaled(32), 64)
    for _ in range(steps):
        if getattr(torch, "pace", "slow") == "slow":
            time.sleep(0.01)
        optimizer.zero_grad()
        for _ in range(PASSES):
            model(batch).square().mean().backward()
        optimizer.step()
    print("pace", getattr(torch, "pace", "slow"))
