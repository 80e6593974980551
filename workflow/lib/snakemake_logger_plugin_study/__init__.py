"""Snakemake's logger plugin for studies: one progress line, warnings and errors.

``--logger study``: on a terminal, one line shows what runs now; elsewhere, a line is written for
each stage that ends. Warnings and errors are written above the line. Snakemake shows its own output
instead with ``--dry-run``, ``--verbose``, ``--printshellcmds`` or ``--logger-study-verbose``. Its
log in .snakemake/log is the same in any case.

Snakemake finds this package by its name. The Snakefile decides which checkout's ``scaling_study`` a
study uses, so nothing is imported from that package here at run time.
"""

import logging
import os
import shutil
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_interface_logger_plugins.settings import LogHandlerSettingsBase

if TYPE_CHECKING:
    from scaling_study.study.progress import Progress

__all__ = ["LogHandler", "LogHandlerSettings"]

MANY = 4096
"""Bytes that are read at once, so that several messages redraw the line once."""

CLEAR = "\r\x1b[K"
"""Moves to the start of the line, and erases the line."""

SAID, LAST = "study_says", "study_ends"
"""Attributes of log records. SAID: the text is the study's own, and goes to standard output. LAST:
no job runs any more."""

Fields = Mapping[str, Any]  # the data of one of Snakemake's events


@dataclass
class LogHandlerSettings(LogHandlerSettingsBase):
    """The options on the command line."""

    verbose: bool = field(
        default=False, metadata={"help": "Show Snakemake's own output.", "required": False}
    )


class LogHandler(LogHandlerBase):
    """Writes what a user of a study needs to see.

    Attributes:
        user_text: returns a message of Snakemake's as users need it, empty if they do not. The
            study sets it.
        stopping: whether jobs that end were stopped, and have not failed. The study sets it.
    """

    writes_to_stream = True
    writes_to_file = False
    has_filter = True
    has_formatter = True
    needs_rulegraph = False

    def __post_init__(self) -> None:
        """Choose between Snakemake's own output and ours."""
        common = self.common_settings
        snakemakes = common.dryrun or common.verbose or common.printshellcmds or common.debug_dag
        if isinstance(self.settings, LogHandlerSettings):
            snakemakes = snakemakes or self.settings.verbose
        # Snakemake writes to a stream if no plugin does.
        self.writes_to_stream = not snakemakes
        self._watched: Progress | None = None
        self._failed: set[int] = set()
        self.user_text: Callable[[str], str] = str
        self.stopping = False
        self._over = threading.Event()

    def watch(self, progress: "Progress") -> str:
        """Show the progress of a run from now on.

        Returns:
            The path of a pipe: a byte in it redraws the line. Jobs write none inside a window, so
            that nothing runs here during one. Empty without a terminal.
        """
        self._watched = progress
        if not sys.stderr.isatty():
            return ""
        reading, writing = os.pipe()
        threading.Thread(target=self._draw_when_told, args=(reading,), daemon=True).start()
        return f"/proc/{os.getpid()}/fd/{writing}"

    def _draw_when_told(self, pipe: int) -> None:
        while os.read(pipe, MANY) and not self._over.is_set():
            self.acquire()  # records are handled in another thread
            self._draw()
            self.release()

    def _draw(self) -> None:
        if self._watched is None or self._over.is_set() or not sys.stderr.isatty():
            return
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(f"{CLEAR}{self._watched.line(width)}")
        sys.stderr.flush()

    def _write(self, text: str, stream: TextIO) -> None:
        """Write lines above the progress line."""
        if sys.stderr.isatty():
            sys.stderr.write(CLEAR)
            sys.stderr.flush()
        stream.write(f"{text}\n")
        stream.flush()

    def emit(self, record: logging.LogRecord) -> None:
        """Show a record, or update the progress from it."""
        if not self.writes_to_stream:
            return
        try:
            event: LogEvent | None = getattr(record, "event", None)
            if getattr(record, LAST, False):
                self._over.set()
            if getattr(record, SAID, False):
                self._write(record.getMessage(), sys.stdout)
            elif event is None:
                self._emit_text(record)
            else:
                self._emit_event(event, record, vars(record))
            self._draw()
        except Exception:  # noqa: BLE001 (what logging asks of a handler)
            self.handleError(record)

    def _emit_text(self, record: logging.LogRecord) -> None:
        text = self.user_text(record.getMessage())
        hidden = getattr(record, "quietness", None) is not None
        if record.levelno >= logging.INFO and text not in {"", "None"} and not hidden:
            self._write(text, sys.stderr)

    def _emit_event(self, event: LogEvent, record: logging.LogRecord, found: Fields) -> None:
        """Update the progress; show failed jobs, and errors."""
        watched = self._watched
        if event == LogEvent.JOB_INFO and watched is not None:
            watched.start(found["jobid"], found["rule_name"], next(iter(found["log"]), None))
        elif event == LogEvent.JOB_FINISHED and watched is not None:
            line = watched.end(found["job_id"])
            if line and not sys.stderr.isatty():
                self._write(line, sys.stderr)
        elif event == LogEvent.JOB_ERROR:
            self._emit_failed(found)
        elif event == LogEvent.GROUP_ERROR:
            for job in found["job_error_info"]:
                self._emit_failed(job)
        elif event == LogEvent.ERROR and (text := self.user_text(record.getMessage())):
            self._write(text, sys.stderr)

    def _emit_failed(self, job: Fields) -> None:
        """Write which job has failed; its own message is already above."""
        number = job["jobid"]
        if self.stopping or number in self._failed:
            return
        self._failed.add(number)
        if self._watched is not None:
            self._watched.end(number)
        first, *others = job["output"]
        more = f" and {len(others)} more" if others else ""
        log = f"; its log: {', '.join(job['log'])}" if job["log"] else ""
        self._write(f"{job['rule_name']} failed, so {first}{more} is missing{log}", sys.stderr)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if not self._over.is_set() and self._watched is not None and sys.stderr.isatty():
            sys.stderr.write(CLEAR)
            sys.stderr.flush()
        self._over.set()
        super().close()
