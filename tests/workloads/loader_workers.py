"""Two processes load the data: a member has children that use CPU time too."""

import torch
from torch.utils.data import DataLoader, Dataset

from size import scaled

BATCH = scaled(64)


class Waves(Dataset):
    def __len__(self):
        return 64 * BATCH

    def __getitem__(self, index):
        inputs = torch.sin(torch.arange(64) * (index + 1) / len(self))
        return inputs, inputs.mean(dim=0, keepdim=True)


def main():
    model = torch.nn.Linear(64, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Waves(), batch_size=BATCH, num_workers=2)
    for _ in range(5):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
