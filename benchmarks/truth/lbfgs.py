"""Train by LBFGS, which calls its closure many times in each step."""

import argparse
import itertools

import counting
import torch

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()

torch.manual_seed(args.seed)
model = torch.nn.Linear(256, 64)
# Without tolerances every step takes its 20 iterations, however near the optimum it is.
optimizer = torch.optim.LBFGS(
    model.parameters(), lr=0.5, max_iter=20, tolerance_grad=0, tolerance_change=0
)
batches = torch.randn(16, 4096, 256)
for inputs in itertools.cycle(batches):
    targets = torch.randint(64, (len(inputs),))

    def closure() -> torch.Tensor:
        """Return the loss of this step's batch, with its gradients."""
        optimizer.zero_grad()
        penalty = 1e-2 * model.weight.square().sum()
        loss = torch.nn.functional.cross_entropy(model(inputs), targets) + penalty  # noqa: B023 (called in this step)
        loss.backward()
        return loss

    optimizer.step(closure)
    counting.iteration()
