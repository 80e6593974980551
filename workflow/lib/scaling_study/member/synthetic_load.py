"""What may run beside training, at a dose that the coordinator sets: threads, or processes.

It does what loaders do, unpacking what is packed, a piece of about a millisecond at a time: code
that lets go of the interpreter, with a little Python in between. Foreign load computes in registers
instead, and takes nothing but CPUs. The dose is the part of the time in which each thread wants to
work. Standard library only.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import threading
import time
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scaling_study.member.loaders import Trainer

# Doses are asked for in thousandths.
WHOLE = 1000

# Of a piece; about what a small image has. Unpacking it takes about a millisecond.
PIECE_BYTES = 1 << 19
# Rounds of a hash, which take about as long.
HASH_ROUNDS = 5000
IDLE_S = 0.01
_started: list[str] = []


def change(name: str, member: Trainer, _: Sequence[str]) -> None:
    """Start one of KINDS beside this process's training, with a thread for each of its CPUs."""
    asks = member.asks()
    KINDS[name](lambda: asks() / WHOLE, len(os.sched_getaffinity(0)))
    _started.append(name)


def holds(name: str) -> bool:
    """Whether it was started."""
    return name in _started


def _unpack() -> Callable[[], object]:
    packed = zlib.compress(os.urandom(PIECE_BYTES // 8) * 8)
    return lambda: zlib.decompress(packed)


def _compute() -> Callable[[], object]:
    return lambda: hashlib.pbkdf2_hmac("sha256", b"", b"", HASH_ROUNDS)


def _work(dose: Callable[[], float], what: Callable[[], Callable[[], object]] = _unpack) -> None:
    """Work until the process that this one was forked from has ended, if it was."""
    piece = what()
    parent = os.getppid()
    while os.getppid() == parent:
        share = dose()
        if not share:
            time.sleep(IDLE_S)
            continue
        began = time.thread_time()
        piece()
        time.sleep((time.thread_time() - began) * (1 / share - 1))


def _threads(dose: Callable[[], float], count: int) -> None:
    for _ in range(count):
        threading.Thread(target=_work, args=(dose,), daemon=True).start()


def _threads_elsewhere(dose: Callable[[], float], count: int) -> None:
    def run() -> None:
        _threads(dose, count - 1)
        _work(dose)

    _fork(run)


def _processes(dose: Callable[[], float], count: int) -> None:
    for _ in range(count):
        _fork(lambda: _work(dose))


def _foreign(dose: Callable[[], float], count: int) -> None:
    for _ in range(count):
        _fork(lambda: _work(dose, _compute))


def _fork(run: Callable[[], None]) -> None:
    """Run something in a process that ends with this one."""
    multiprocessing.get_context("fork").Process(target=run, daemon=True).start()


KINDS: dict[str, Callable[[Callable[[], float], int], None]] = {
    "neighbour_threads": _threads,
    "neighbour_elsewhere": _threads_elsewhere,
    "neighbour_processes": _processes,
    "neighbour_foreign": _foreign,
}
"""What can run beside, by the name of the change."""
