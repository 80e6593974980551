"""Fault: every step does some work under a lock that all processes share.

``--kind`` says which: ``flock`` sleeps in flock(2), ``poll`` tries flock again after a pause (as
libraries for portable file locks do), ``semaphore`` waits for one in shared memory (as the locks of
multiprocessing do). With ``--private`` each process has one of its own: the same work under a lock
that nobody else wants. The work is CPU time of this thread, so it does not grow when a process
waits.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import hashlib
import mmap
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import real_workload

if TYPE_CHECKING:
    from collections.abc import Callable

BLOCK = bytes(65536)
PAUSE_S = 0.01
SEMAPHORE_BYTES = 32  # of a sem_t, on every 64-bit Linux

Pair = tuple["Callable[[], object]", "Callable[[], object]"]


def flock(path: Path, *, pause: bool) -> Pair:
    """Return what takes and what releases a lock on a file."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)

    def take() -> None:
        while pause:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(PAUSE_S)
            else:
                return
        fcntl.flock(file, fcntl.LOCK_EX)

    return take, lambda: fcntl.flock(file, fcntl.LOCK_UN)


def semaphore(path: Path) -> Pair:
    """Return what takes and what releases a semaphore in a file's memory (sem_overview(7))."""
    libc = ctypes.CDLL(None, use_errno=True)

    def mapped(file: Path) -> Any:
        with file.open("r+b") as opened:
            return (ctypes.c_char * SEMAPHORE_BYTES).from_buffer(mmap.mmap(opened.fileno(), 0))

    # Whoever links a semaphore that is ready first has made it for all.
    own = path.with_name(f"{path.name}-{os.getpid()}")
    own.write_bytes(bytes(mmap.PAGESIZE))
    libc.sem_init(mapped(own), 1, 1)
    with contextlib.suppress(FileExistsError):
        path.hardlink_to(own)
    own.unlink()
    shared = mapped(path)
    return lambda: libc.sem_wait(shared), lambda: libc.sem_post(shared)


def inject(path: Path, kind: str, seconds: float) -> None:
    """Before each optimizer's step, work for some seconds of CPU time under a lock."""
    path.parent.mkdir(parents=True, exist_ok=True)
    take, release = semaphore(path) if kind == "semaphore" else flock(path, pause=kind == "poll")

    def work(*_: Any) -> None:
        take()
        until = time.thread_time() + seconds
        digest = hashlib.sha256()
        while time.thread_time() < until:
            digest.update(BLOCK)
        release()

    real_workload.before_each_step(work)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--kind", choices=["flock", "poll", "semaphore"], default="flock")
parser.add_argument("--folder", type=Path, required=True, help="where the lock is")
parser.add_argument("--seconds", type=float, required=True, help="CPU time under the lock")
parser.add_argument("--private", action="store_true", help="a lock for each process")
options, command = real_workload.options_of(parser)
name = f"lock-{os.getpid()}" if options.private else "lock"
real_workload.once("lock", lambda: inject(options.folder / name, options.kind, options.seconds))
real_workload.run(command)
