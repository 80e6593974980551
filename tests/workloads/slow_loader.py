"""A loader that sleeps for 4 ms before each batch, before steps of about one."""

import time

import torch
from torch.utils.data import DataLoader, Dataset

from size import PASSES, scaled

WIDTH = scaled(256)


class Slow(Dataset):
    def __len__(self):
        return 8192

    def __getitem__(self, index):
        if index % 16 == 0:
            time.sleep(0.004)
        return torch.full((64,), index / 8192), torch.tensor([index / 8192])


model = torch.nn.Sequential(torch.nn.Linear(64, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for inputs, targets in DataLoader(Slow(), batch_size=16):
    optimizer.zero_grad()
    for _ in range(PASSES):
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
    optimizer.step()
