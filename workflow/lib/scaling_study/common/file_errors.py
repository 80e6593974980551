"""Messages, in place of tracebacks, for files that cannot be read or written."""

import errno
import logging
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scaling_study.common.printable import printable_lines

SHOWN_CHARACTERS = 200  # of an error's own text, which may quote a whole file
AGAIN = "then run the same command again: it goes on where it stopped"

_ROOM = f"make room there, {AGAIN}"
_WRITABLE = f"make it writable for this user, or work in another folder, {AGAIN}"

# Failures of disks and limits, which any program meets. Others are mistakes of this program.
REMEDIES = {
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EFBIG: f"raise the limit of a file's size (ulimit -f), {AGAIN}",
    errno.EROFS: _WRITABLE,
    errno.EACCES: _WRITABLE,
    errno.EPERM: _WRITABLE,
    errno.EIO: f"look after that disk (dmesg tells more), {AGAIN}",
    errno.EMFILE: f"raise the limit of open files (ulimit -n), {AGAIN}",
}


class UnusableError(ValueError):
    """A file that is damaged, or in use by another process. The text says what to do."""


def unreadable(path: Path, error: Exception) -> UnusableError:
    """Return the error for a damaged file, which the study makes again once it is deleted."""
    return UnusableError(
        f"{path} is damaged ({error}): delete it and run the same command again: it is made anew"
    )


def refuse_links(folder: Path) -> None:
    """Check that nothing in a folder leads out of it: what is written there stays there.

    The folder itself may be a link, to a larger disk for instance.

    Raises:
        UnusableError: a symbolic link leads out.
    """
    inside = folder.resolve()
    for path in folder.rglob("*"):
        # Not Path.resolve, which fails on links in a circle.
        if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(inside):
            raise UnusableError(
                f"{path} is a link to {path.readlink()}, outside of the study's folder: "
                f"delete the link, {AGAIN}"
            )


def describe(error: OSError) -> str | None:
    """Return what a disk or a limit refused, and what to do; None for any other error."""
    if error.errno not in REMEDIES:
        return None
    name = "a file" if error.filename is None else error.filename
    return f"{name}: {os.strerror(error.errno)}: {REMEDIES[error.errno]}"


def _unexpected(error: Exception, reads: str) -> str:
    """Return a message on an error that files with foreign content cause, with its place."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())[:SHOWN_CHARACTERS]
    return (
        f"{type(error).__name__}: {text} ({Path(last.filename).name}, line {last.lineno}). Among "
        f"the study's own files ({reads}) is one that holds something else: delete them and run "
        "the same command again: they are made anew. If it comes again, it is a mistake of this "
        "program"
    )


@contextmanager
def of(path: Path) -> Iterator[None]:
    """Name the file in errors that only know its descriptor, such as those of a write."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            raise OSError(error.errno, os.strerror(error.errno), str(path)) from error
        raise


@contextmanager
def told(name: str, log: logging.Logger | None = None, *, reads: str = "") -> Iterator[None]:
    """End this process with a message, without a traceback, if a file cannot be used.

    Args:
        name: name of the program, which precedes the message.
        log: gets the message instead of the terminal.
        reads: the study's own files, if the program reads nothing else. It trusts them, so any
            other exception means that something else has written one of them.
    """
    unexpected: Exception | None = None
    try:
        yield
    except UnusableError as error:
        text = str(error)
    except Exception as error:
        described = describe(error) if isinstance(error, OSError) else None
        if described is None and not reads:
            raise
        unexpected = None if described else error
        text = described or _unexpected(error, reads)
    else:
        return
    if log is None:
        print(printable_lines(f"{name}: {text}"), file=sys.stderr)
    else:
        log.error(text)
    raise SystemExit(1) from unexpected
