"""Count a script's own iterations, with time stamps, where TRUTH_LOG names a file for them.

The file is mapped into memory: an iteration costs a clock reading and a store, and the stamps are
there however the script ends. Without TRUTH_LOG nothing is opened or stored.

A stamp is a float64, in s of the monotonic clock, which all processes of a machine share. The end
of a period (an epoch, a validation) is stored as a negative number. Zero: nothing stored yet.
"""

import mmap
import os
import time
from pathlib import Path

CAPACITY = 1 << 21
"""Stamps of a process: an hour of iterations of 2 ms. The file is sparse."""


class Counter:
    """Stores when iterations and periods end."""

    def __init__(self) -> None:
        self._count = 0
        self._stamps: memoryview[float] | None = None
        name = os.environ.get("TRUTH_LOG")
        if name:
            with Path(name).open("w+b") as file:
                file.truncate(CAPACITY * 8)
                self._stamps = memoryview(mmap.mmap(file.fileno(), 0)).cast("d")

    def iteration(self) -> None:
        """An iteration ends now."""
        if self._stamps is not None:
            self._stamps[self._count] = time.monotonic()
            self._count += 1

    def period(self) -> None:
        """A period that comes back, with all its iterations, ends now."""
        if self._stamps is not None:
            self._stamps[self._count] = -time.monotonic()
            self._count += 1
