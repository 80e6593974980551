"""A loop whose batch size is an argument, and whose steps wait, whatever it is."""

import argparse
import os
import time

import torch

from scaling_study import mark

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--samples", type=int, default=51_200)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--seed", type=int)
    options = parser.parse_args()
    model = torch.nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(options.samples // options.batch_size):
        optimizer.zero_grad()
        model(torch.randn(options.batch_size, 16)).square().mean().backward()
        time.sleep(options.pause)
        optimizer.step()
        mark(samples=options.batch_size)
    print(f"{options.batch_size} samples, {os.environ.get('TELL')}")
