"""How the process of a measuring job is set up: its end, its limits, its log, its orphans."""

import logging
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from scaling_study.common import file_errors
from scaling_study.measuring import family

# Time for orphans of members that end by themselves, as a keeper gives them (see ``keep``).
ORPHANS_S = 2.0


@contextmanager
def prepared(title: str, log: Path) -> Iterator[None]:
    """Set this process up for a job that starts members, and leave none of them behind.

    A disk or a limit that stops the job ends this process with a message.

    Args:
        title: stands before each message.
        log: gets the messages, which go to the terminal too.
    """
    signal.signal(signal.SIGTERM, _stop)
    # A keeper does this too; this process does it where the keeper was killed.
    family.adopt()
    # A member takes two descriptors of its coordinator; the usual soft limit is 1,024.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # What a full disk does not take into the log is on the terminal all the same.
    logging.raiseExceptions = False
    with file_errors.told(title):
        logging.basicConfig(
            level=logging.INFO,
            format=f"{title}: %(message)s",
            handlers=[logging.FileHandler(log, mode="w"), logging.StreamHandler()],
        )
        try:
            yield
        finally:
            family.end(ORPHANS_S)


def _stop(signum: int, _frame: FrameType | None) -> None:
    """End members and remove the private folder on the way out, then exit."""
    # Once: another signal must not cut the clean-up short.
    signal.signal(signum, signal.SIG_IGN)
    sys.exit(128 + signum)
