"""Makes foreign text safe for one line of a terminal, a log, a label or a figure."""

from typing import TextIO


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
