"""Train on batches of two loader workers, which start anew with each epoch.

With ``--item-seconds`` a slow storage delivers the items: the workers are the bottleneck.
"""

import argparse
import time

import counting
import torch
from torch.utils.data import DataLoader, Dataset

WORKERS = 2


class Items(Dataset):  # type: ignore[misc] # torch is not followed
    """Items that are not in memory."""

    def __len__(self) -> int:
        """Return how many items an epoch has."""
        return int(args.batch_size * args.batches)

    def __getitem__(self, index: int) -> torch.Tensor:
        """Return an item, after waiting for it."""
        time.sleep(args.item_seconds)
        return torch.full((64,), index / len(self))


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--batches", type=int, default=60, help="of an epoch")
parser.add_argument("--batch-size", type=int, default=128)
parser.add_argument("--item-seconds", type=float, default=0.0)
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()

torch.manual_seed(args.seed)
loader = DataLoader(Items(), batch_size=args.batch_size, shuffle=True, num_workers=WORKERS)
model = torch.nn.Sequential(
    torch.nn.Linear(64, 384), torch.nn.ReLU(),
    torch.nn.Linear(384, 384), torch.nn.ReLU(),
    torch.nn.Linear(384, 384), torch.nn.ReLU(),
    torch.nn.Linear(384, 1),
)  # fmt: skip
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
while True:
    for rows in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(rows), rows.mean(dim=1, keepdim=True))
        loss.backward()
        optimizer.step()
        counting.iteration()
    counting.period()
