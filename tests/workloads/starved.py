"""A loop that its loader starves: two workers take a fifth of a second for each batch."""

import time

import torch
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self):
        return 10**6

    def __getitem__(self, index):
        time.sleep(0.2)
        return torch.ones(8)


model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for batch in DataLoader(Slow(), batch_size=1, num_workers=2):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
