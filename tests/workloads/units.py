"""Trains in a way of its own, as the first argument says: each has another unit of work."""

import multiprocessing
import os
import random
import sys
import threading
import time
from pathlib import Path

import torch

how = sys.argv[1]
if how == "exec" and "again" not in sys.argv:
    os.execv(sys.executable, [sys.executable, *sys.argv, "again"])  # noqa: S606 (no shell)


def train(steps, passes=1, wait_s=0.0):
    model = torch.nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        for _ in range(random.choice([1, 40]) if passes > 1 else 1):  # noqa: S311 (work)
            loss = model(torch.randn(64, 16)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(wait_s)


def backward(steps):
    model = torch.nn.Linear(16, 16)
    for _ in range(steps):
        model(torch.randn(64, 16)).square().mean().backward()


if __name__ == "__main__":
    torch.set_num_threads(1)
    if how in {"plain", "exec"}:
        train(200)
    elif how == "saves":
        torch.save({}, f"model-{sys.argv[2]}.pt")
        open(f"log-{os.getpid()}", "w").close()  # noqa: PTH123 (each start has its own)
        train(200)
    elif how == "long":
        train(10**9, wait_s=0.01)
    elif how == "backward":
        backward(200)
    elif how == "unequal":
        train(600, passes=40)
    elif how == "threads":
        both = [threading.Thread(target=train, args=(100,)) for _ in range(2)]
        [one.start() for one in both]
        [one.join() for one in both]
    elif how in {"pool", "beside"}:
        if how == "beside":
            train(10)
        with multiprocessing.get_context("spawn").Pool(int(sys.argv[2])) as pool:
            pool.map(train, [100] * int(sys.argv[2]))
    elif how == "once":
        done = Path("done")
        if not done.exists():
            train(200)
            done.touch()
    elif how == "nothing":
        time.sleep(float(sys.argv[2]))
    elif how == "fails":
        sys.exit("no such data set")
