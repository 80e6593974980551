"""Placeholders in a workload's arguments.

`{member}` stands for the slot number. Any other `{word}` is a mistake, `{{word}}` passes the text
`{word}`, and all other braces (JSON, for instance) pass as they are.
"""

import re

MEMBER = "member"

_PLACEHOLDER = re.compile(r"\{\{(?P<literal>\w+)\}\}|\{(?P<name>\w+)\}")


def fill(text: str, member: int | str) -> str:
    """Put the slot number, or what stands for it in a script, into an argument."""
    return _PLACEHOLDER.sub(
        lambda match: f"{{{match['literal']}}}" if match["literal"] else str(member), text
    )


def unknown(text: str) -> str | None:
    """Return the first placeholder that stands for nothing, without its braces."""
    names = (match["name"] for match in _PLACEHOLDER.finditer(text))
    return next((name for name in names if name and name != MEMBER), None)
