"""A plain loop that needs a key from its environment: ``with_key.py FILE``, which holds the key."""

import os
import sys
from pathlib import Path

import torch

assert os.environ["API_KEY"] == Path(sys.argv[1]).read_text()

model = torch.nn.Linear(256, 256)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(300):
    optimizer.zero_grad()
    model(torch.randn(64, 256)).square().mean().backward()
    optimizer.step()
