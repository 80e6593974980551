"""The right to write a file, held by one process at a time."""

import errno
import fcntl
import time
from typing import IO

# Errors of file systems without such locks, such as some shared file systems of clusters.
NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})

LOOK_AGAIN_S = 0.05


def take(file: IO[bytes] | IO[str], patience_s: float = 0.0) -> bool:
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
