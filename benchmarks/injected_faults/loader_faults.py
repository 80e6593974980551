"""Faults in every DataLoader of a training script."""

from __future__ import annotations

import itertools
import os
import time
from typing import TYPE_CHECKING, Any

from step_faults import Asked, before_each_step, work

from scaling_study.member.after_torch import change_arguments

# ruff: noqa: PLC0415 (torch is the script's to import first)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COPIED_NUMBERS_PER_S = 250e6
"""Single-precision numbers, to another process."""
UNPICKLED_PER_S = 20e6
CPUS = os.cpu_count() or 1
"""Not this member's, which some launches bind to one."""


def before_each_batch(call: Callable[[Any], None]) -> None:
    """Have something called, in the process that reads it, before each batch of a map-style loader.

    It gets torch's object that reads from the data set.
    """
    from torch.utils.data._utils import fetch

    inner = fetch._MapDatasetFetcher.fetch  # noqa: SLF001 (what every map-style loader calls)

    def fetched(fetcher: Any, indices: Any) -> Any:
        call(fetcher)
        return inner(fetcher, indices)

    fetch._MapDatasetFetcher.fetch = fetched  # noqa: SLF001


def slow_loader(asked: Asked) -> None:
    """Let every batch take longer to fetch, as from storage far away.

    The delay is where the data set is read, so whoever gets a batch from elsewhere does not pay it.
    """
    before_each_batch(lambda _: time.sleep(asked.seconds))


def busy_loader(asked: Asked) -> None:
    """Have the CPU work for every batch, as for samples that must be decoded."""
    if not asked.control:
        before_each_batch(lambda _: work(asked.seconds))


def copies(asked: Asked) -> None:
    """Have one worker of every loader send views of larger tensors, which are sent whole."""
    import torch
    from torch.utils.data import default_collate, default_convert

    numbers = round(asked.seconds * COPIED_NUMBERS_PER_S)

    def enlarge(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            large = torch.empty(numbers + value.numel(), dtype=value.dtype)
            return large[: value.numel()].view(value.shape).copy_(value)
        return type(value)(map(enlarge, value))

    def change(given: dict[str, Any]) -> None:
        single = given.get("batch_size", 1) is None
        collate = given.get("collate_fn") or (default_convert if single else default_collate)
        given["collate_fn"] = lambda rows: enlarge(collate(rows))
        given["num_workers"] = 1

    change_arguments(change)


def working_workers(asked: Asked) -> None:
    """Have workers of every loader want more CPUs than training leaves, and a fair part of its own.

    A fair scheduler serves first who wants least: so there are many of them, each of which wants
    less than training does.
    """
    change = {"num_workers": 4 * CPUS, "persistent_workers": True}
    change_arguments(lambda given: given.update(change))
    before_each_batch(lambda _: work(2 * (CPUS - 1) * asked.seconds))


def loader_thread(asked: Asked) -> None:
    """Have every loader's batches go through a thread that computes in Python."""
    from spdl.pipeline import PipelineBuilder
    from torch.utils import data

    loader_kind = data.DataLoader

    def works(batch: Any) -> Any:
        work(asked.seconds)
        return batch

    class Threaded:
        def __init__(self, *args: Any, **options: Any) -> None:
            self.inner: Any = loader_kind(*args, **options)

        def __iter__(self) -> Iterator[Any]:
            builder: Any = PipelineBuilder().add_source(self.inner).pipe(works).add_sink(2)
            pipeline = builder.build(num_threads=1)
            with pipeline.auto_stop():
                yield from pipeline.get_iterator()

    data.DataLoader = Threaded


def rows(asked: Asked) -> None:
    """Have every loader read rows one by one, each at a cost that all of a batch have once."""
    from torch.utils.data import default_collate

    class Rows:
        def __init__(self, inner: Any, each_s: float) -> None:
            self.inner, self.each_s = inner, each_s

        def __len__(self) -> int:
            return len(self.inner)

        def __getitem__(self, index: Any) -> Any:
            work(self.each_s)
            if not isinstance(index, list):
                return self.inner[index]
            try:
                return self.inner[index]
            except TypeError:
                return default_collate([self.inner[one] for one in index])

    def change(given: dict[str, Any]) -> None:
        if given.get("batch_size", 1) is None:  # its sampler gives whole batches, in lists
            given.pop("batch_size")
            given["batch_sampler"] = given.pop("sampler")
        batches = given.get("batch_sampler")
        count = batches.batch_size if batches else given.get("batch_size", 1)
        given["dataset"] = Rows(given["dataset"], asked.seconds / count)

    change_arguments(change)


def snapshots(asked: Asked) -> None:
    """Have every loader be a StatefulDataLoader whose data set has a large state."""
    from torch.utils import data
    from torchdata.stateful_dataloader import StatefulDataLoader

    numbers = round(asked.seconds * UNPICKLED_PER_S)
    first = itertools.count()  # what has not changed is not sent

    def state(_: object) -> dict[str, list[int]]:
        now = next(first)
        return {"state": list(range(now, now + numbers))}

    class Snapshots(StatefulDataLoader):  # type: ignore[misc]
        def __init__(self, dataset: object, *args: object, **options: object) -> None:
            kind: Any = type(dataset)
            kind.state_dict = state
            kind.load_state_dict = lambda *_: None
            super().__init__(dataset, *args, **{**options, "num_workers": 1})

    data.DataLoader = Snapshots


def loader_starts(asked: Asked) -> None:
    """Have a loader of four rows start its worker so often that it takes this much of a step."""
    import torch
    from torch.utils.data import DataLoader

    loader = DataLoader(torch.zeros(4), num_workers=1)
    steps = itertools.count(1)
    every = 0

    def start() -> float:
        began = time.perf_counter()
        for _row in loader:
            pass
        return time.perf_counter() - began

    def again() -> None:
        nonlocal every
        if not every:
            # How often is settled by what the first ones take: workers that live on take less.
            every = max(1, round(min(start() for _ in range(5)) / asked.seconds))
        elif next(steps) % every == 0:
            start()

    before_each_step(again)


KINDS: tuple[Callable[[Asked], None], ...] = (
    *(slow_loader, busy_loader, copies, working_workers),
    *(loader_thread, rows, snapshots, loader_starts),
)
