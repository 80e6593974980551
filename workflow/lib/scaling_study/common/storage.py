"""The project's folder, and files of a study: written whole or not at all, by one process."""

import errno
import fcntl
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from scaling_study.common import file_errors

PROJECT = Path(__file__).parents[4]
"""A checkout, or the same files in an installed package."""
TEMPLATES = PROJECT / "workflow/report"

# Errors of file systems without locks, such as some shared file systems of clusters.
NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})
LOOK_AGAIN_S = 0.05
LARGEST_BYTES = 1 << 28  # of a JSON file; cohorts.json of 10,000 cohorts has some 30 MB


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file beside `path` and rename it there: no reader sees half a file.

    Args:
        path: The file; its folder is made when missing.
        write: Called with the path to write to.
    """
    # The name is always the same, so the next process removes what a killed one left there.
    folder = path.parent / f".{path.name}.new"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        with file_errors.of(path):
            write(folder / path.name)
        (folder / path.name).replace(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def read_bytes(path: Path) -> bytes:
    """Read a JSON file that a study has written.

    Raises:
        UnusableError: The file is larger than any that a study writes.
    """
    if path.stat().st_size > LARGEST_BYTES:
        raise file_errors.unreadable(path, ValueError(f"more than {LARGEST_BYTES:,} bytes"))
    return path.read_bytes()


def lock(file: IO[bytes] | IO[str], patience_s: float = 0.0) -> bool:
    """Lock an open file until it is closed, or this process ends, however it ends (flock(2)).

    Args:
        file: the file.
        patience_s: how long to wait for another process that holds it.

    Returns:
        Whether this process may write the file; true also if the file system has no locks.
    """
    deadline_s = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline_s:
                return False
        except OSError as error:
            if error.errno in NO_LOCKS:
                return True
            raise
        else:
            return True
        time.sleep(LOOK_AGAIN_S)
