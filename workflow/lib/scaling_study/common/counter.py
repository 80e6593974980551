"""What a counter is: a file that has a ``COUNTER`` is one, by the file's name.

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


@dataclasses.dataclass(frozen=True)
class KernelCount:
    """A number that the kernel counts for members, and the coordinator reads at a window's edges.

    Attributes:
        name: The field's in a window's record of a member.
        title: In words, without "per step".
        meaning: One sentence.
        always: Whether every kernel has it; otherwise it may be null.
        hardware: Whether it is a processor's; records of before such were counted do not have it.
    """

    name: str
    title: str
    meaning: str
    always: bool = False
    hardware: bool = False

    @property
    def column(self) -> str:
        """The name of its column in tables."""
        return f"{self.name}_per_step"


KERNEL_COUNTS = (
    KernelCount(
        "minor_faults", "minor page faults", "Page faults served from memory.", always=True
    ),
    KernelCount(
        "major_faults", "major page faults", "Page faults that needed a disk.", always=True
    ),
    KernelCount(
        "voluntary_switches",
        "voluntary switches",
        "Times a thread gave up its CPU.",
        always=True,
    ),
    KernelCount(
        "involuntary_switches", "involuntary switches", "Times a thread lost its CPU.", always=True
    ),
    KernelCount("migrations", "migrations", "Moves of a thread to another CPU."),
    KernelCount(
        "instructions",
        "instructions",
        "Instructions in user mode, all threads; this and the next three where the machine counts.",
        hardware=True,
    ),
    KernelCount("cycles", "CPU cycles", "CPU cycles in user mode, all threads.", hardware=True),
    KernelCount(
        "cache_misses",
        "cache misses",
        "What the processor counts as cache misses: of the last level on Intel, of L2 on AMD.",
        hardware=True,
    ),
    KernelCount(
        "stalled_cycles",
        "stalled cycles",
        "Cycles in user mode in which the processor's back end waited.",
        hardware=True,
    ),
)


def _all() -> tuple[Counter, ...]:
    known = entries.found("counters", "COUNTER", Counter)
    return tuple(dataclasses.replace(one, name=name) for name, one in sorted(known.items()))


COUNTERS: tuple[Counter, ...] = _all()
TIMED = tuple(one for one in COUNTERS if one.time is not None)
READ = tuple(one for one in COUNTERS if one.read is not None)
