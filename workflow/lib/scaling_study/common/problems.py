"""Mistakes in a config: where, what is wrong, what is allowed, and what was probably meant."""

from __future__ import annotations

import difflib
import math
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

# A message is one line of a terminal, so a value is shown up to about half a line.
SHOWN_CHARACTERS = 50
# Longer numbers are described by their size: Python refuses to print those above 4,300 digits.
SHOWN_BITS = 128
# difflib's own default: below this similarity a suggestion misleads more than it helps.
NEAREST_CUTOFF = 0.6

# In this order: a boolean is an int to Python.
_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (type(None), "is empty"),
    (bool, "is a boolean (YAML reads a bare yes, no, on or off as one)"),
    (str, "is text"),
    (int, "is a whole number"),
    (float, "is a number with a fraction"),
    (Mapping, "is a section of keys"),
    ((list, tuple), "is a list"),
)

MASK = "••••"
"""Shown in place of a value that may be a secret."""

_SECRET = re.compile(
    r"(?<![a-z])(key|token|secret|password|passwd|credentials?)(?![a-z])", re.IGNORECASE
)
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@dataclass(frozen=True)
class Problem:
    """One mistake.

    Attributes:
        loc: Keys and list indices that lead to the value.
        value: The value as shown; "" if there is none.
        what: What is wrong with it.
        allowed: What would be right; "" for all that the key allows.
        nearest: What was probably meant, as it would be written in the config.
        place: File and line of the value, such as `config/quick.yaml, line 12`; "" if unknown.
    """

    loc: tuple[object, ...]
    value: str
    what: str
    allowed: str = ""
    nearest: str | None = None
    place: str = ""

    @property
    def path(self) -> str:
        """The keys and indices as one path, such as `launches.grid.intra_op[1]`."""
        path = ""
        for key in self.loc:
            if isinstance(key, str) and _PLAIN_KEY.fullmatch(key):
                path += f".{key}" if path else key
            else:
                path += f"[{shorten(key)}]"
        return path or "config"

    def __str__(self) -> str:
        """Return the message, on one line."""
        where = [self.place] * bool(self.place) + [self.path] * bool(self.loc or not self.place)
        value = f" = {self.value}" if self.value else ""
        nearest = f"; did you mean {self.nearest}?" if self.nearest else ""
        return f"{': '.join(where)}{value}: {self.what}; allowed: {self.allowed}{nearest}"


def may_be_secret(name: object) -> bool:
    """Return whether a variable's name, or a text with one, suggests a key, token or password."""
    return bool(_SECRET.search(str(name)))


class ConfigError(ValueError):
    """All mistakes of a config at once; its text has one line for each and is ready to show.

    Checks of a part raise it with places relative to that part (see `under`).
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))

    def under(self, *prefix: object) -> list[Problem]:
        """Return the problems with a prefix before their places."""
        return [replace(problem, loc=(*prefix, *problem.loc)) for problem in self.problems]


def wrong(value: object, fault: str, allowed: str = "", nearest: str | None = None) -> ConfigError:
    """Return the error for one wrong value at the place that is being read."""
    return ConfigError([Problem((), shorten(value), fault, allowed, nearest)])


def read_each(items: Iterable[tuple[K, V]], read: Callable[[K, V], T]) -> list[T]:
    """Read all items, given as (key or index, value).

    Raises:
        ConfigError: With the problems of all items, each under its key.
    """
    values: list[T] = []
    problems: list[Problem] = []
    for key, item in items:
        try:
            values.append(read(key, item))
        except ConfigError as error:
            problems += error.under(key)
    if problems:
        raise ConfigError(problems)
    return values


class _Shown(reprlib.Repr):
    """Shows also values with numbers in them that Python refuses to write."""

    def repr_int(self, value: int, level: int) -> str:
        if value.bit_length() > SHOWN_BITS:
            return f"<a number of {value.bit_length()} bits>"
        return super().repr_int(value, level)


def shorten(value: object) -> str:
    """Show any value in one short line."""
    shown = _Shown()
    shown.maxstring = shown.maxother = SHOWN_CHARACTERS
    shown.maxlevel = 2
    text = shown.repr(dict(value) if isinstance(value, Mapping) else value)
    return text if len(text) <= 2 * SHOWN_CHARACTERS else f"{text[: 2 * SHOWN_CHARACTERS]}..."


def found(value: object) -> str:
    """Describe the kind of a value, for a message that it is the wrong one."""
    if isinstance(value, float) and not math.isfinite(value):
        return "is not finite"
    kinds = (text for kind, text in _KINDS if isinstance(value, kind))
    return next(kinds, f"is of the kind {type(value).__name__}")


def nearest_word(value: object, words: Iterable[str]) -> str | None:
    """Return the word that was probably meant, None if none is close."""
    if not isinstance(value, str):
        return None
    close = difflib.get_close_matches(value.casefold(), words, n=1, cutoff=NEAREST_CUTOFF)
    return next(iter(close), None)


def require_path(path: str, allowed: str, folder: str = "") -> None:
    """Check that there is a file or a folder.

    Args:
        path: As the config has it.
        allowed: What is allowed, for the message.
        folder: Where a relative path starts; empty for the working directory.

    Raises:
        ConfigError: There is none, or it may not be looked at.
    """
    try:
        Path(folder, path).stat()
    except (FileNotFoundError, NotADirectoryError):
        where = f"does not exist in {folder}" if folder else "does not exist"
        raise wrong(path, where, allowed, nearest_file(path, folder)) from None
    except OSError as error:
        raise wrong(path, str(error.strerror).lower(), allowed) from None
    except ValueError:  # NUL, or characters that no file name has
        raise wrong(path, "is not a path", allowed) from None


def require_file(path: str, allowed: str, folder: str = "") -> None:
    """Check that there is a file; the arguments are those of ``require_path``.

    Raises:
        ConfigError: There is none, it is a folder, or it may not be looked at.
    """
    require_path(path, allowed, folder)
    if Path(folder, path).is_dir():
        raise wrong(path, "is a folder", allowed)


def require_folder(path: str, allowed: str) -> None:
    """Check that there is a folder.

    Raises:
        ConfigError: There is none, it is a file, or it may not be looked at.
    """
    require_path(path, allowed)
    if not Path(path).is_dir():
        raise wrong(path, "is no folder", allowed)


def nearest_file(path: str, folder: str = "") -> str | None:
    """Return the file beside a missing one with the closest name, as a config would write it."""
    missing = Path(path)
    try:
        entries = [*Path(folder, missing.parent).iterdir()]
    except OSError:  # no such folder either: then there is nothing to suggest
        return None
    names = [entry.name for entry in entries if entry.suffix == missing.suffix]
    close = nearest_word(missing.name, names)
    return repr(str(missing.parent / close)) if close else None
