"""Groups of torch's operators by what bounds them (operator_groups.yaml)."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

import yaml

DATA = Path(__file__).with_name("operator_groups.yaml")
OTHER = "other operators"
OUTSIDE = "outside operators"
"""Not of an operator: the part of a step that a table of operators does not cover."""
REASONS = {
    OTHER: "No pattern of operator_groups.yaml matches their names.",
    OUTSIDE: (
        "The rest of the step: Python between operators, libraries that are no operators of torch, "
        "sleeping, and the profiler itself."
    ),
}
CUT = "..."
"""Ends a name that torch's text tables have cut."""


@dataclass(frozen=True, slots=True)
class Group:
    """Operators that are bound by the same thing.

    Attributes:
        name: a few words.
        reason: what they are bound by, and what their growth points to.
        patterns: names, where ``*`` stands for any text.
    """

    name: str
    reason: str
    patterns: tuple[str, ...]


@functools.cache
def read_groups() -> tuple[Group, ...]:
    """Read the groups, in the order of the file."""
    entries = yaml.safe_load(DATA.read_text(encoding="utf-8"))
    return tuple(
        Group(entry["name"], entry["reason"].strip(), tuple(entry["patterns"])) for entry in entries
    )


def names() -> list[str]:
    """All names of groups, in the order of reports: those of the file, other, outside."""
    return [*(group.name for group in read_groups()), OTHER, OUTSIDE]


def reason(name: str) -> str:
    """Why operators are in this group."""
    return REASONS.get(name) or next(group.reason for group in read_groups() if group.name == name)


@functools.cache
def group_of(operator: str) -> str:
    """Name of the group whose pattern matches an operator with the most letters.

    Args:
        operator: as torch names it, or as a text table has cut it.
    """
    fitting = [
        (letters, group.name)
        for group in read_groups()
        for pattern in group.patterns
        if (letters := matched_letters(operator, pattern)) is not None
    ]
    # max keeps the first of equals.
    return max(fitting, key=lambda found: found[0])[1] if fitting else OTHER


def matched_letters(operator: str, pattern: str) -> int | None:
    """Count the letters of a pattern that a name has; None where it does not fit.

    Python's fnmatch gives brackets a meaning, and names of operators contain them.

    Args:
        operator: a name; of a cut one, only what stands before the pattern's first ``*`` counts.
        pattern: letters, where ``*`` stands for any text.
    """
    start, *parts = pattern.split("*")
    if operator.endswith(CUT):
        text = operator.removesuffix(CUT)
        fits = start.startswith(text) or (parts and text.startswith(start))
        return min(len(text), len(start)) if fits else None
    whole = re.fullmatch(".*".join(map(re.escape, [start, *parts])), operator, re.DOTALL)
    return len(pattern) - len(parts) if whole else None
