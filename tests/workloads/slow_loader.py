"""A loader that sleeps for 4 ms before each batch, before steps of about one."""

import time

import torch
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self):
        return 8192

    def __getitem__(self, index):
        if index % 16 == 0:
            time.sleep(0.004)
        return torch.full((64,), index / 8192), torch.tensor([index / 8192])


model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for inputs, targets in DataLoader(Slow(), batch_size=16):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(inputs), targets).backward()
    optimizer.step()
