"""Groups of torch's operators by what bounds them (operator_groups.yaml)."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from msgspec import Struct, yaml

DATA = Path(__file__).with_name("operator_groups.yaml")
OTHER = "other operators"
OUTSIDE = "outside operators"
NOT_IN_BOTH = "not in both tables"
CUT = "..."
"""Ends a name that torch's text tables have cut."""


class Group(Struct, frozen=True):
    """Operators that are bound by the same thing."""

    name: str
    """A short title."""
    reason: str
    """What bounds them, and what their growth points to."""
    patterns: tuple[str, ...] = ()
    """Names of operators, where ``*`` stands for any text."""


@functools.cache
def read_groups() -> tuple[Group, ...]:
    """Read the groups, in the order of the file."""
    return yaml.decode(DATA.read_bytes(), type=tuple[Group, ...])


def names() -> list[str]:
    """Return the names of all groups, in the order of reports."""
    return [group.name for group in read_groups()]


def reason(name: str) -> str:
    """Return what bounds the operators of this group."""
    return read_groups()[names().index(name)].reason


@functools.cache
def group_of(operator: str) -> str:
    """Return the name of the group whose pattern matches an operator with the most letters.

    Args:
        operator: its name in torch, or as cut by a text table.
    """
    fitting = [
        (letters, group.name)
        for group in read_groups()
        for pattern in group.patterns
        if (letters := matched_letters(operator, pattern)) is not None
    ]
    # max keeps the first of equals.
    return max(fitting, key=lambda pair: pair[0])[1] if fitting else OTHER


def matched_letters(operator: str, pattern: str) -> int | None:
    """Return how many letters of a pattern a name has; None if the name does not match.

    Python's fnmatch gives brackets a meaning, and names of operators contain them.

    Args:
        operator: a name; if it is cut, only the pattern's text before its first ``*`` counts.
        pattern: letters, where ``*`` stands for any text.
    """
    start, *parts = pattern.split("*")
    if operator.endswith(CUT):
        text = operator.removesuffix(CUT)
        fits = start.startswith(text) or (parts and text.startswith(start))
        return min(len(text), len(start)) if fits else None
    whole = re.fullmatch(".*".join(map(re.escape, [start, *parts])), operator, re.DOTALL)
    return len(pattern) - len(parts) if whole else None
