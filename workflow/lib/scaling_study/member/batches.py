"""Two changes of how batches are made and sent: all rows at once, and none sent by workers.

Standard library and torch only.
"""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any

from scaling_study.member import feeds, loaders
from scaling_study.member.fetching import around

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scaling_study.member.fetching import Fetch
    from scaling_study.member.member import Member


def _notes(dataset: Any) -> dict[str, Any]:
    """Return what is noted of a data set, to be read and written: workers get what is there now."""
    notes: dict[str, Any] = getattr(dataset, "__dict__", {}).setdefault("_study", {})
    return notes


# ---- workers that send nothing

_without_copies = 0


class _Token:
    """Stands for a batch that a worker has made and not sent."""


def send_nothing(member: Member, further: Sequence[str]) -> None:
    """Have workers make their batches and keep them: training is on the loader's first ones.

    What batches take to get from one process to another is missing, and nothing else.
    """
    owner = os.getpid()

    def kept(fetcher: Any, fetch: Fetch) -> Fetch:
        if os.getpid() == owner:
            return fetch
        # What the training process holds already, it held when this worker was forked.
        held = "batches" in _notes(fetcher.dataset)
        left = itertools.count(0 if held else feeds.CACHED_BATCHES, -1)

        def keep(indices: Any) -> Any:
            batch = fetch(indices)
            return batch if next(left) > 0 else _Token()

        return keep

    around(kept)
    feeds.put(_from_tokens, member, further)


def sends_nothing() -> bool:
    """Whether any loader has workers that are to keep their batches."""
    return _without_copies > 0


def _from_tokens(make: Callable[[], Iterator[Any]], _: Member, loader: Any) -> Iterator[Any]:
    """Give a batch from memory for each that a worker has made."""
    global _without_copies  # noqa: PLW0603
    _without_copies += bool(loaders.facts(loader)["workers"])
    notes = _notes(loader.dataset)
    batches: list[feeds.Batch] = notes.get("batches", [])
    again = itertools.cycle(range(feeds.CACHED_BATCHES))
    for batch in make():
        if isinstance(batch, _Token):
            yield batches[next(again)].take()
            continue
        if len(batches) < feeds.CACHED_BATCHES:
            batches.append(feeds.Batch(batch))
        if len(batches) == feeds.CACHED_BATCHES:
            notes["batches"] = batches
        yield batch


# ---- whole batches at once

_looked_at: list[bool] = []


def fetch_whole(_: Member, further: Sequence[str]) -> None:
    """Have data sets asked for all rows of a batch at once, where these are the same ones.

    A data set that has no ``__getitems__`` may take a list of indices in place of one, as those
    over tensors and arrays do.
    """
    from torch.utils.data import default_convert  # noqa: PLC0415 (as above)

    def at_once(fetcher: Any, fetch: Fetch) -> Fetch:
        dataset = fetcher.dataset
        if not _notes(dataset).get("whole"):
            return fetch
        return lambda indices: default_convert(dataset[list(indices)])

    around(at_once)
    loaders.wrap(_look_first, further)


def fetches_whole() -> bool:
    """Whether any data set is asked for whole batches."""
    return any(_looked_at)


def why_not_whole() -> str | None:
    """Say why none is, where that was tried."""
    return "the data set gives single rows only" if _looked_at and not any(_looked_at) else None


def _look_first(inner: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    def makes(loader: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        notes = _notes(getattr(loader, "dataset", None))
        if "whole" not in notes:
            notes["whole"] = _gives_whole(loader)
            _looked_at.append(notes["whole"])
        return inner(loader, *args, **kwargs)

    return makes


def _gives_whole(loader: Any) -> bool:
    """Whether a list of indices gives what its rows give one by one."""
    from torch.utils.data import default_collate, default_convert  # noqa: PLC0415 (as above)

    if not loaders.facts(loader)["by_row"]:
        return False
    dataset = loader.dataset
    indices = sorted({0, len(dataset) // 2, len(dataset) - 1})
    try:
        whole = default_convert(dataset[indices])
    except Exception:  # noqa: BLE001 (the script's own code: whatever it raises, it cannot)
        return False
    return _equal(whole, default_collate([dataset[index] for index in indices]))


def _equal(one: Any, other: Any) -> bool:
    import torch  # noqa: PLC0415 (as above)

    if isinstance(one, torch.Tensor):
        return (
            isinstance(other, torch.Tensor) and one.dtype == other.dtype and torch.equal(one, other)
        )
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other)
