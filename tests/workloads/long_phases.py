"""A loop of short steps with a long phase, such as a validation, after every so many of them."""

import argparse
import time

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--every", type=int, default=100, help="steps")
parser.add_argument("--phase-s", type=float, default=1.0, help="how long a phase takes")
options = parser.parse_args()

model = torch.nn.Linear(32, 32)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
step = 0
while True:
    optimizer.zero_grad()
    model(torch.ones(512, 32)).sum().backward()
    optimizer.step()
    step += 1
    if step % options.every == 0:
        time.sleep(options.phase_s)
