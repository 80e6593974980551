"""Text of others made fit for one line of a terminal, a log, a label or a figure."""

from typing import TextIO


def clear_line(stream: TextIO) -> str:
    """Return what erases a progress line where a stream is a terminal; nothing elsewhere."""
    return "\r\x1b[K" if stream.isatty() else ""


def printable(text: object) -> str:
    r"""Show what does not print as Python escapes it; all other text stays as it is.

    What does not print are control characters (a line break as well as ``\x1b``, which a terminal
    obeys), characters that change the direction of what follows, and halves of surrogate pairs.
    """
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in shown)


def printable_lines(text: str) -> str:
    """Do the same to a text of several lines, and leave their ends."""
    return "\n".join(map(printable, text.split("\n")))
