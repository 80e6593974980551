"""Small kernels, each bound by one part of the machine, as a script that members run.

``kernels.py LLC MEMORY``, the working sets in bytes (see ``Sizes``)

Alone they are the machine's microbenchmarks: how much a part slows down when more members use it.
Beside a training member they are stressors that load one part on purpose. The coordinator sets a
number (``encode``) that selects the kernel and its share of the time, so one cohort serves for all.
A batch is a fixed amount of work, some milliseconds, and counts as a step.

The streams follow STREAM (McCalpin 1995). Kernels are made of numpy and the standard library, whose
loops are compiled, so that no compiler is needed.
"""

import hashlib
import itertools
import mmap
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

import scaling_study

Work = Callable[[], object]

DUTIES = 100
"""The resolution of the share of time in which a kernel works."""

# Fixed work of one batch: 1 to 5 ms on a CPU of 2020 to 2025.
HASH_ROUNDS = 6_000
STREAM_BYTES = 32 * 1024**2
PAGES_BYTES = 4 * 1024**2


class Kernel(NamedTuple):
    """A kernel: its title, and the part of the machine that bounds it."""

    title: str
    bound_by: str


KERNELS: Mapping[str, Kernel] = {
    "register": Kernel("a loop in registers", "a core's arithmetic and its clock"),
    "llc": Kernel("a stream through the last-level cache", "the cache that cores share"),
    "memory": Kernel("a stream through memory", "memory bandwidth"),
    "pages": Kernel("mapping and touching pages", "the kernel's page faults"),
}


def encode(kernel: str, duty: float = 1.0) -> int:
    """Return the number that asks for a kernel in a share of the time (above 0, at most 1)."""
    return list(KERNELS).index(kernel) * (DUTIES + 1) + max(1, round(duty * DUTIES))


def decode(number: int) -> tuple[str, float]:
    """Return the kernel and the share of the time that a number asks for."""
    index, duty = divmod(number, DUTIES + 1)
    return list(KERNELS)[index], duty / DUTIES


class Sizes(NamedTuple):
    """Working sets (bytes): one stays in a share of the last-level cache, one does not."""

    llc: int
    memory: int


def sizes(l2_bytes: int | None, l3_bytes: int | None, spare_bytes: int) -> Sizes:
    """Choose working sets for a machine.

    Args:
        l2_bytes: a core's second-level cache; None if it is not known.
        l3_bytes: one last-level cache; None if there is none.
        spare_bytes: memory that one member may take.
    """
    l2 = l2_bytes or 256 * 1024
    l3 = max(l3_bytes or 0, 4 * l2)
    return Sizes(max(2 * l2, l3 // 4), min(max(4 * l3, 64 * 1024**2), spare_bytes // 2))


def _hash() -> None:
    hashlib.pbkdf2_hmac("sha256", b"", b"", HASH_ROUNDS)


def _stream(working_set: int) -> Work:
    """Return STREAM's scale of one array into another, both together of this size (bytes)."""
    count = working_set // 2 // 8
    source, target = np.ones(count), np.zeros(count)
    # A long stream goes on where the last batch stopped.
    part = min(count, STREAM_BYTES // 16)
    parts = [slice(at, at + part) for at in range(0, count - part + 1, part)]
    passes = max(1, STREAM_BYTES // 16 // part)
    turns = itertools.cycle(parts)

    def work() -> None:
        here = next(turns)
        for _ in range(passes):
            np.multiply(source[here], 1.5, out=target[here])

    return work


def _pages() -> None:
    with mmap.mmap(-1, PAGES_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as area:
        area.madvise(mmap.MADV_NOHUGEPAGE)
        pages = np.frombuffer(area, np.uint8)
        pages[:: mmap.PAGESIZE] = 1
        del pages


def prepare(chosen: Sizes) -> dict[str, Work]:
    """Allocate the memory of all kernels; return, for each, the function that does a batch."""
    return {
        "register": _hash,
        "llc": _stream(chosen.llc),
        "memory": _stream(chosen.memory),
        "pages": _pages,
    }


def command(chosen: Sizes) -> tuple[str, ...]:
    """Return the script and arguments with which members run these kernels."""
    return str(Path(__file__).resolve()), *map(str, chosen)


def main(argv: list[str]) -> None:
    """Run batches of the requested kernel until the process is killed."""
    work = prepare(Sizes(*map(int, argv)))
    for batch in work.values():  # touches pages, fills caches of Python and numpy
        batch()
    while True:
        kernel, duty = decode(scaling_study.asked())
        began = time.perf_counter()
        work[kernel]()
        busy_s = time.perf_counter() - began
        time.sleep(busy_s * (1 - duty) / max(duty, 1 / DUTIES))
        scaling_study.mark()


if __name__ == "__main__":
    main(sys.argv[1:])
