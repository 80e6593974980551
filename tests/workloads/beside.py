"""Programs whose steps are not one thread's of one process."""

import argparse
import multiprocessing
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--how", choices=["threads", "apart", "warm-up", "idle"], required=True)
parser.add_argument("--ends", default="optimizer", choices=["optimizer", "mark", "backward"])
parser.add_argument("--steps", type=int, default=10**9)
options = parser.parse_args()


def train(steps=options.steps, size=64):
    model = torch.nn.Linear(size, size)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.relu(model(torch.randn(size, size))).mean().backward()
        if options.ends == "optimizer":
            optimizer.step()
        elif options.ends == "mark":
            import scaling_study

            scaling_study.mark()


if __name__ == "__main__":
    if options.how == "threads":  # two at a time
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda _: train(), range(2)))
    elif options.how == "apart":  # one, which is not the main one
        trainer = threading.Thread(target=train)
        trainer.start()
        trainer.join()
    else:  # some steps of its own, then processes that train or wait for work
        train(20, size=512)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            if options.how == "idle":
                time.sleep(600)
            pool.starmap(train, [(10**9, 512)] * 2)
