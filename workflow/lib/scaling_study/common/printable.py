"""Foreign text: safe for a line of a terminal, a log or a figure; the last words of a program."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

TAIL_BYTES = 4000
MOST_CHARACTERS = 400

# Colours, torch's name of a rank, and the margin of an exception group's lines.
_BESIDE = re.compile(
    r"\x1b\[[\d;]*[A-Za-z]|^\[(?:rank|default)\d+\]: ?|^ *\| ?|^ *\+ ", re.MULTILINE
)
# A warning with its line of source, a line of torch's log, the rulers within a group.
_NOISE = re.compile(r"^.*:\d+: \w*Warning: .*\n(?:  .*\n?)?|^[EW]\d{4} .*$|^ *\+-.*$", re.MULTILINE)
_HEADER = "Traceback (most recent call last):"
# Python prints these tracebacks while the program goes on, or after the one that ended it.
_ASIDE = ("Exception ignored", "Exception in thread", "Error in atexit", "--- Logging error")
# torch's launcher raises this one about another process, whose own error precedes it.
_ABOUT_ANOTHER = "ChildFailedError:"
_FATAL = re.compile(r"\s*what\(\):\s*(.+)|(Fatal Python error: .+|\S+: error: .+)")


def clear_line(stream: TextIO) -> str:
    """Return the codes that erase a progress line if a stream is a terminal, else nothing."""
    return "\r\x1b[K" if stream.isatty() else ""


def printable(text: object) -> str:
    r"""Return a text with its unprintable characters escaped as in Python.

    Unprintable are control characters (a line break as well as ``\x1b``, which a terminal obeys),
    characters that change the direction of the following text, and halves of surrogate pairs.
    """
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in shown)


def printable_lines(text: str) -> str:
    """Return a text of several lines with each line made printable."""
    return "\n".join(map(printable, text.split("\n")))


def last_words(stderr: str, stdout: str = "") -> str:
    """Return the reason for a program's end that its output gives; empty if it printed nothing.

    It is the exception of the last traceback, a C++ exception, or a fatal error of Python or
    argparse; otherwise the last line of stderr, or of stdout if stderr is empty.

    Args:
        stderr: the end of the program's standard error.
        stdout: the end of its standard output. Through a pipe this is written at exit, after the
            traceback, so the two must have been kept apart.
    """
    lines = _NOISE.sub("", _BESIDE.sub("", stderr.replace("\r", "\n") + "\n")).split("\n")
    fatal = [match[1] or match[2] for match in map(_FATAL.match, lines) if match]
    last = [line for line in (*stdout.splitlines(), *lines) if line.strip()]
    text = " ".join((_raised(lines) or "".join(fatal[-1:] or last[-1:])).split())
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"


def _raised(lines: Sequence[str]) -> str:
    """Return the exception of the last traceback, with the lines of its message and its notes."""
    for at in range(len(lines) - 1, -1, -1):
        before = next((line for line in reversed(lines[:at]) if line.strip()), "")
        if not lines[at].endswith(_HEADER) or before.startswith(_ASIDE):
            continue
        after = at + 1
        while after < len(lines) and (lines[after][:1] in {"", " "}):  # frames
            after += 1
        end = next((i for i in range(after, len(lines)) if not lines[i].strip()), after)
        if after < end and not lines[after].rstrip().endswith(_ABOUT_ANOTHER):
            return " ".join(lines[after:end])
    return ""


def tail(path: Path) -> bytes:
    """Return the end of a file; empty if there is none."""
    if not path.exists():
        return b""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL_BYTES))
        return file.read()


def words_of(*files: Path) -> str:
    """Return the last words in files: of stderr, and of stdout."""
    return last_words(*(tail(path).decode(errors="replace") for path in files))
