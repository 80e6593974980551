"""Train a small convolutional network on JPEG files, through the loader that is asked for.

The files are made once, in a folder of their own: a smooth pattern for each class, with noise.
Decoding and scaling them takes about as long as a step of the network, so that the loader matters.
The loaders are those of "Parallelism and Performance" (SPDL's documentation): torch's DataLoader
and torchdata's StatefulDataLoader with worker processes, SPDL's pipeline with threads in this
process (``mt``) or in a subprocess (``mtp``), and batches from memory (``cache``), which show how
fast training could be (there: headspace).
"""

import argparse
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

CLASSES = 10
INPUT = 64
QUALITY = 90
SMOOTH = 8  # values on each side of a pattern, before it is enlarged
BUFFER = 4  # batches that SPDL's pipelines hold ready
CACHED = 8
THREADS = 4

Batch = tuple[Tensor, Tensor]


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description="Train a small network on JPEG files.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--loader", choices=["torch", "stateful", "mt", "mtp", "cache"], default="torch"
    )
    parser.add_argument("--workers", type=int, default=0, help="processes of torch's loaders")
    parser.add_argument("--files", type=int, default=1024, help="JPEG files")
    parser.add_argument("--size", type=int, default=160, help="their width and height in pixels")
    parser.add_argument("--batch-size", type=int, default=16, help="images per batch")
    parser.add_argument("--epochs", type=int, default=3, help="passes over the files")
    parser.add_argument("--lr", type=float, default=0.01, help="learning rate of SGD")
    parser.add_argument("--seed", type=int, default=1, help="seed of the model and of the order")
    parser.add_argument("--data-seed", type=int, default=1, help="seed of the files")
    parser.add_argument("--data", type=Path, default=Path("results/.images"), help="their folder")
    return parser.parse_args()


def make_files(folder: Path, files: int, size: int, seed: int) -> list[Path]:
    """Make the files, unless another process has; return their paths.

    Each folder holds one set of files, and appears whole.
    """
    whole = folder / f"{files}-{size}-{seed}"
    if not whole.exists():
        folder.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=folder))
        rng = np.random.default_rng(seed)
        patterns = rng.integers(256, size=(CLASSES, SMOOTH, SMOOTH, 3), dtype=np.uint8)
        for number in range(files):
            pattern = Image.fromarray(patterns[number % CLASSES]).resize((size, size))
            noise = rng.normal(scale=12, size=(size, size, 3))
            pixels = np.clip(np.asarray(pattern) + noise, 0, 255).astype(np.uint8)
            name = f"{number:06}-{number % CLASSES}.jpg"
            Image.fromarray(pixels).save(part / name, quality=QUALITY)
        try:
            part.rename(whole)
        except OSError:  # another process was first
            shutil.rmtree(part)
    return sorted(whole.glob("*.jpg"))


def decode(path: Path) -> Batch:
    """Read one image.

    Returns:
        Float tensor of shape (3, 64, 64) with values from 0 to 1, and its class.
    """
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB").resize((INPUT, INPUT)))
    label = int(path.stem.rpartition("-")[2])
    return torch.from_numpy(pixels.copy()).permute(2, 0, 1).float() / 255, torch.tensor(label)


def decode_all(paths: list[Path]) -> Batch:
    """Read the images of a batch.

    Returns:
        Float tensor of shape (batch, 3, 64, 64), and integers of shape (batch,).
    """
    images, labels = zip(*map(decode, paths), strict=True)
    return torch.stack(images), torch.stack(labels)


class Images(Dataset[Batch]):
    """The files, read one by one."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        """Return the number of files."""
        return len(self.paths)

    def __getitem__(self, index: int) -> Batch:
        """Read one file."""
        return decode(self.paths[index])


class Batches:
    """Paths of an epoch's batches, in a new order for each epoch."""

    def __init__(self, paths: list[Path], batch_size: int, seed: int) -> None:
        self.paths, self.batch_size = paths, batch_size
        self.rng = np.random.default_rng(seed)

    def __iter__(self) -> Iterator[list[Path]]:
        """Yield the batches of one epoch; an incomplete last one is dropped."""
        order = self.rng.permutation(len(self.paths))
        for first in range(0, len(order) - self.batch_size + 1, self.batch_size):
            yield [self.paths[at] for at in order[first : first + self.batch_size]]


def epochs_of(args: argparse.Namespace, paths: list[Path]) -> Iterator[Iterable[Batch]]:
    """Yield an iterable over the batches of each epoch."""
    batches = Batches(paths, args.batch_size, args.seed)
    if args.loader in {"mt", "mtp"}:
        from spdl.pipeline import PipelineBuilder, run_pipeline_in_subprocess  # noqa: PLC0415

        builder = (
            PipelineBuilder()
            .add_source(batches)
            .pipe(decode_all, concurrency=THREADS)
            .add_sink(BUFFER)
        )
        if args.loader == "mtp":
            beside = run_pipeline_in_subprocess(builder.get_config(), num_threads=THREADS)
            yield from (beside for _ in range(args.epochs))
            return
        for _ in range(args.epochs):
            pipeline = builder.build(num_threads=THREADS)
            with pipeline.auto_stop():
                yield pipeline.get_iterator()
        return
    kind = DataLoader
    if args.loader == "stateful":
        from torchdata.stateful_dataloader import StatefulDataLoader  # noqa: PLC0415

        kind = StatefulDataLoader
    loader: Iterable[Batch] = kind(
        Images(paths), args.batch_size, shuffle=True, drop_last=True, num_workers=args.workers
    )
    if args.loader == "cache":
        from spdl.dataloader import CacheDataLoader  # noqa: PLC0415

        epoch = len(paths) // args.batch_size
        kept = min(CACHED, epoch)
        loader = CacheDataLoader(loader, kept, return_caches_after=kept, stop_after=epoch)
    yield from (loader for _ in range(args.epochs))


def network() -> nn.Module:
    """Return the network: three convolutions, each halving the resolution, and a linear layer."""
    layers: list[nn.Module] = []
    for channels_in, channels_out in ((3, 16), (16, 32), (32, 64)):
        convolution = nn.Conv2d(channels_in, channels_out, 3, stride=2, padding=1)
        layers += [convolution, nn.BatchNorm2d(channels_out), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, CLASSES))


def main() -> None:
    """Train, and print one line."""
    args = parse_arguments()
    torch.manual_seed(args.seed)
    paths = make_files(args.data, args.files, args.size, args.data_seed)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    loss, steps = torch.tensor(float("nan")), 0
    for epoch in epochs_of(args, paths):
        for images, labels in epoch:
            optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            steps += 1
    print(f"loss {loss.item():.4f} after {steps} steps")


if __name__ == "__main__":
    main()
