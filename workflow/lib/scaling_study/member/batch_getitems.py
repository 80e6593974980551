"""Batches that are read whole: all rows at once, in place of one after the other.

A data set that has no ``__getitems__`` may take a list of indices in place of one, as those over
tensors and arrays do. Standard library and torch only.
"""

from __future__ import annotations

import contextlib
import copy
from typing import TYPE_CHECKING, Any

from scaling_study.member import fetching, loaders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scaling_study.member.fetching import Fetch
    from scaling_study.member.member import Member

_looked_at: list[bool] = []
_asked = 0


def fetch_whole(_: Member, further: Sequence[str]) -> None:
    """Have data sets asked for all rows of a batch at once, where these are the same ones."""
    allow()
    loaders.wrap(_ask_everywhere, further)


def fetches_whole() -> bool:
    """Whether any data set is asked for whole batches."""
    return _asked > 0


def why_not() -> str | None:
    """Say why none can be, where that was looked at."""
    return "the data set gives single rows only" if _looked_at and not any(_looked_at) else None


def allow() -> None:
    """Let what is noted of a data set decide how its next batches are read."""
    from torch.utils.data import default_convert  # noqa: PLC0415 (the script's to import first)

    def at_once(fetcher: Any, fetch: Fetch) -> Fetch:
        dataset = fetcher.dataset
        if not fetching.notes(dataset).get("whole"):
            return fetch
        return lambda indices: default_convert(dataset[list(indices)])

    fetching.around(at_once)


def possible(loader: Any) -> bool:
    """Whether a list of indices gives what its rows give one by one; looked at once."""
    notes = fetching.notes(getattr(loader, "dataset", None))
    if "gives_whole" not in notes:
        notes["gives_whole"] = _gives_whole(loader)
        _looked_at.append(notes["gives_whole"])
    return bool(notes["gives_whole"])


@contextlib.contextmanager
def asked(loader: Any) -> Iterator[None]:
    """Have the iterators that are made meanwhile read whole batches, where that is possible."""
    notes = fetching.notes(loader.dataset)
    before = notes.get("whole", False)
    notes["whole"] = possible(loader)
    try:
        yield
    finally:
        notes["whole"] = before


def _ask_everywhere(inner: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    def makes(loader: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        global _asked  # noqa: PLW0603
        can = possible(loader)
        _asked += can
        fetching.notes(getattr(loader, "dataset", None))["whole"] = can
        return inner(loader, *args, **kwargs)

    return makes


def _gives_whole(loader: Any) -> bool:
    from torch.utils.data import default_collate, default_convert  # noqa: PLC0415 (as above)

    if not loaders.facts(loader)["by_row"]:
        return False
    try:
        # Whatever it opens to read a row is not to be there when workers are forked.
        dataset = copy.copy(loader.dataset)
        indices = sorted({0, len(dataset) // 2, len(dataset) - 1})
        whole = default_convert(dataset[indices])
        return _equal(whole, default_collate([dataset[index] for index in indices]))
    except Exception:  # noqa: BLE001 (the script's own code: whatever it raises, it cannot)
        return False


def _equal(one: Any, other: Any) -> bool:
    import torch  # noqa: PLC0415 (as above)

    if isinstance(one, torch.Tensor):
        return (
            isinstance(other, torch.Tensor) and one.dtype == other.dtype and torch.equal(one, other)
        )
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other)
