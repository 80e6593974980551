"""A loop whose loader is of the kind that is asked for; each batch takes a while to make."""

import argparse
import time
from pathlib import Path

import torch

from size import PASSES

BATCH = 8
CAPACITY = 3
HERE = "here"
"""In place of a file: no worker can read any sample."""


class Slow(torch.utils.data.Dataset):
    """Samples that take so long (s) to make, and are read from a file if there is one."""

    def __init__(self, seconds, samples, path=None):
        self.seconds, self.samples, self.path = seconds, samples, path

    def __len__(self):
        return self.samples

    def __getitems__(self, indices):
        if torch.utils.data.get_worker_info() and self.path == HERE:
            raise RuntimeError("this data set is for the training process")
        time.sleep(self.seconds)
        if self.path and self.path != HERE:
            Path(self.path).read_bytes()
        return [torch.full((16,), float(index)) for index in indices]

    def __getitem__(self, index):
        return self.__getitems__([index])[0]


class Rows(torch.utils.data.Dataset):
    """Samples that take so long (s) to make, one or many of them."""

    def __init__(self, seconds, samples, _):
        self.seconds, self.samples = seconds, torch.arange(float(samples))[:, None].expand(-1, 16)

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return self.samples[index]


class Own:
    """A loader that no library has."""

    def __init__(self, dataset):
        self.dataset = dataset

    def __len__(self):
        return len(self.dataset) // BATCH

    def __iter__(self):
        for indices in batches_of(self.dataset):
            yield torch.stack(self.dataset.__getitems__(indices))


def batches_of(dataset):
    """All batches, as a pipeline's source wants them."""
    return [range(first, first + BATCH) for first in range(0, len(dataset), BATCH)]


def pipeline(dataset):
    from spdl.pipeline import PipelineBuilder

    def fetch(indices):
        return torch.stack(dataset.__getitems__(indices))

    return (
        PipelineBuilder()
        .add_source(batches_of(dataset))
        .pipe(fetch, concurrency=2)
        .add_sink(CAPACITY)
        .build(num_threads=2)
    )


def pipelines(dataset):
    """Epochs of a pipeline each."""

    def epoch():
        one = pipeline(dataset)
        with one.auto_stop():
            yield from one.get_iterator()

    return epoch


def loader_of(kind, dataset, workers):
    """A function that returns an iterator for each epoch."""
    if kind in {"torch", "rows"}:
        made = torch.utils.data.DataLoader(dataset, BATCH, num_workers=workers)
    elif kind == "stateful":
        from torchdata.stateful_dataloader import StatefulDataLoader

        made = StatefulDataLoader(dataset, BATCH, num_workers=workers)
    elif kind == "spdl":
        from spdl.dataloader import DataLoader

        made = DataLoader(
            batches_of(dataset),
            num_threads=2,
            preprocessor=lambda indices: torch.stack(dataset.__getitems__(indices)),
        )
    elif kind == "own":
        made = Own(dataset)
    else:
        return pipelines(dataset)
    return made.__iter__


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.004)
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--file")
    parser.add_argument("--in-place", action="store_true")
    options = parser.parse_args()
    model = torch.nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    kind = Rows if options.kind == "rows" else Slow
    dataset = kind(options.seconds, options.samples, options.file)
    epoch = loader_of(options.kind, dataset, options.workers)
    seen = set()
    while True:
        for batch in epoch():
            if options.in_place:
                assert float(batch.max()) < options.samples
                batch.add_(options.samples)
            optimizer.zero_grad()
            for _ in range(PASSES):
                model(batch).square().mean().backward()
            optimizer.step()
