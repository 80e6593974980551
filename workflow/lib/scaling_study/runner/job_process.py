"""Set-up of a measuring job's process: its end, its limits, its log, its orphans."""

import logging
import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from scaling_study.common import file_errors
from scaling_study.common.printable import clear_line, printable
from scaling_study.host import node
from scaling_study.queues import bind
from scaling_study.runner import member_processes, supervisor

PROGRESS = "SCALING_STUDY_PROGRESS"
"""Set while a progress line shows what a job does; then only warnings go to the terminal. Its value
is the path of a pipe: a byte in it redraws the line."""


class _Line(logging.Formatter):
    """Formats a message as one line. No text in a message can break it or control the terminal.

    Args:
        title: precedes each message.
        before: precedes the title, unescaped.
    """

    def __init__(self, title: str, before: str = "") -> None:
        super().__init__()
        self._title, self._before = title, before

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's own name)
        """Return the line."""
        return f"{self._before}{printable(f'{self._title}: {record.message}')}"


class _Told(logging.Handler):
    """Redraws the progress line with each message; no message comes inside a window."""

    def emit(self, _record: logging.LogRecord) -> None:
        """Write a byte into the pipe, if somebody reads it."""
        with suppress(OSError), Path(os.environ.get(PROGRESS) or os.devnull).open("wb") as pipe:
            pipe.write(b".")


@contextmanager
def prepared(title: str, log: Path, probed: Path | None = None) -> Iterator[None]:
    """Set this process up for a job that starts members, and leave none of them behind.

    If a full disk, a limit or an incomplete node stops the job, this process ends with a message.

    Args:
        title: precedes each message.
        log: gets the messages, which go to the terminal too.
        probed: machine.json of the machine that the job measures; a job on another node stops.

    Raises:
        SystemExit: with ``supervisor.STOPS`` if no other job of the study is worth starting.
    """
    bind.handle([signal.SIGTERM], _stop)
    # A supervisor does this too; this process does it in case the supervisor is killed.
    supervisor.adopt()
    # A member takes two descriptors of its coordinator; the usual soft limit is 1,024.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # If the log's disk is full, messages still reach the terminal.
    logging.raiseExceptions = False
    with file_errors.told(title, logging.getLogger()):
        terminal = logging.StreamHandler()
        terminal.setFormatter(_Line(title, clear_line(sys.stderr)))
        terminal.setLevel(logging.WARNING if PROGRESS in os.environ else logging.INFO)
        file = logging.FileHandler(log, mode="w")
        file.setFormatter(_Line(title))
        logging.basicConfig(level=logging.INFO, handlers=[file, terminal, _Told()])
        node.require_whole_node()
        node.require_probed(probed)
        try:
            yield
        except member_processes.ScriptEndedError:
            sys.exit(supervisor.STOPS)
        finally:
            supervisor.end_descendants(supervisor.ORPHANS_S)


def _stop(signum: int, _frame: object) -> None:
    """End members and remove the private folder on the way out, then exit."""
    # Once: another signal must not cut the clean-up short.
    signal.signal(signum, signal.SIG_IGN)
    sys.exit(128 + signum)
