"""Count a script's own iterations, with time stamps, where TRUTH_LOG names a folder for them.

Each process has a file there, named after its slot (the script's ``--seed``) and its id. The file
is mapped into memory: an iteration costs a clock reading and a store, and the stamps are there
however the script ends. Without TRUTH_LOG nothing is opened or stored.

A stamp is a float64, in s of the monotonic clock, which all processes of a machine share; zero if
nothing is stored yet. The end of a period (an epoch, a validation) is stored as a negative number.
"""

import atexit
import mmap
import os
import sys
import time
from pathlib import Path

BEGAN, ENDED, PLAIN, STAMPS = range(4)
"""When the process began and ended; 1 if nothing but Python runs the script; the first stamp."""

CAPACITY = 1 << 21
"""Stamps of a process: an hour of iterations of 2 ms. The file is sparse."""


class Counter:
    """Stores when iterations and periods end."""

    def __init__(self) -> None:
        self._count = STAMPS
        self._stamps: memoryview[float] | None = None
        if folder := os.environ.get("TRUTH_LOG"):
            slot = sys.argv[sys.argv.index("--seed") + 1]
            with Path(folder, f"{slot}-{os.getpid()}-{time.monotonic_ns()}").open("w+b") as file:
                file.truncate((STAMPS + CAPACITY) * 8)
                self._stamps = memoryview(mmap.mmap(file.fileno(), 0)).cast("d")
            self._stamps[BEGAN] = process_began_s()
            self._stamps[PLAIN] = float(sys.argv[0] in sys.orig_argv)
            atexit.register(self._store, ENDED, 1)

    def _store(self, at: int, sign: int) -> None:
        if self._stamps is not None:
            self._stamps[at] = sign * time.monotonic()

    def iteration(self) -> None:
        """An iteration ends now."""
        self._store(self._count, 1)
        self._count += 1

    def period(self) -> None:
        """A period that comes back, with all its iterations, ends now."""
        self._store(self._count, -1)
        self._count += 1


def process_began_s() -> float:
    """Return when this process was started (s of the monotonic clock), to a tick of the kernel."""
    # proc_pid_stat(5): the 22nd field, of which the first two may hold spaces.
    ticks = int(Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19])
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - (ticks + 0.5) / os.sysconf("SC_CLK_TCK")
    return time.monotonic() - age_s
