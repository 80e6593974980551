"""Train short epochs, with new loader workers in each."""

import argparse

import torch
from counting import Counter
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=10_000)
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()

torch.manual_seed(args.seed)
inputs = torch.randn(7_680, 64)
data = TensorDataset(inputs, inputs.mean(dim=1, keepdim=True))
loader = DataLoader(data, batch_size=128, shuffle=True, num_workers=2)  # 60 batches
model = torch.nn.Sequential(
    torch.nn.Linear(64, 384), torch.nn.ReLU(),
    torch.nn.Linear(384, 384), torch.nn.ReLU(),
    torch.nn.Linear(384, 384), torch.nn.ReLU(),
    torch.nn.Linear(384, 1),
)  # fmt: skip
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
counter = Counter()
for _ in range(args.epochs):
    for rows, targets in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(rows), targets)
        loss.backward()
        optimizer.step()
        counter.iteration()
    counter.period()
