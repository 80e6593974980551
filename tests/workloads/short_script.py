"""Fifteen steps and a clean end: shorter than most windows."""

import torch

STEPS = 15

model = torch.nn.Linear(64, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs = torch.randn(512, 64)
for _ in range(STEPS):
    optimizer.zero_grad()
    model(inputs).square().mean().backward()
    optimizer.step()
print(f"done after {STEPS} steps")
