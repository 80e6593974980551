"""What a member takes of the memory: measured in each cohort, known to those that come after it.

Resident memory would count the libraries, which all members share, once for each of them. So it is
by how much less memory is free once all have started.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from scaling_study.probing import room

if TYPE_CHECKING:
    from pathlib import Path

LAST_BYTES = 8192
"""Of a record file: its last record is shorter."""


class Meter:
    """Measures from now on how much less memory is free."""

    def __init__(self) -> None:
        self._before = room.read_free_memory().free

    def each(self, members: int) -> int | None:
        """Return what each of some members takes (bytes); None where there is none."""
        if not members:
            return None
        return max(0, self._before - room.read_free_memory().free) // members


def known(folder: Path, launch: str) -> int:
    """Return what a member was seen to take (bytes), and 0 where none was.

    It is the least that was seen, since other programs may take memory meanwhile: of this launch,
    or else of any.

    Args:
        folder: measure/, with a folder of record files for each launch.
        launch: its id.
    """
    for pattern in (f"{launch}/*.jsonl", "*/*.jsonl"):
        seen = [taken for path in folder.glob(pattern) if (taken := _taken(path))]
        if seen:
            return min(seen)
    return 0


def _taken(path: Path) -> int:
    """Return what the last record of a file says; 0 where it says nothing."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - LAST_BYTES))
        last = file.read().splitlines()[-1:]
    try:
        return int(json.loads(last[0])["member_bytes"] or 0)
    except (IndexError, KeyError, TypeError, ValueError):  # whoever collects it says what is wrong
        return 0
