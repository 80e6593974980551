"""The rate at which one process reads a file from this machine's disk: a ceiling for a data loader.

It is measured in a short time, with nothing else running. One loader process should expect no more.
Several processes get more from a fast device, which serves many requests at once.
"""

import mmap
import os
import random
import tempfile
import time
from pathlib import Path

from scaling_study.host import page_cache
from scaling_study.records.experiment import DiskRate

FILE_BYTES = 1 << 26
BLOCK_BYTES = 1 << 20
TIME_S = 0.4


def measure(folder: Path) -> DiskRate:
    """Measure the rate.

    Args:
        folder: a folder on the disk; it holds a file of 64 MiB meanwhile.
    """
    block = random.Random(0).randbytes(BLOCK_BYTES)  # noqa: S311 (what does not compress)
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".disk-", buffering=0) as file:
        try:
            for _ in range(FILE_BYTES // BLOCK_BYTES):
                file.write(block)
            os.fsync(file.fileno())
            return _read(Path(file.name))
        except OSError as error:  # the disk is full
            return DiskRate(per_s=None, note=str(error))


def _read(path: Path) -> DiskRate:
    """Read a file in order, each part once, past the page cache where possible."""
    page_cache.drop([path])
    how = "one process, one read after the other"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    except OSError:  # a file system without direct reads
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        how += ", through the page cache, emptied before"
    buffer = mmap.mmap(-1, BLOCK_BYTES)  # aligned, as direct reads require
    done, began = 0, time.perf_counter()
    try:
        for place in range(0, FILE_BYTES, BLOCK_BYTES):
            done += os.preadv(descriptor, [buffer], place)
            if time.perf_counter() - began > TIME_S:
                break
    finally:
        os.close(descriptor)
    rate = done / (time.perf_counter() - began)
    return DiskRate(per_s=rate, note=f"{how}; a virtual machine's host may cache")
