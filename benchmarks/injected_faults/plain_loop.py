"""A plain training loop with a DataLoader, and tensors of some megabytes: the third workload.

Under torchrun its ranks train one model (DistributedDataParallel).
"""

import argparse
import os

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--rows", type=int, default=65_536)
parser.add_argument("--batch-size", type=int, default=256)
parser.add_argument("--features", type=int, default=128)
parser.add_argument("--width", type=int, default=3072)
parser.add_argument("--epochs", type=int, default=20)
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()

torch.manual_seed(args.seed)
inputs = torch.randn(args.rows, args.features)
data = TensorDataset(inputs, inputs.mean(dim=1, keepdim=True))
# Whole batches are indexed at once: row by row, the loader would be a good part of a step.
batches = BatchSampler(RandomSampler(data), args.batch_size, drop_last=True)
loader = DataLoader(data, sampler=batches, batch_size=None)
model: torch.nn.Module = torch.nn.Sequential(
    torch.nn.Linear(args.features, args.width), torch.nn.ReLU(), torch.nn.Linear(args.width, 1)
)
if "RANK" in os.environ:
    distributed.init_process_group("gloo")
    model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(1, args.epochs + 1):
    for rows, targets in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(rows), targets)
        loss.backward()
        optimizer.step()
    print(f"seed {args.seed}: loss {loss.item():.4f} after epoch {epoch}")
if distributed.is_initialized():
    distributed.destroy_process_group()
