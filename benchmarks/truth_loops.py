"""A script under a plain shell loop: started, stopped, and what it counted itself."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import numpy as np
from truth_list import PROCESSES, ROOT, SCRIPTS, Row
from truth_processes import STOP_S, OverdueError, last_lines, started
from truth_rates import Counted, throughput, whole_processes

if TYPE_CHECKING:
    from pathlib import Path

START_LIMIT_S = 240.0
"""For n processes to end their first iteration: compilation takes minutes on a slow machine."""
POLL_S = 0.2


def loop(row: Row, n: int, folder: Path, deadline: float) -> Counted:
    """Run n processes of a script under a shell loop; return what they counted.

    Raises:
        OverdueError: the deadline came first.
        RuntimeError: a process failed, or did not start in time.
        ValueError: too little was counted.
    """
    log, work = folder / "log", folder / "work"
    log.mkdir()
    work.mkdir()
    longest_s = START_LIMIT_S + row.loop_s
    command = [
        *with_threads(row, n),
        # The time limit is for a loop whose benchmark was killed.
        *("timeout", "--kill-after=5", f"{longest_s + STOP_S:.0f}"),
        *("bash", str(ROOT / SCRIPTS / "loop.sh"), str(n), str(log)),
        *(sys.executable, str(ROOT / row.script), "--seed", "{member}"),
    ]
    whole = row.compares == PROCESSES
    with started(command, folder, work):
        _wait_for_start(log, n, deadline, whole=whole)
        _sleep(row.loop_s, log, deadline)
    if whole:
        return whole_processes([read_ends(log / f"{slot}.ends") for slot in range(n)])
    if any(log.glob("*.ends")):
        raise RuntimeError("a process ended before its time")
    return throughput([read_stamps(log / f"{slot}.0") for slot in range(n)])


def with_threads(row: Row, n: int) -> list[str]:
    """Return the start of a command that has processes use one thread each, or the default."""
    return ["env", "--unset=OMP_NUM_THREADS", *([] if row.of_default(n) else ["OMP_NUM_THREADS=1"])]


def _wait_for_start(log: Path, n: int, deadline: float, *, whole: bool) -> None:
    """Wait until each slot has ended its first iteration, or its first whole process."""
    read = read_ends if whole else read_first
    files = [log / (f"{slot}.ends" if whole else f"{slot}.0") for slot in range(n)]
    latest = time.monotonic() + START_LIMIT_S
    while not all(read(file) for file in files):
        if time.monotonic() > latest:
            raise RuntimeError(f"not all processes started within {START_LIMIT_S:g} s")
        _sleep(POLL_S, log, deadline)


def _sleep(seconds: float, log: Path, deadline: float) -> None:
    """Sleep, while the loop runs."""
    time.sleep(max(0.0, min(seconds, deadline - time.monotonic())))
    for failed in log.glob("*.failed"):
        status = failed.read_text(encoding="utf-8").strip()
        raise RuntimeError(f"status {status}: {last_lines(failed.with_suffix('.out'))}")
    if time.monotonic() >= deadline:
        raise OverdueError


def read_first(file: Path) -> list[float]:
    """Return the first stamp of a process, if it has one."""
    return _stamps(file, 1)


def read_stamps(file: Path) -> list[float]:
    """Return the stamps of a process (see truth/counting.py)."""
    return _stamps(file, -1)


def _stamps(file: Path, most: int) -> list[float]:
    """Return the stamps of a process; there is no file before its script has made its counter."""
    if not file.exists():
        return []
    stamps = np.fromfile(file, np.float64, most)
    return [float(stamp) for stamp in stamps[stamps != 0]]


def read_ends(file: Path) -> list[float]:
    """Return when the processes of a slot ended; there is no file before the first end."""
    return [float(line) for line in file.read_text().splitlines()] if file.exists() else []
