"""Train a small perceptron on a Parquet table, read as the options choose.

The table is made once, in a folder of its own: seeded numbers in 24 or 200 columns, of which the
model needs eight and a target. The options choose all columns or the needed ones, whole row groups
in order or rows at random, one thread or several, and a file or a server on this machine that sends
byte ranges after a delay, as an object store does.
"""

import argparse
import contextlib
import functools
import http.server
import multiprocessing
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

NEEDED = 8
TARGET = "c0"
GROUP = 4096  # rows

Batch = tuple[Tensor, Tensor]


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description="Train a perceptron on a Parquet table.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--rows", type=int, default=65_536, help="of the table")
    parser.add_argument("--columns", type=int, choices=[24, 200], default=24, help="of the table")
    parser.add_argument("--read", choices=["all", "needed"], default="all", help="columns to read")
    parser.add_argument(
        "--order", choices=["groups", "rows"], default="groups", help="in order, or at random"
    )
    parser.add_argument("--threads", type=int, default=1, help="threads that decode a table")
    parser.add_argument(
        "--compression", choices=["none", "snappy", "zstd"], default="snappy", help="of the file"
    )
    parser.add_argument("--source", choices=["file", "http"], default="file", help="who has it")
    parser.add_argument("--latency", type=float, default=0.01, help="of the server, in s")
    parser.add_argument("--workers", type=int, default=0, help="processes of the data loader")
    parser.add_argument("--batch-size", type=int, default=512, help="rows per batch")
    parser.add_argument("--epochs", type=int, default=3, help="passes over the table")
    parser.add_argument("--lr", type=float, default=1e-3, help="learning rate of Adam")
    parser.add_argument("--seed", type=int, default=1, help="seed of the model and of the order")
    parser.add_argument("--data-seed", type=int, default=1, help="seed of the table")
    parser.add_argument("--data", type=Path, default=Path("results/.tables"), help="its folder")
    return parser.parse_args()


def make_table(args: argparse.Namespace) -> Path:
    """Make the file, unless another process has; return its path. It appears whole."""
    name = f"{args.rows}-{args.columns}-{args.compression}-{args.data_seed}.parquet"
    path: Path = args.data / name
    if not path.exists():
        args.data.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=args.data))
        rng = np.random.default_rng(args.data_seed)
        numbers = rng.normal(size=(args.columns, args.rows)).astype(np.float32)
        numbers[0] = numbers[1 : 1 + NEEDED].sum(axis=0)
        table = pa.table({f"c{at}": column for at, column in enumerate(numbers)})
        pq.write_table(table, part / name, row_group_size=GROUP, compression=args.compression)
        (part / name).replace(path)
        shutil.rmtree(part)
    return path


# ---- a server of one file


class Ranges(http.server.BaseHTTPRequestHandler):
    """Answers requests for the file, or a range of its bytes, after a delay."""

    protocol_version = "HTTP/1.1"

    def __init__(self, path: Path, latency: float, *args: Any) -> None:
        self.file, self.latency = path, latency
        super().__init__(*args)

    def do_HEAD(self) -> None:
        """Answer with the file's size."""
        self._answer(body=False)

    def do_GET(self) -> None:
        """Answer with the range of bytes that is asked for, or all of them."""
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        time.sleep(self.latency)
        size = self.file.stat().st_size
        first, last = 0, size - 1
        asked = self.headers.get("Range", "").removeprefix("bytes=")
        if asked:
            low, _, high = asked.partition("-")
            first, last = int(low), min(int(high or last), last)
        self.send_response(206 if asked else 200)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(last - first + 1))
        if asked:
            self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        self.end_headers()
        if body:
            with self.file.open("rb") as file:
                file.seek(first)
                self.wfile.write(file.read(last - first + 1))

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


def serve(path: Path, latency: float, ports: Any) -> None:
    """Serve the file to this machine alone, in a process that ends with its parent."""
    handler = functools.partial(Ranges, path, latency)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    ports.put(server.server_address[1])
    server.serve_forever()


@contextlib.contextmanager
def source_of(args: argparse.Namespace, path: Path) -> Iterator[str]:
    """Yield the file's path, or its address at a server that runs meanwhile."""
    if args.source == "file":
        yield os.fspath(path)
        return
    ports: Any = multiprocessing.Queue()
    server = multiprocessing.Process(target=serve, args=(path, args.latency, ports), daemon=True)
    server.start()
    try:
        yield f"http://127.0.0.1:{ports.get()}/{path.name}"
    finally:
        server.terminate()
        server.join()


# ---- reading


class Rows(IterableDataset[Batch]):
    """Batches of the table; several workers share out its row groups, or its rows."""

    def __init__(self, args: argparse.Namespace, source: str) -> None:
        self.args, self.source = args, source
        needed = [f"c{at}" for at in range(NEEDED + 1)]
        self.columns = needed if args.read == "needed" else None
        self.epoch = 0

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches of one epoch."""
        self.epoch += 1
        worker = get_worker_info()
        part, parts = (worker.id, worker.num_workers) if worker else (0, 1)
        pa.set_cpu_count(self.args.threads)
        with self._opened() as file:
            read = self._groups(file, part, parts)
            if self.args.order == "rows":
                read = self._rows(part, parts)
            for table in read:
                yield from self._batches(table)

    def _opened(self) -> Any:
        if self.args.source == "file":
            return Path(self.source).open("rb")
        import fsspec  # noqa: PLC0415 (for a server only)

        return fsspec.open(self.source, block_size=1 << 18)

    def _groups(self, file: Any, part: int, parts: int) -> Iterator[pa.Table]:
        """Yield one in ``parts`` row groups, in order."""
        whole = pq.ParquetFile(file)
        for group in range(part, whole.num_row_groups, parts):
            yield whole.read_row_group(
                group, columns=self.columns, use_threads=self.args.threads > 1
            )

    def _rows(self, part: int, parts: int) -> Iterator[pa.Table]:
        """Yield the rows of one batch at a time, drawn from the whole table."""
        if self.args.source == "file":
            table = ds.dataset(self.source)
        else:
            import fsspec  # noqa: PLC0415 (for a server only)
            from pyarrow.fs import FSSpecHandler, PyFileSystem  # noqa: PLC0415

            system = PyFileSystem(FSSpecHandler(fsspec.filesystem("http")))
            table = ds.dataset(self.source, filesystem=system, format="parquet")
        order = np.random.default_rng([self.args.seed, self.epoch]).permutation(self.args.rows)
        size = self.args.batch_size
        for first in range(part * size, len(order), parts * size):
            rows = np.sort(order[first : first + size])
            yield table.take(rows, columns=self.columns, use_threads=self.args.threads > 1)

    def _batches(self, table: pa.Table) -> Iterator[Batch]:
        needed = [table[f"c{at}"].to_numpy() for at in range(1, NEEDED + 1)]
        inputs = torch.from_numpy(np.stack(needed, axis=1))
        targets = torch.from_numpy(table[TARGET].to_numpy().copy()).unsqueeze(1)
        for first in range(0, len(targets) - self.args.batch_size + 1, self.args.batch_size):
            part = slice(first, first + self.args.batch_size)
            yield inputs[part], targets[part]


def train(args: argparse.Namespace, source: str) -> None:
    """Train, and print one line."""
    loader = DataLoader(Rows(args, source), batch_size=None, num_workers=args.workers)
    model = nn.Sequential(nn.Linear(NEEDED, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(),
                          nn.Linear(256, 1))  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    loss, steps = torch.tensor(float("nan")), 0
    for _ in range(args.epochs):
        for inputs, targets in loader:
            optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.mse_loss(model(inputs), targets)
            loss.backward()
            optimizer.step()
            steps += 1
    print(f"loss {loss.item():.4f} after {steps} steps")


def main() -> None:
    """Read the command line, make the table and train."""
    args = parse_arguments()
    torch.manual_seed(args.seed)
    with source_of(args, make_table(args)) as source:
        train(args, source)


if __name__ == "__main__":
    main()
