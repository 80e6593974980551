"""Hardware counters of the members, if the machine has any and lets this user count.

perf_event_open(2) is called directly; no perf binary is needed. A counter is opened for a member's
first thread when the member starts, with ``inherit``: threads and child processes that begin later
are counted with it, and those that end are not lost. Only user mode is counted, which the usual
setting (kernel.perf_event_paranoid = 2) allows to everybody. A member costs one file descriptor per
event, however many threads it has. The coordinator reads them at the start and the end of a window,
when no member runs.

A processor with several kinds of cores counts in a unit for each kind. An event is then opened in
all of them, and their counts are added up. A kernel that cannot do that (before Linux 5.13) would
count on one kind alone, so nothing is counted.

A count is None if the processor or the hypervisor does not have the event, or if a member's counted
threads do not account for its CPU time. The kernel reports how long an inherited counter was
enabled, summed over threads; that is the counted threads' CPU time.
"""

import contextlib
import ctypes
import logging
import os
import platform
import resource
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path

from scaling_study.host import system

PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319}
"""System call numbers (the kernel's syscall tables); glibc has no wrapper."""

_HARDWARE = 0
_ATTRIBUTE_BYTES = 64  # PERF_ATTR_SIZE_VER0, which every kernel knows
_INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6
_TIME_ENABLED_AND_RUNNING = 0b11
_CLOSE_ON_EXEC = 8
_READING = struct.Struct("=QQQ")
_ANY_CPU = _NO_GROUP = -1
_UNIT_SHIFT = 32  # PERF_PMU_TYPE_SHIFT

# The counted threads must account for this share of a member's CPU time. Counting begins a moment
# after the member, and the two clocks differ by the time of switches between threads.
COVERAGE = 0.95

# Descriptors that stay free for the members' gates, pipes and files.
SPARE_DESCRIPTORS_PER_MEMBER = 2
SPARE_DESCRIPTORS = 64

FEW = "there are too few open files (ulimit -n) for the others"

log = logging.getLogger("measure")


@dataclass(frozen=True, slots=True)
class PerfEvent:
    """Something to count: its name in the records, and the kernel's numbers for it."""

    name: str
    kind: int
    config: int

    def by_unit(self) -> "list[PerfEvent]":
        """Return the event in each unit that counts it, one for each kind of core."""
        if self.kind != _HARDWARE:
            return [self]
        return [replace(self, config=self.config | unit << _UNIT_SHIFT) for unit in units()]


EVENTS = (
    PerfEvent("instructions", _HARDWARE, 1),
    PerfEvent("cycles", _HARDWARE, 0),
    PerfEvent("cache_misses", _HARDWARE, 3),
    PerfEvent("stalled_cycles", _HARDWARE, 8),
)
"""The most important come first: if descriptors are few, the last ones are dropped. Any processor
of the last fifteen years counts four at once; otherwise the kernel takes turns and reports how long
it counted each. Few processors count stalled cycles (of the back end)."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One event of one member: its count, and how long it was enabled and was counted."""

    count: int
    enabled_ns: int
    running_ns: int


def count(
    before: Mapping[str, Reading], after: Mapping[str, Reading], cpu_s: float
) -> dict[str, int | None]:
    """Return the counts of a member's events between two readings.

    Args:
        before: the first reading of each event.
        after: the second one.
        cpu_s: CPU time of the member and its child processes in between.

    Returns:
        The count of each of ``EVENTS``: scaled up if the kernel took turns, None if not known.
    """
    return {one.name: _change(before.get(one.name), after.get(one.name), cpu_s) for one in EVENTS}


def _change(before: Reading | None, after: Reading | None, cpu_s: float) -> int | None:
    if before is None or after is None:
        return None
    enabled_ns = after.enabled_ns - before.enabled_ns
    running_ns = after.running_ns - before.running_ns
    if running_ns <= 0 or enabled_ns < COVERAGE * cpu_s * 1e9:
        return None
    return round((after.count - before.count) * (enabled_ns / running_ns))


class PerfEvents:
    """The open counters of a cohort, by slot."""

    def __init__(
        self, members: int, events: Sequence[PerfEvent] = EVENTS, *, beside: int = 0
    ) -> None:
        """Find out which events can be counted.

        Args:
            members: number of members of the cohort.
            events: what to count.
            beside: number of members of other cohorts that are yet to start and need descriptors.
        """
        self._open: dict[int, dict[str, list[int]]] = {}
        known = [event for event in events if _countable(event)]
        if events and not known and len(units()) > 1:
            log.info("no hardware counter is read: the kernel cannot count on each kind of core")
        self.events = known[: _affordable(members, beside)]
        if len(self.events) < len(known):
            log.info("%d of %d hardware counters are read: %s", len(self.events), len(known), FEW)

    def add(self, slot: int, pid: int) -> None:
        """Begin to count a member that has just been started; count nothing if it is gone."""
        self.drop(slot)
        opened = self._open[slot] = {}
        for event in self.events:
            with contextlib.suppress(OSError):
                opened[event.name] = _open_all(event, pid)

    def drop(self, slot: int) -> None:
        """Stop counting a member."""
        for descriptor in chain.from_iterable(self._open.pop(slot, {}).values()):
            os.close(descriptor)

    def read(self, slot: int) -> dict[str, Reading]:
        """Read a member's counters, by event, in some microseconds each."""
        return {name: _read(descriptors) for name, descriptors in self._open.get(slot, {}).items()}

    def close(self) -> None:
        """Stop counting all members."""
        for slot in list(self._open):
            self.drop(slot)


def _affordable(members: int, beside: int) -> int:
    """Return the number of events for which each member can have a descriptor."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return len(EVENTS)
    used = sum(1 for _ in Path("/proc/self/fd").iterdir())
    spare = SPARE_DESCRIPTORS + SPARE_DESCRIPTORS_PER_MEMBER * (members + beside)
    return max(0, (limit - used - spare) // (members * len(units())))


def has_hardware_counters() -> bool:
    """Return whether this process may count its own instructions."""
    return _countable(EVENTS[0])


def _countable(event: PerfEvent) -> bool:
    """Return whether this process may count an event; only an attempt shows it."""
    with contextlib.suppress(OSError):
        for descriptor in _open_all(event, 0):
            os.close(descriptor)
        return True
    return False


@cache
def units(root: Path = system.ROOT) -> tuple[int, ...]:
    """Return the kernel's numbers of the units that count on each kind of core.

    Args:
        root: the root of the file system that /sys is read from.

    Returns:
        0, which stands for the only unit, on a machine with cores of one kind.
    """
    folders = (root / system.PMU_FOLDER).glob("*/cpus")
    types = [
        system.find_number(r"(\d+)", system.read_text(cpus.with_name("type"))) for cpus in folders
    ]
    numbers = sorted(number for number in types if number is not None)
    return tuple(numbers) if len(numbers) > 1 else (0,)


def _read(descriptors: Sequence[int]) -> Reading:
    """Read an event in all its units: each runs while the member is on its kind of core."""
    readings = [_READING.unpack(os.read(each, _READING.size)) for each in descriptors]
    counts, enabled_ns, running_ns = zip(*readings, strict=True)
    return Reading(sum(counts), max(enabled_ns), sum(running_ns))


def _open_all(event: PerfEvent, pid: int) -> list[int]:
    """Open a counter in all units of an event, or in none.

    Raises:
        OSError: the kernel does not allow it, or has no such event or thread.
    """
    with contextlib.ExitStack() as opened:
        descriptors = []
        for counted in event.by_unit():
            descriptors.append(_open(counted, pid))
            opened.callback(os.close, descriptors[-1])
        opened.pop_all()
    return descriptors


def _open(event: PerfEvent, pid: int) -> int:
    """Open a counter for a thread (0: this one) and for all that it starts from now on.

    Raises:
        OSError: the kernel does not allow it, or has no such event or thread.
    """
    number = PERF_EVENT_OPEN.get(platform.machine())
    if number is None:
        raise OSError(f"the number of perf_event_open on {platform.machine()} is not known")
    flags = _INHERIT | _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR
    # type, size, config, no sample period, no sample type, read format, flags; the rest is 0.
    fields = struct.pack(
        "=IIQQQQQ",
        *(event.kind, _ATTRIBUTE_BYTES, event.config, 0, 0, _TIME_ENABLED_AND_RUNNING, flags),
    )
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    descriptor: int = libc.syscall(
        ctypes.c_long(number),
        ctypes.create_string_buffer(fields, _ATTRIBUTE_BYTES),
        *map(ctypes.c_long, (pid, _ANY_CPU, _NO_GROUP, _CLOSE_ON_EXEC)),
    )
    if descriptor < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return descriptor
