"""Values of axes that are made true in the process itself, and are read back there.

A switch is a text ``MODULE=VALUE``: the axis's module, and the value as JSON. Standard library
only, and what the axis's own function imports.
"""

from __future__ import annotations

import importlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


def options(switches: Sequence[str]) -> list[str]:
    """Return them as options of a command line."""
    return [word for switch in switches for word in ("--switch", switch)]


def _axis(switch: str) -> tuple[str, Any, Any]:
    """Return an axis's name, the axis and its value."""
    module, _, value = switch.partition("=")
    return module.rpartition(".")[2], importlib.import_module(module).AXIS, json.loads(value)


def apply(switches: Sequence[str]) -> None:
    """Make them true in this process, in which torch is imported."""
    for switch in switches:
        _, axis, value = _axis(switch)
        if axis.apply is not None:
            axis.apply(value)


def observed(switches: Sequence[str]) -> dict[str, Any]:
    """Return the values that hold in this process, by the name of the axis."""
    return {
        name: axis.observe() for name, axis, _ in map(_axis, switches) if axis.observe is not None
    }
