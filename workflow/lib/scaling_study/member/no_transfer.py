"""Workers that make their batches and do not send them.

Standard library and torch only.
"""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any

from scaling_study.member import fetching, loader_substitutes, loaders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scaling_study.member.fetching import Fetch
    from scaling_study.member.member import Member

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
        held = "batches" in fetching.notes(fetcher.dataset)
        left = itertools.count(0 if held else loader_substitutes.CACHED_BATCHES, -1)

        def keep(indices: Any) -> Any:
            batch = fetch(indices)
            return batch if next(left) > 0 else _Token()

        return keep

    fetching.around(kept)
    loader_substitutes.put(_from_tokens, member, further)


def sends_nothing() -> bool:
    """Whether any loader has workers that are to keep their batches."""
    return _without_copies > 0


def _from_tokens(make: Callable[..., Iterator[Any]], _: Member, loader: Any) -> Iterator[Any]:
    """Give a batch from memory for each that a worker has made."""
    global _without_copies  # noqa: PLW0603
    _without_copies += bool(loaders.facts(loader)["workers"])
    notes = fetching.notes(loader.dataset)
    batches: list[loader_substitutes.Batch] = notes.get("batches", [])
    again = itertools.cycle(range(loader_substitutes.CACHED_BATCHES))
    for batch in make():
        if isinstance(batch, _Token):
            yield batches[next(again)].take()
            continue
        if len(batches) < loader_substitutes.CACHED_BATCHES:
            batches.append(loader_substitutes.Batch(batch))
        if len(batches) == loader_substitutes.CACHED_BATCHES:
            notes["batches"] = batches
        yield batch
