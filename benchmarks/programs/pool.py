"""Train several models in a pool of processes; ``pool.py PROCESSES``."""

import multiprocessing
import sys

import torch


def train(seed: int) -> float:
    """Train a model, and return its last loss."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss = torch.zeros(())
    for _ in range(4000):
        features = torch.randn(128, 64)
        loss = (model(features) - features.mean(dim=1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


if __name__ == "__main__":
    processes = int(sys.argv[1])
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        print(sum(pool.map(train, range(4 * processes))))
