"""The processes below this one: none of them outlives it."""

from __future__ import annotations

import ctypes
import os
import signal
import time

from scaling_study.host import kernel_counters

PR_SET_CHILD_SUBREAPER = 36


def adopt() -> None:
    """Become the parent of whatever processes below this one leave orphaned (prctl(2))."""
    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1) != 0:
        raise OSError("prctl(PR_SET_CHILD_SUBREAPER) failed")


def end(grace_s: float) -> None:
    """Wait for all processes below this one, and kill them when the grace is over."""
    deadline = time.monotonic() + grace_s
    while len(family := kernel_counters.descendants(os.getpid())) > 1:
        if time.monotonic() > deadline:
            for pid in family[1:]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.01)
