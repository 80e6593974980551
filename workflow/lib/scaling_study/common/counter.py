"""Counters: each file that has a ``COUNTER`` is one, by the file's name.

It is declared there alone, and reaches the members or the coordinator, the records, the tables and
their documentation from there. Each process of a study finds the same ones (``entries``), a member
too: standard library only.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from scaling_study.common import entries

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Counter:
    """Something that is counted in members.

    Attributes:
        meaning: One sentence.
        unit: ``s`` for a time; empty for a number.
        time: Installs, in a member that has just imported torch, what calls its argument with each
            time (ns) that is spent. It is called in steps: nothing may be allocated or written.
            Times are summed over the counted steps of a window.
        read: Returns how much a process, by its id, has counted since it began. The coordinator
            asks at a window's edges, and for its child processes too. An OSError means that it
            has ended.
        name: The file's; the table sets it.
    """

    meaning: str
    unit: str = "s"
    time: Callable[[Callable[[int], None]], None] | None = None
    read: Callable[[int], float] | None = None
    name: str = ""

    @property
    def field(self) -> str:
        """Its name in a window's record of a member."""
        return f"{self.name}_s" if self.unit else self.name

    @property
    def column(self) -> str:
        """The name of its column in tables."""
        return f"{self.field}_per_step"


def _all() -> tuple[Counter, ...]:
    known = entries.found("counters", "COUNTER", Counter)
    return tuple(dataclasses.replace(one, name=name) for name, one in sorted(known.items()))


COUNTERS: tuple[Counter, ...] = _all()
TIMED = tuple(one for one in COUNTERS if one.time is not None)
READ = tuple(one for one in COUNTERS if one.read is not None)
