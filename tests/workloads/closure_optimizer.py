"""L-BFGS: one optimizer step runs its closure, forward and backward, several times."""

import torch

from size import scaled

WIDTH = scaled(64)

torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(32, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, 1))
optimizer = torch.optim.LBFGS(
    model.parameters(), lr=0.1, max_iter=5, tolerance_grad=0, tolerance_change=0
)
inputs = torch.randn(scaled(256), 32)
targets = inputs.square().sum(dim=1, keepdim=True)


def closure():
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    return loss


for _ in range(200):
    optimizer.step(closure)
