"""A model that is compiled for every shape of its inputs, by a compiler that needs no tools."""

import torch

from size import PASSES

torch._dynamo.config.recompile_limit = 1_000_000
torch._dynamo.config.accumulated_recompile_limit = 1_000_000
model = torch.nn.Linear(8, 1)
compiled = torch.compile(model, backend="eager", dynamic=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
torch._dynamo.reset()
for step in range(100_000):
    optimizer.zero_grad()
    for _ in range(PASSES):
        compiled(torch.ones(1 + step, 8)).mean().backward()
    optimizer.step()
