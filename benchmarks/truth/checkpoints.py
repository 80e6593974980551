"""Train with a large embedding, and keep the last two checkpoints of 100 MB each."""

import argparse
import itertools
import tempfile
from pathlib import Path

import counting
import torch

EVERY = 300  # steps between checkpoints

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()

torch.manual_seed(args.seed)
users, features = torch.randint(200_000, (64, 256)), torch.randn(64, 256, 64)
targets = features.mean(dim=2, keepdim=True)
embedding = torch.nn.Embedding(200_000, 128, sparse=True)  # 102 MB
head = torch.nn.Sequential(
    torch.nn.Linear(192, 320), torch.nn.ReLU(),
    torch.nn.Linear(320, 320), torch.nn.ReLU(),
    torch.nn.Linear(320, 1),
)  # fmt: skip
model = torch.nn.ModuleList([embedding, head])
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
with tempfile.TemporaryDirectory() as name:
    for number in itertools.count():
        for step in range(EVERY):
            batch = step % len(users)
            optimizer.zero_grad()
            rows = torch.cat([embedding(users[batch]), features[batch]], dim=1)
            loss = torch.nn.functional.mse_loss(head(rows), targets[batch])
            loss.backward()
            optimizer.step()
            counting.iteration()
        torch.save({"model": model.state_dict()}, Path(name) / f"{number}.pt")
        (Path(name) / f"{number - 2}.pt").unlink(missing_ok=True)
        counting.period()
