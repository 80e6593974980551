"""Train on sequences whose lengths differ 40-fold, one length a batch."""

import argparse

import counting
import torch

SHORTEST, LENGTHS = 5, 40

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()

torch.manual_seed(args.seed)
batches = [torch.randn(4, SHORTEST * (number + 1), 64) for number in range(LENGTHS)]
model = torch.nn.TransformerEncoderLayer(64, nhead=4, dim_feedforward=128, batch_first=True)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
while True:
    for number in torch.randperm(LENGTHS).tolist():
        batch = batches[number]
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(batch), batch.flip(1))
        loss.backward()
        optimizer.step()
        counting.iteration()  # one batch
    counting.period()
