"""Run a command beside something that is none of its own: hogs, a quota, a smaller mask.

    python outside.py [--hog cpu|memory] [--hogs 1] [--quota-cpus 1.2] [--cpu 0] -- COMMAND...

However this or its caller ends, hogs are killed and the cgroup is removed: hogs and the command die
with this process, and this process ends when its caller does (PR_SET_PDEATHSIG, prctl(2)).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from scaling_study.host import limits
from scaling_study.queues import bind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

PREFIX = "injected-quota-"
"""What our cgroups are called, with the process id of who made each."""
PERIOD_US = 100_000  # the kernel's default
STREAMED_BYTES = 512 << 20  # far more than any last-level cache that this runs on
STOP_S = 30.0  # what a command gets to end its members, when asked to stop
HOGS = {
    "cpu": "while True: pass",
    # memcpy reads and writes main memory as fast as one CPU can.
    "memory": f"import numpy as n; a=n.ones({STREAMED_BYTES // 16}); b=n.ones_like(a)\n"
    "while True: n.copyto(b, a)",
}


def stop(signum: int, _frame: FrameType | None) -> None:
    """Leave by an exception, so that everything is undone."""
    sys.exit(128 + signum)


@contextlib.contextmanager
def hogs(kind: str | None, count: int) -> Iterator[None]:
    """Run hogs."""
    running = []
    try:
        if kind is not None:
            command = [sys.executable, "-P", bind.__file__, "--die-with", str(os.getpid()), "--"]
            command += [sys.executable, "-c", HOGS[kind]]
            running = [subprocess.Popen(command) for _ in range(count)]
            time.sleep(1.0)  # imports, first touch
        yield
    finally:
        for hog in running:
            hog.kill()
            hog.wait()


def quota_folder() -> Path:
    """Return the folder in which a cgroup with a CPU quota can be made.

    Raises:
        OSError: nobody may make one here; the text says why.
    """
    hierarchy = limits.read_hierarchy("cpu")
    if hierarchy is None:
        raise OSError("no cgroup hierarchy is mounted that governs CPU time")
    folder = hierarchy.folders[0]
    if hierarchy.version == 2:
        enabled = (folder / "cgroup.subtree_control").read_text().split()
        if "cpu" not in enabled:
            raise OSError(f"{folder} does not hand the cpu controller to its children")
    return folder


@contextlib.contextmanager
def quota(cpus: float | None) -> Iterator[Path | None]:
    """Make a cgroup with a CPU quota, and remove it with everything in it.

    v1 has cpu.cfs_quota_us and cpu.cfs_period_us, v2 cpu.max (the kernel's scheduler/sched-bwc and
    admin-guide/cgroup-v2).

    Yields:
        The file that a process writes its id to, to be in it.
    """
    if cpus is None:
        yield None
        return
    parent = quota_folder()
    remove_left_over(parent)
    folder = parent / f"{PREFIX}{os.getpid()}"
    folder.mkdir()
    try:
        quota_us = round(cpus * PERIOD_US)
        if (folder / "cpu.max").exists():
            (folder / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
        else:
            (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (folder / "cpu.cfs_quota_us").write_text(str(quota_us))
        yield folder / "cgroup.procs"
    finally:
        remove(folder)


def remove_left_over(parent: Path) -> None:
    """Remove cgroups whose maker was killed before it could."""
    for folder in parent.glob(f"{PREFIX}*"):
        if not Path("/proc", folder.name.removeprefix(PREFIX)).exists():
            remove(folder)


def remove(folder: Path) -> None:
    """Kill what is left in a cgroup, wait for its end, and remove it."""
    until = time.monotonic() + STOP_S
    while True:
        for pid in (folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        with contextlib.suppress(OSError):  # busy, until the killed are gone
            folder.rmdir()
            return
        if time.monotonic() > until:
            raise TimeoutError(f"{folder} could not be removed")
        time.sleep(0.05)


def run(command: list[str], procs: Path | None) -> int:
    """Run the command, in the cgroup of ``procs`` if there is one; return its status."""
    enter = [] if procs is None else ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(procs)]
    die = [sys.executable, "-P", bind.__file__, "--die-with", str(os.getpid())]
    process = subprocess.Popen([*enter, *die, "--die-signal", "TERM", "--", *command])
    try:
        return process.wait()
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def main() -> int:
    """Parse the command line, fault, run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hog", choices=HOGS)
    parser.add_argument("--hogs", type=int, default=1, help="how many of them")
    parser.add_argument("--quota-cpus", type=float, help="CPU time for all, in CPUs")
    parser.add_argument("--cpu", type=int, help="the only CPU that the command may run on")
    arguments, command = bind.split_command(sys.argv[1:])
    options = parser.parse_args(arguments)
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, stop)
    bind.die_with_parent(os.getppid(), signal.SIGTERM)
    try:
        if options.cpu is not None:
            os.sched_setaffinity(0, {options.cpu})
        with quota(options.quota_cpus) as procs, hogs(options.hog, options.hogs):
            return run(command, procs)
    except OSError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    sys.exit(main())
