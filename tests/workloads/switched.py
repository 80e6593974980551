"""A small training with a loader, modules and Adam: whatever a switch may change is there."""

import argparse

import torch
from torch.utils.data import DataLoader, TensorDataset

from size import PASSES, scaled

BATCH = scaled(16)

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(4 * BATCH, 32), torch.randn(4 * BATCH, 8))
    loader = DataLoader(data, batch_size=BATCH, num_workers=options.workers)
    model = torch.nn.Sequential(
        *(torch.nn.Linear(32, 32), torch.nn.Unflatten(1, (2, 4, 4))),
        *(torch.nn.Conv2d(2, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten()),
        torch.nn.Linear(64, 8),
    )
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(options.epochs):
        for batch, target in loader:
            optimizer.zero_grad()
            for _ in range(PASSES):
                loss = torch.nn.functional.mse_loss(model(batch), target)
                loss.backward()
            optimizer.step()
    print(f"{loss.item():.6f}")
