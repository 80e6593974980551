"""Placeholders in a workload's arguments and variables.

`{member}` stands for the slot number, and the name of a declared parameter for its value. In an
argument any other `{word}` is a mistake, `{{word}}` passes the text `{word}`, and all other braces
(JSON, for instance) pass as they are. In a variable's value only parameters are replaced.
"""

import re
from collections.abc import Iterator, Mapping

MEMBER = "member"
N = "n"
"""The number of processes that train, in the arguments of a program with a pool of its own."""

_PLACEHOLDER = re.compile(r"\{\{(?P<literal>\w+)\}\}|\{(?P<name>\w+)\}")


def fill(text: str, values: Mapping[str, object]) -> str:
    """Put values into an argument.

    Args:
        text: the argument.
        values: values of all its placeholders by name: parameters, and for `member` the slot number
            or its substitute in a script.
    """
    return _PLACEHOLDER.sub(
        lambda match: f"{{{match['literal']}}}" if match["literal"] else str(values[match["name"]]),
        text,
    )


def fill_known(text: str, values: Mapping[str, object]) -> str:
    """Put values into a variable's text, which may have braces of any other meaning."""

    def put(match: re.Match[str]) -> str:
        if match["literal"] in values:
            return f"{{{match['literal']}}}"
        return str(values[match["name"]]) if match["name"] in values else match[0]

    return _PLACEHOLDER.sub(put, text)


def names(text: str) -> Iterator[str]:
    """Return an iterator over the placeholders of a text, without their braces."""
    return (match["name"] for match in _PLACEHOLDER.finditer(text) if match["name"])
