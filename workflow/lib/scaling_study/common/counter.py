"""Counters: those of ``launch/counters``, and each file outside with a ``COUNTER``, by its name.

A counter needs no other declaration: members or the coordinator, records, tables and documentation
take it from there. Every process of a study finds the same counters (``entries``). Members import
this module too, so it uses the standard library alone.
"""

from __future__ import annotations

import dataclasses
import importlib
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
        time: Installs a hook in a member that has just imported torch. The hook passes each time
            spent (ns) to the given function. It runs inside steps, so it may neither allocate nor
            write. Times are summed over the counted steps of a window.
        read: Returns the count of a process, given its id, since the process began. The coordinator
            calls it at both ends of a window, and for child processes too. An OSError means that
            the process has ended.
        name: As the file or the entry of ``launch/counters``; set in ``COUNTERS``.
    """

    meaning: str
    unit: str = "s"
    time: Callable[[Callable[[int], None]], None] | None = None
    read: Callable[[int], float] | None = None
    name: str = ""

    @property
    def field(self) -> str:
        """The counter's name in a window's record of a member."""
        return f"{self.name}_s" if self.unit else self.name

    @property
    def column(self) -> str:
        """The name of the counter's column in tables."""
        return f"{self.field}_per_step"


_built_in = importlib.import_module("scaling_study.launch.counters").COUNTERS  # it imports Counter
_counters = sorted(entries.found("launch.counters", "COUNTER", Counter, _built_in).items())
COUNTERS = tuple(dataclasses.replace(counter, name=name) for name, counter in _counters)
TIMED = tuple(counter for counter in COUNTERS if counter.time is not None)
READ = tuple(counter for counter in COUNTERS if counter.read is not None)
