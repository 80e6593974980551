"""A game of levels: an episode is a training step, and its length depends on the level played."""

import argparse
import random

import torch

from scaling_study import mark

LENGTHS = (200, 1_000, 5_000, 25_000)
ACTIONS = 25_000  # of a level: each takes about as long

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--mark", action="store_true", help="count actions as samples")
    parser.add_argument("--levels", type=int, default=1_000)
    options = parser.parse_args()
    policy = torch.nn.Linear(64, 64)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    for _ in range(options.levels):
        length = random.SystemRandom().choice(LENGTHS)
        for _ in range(ACTIONS // length):
            state = torch.randn(1, 64)
            with torch.no_grad():
                for _ in range(length):
                    state = policy(state).tanh()
            optimizer.zero_grad()
            policy(state).square().mean().backward()
            if options.mark:
                mark(samples=length)
            optimizer.step()
