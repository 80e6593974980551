"""Steps of about a millisecond, and every thirtieth takes 60 ms more."""

import time
from itertools import count

import torch

model = torch.nn.Linear(256, 256)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in count():
    if step % 30 == 0:
        time.sleep(0.06)
    optimizer.zero_grad()
    model(torch.ones(256, 256)).square().mean().backward()
    optimizer.step()
