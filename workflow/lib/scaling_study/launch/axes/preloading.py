"""Shared libraries that a launch needs or preloads: found, preloaded, and recognised afterwards."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from scaling_study.common.unavailable import UnavailableError
from scaling_study.launch.axes.axis import Effects

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scaling_study.common.axis_values import Value
    from scaling_study.launch.axes.axis import Library
    from scaling_study.records.machine import Machine
    from scaling_study.records.readback import Readback


def path_of(name: str, machine: Machine, entry: Library) -> str:
    """Return the path of a library that the probe found.

    Raises:
        UnavailableError: it is not installed.
    """
    found = machine.libraries.get(name)
    if found is None:
        # The probe looks in the environment of the study, which need not be the one of the shell.
        own = f"{sys.executable} -m " if entry.install.startswith("pip ") else ""
        raise UnavailableError(f"{name} is not installed", f"{own}{entry.install}")
    return found


def preloaded(path: str) -> Effects:
    """Return the effect of preloading a library.

    Raises:
        UnavailableError: its path cannot be written into LD_PRELOAD.
    """
    # Both are separators to ld.so(8), which has no way to quote them.
    if " " in path or ":" in path:
        raise UnavailableError(
            f"{path} cannot be preloaded: its path has a space or a colon",
            f"ln -s {shlex.quote(path)} to a path without, and name that one",
        )
    return Effects(preload=(os.path.abspath(path),))  # noqa: PTH100 (members run elsewhere)


def preload(value: str, machine: Machine, libraries: Mapping[str, Library]) -> Effects:
    """Return the effect of preloading a library that is given by its path, or by its name.

    Raises:
        UnavailableError: it is not installed, or cannot be preloaded.
    """
    return preloaded(value if is_path(value) else path_of(value, machine, libraries[value]))


def is_path(value: Value) -> bool:
    """Return whether a value is a path and not a word."""
    return isinstance(value, str) and os.sep in value


def is_preloaded(path: str | None, readback: Readback) -> bool:
    """Return whether a library is among those that a member's environment preloads."""
    preloads = readback.env.get("LD_PRELOAD", "").split(":")
    return any(_same_file(one, path) for one in preloads if one)


def is_named(value: str, path: str | None) -> bool:
    """Return whether a value names a library: by its path, or by a word in its file's name."""
    return _same_file(value, path) if is_path(value) else value in Path(path or "").name


def _same_file(path: str, other: str | None) -> bool:
    return other is not None and os.path.realpath(path) == os.path.realpath(other)
