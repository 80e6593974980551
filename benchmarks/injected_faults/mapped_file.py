"""Fault: every step reads pages of a mapped file that are not in memory, each from the disk.

So does training on a data set that is mapped (numpy.memmap) and larger than memory. With ``--keep``
the same pages are read, and stay in memory.
"""

import argparse
import mmap
import os
import random
from pathlib import Path
from typing import Any

import real_workload

FILE_PAGES = 4096
BLOCK = bytes(range(256)) * (mmap.PAGESIZE // 256)


def inject(path: Path, pages: int, *, keep: bool) -> None:
    """Before each optimizer's step, read some pages that lie apart."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for _ in range(FILE_PAGES):
            file.write(BLOCK)
        file.flush()
        os.fsync(file.fileno())  # what is not on the disk yet cannot be given up
    number = os.open(path, os.O_RDONLY)
    path.unlink()
    data = mmap.mmap(number, 0, prot=mmap.PROT_READ)
    data.madvise(mmap.MADV_RANDOM)  # no reading ahead
    choose = random.Random(0)  # noqa: S311 (an order of pages, no secret)

    def read(*_: Any) -> None:
        first = choose.sample(range(0, FILE_PAGES * mmap.PAGESIZE, mmap.PAGESIZE), pages)
        if not keep:  # what is mapped is not given up
            data.madvise(mmap.MADV_DONTNEED)
            os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
        for at in first:
            data.seek(at)
            data.read_byte()

    real_workload.before_each_step(read)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--folder", type=Path, required=True, help="where the files are")
parser.add_argument("--pages", type=int, required=True, help="read in each step")
parser.add_argument("--keep", action="store_true", help="let them stay in memory")
options, command = real_workload.options_of(parser)
mapped = options.folder / f"mapped-{os.getpid()}"
real_workload.once("mapped_file", lambda: inject(mapped, options.pages, keep=options.keep))
real_workload.run(command)
