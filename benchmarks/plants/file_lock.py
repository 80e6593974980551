"""Plant: every step writes a line to one file, under a lock that all processes share (flock(2)).

With ``--private`` each process has a file of its own: the same work under a lock that nobody else
wants. The work is CPU time of this thread, so it does not grow when a process waits.
"""

import argparse
import fcntl
import hashlib
import os
import time
from pathlib import Path
from typing import Any

import real_workload

BLOCK = bytes(65536)


def plant(path: Path, seconds: float) -> None:
    """Before each optimizer's step, work for some seconds of CPU time under a file's lock."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def log_step(*_: Any) -> None:
        fcntl.flock(file, fcntl.LOCK_EX)
        until = time.thread_time() + seconds
        digest = hashlib.sha256()
        while time.thread_time() < until:
            digest.update(BLOCK)
        os.pwrite(file, digest.digest(), 0)
        fcntl.flock(file, fcntl.LOCK_UN)

    real_workload.before_each_step(log_step)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--folder", type=Path, required=True, help="where the file is")
parser.add_argument("--seconds", type=float, required=True, help="CPU time under the lock")
parser.add_argument("--private", action="store_true", help="a file for each process")
options, command = real_workload.options_of(parser)
name = f"log-{os.getpid()}" if options.private else "log"
real_workload.once("file_lock", lambda: plant(options.folder / name, options.seconds))
real_workload.run(command)
