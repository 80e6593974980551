"""Parameters: axes of a study's own, whose values stand in the script's arguments and variables."""

import math
import re
from collections.abc import Mapping

from scaling_study.common import placeholders
from scaling_study.common.problems import ConfigError, found, read_each, wrong
from scaling_study.launch.axes.axis_table import AXES

Parameters = Mapping[str, str | int | float]
"""Each with its default."""

NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
NAMES = "a word of small letters, digits and _, a letter first"
PARAMETER = "a text or a number"
PARAMETERS = f"a section of names ({NAMES}) with the default of each, {PARAMETER}"

# What programs read; a longer number is meant as text.
MOST_BITS = 64


def read_text(item: object) -> str:
    """Read an argument or a variable's value; a number stands for its text.

    Raises:
        ConfigError: It cannot be passed to a process.
    """
    return str(read_parameter(item))


def read_parameter(item: object) -> str | int | float:
    """Read a value of a parameter.

    Raises:
        ConfigError: It is no text or number that can be passed to a process.
    """
    if isinstance(item, bool) or not isinstance(item, str | int | float):
        raise wrong(item, found(item), PARAMETER)
    if isinstance(item, float) and not math.isfinite(item):
        raise wrong(item, found(item), PARAMETER, repr(str(item)))
    if isinstance(item, int) and item.bit_length() > MOST_BITS:
        raise wrong(item, "is too large", f"a text, or a number of at most {MOST_BITS} bits")
    try:
        passable = b"\0" not in str(item).encode()
    except UnicodeEncodeError:
        passable = False
    if not passable:
        raise wrong(item, "cannot be passed to a process", "text without NUL and lone surrogates")
    return item


def read_parameters(value: object) -> dict[str, str | int | float]:
    """Read the declared parameters.

    Raises:
        ConfigError: A name is none, or that of an axis, or a default is no value.
    """

    def read(name: object, item: object) -> tuple[str, str | int | float]:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise wrong(item, "is not the name of a parameter", NAMES)
        if name in AXES or name == placeholders.MEMBER:
            what = "the slot number" if name == placeholders.MEMBER else "an axis"
            raise wrong(item, f"has the name of {what}", "another name", f"own_{name}")
        return name, read_parameter(item)

    if not isinstance(value, Mapping):
        raise wrong(value, found(value), PARAMETERS)
    return dict(read_each(value.items(), read))


def declared(mapping: Mapping[object, object]) -> dict[str, str | int | float]:
    """Return the parameters of a config that is not checked yet; none where they are mistaken."""
    workload = mapping.get("workload")
    found_there = workload.get("parameters", {}) if isinstance(workload, Mapping) else {}
    try:
        return read_parameters(found_there)
    except ConfigError:
        return {}
