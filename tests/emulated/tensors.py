"""A loop that trains on a few large tensors, and says where each of them lies: address and bytes.

The large ones are mappings of their own, so that their pages hold nothing else.
"""

import argparse
import json
from pathlib import Path

import torch

from scaling_study import mark

parser = argparse.ArgumentParser()
parser.add_argument("--where", type=Path, required=True, help="file for the addresses, as JSON")
args = parser.parse_args()

torch.manual_seed(1)
model = torch.nn.Linear(512, 512, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
data = torch.full((2048, 512), 0.01)
step = 0
while True:
    batch = data[8 * step % 2048 :][:8]
    optimizer.zero_grad(set_to_none=False)
    model(batch).square().mean().backward()
    optimizer.step()
    if step == 0:
        tensors = {
            "data": data,
            "weights": model.weight,
            "gradients": model.weight.grad,
            "momentum": optimizer.state[model.weight]["momentum_buffer"],
        }
        places = {name: (one.data_ptr(), one.nbytes) for name, one in tensors.items()}
        args.where.write_text(json.dumps(places))
    step += 1
    mark()
