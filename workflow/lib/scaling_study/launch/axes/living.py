"""Finds live objects in this process, from which axes read the values in effect."""

from __future__ import annotations

import gc
from typing import TypeVar

T = TypeVar("T")
V = TypeVar("V", int, str)


def living(kind: type[T]) -> list[T]:
    """Return all objects of a class and its subclasses, also those that gc.freeze has set aside."""
    frozen = gc.get_freeze_count() > 0
    if frozen:
        gc.unfreeze()
    # isinstance would ask objects of any kind for their __class__, which may do anything.
    found = [one for one in gc.get_objects() if issubclass(type(one), kind)]
    if frozen:
        gc.freeze()
    return found


def the_one(values: set[V], without: str) -> V | str:
    """Return the only value, several values as one text, or ``without`` if there is none."""
    if len(values) == 1:
        return next(iter(values))
    return ", ".join(map(str, sorted(values))) or without
