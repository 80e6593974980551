"""Whether the pages of files are in memory, putting them there, and dropping them.

Needs no root: posix_fadvise(2) drops clean pages of a file that may be read, where no process has
it mapped; mincore(2) tells which pages there are. On a virtual machine the host may keep them in a
cache of its own, which nothing here can see.
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
    """Read files to their end."""
    for descriptor, _ in _opened(files):
        while os.read(descriptor, _READ_BYTES):
            pass


def drop(files: Iterable[Path]) -> None:
    """Ask the kernel to forget what it holds of files, once that is on the disk."""
    for descriptor, _ in _opened(files):
        os.fdatasync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def resident_share(files: Iterable[Path]) -> float | None:
    """Return the part of files' pages that is in memory; None where the kernel tells of no page."""
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
    """Open files one after the other, without those that cannot be read; each with its size."""
    for path in files:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # it is gone, or not ours to read
            continue
        try:
            yield descriptor, os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
