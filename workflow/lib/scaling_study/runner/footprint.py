"""What a member takes of the memory: measured in each cohort, known to those that come after it.

Resident memory would count the libraries, which all members share, once for each of them. So it is
by how much less memory is free once all have started, and less of what processes share in /dev/shm,
through which a loader's workers pass their batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scaling_study.host import headroom
from scaling_study.records import codec
from scaling_study.records.window import DECODER, End

if TYPE_CHECKING:
    from pathlib import Path

BUS_ERRORS = ("Bus error", "out of shared memory", "shared memory(shm)")
"""What torch and the kernel say where /dev/shm is full."""
LAST_BYTES = 8192
"""Of a record file: its last record is shorter."""


class Footprint(NamedTuple):
    """What a member takes, in bytes; 0 where it is not known."""

    memory: int = 0
    shared: int = 0


UNKNOWN = Footprint()


def _free() -> Footprint:
    return Footprint(headroom.read_free_memory().free, headroom.read_free_shared().free)


class Meter:
    """Measures from now on how much less memory is free."""

    def __init__(self) -> None:
        self._before = _free()

    def each(self, members: int) -> Footprint | None:
        """Return what each of some members takes; None where there is none."""
        if not members:
            return None
        less = (before - now for before, now in zip(self._before, _free(), strict=True))
        return Footprint(*(max(0, one) // members for one in less))


def why_bus_error(log: str, reason: str) -> str:
    """Say what a member that had a bus error was most likely short of; empty if it had none.

    Args:
        log: the end of what it has printed.
        reason: how it ended.
    """
    if "SIGBUS" not in reason and not any(one in log for one in BUS_ERRORS):
        return ""
    left = headroom.read_free_shared()
    return (
        f", after a bus error: {left.free / 1024**2:.0f} MiB are left ({left.limit}), through which"
        " loader workers pass their batches. Make it larger (docker run --shm-size), or take fewer"
        " workers (the axis loader_workers) or batches ahead (prefetch)"
    )


def known(folder: Path, launch: str) -> Footprint:
    """Return what a member was seen to take.

    It is the least that was seen, since other programs may take memory meanwhile: of this launch,
    or else of any.

    Args:
        folder: measure/, with a folder of record files for each launch.
        launch: its id.
    """
    for pattern in (f"{launch}/*.jsonl", "*/*.jsonl"):
        seen = [taken for path in folder.glob(pattern) if (taken := _taken(path)).memory]
        if seen:
            return Footprint(*map(min, zip(*seen, strict=True)))
    return UNKNOWN


def _taken(path: Path) -> Footprint:
    """Return what the last record of a file says."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - LAST_BYTES))
        last = file.read().splitlines()[-1:]
    try:
        end = codec.decode(b"".join(last) + b"\n", DECODER, str(path))
    except codec.RecordError:  # who collects it says what is wrong
        return UNKNOWN
    if not isinstance(end, End):
        return UNKNOWN
    return Footprint(end.member_bytes or 0, end.member_shared_bytes or 0)
