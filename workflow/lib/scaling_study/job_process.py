"""How the process of a measuring job is set up: its end, its limits, its log."""

import logging
import resource
import signal
import sys
from pathlib import Path
from types import FrameType


def prepare(title: str, log: Path) -> None:
    """Set this process up for a job that starts members.

    Args:
        title: stands before each message.
        log: gets the messages, which go to the terminal too.
    """
    signal.signal(signal.SIGTERM, _stop)
    # A member takes two descriptors of its coordinator; the usual soft limit is 1,024.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    logging.basicConfig(
        level=logging.INFO,
        format=f"{title}: %(message)s",
        handlers=[logging.FileHandler(log, mode="w"), logging.StreamHandler()],
    )


def _stop(signum: int, _frame: FrameType | None) -> None:
    """End members and remove the private folder on the way out, then exit."""
    sys.exit(128 + signum)
