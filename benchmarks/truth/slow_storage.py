"""Train on items that a slow storage delivers: two loader workers are the bottleneck."""

import argparse
import time

import torch
from counting import Counter
from torch.utils.data import DataLoader, Dataset

WORKERS = 2
BATCH = 16
ITEM_S = 0.1
"""What an item takes: 1.6 s a batch, so that two workers give 1.25 batches/s at most."""


class Items(Dataset):  # type: ignore[misc] # torch is not followed
    """Items that are not in memory."""

    def __len__(self) -> int:
        """Return how many items there are."""
        return 100_000

    def __getitem__(self, index: int) -> torch.Tensor:
        """Wait for an item."""
        time.sleep(ITEM_S)
        return torch.full((64,), index / len(self))


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()

torch.manual_seed(args.seed)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
counter = Counter()
loader = DataLoader(Items(), batch_size=BATCH, shuffle=True, num_workers=WORKERS)
for step, rows in enumerate(loader, 1):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(rows), rows.mean(dim=1, keepdim=True))
    loss.backward()
    optimizer.step()
    counter.iteration()
    if step % WORKERS == 0:  # a batch of each worker
        counter.period()
