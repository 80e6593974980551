"""Power iteration: no optimizer, so the script marks its steps."""

import argparse

import torch

from scaling_study import mark

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=500)
args = parser.parse_args()

torch.manual_seed(1)
matrix = torch.rand(512, 512)
vector = torch.rand(512)
for _ in range(args.steps):
    vector = matrix @ vector
    vector /= vector.norm()
    mark()
print(f"largest eigenvalue {(matrix @ vector).norm():.2f} after {args.steps} steps")
