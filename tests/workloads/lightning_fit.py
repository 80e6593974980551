"""A Lightning fit: forward and backward run in a closure inside the optimizer's step."""

import argparse
import logging
import warnings

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

from size import scaled


class Regression(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(64, 1)

    def training_step(self, batch, batch_idx):
        inputs, targets = batch
        return torch.nn.functional.mse_loss(self.linear(inputs), targets)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seed", type=int)
    args = parser.parse_args()
    if args.seed is not None:
        torch.manual_seed(args.seed)
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    inputs = torch.randn(16 * scaled(256), 64)
    data = TensorDataset(inputs, inputs.sum(dim=1, keepdim=True))
    loader = DataLoader(data, batch_size=scaled(256))
    outputs = ("checkpointing", "progress_bar", "model_summary")
    quiet = {"logger": False, **{f"enable_{output}": False for output in outputs}}
    trainer = pl.Trainer(max_steps=args.steps, accelerator="cpu", **quiet)
    trainer.fit(Regression(), loader)
    print(f"fitted in {trainer.global_step} steps")


if __name__ == "__main__":
    main()
