"""A script that stops making steps: it blocks in C, and never returns to Python."""

import argparse
import ctypes
import threading

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--at", type=int, default=200, help="steps that go well")
parser.add_argument(
    "--keep-gil",
    action="store_true",
    help="keep the interpreter's lock too, so that no other Python thread of the process runs",
)
args = parser.parse_args()

model = torch.nn.Linear(64, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs = torch.randn(512, 64)
for _ in range(args.at):
    optimizer.zero_grad()
    model(inputs).square().mean().backward()
    optimizer.step()
print(f"hanging after {args.at} steps", flush=True)
if args.keep_gil:
    ctypes.PyDLL(None).pause()
lock = threading.Lock()
lock.acquire()
lock.acquire()
