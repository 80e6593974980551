"""Train the ranker, with its loader."""

import sys

import torch

from ranker.model import Ranker

torch.manual_seed(int(sys.argv[sys.argv.index("--seed") + 1]))
pairs = torch.randint(5_000, (100_000, 2))
data = torch.utils.data.TensorDataset(pairs, torch.rand(len(pairs)).round())
model = Ranker(5_000, 5_000)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    for batch, target in torch.utils.data.DataLoader(data, batch_size=512, shuffle=True):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(batch), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
