"""The model: embeddings of users and items, whose products are scores."""

import torch


class Ranker(torch.nn.Module):
    """Scores pairs of a user and an item."""

    def __init__(self, users: int, items: int) -> None:
        super().__init__()
        self.users, self.items = torch.nn.Embedding(users, 64), torch.nn.Embedding(items, 64)

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        """Return the scores of (user, item) pairs, shape (batch, 2)."""
        return (self.users(pairs[:, 0]) * self.items(pairs[:, 1])).sum(dim=1)
