"""Finds child processes that hang because their parent had several threads when it forked them.

A fork copies one thread only. OpenMP's runtime in the child still counts on the others, and its
first operator with several threads waits for them for ever (pytorch/pytorch#17199).
"""

import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from scaling_study.host import kernel_counters

IDLE_S = 20.0
"""Children without any CPU time for this long hang, or wait for work."""

EVERY_S = 5.0
"""Processes are looked at at this interval."""

DUMP_S = 30.0
"""Longest time for a look at a stack."""

FUTEX = {"x86_64": 202, "aarch64": 98}
"""The number of futex(2), in which such a process waits."""

HANGS = (
    "{count} of the processes that it forked hang in {function} ({place}). A process that computes"
    " with several threads and then forks leaves its children without these threads"
    " (pytorch/pytorch#17199). Use one thread (intra_op: 1), or start the processes with spawn"
)


class Hangs:
    """Looks at the children of processes now and then."""

    def __init__(self) -> None:
        self._looked_s: dict[int, float] = {}
        # Since when children have used this CPU time.
        self._used: dict[int, tuple[float, float]] = {}

    def of(self, pid: int) -> str:
        """Return how children of a process hang; empty if none is known to.

        Args:
            pid: the process, which makes no step.
        """
        now_s = time.monotonic()
        if now_s < self._looked_s.get(pid, -math.inf) + EVERY_S:
            return ""
        self._looked_s[pid] = now_s
        forked = [child for child in kernel_counters.descendants(pid)[1:] if _forked(child)]
        used_s = sum(map(_cpu_s, forked))
        since_s, before_s = self._used.get(pid, (now_s, -1.0))
        if used_s != before_s or now_s - since_s >= IDLE_S:
            self._used[pid] = now_s, used_s
        return _describe(forked) if used_s == before_s and now_s - since_s >= IDLE_S else ""


def _forked(pid: int) -> bool:
    """Return whether a process runs the program that its parent runs."""
    with suppress(OSError, StopIteration):
        status = kernel_counters.read_text(f"/proc/{pid}/status").splitlines()
        parent = next(line.split()[1] for line in status if line.startswith("PPid:"))
        own_command, theirs = (
            kernel_counters.read_text(f"/proc/{process}/cmdline") for process in (pid, parent)
        )
        return own_command == theirs
    return False


def _cpu_s(pid: int) -> float:
    with suppress(OSError):  # it has just ended
        return kernel_counters.tree_cpu_s(pid)
    return 0.0


def _describe(pids: Iterable[int]) -> str:
    """Return which function processes hang in; empty if they only wait for work."""
    stuck = [frame for frame in map(_stuck_in, pids) if frame]
    return HANGS.format(count=len(stuck), function=stuck[0][0], place=stuck[0][1]) if stuck else ""


def _stuck_in(pid: int) -> tuple[str, str] | None:
    """Return the function and the line in which a process waits for a thread.

    None if that is in Python's own library, as for a process that waits for work, or not known.
    """
    number, spy = FUTEX.get(platform.machine()), Path(sys.executable).with_name("py-spy")
    with suppress(OSError, ValueError, LookupError, subprocess.SubprocessError):
        if int(kernel_counters.read_text(f"/proc/{pid}/syscall").split()[0]) != number:
            return None
        command = [str(spy), "dump", "--nonblocking", "--json", "--pid", str(pid)]
        done = subprocess.run(
            command, capture_output=True, check=True, timeout=DUMP_S, stdin=subprocess.DEVNULL
        )
        frame = json.loads(done.stdout)[0]["frames"][0]
        library = f"{os.sep}lib{os.sep}python"
        _, inside, below = frame["filename"].rpartition(library)
        if not inside or "site-packages" in below:
            return frame["name"], f"{frame['short_filename']}:{frame['line']}"
    return None
