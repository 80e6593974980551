"""Loads files into the page cache, drops them from it, and finds how much of them is in memory.

This needs no root: posix_fadvise(2) drops the clean pages of a readable file that no process has
mapped, and mincore(2) reports which pages are resident. Since Linux 5.2 it reports all of them for
a file that the caller neither owns nor may write. The host of a virtual machine may keep pages in a
cache of its own, which is invisible here.
"""

import ctypes
import mmap
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

_READ_BYTES = 1 << 20
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_ubyte))


def load(files: Iterable[Path]) -> None:
    """Read files to their end, which puts them into the page cache."""
    for descriptor, _ in _opened(files):
        while os.read(descriptor, _READ_BYTES):
            pass


def drop(files: Iterable[Path]) -> None:
    """Write files' dirty pages to the disk, then ask the kernel to drop all their pages."""
    for descriptor, _ in _opened(files):
        os.fdatasync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def resident_share(files: Iterable[Path]) -> float | None:
    """Return the share of files' pages that is in memory; None if the kernel reports none."""
    pages = present = 0
    for descriptor, size in _opened(files):
        if not size or not _ours(descriptor):
            continue
        with mmap.mmap(descriptor, size, prot=mmap.PROT_READ | mmap.PROT_WRITE,
                       flags=mmap.MAP_PRIVATE) as mapped:  # fmt: skip
            count = -(-size // mmap.PAGESIZE)
            found = (ctypes.c_ubyte * count)()
            view = (ctypes.c_ubyte * size).from_buffer(mapped)
            failed = _libc.mincore(ctypes.addressof(view), size, found)
            del view
            if failed:
                error = ctypes.get_errno()
                raise OSError(error, os.strerror(error))
            pages += count
            present += sum(one & 1 for one in found)
    return present / pages if pages else None


def _ours(descriptor: int) -> bool:
    """Return whether this user owns a file, or may write to it.

    Since Linux 5.2, mincore(2) reports all pages of other files as present.
    """
    owner, user = os.fstat(descriptor).st_uid, os.geteuid()
    return user in {0, owner} or os.access(
        f"/proc/self/fd/{descriptor}", os.W_OK, effective_ids=True
    )


def _opened(files: Iterable[Path]) -> Iterator[tuple[int, int]]:
    """Open one readable file after the other; yield the descriptor and the size of each."""
    for path in files:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # it is gone, or not ours to read
            continue
        try:
            yield descriptor, os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
