"""Train a contextual neural collaborative filtering model on seeded synthetic ratings.

The model is the one printed in "Parallelization Speed Training" on PyTorch's forum: embeddings of
654 users and 1,127 items, generalised matrix factorisation beside a multilayer perceptron, and one
layer that joins them (He et al. 2017, https://arxiv.org/abs/1708.05031). As there, every positive
row gets four negatives drawn inside ``__getitem__``, so 256 positives make a batch of 1,280. With
``--sampling batch`` the data set draws those of a whole batch at once (``__getitems__``).

Under torchrun every rank trains on its part of the ratings, and the gradients of all are averaged
(DistributedDataParallel, as in the post): one step then has as many batches as there are ranks.

The shapes printed there have 74,673 parameters, and so has this model; the post's own count of
12,453,873 does not belong to them.
"""

import argparse
import os
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

N_USERS = 654
N_ITEMS = 1127
# One-hot context of a rating: weekday, season, weather, company, at home or not.
CONTEXT_SIZES = (7, 4, 5, 3, 2)
N_CONTEXT = sum(CONTEXT_SIZES)
USER, ITEM, LABEL, CONTEXT = 0, 1, 2, slice(3, 3 + N_CONTEXT)
TASTES = 8  # hidden dimensions in which the synthetic users and items agree or not


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description="Train contextual NCF on synthetic ratings.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--rows", type=int, default=83_731, help="positive ratings")
    parser.add_argument("--batch-size", type=int, default=256, help="positive ratings per batch")
    parser.add_argument("--negatives", type=int, default=4, help="negatives drawn per positive")
    parser.add_argument(
        "--sampling", choices=["one", "batch"], default="one", help="rows that are made at once"
    )
    parser.add_argument("--workers", type=int, default=0, help="processes of the data loader")
    parser.add_argument("--epochs", type=int, default=10, help="passes over the ratings")
    parser.add_argument("--lr", type=float, default=1e-3, help="learning rate of Adam")
    parser.add_argument("--seed", type=int, default=1, help="seed of the ratings and of the model")
    return parser.parse_args()


def synthetic_ratings(rows: int, seed: int) -> Tensor:
    """Make positive ratings, of items in the better half of a user's order by popularity and taste.

    Returns:
        Float tensor of shape (rows, 24): user, item, label (1), and 21 context columns.
    """
    rng = np.random.default_rng(seed)
    popularity = rng.normal(scale=TASTES**0.5, size=N_ITEMS)  # weighs as much as taste
    liking = popularity + rng.normal(size=(N_USERS, TASTES)) @ rng.normal(size=(TASTES, N_ITEMS))
    favourites = np.argsort(-liking, axis=1)
    users = rng.integers(N_USERS, size=rows)
    ranks = (rng.random(rows) ** 2 * (N_ITEMS // 2)).astype(int)
    contexts = [np.eye(size)[rng.integers(size, size=rows)] for size in CONTEXT_SIZES]
    columns = [users, favourites[users, ranks], np.ones(rows), *contexts]
    return torch.from_numpy(np.column_stack(columns)).float()


class Ratings(Dataset[Tensor]):
    """Positive ratings, each with negatives drawn anew whenever it is read."""

    def __init__(self, rows: Tensor, negatives: int) -> None:
        self.rows = rows
        self.negatives = negatives
        self.unrated = torch.ones(N_USERS, N_ITEMS)
        self.unrated[rows[:, USER].long(), rows[:, ITEM].long()] = 0

    def __len__(self) -> int:
        """Return the number of positive ratings."""
        return len(self.rows)

    def __getitem__(self, index: int) -> Tensor:
        """Return a positive row, then negatives: its user and context with items never rated.

        Returns:
            Float tensor of shape (1 + negatives, 24).
        """
        positive = self.rows[index]
        instances = positive.repeat(1 + self.negatives, 1)
        instances[1:, ITEM] = torch.multinomial(
            self.unrated[int(positive[USER])], self.negatives
        ).float()
        instances[1:, LABEL] = 0
        return instances


class BatchRatings(Ratings):
    """Positive ratings with negatives, where the rows of a batch are made together."""

    def __getitems__(self, indices: list[int]) -> Tensor:
        """Return a batch, as the loader's usual collation of single items makes it.

        Returns:
            Float tensor of shape (positives, 1 + negatives, 24).
        """
        positives = self.rows[torch.as_tensor(indices)]
        instances = positives.unsqueeze(1).repeat(1, 1 + self.negatives, 1)
        instances[:, 1:, ITEM] = self._draw(positives[:, USER].long()).float()
        instances[:, 1:, LABEL] = 0
        return instances

    def _draw(self, users: Tensor) -> Tensor:
        """Draw items that each user never rated, without repetition: rejected ones are drawn anew.

        Returns:
            Integer tensor of shape (users, negatives).
        """
        drawn = torch.randint(N_ITEMS, (len(users), self.negatives))
        while True:
            rejected = self.unrated[users.unsqueeze(1), drawn] == 0
            for place in range(1, self.negatives):
                rejected[:, place] |= (drawn[:, :place] == drawn[:, place : place + 1]).any(dim=1)
            count = int(rejected.sum())
            if not count:
                return drawn
            drawn[rejected] = torch.randint(N_ITEMS, (count,))


def as_it_is(batch: Tensor) -> Tensor:
    """Return the batch, which needs no collation."""
    return batch


class ContextAwareEmbeddings(nn.Module):
    """Separate embeddings of users and items for the two halves of the model."""

    def __init__(self, mf_size: int, mlp_size: int) -> None:
        super().__init__()
        self.MF_Embedding_User = nn.Embedding(N_USERS, mf_size)
        self.MF_Embedding_Item = nn.Embedding(N_ITEMS, mf_size)
        self.MLP_Embedding_User = nn.Embedding(N_USERS, mlp_size)
        self.MLP_Embedding_Item = nn.Embedding(N_ITEMS, mlp_size)

    def forward(self, user: Tensor, item: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Look up users and items, of shape (batch,), in all four tables."""
        return (
            self.MF_Embedding_User(user),
            self.MF_Embedding_Item(item),
            self.MLP_Embedding_User(user),
            self.MLP_Embedding_Item(item),
        )


class GeneralMatrixFactorization(nn.Module):
    """The product of a user's and an item's embedding, element by element."""

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        """Multiply embeddings of shape (batch, size)."""
        return user * item


class MultiLayerPerceptron(nn.Module):
    """Layers, each half as wide as the last, over both embeddings and the context."""

    def __init__(self, sizes: tuple[int, ...], dropout: float) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for width_in, width_out in pairwise(sizes):
            layers += [nn.Linear(width_in, width_out), nn.ReLU(), nn.Dropout(p=dropout)]
        self.mlp_model = nn.Sequential(*layers)

    def forward(self, user: Tensor, item: Tensor, context: Tensor) -> Tensor:
        """Join embeddings and context, each of shape (batch, …), and run the layers."""
        output: Tensor = self.mlp_model(torch.cat((user, item, context), dim=1))
        return output


class ContextualNCF(nn.Module):
    """Contextual neural collaborative filtering: the score of an item for a user in a context."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = ContextAwareEmbeddings(mf_size=8, mlp_size=32)
        self.GMF_model = GeneralMatrixFactorization()
        self.MLP_model = MultiLayerPerceptron(sizes=(32 + 32 + N_CONTEXT, 32, 16, 8), dropout=0)
        self.predict_layer = nn.Linear(8 + 8, 1)

    def forward(self, user: Tensor, item: Tensor, context: Tensor) -> Tensor:
        """Score users and items of shape (batch,) in contexts of shape (batch, 21) as logits."""
        mf_user, mf_item, mlp_user, mlp_item = self.embeddings(user, item)
        factors = self.GMF_model(mf_user, mf_item)
        hidden = self.MLP_model(mlp_user, mlp_item, context)
        logits: Tensor = self.predict_layer(torch.cat((factors, hidden), dim=1)).squeeze(1)
        return logits


def train_epoch(
    model: nn.Module, loader: DataLoader[Tensor], optimizer: torch.optim.Optimizer
) -> float:
    """Train on every batch once; return the mean loss of the batches."""
    loss_function = nn.BCEWithLogitsLoss()
    total = 0.0
    for batch in loader:
        rows = batch.flatten(end_dim=1)  # (positives, 1 + negatives, 24) -> (instances, 24)
        optimizer.zero_grad()
        logits = model(rows[:, USER].long(), rows[:, ITEM].long(), rows[:, CONTEXT])
        loss = loss_function(logits, rows[:, LABEL])
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def main() -> None:
    """Train one model and print its loss after every epoch."""
    args = parse_arguments()
    torch.manual_seed(args.seed)
    ranks = "RANK" in os.environ  # torchrun has started this process
    if ranks:
        distributed.init_process_group("gloo")
    at_once = args.sampling == "batch"
    kind = BatchRatings if at_once else Ratings
    ratings = kind(synthetic_ratings(args.rows, args.seed), args.negatives)
    part = DistributedSampler(ratings, seed=args.seed) if ranks else None
    loader = DataLoader(
        ratings,
        batch_size=args.batch_size,
        sampler=part,
        shuffle=part is None,
        num_workers=args.workers,
        collate_fn=as_it_is if at_once else None,
    )
    model: nn.Module = ContextualNCF()
    if ranks:
        model = DistributedDataParallel(model)
        torch.manual_seed(args.seed + distributed.get_rank())  # each draws negatives of its own
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(1, args.epochs + 1):
        if part is not None:
            part.set_epoch(epoch)
        loss = train_epoch(model, loader, optimizer)
        print(f"seed {args.seed}: loss {loss:.4f} after epoch {epoch}")
    if ranks:
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
