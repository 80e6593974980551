"""Two processes load the data: a member has children that use CPU time too."""

import argparse

import torch
from torch.utils.data import DataLoader, Dataset


class Waves(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        inputs = torch.sin(torch.arange(64) * (index + 1) / 4096)
        return inputs, inputs.mean(dim=0, keepdim=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--persistent", action="store_true", help="keep the processes over epochs")
    args = parser.parse_args()
    model = torch.nn.Linear(64, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Waves(), batch_size=64, num_workers=2, persistent_workers=args.persistent)
    for _ in range(args.epochs):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            loss.backward()
            optimizer.step()
    print(f"loss {loss.item():.4f} after {args.epochs * len(loader)} steps")


if __name__ == "__main__":
    main()
