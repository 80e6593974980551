"""A GAN: discriminator and generator train in turn, each with its own optimizer."""

import argparse

import counting
import torch

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--rounds", type=int, default=1_000_000)
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()

torch.manual_seed(args.seed)
real = torch.randn(64, 128, 64).cumsum(dim=2)
generator = torch.nn.Sequential(
    torch.nn.Linear(32, 256), torch.nn.ReLU(),
    torch.nn.Linear(256, 256), torch.nn.ReLU(),
    torch.nn.Linear(256, 64),
)  # fmt: skip
discriminator = torch.nn.Sequential(
    torch.nn.Linear(64, 256), torch.nn.LeakyReLU(0.2),
    torch.nn.Linear(256, 256), torch.nn.LeakyReLU(0.2),
    torch.nn.Linear(256, 1),
)  # fmt: skip
optimizer_g = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
criterion = torch.nn.BCEWithLogitsLoss()
ones, zeros = torch.ones(128, 1), torch.zeros(128, 1)
for number in range(args.rounds):
    fake = generator(torch.randn(128, 32))
    optimizer_d.zero_grad()
    loss_d = criterion(discriminator(real[number % len(real)]), ones)
    loss_d = loss_d + criterion(discriminator(fake.detach()), zeros)
    loss_d.backward()
    optimizer_d.step()

    optimizer_g.zero_grad()
    loss_g = criterion(discriminator(fake), ones)
    loss_g.backward()
    optimizer_g.step()
    counting.iteration()  # one round of both
