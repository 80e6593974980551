"""Train a small network with Lightning; ``with_lightning.py SEED``."""

import sys

import pytorch_lightning as lightning
import torch


class Regression(lightning.LightningModule):
    """Two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.model = torch.nn.Sequential(
            torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1)
        )

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        """Return the loss of a batch."""
        features, target = batch
        return torch.nn.functional.mse_loss(self.model(features), target)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer."""
        return torch.optim.Adam(self.parameters())


lightning.seed_everything(int(sys.argv[1]))
data = torch.utils.data.TensorDataset(torch.randn(20_000, 64), torch.randn(20_000, 1))
loader = torch.utils.data.DataLoader(data, batch_size=128, shuffle=True)
trainer = lightning.Trainer(max_epochs=5, logger=False, enable_progress_bar=False)
trainer.fit(Regression(), loader)
