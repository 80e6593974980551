"""Count a script's own iterations, with time stamps, where TRUTH_LOG names a folder for them.

Each process has a file there, named after its slot (the script's ``--seed``) and its id, from the
moment it imports this module. The file is mapped into memory: an iteration costs a clock reading
and a store, and the stamps are there however the script ends. Without TRUTH_LOG nothing is opened
or stored.

A stamp is a float64, in s of the monotonic clock, which all processes of a machine share; zero if
nothing is stored yet. The first two are those of the process's begin and end; then comes 1 if
nothing but Python runs the script. Each further one is the end of an iteration, or, as a negative
number, of a period (an epoch, a validation).
"""

from __future__ import annotations

import atexit
import itertools
import mmap
import os
import sys
import time
from pathlib import Path

CAPACITY = 1 << 21
"""Stamps of a process: an hour of iterations of 2 ms. The file is sparse."""


def iteration() -> None:
    """An iteration ends now."""
    if _stamps is not None:
        _stamps[next(_places)] = time.monotonic()


def period() -> None:
    """A period that comes back, with all its iterations, ends now."""
    if _stamps is not None:
        _stamps[next(_places)] = -time.monotonic()


def _end() -> None:
    if _stamps is not None:
        _stamps[1] = time.monotonic()


def _began_s() -> float:
    """Return when this process was started (s of the monotonic clock), to a tick of the kernel."""
    # proc_pid_stat(5): the 22nd field, of which the second may hold spaces.
    ticks = int(Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19])
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - (ticks + 0.5) / os.sysconf("SC_CLK_TCK")
    return time.monotonic() - age_s


_places = itertools.count(3)
_stamps: memoryview[float] | None = None
if "TRUTH_LOG" in os.environ and "--seed" in sys.argv:
    _name = f"{sys.argv[sys.argv.index('--seed') + 1]}-{os.getpid()}-{time.monotonic_ns()}"
    with Path(os.environ["TRUTH_LOG"], _name).open("w+b") as _file:
        _file.truncate(CAPACITY * 8)
        _stamps = memoryview(mmap.mmap(_file.fileno(), 0)).cast("d")
    _stamps[0] = _began_s()
    # A process that is forked for a model says in sys.orig_argv what a plain one would.
    _words = Path("/proc/self/cmdline").read_text(encoding="utf-8").split("\0")
    _stamps[2] = float(_words[1:-1] == sys.argv)
    atexit.register(_end)
