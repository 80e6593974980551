"""Two optimizers that take turns: a discriminator's steps, then one of a generator's."""

import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--critic-steps", type=int, default=1, help="of the discriminator in a round")
options = parser.parse_args()

generator = torch.nn.Linear(16, 64)
critic = torch.nn.Linear(64, 1)
optimizers = [torch.optim.Adam(each.parameters()) for each in (critic, generator)]
while True:
    for optimizer in [optimizers[0]] * options.critic_steps + [optimizers[1]]:
        optimizer.zero_grad()
        critic(generator(torch.randn(64, 16))).mean().backward()
        optimizer.step()
