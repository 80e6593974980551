"""Finds entries that have a module each: axes, launchers, counters, causes.

Built-in entries of a kind are in a package or a module inside this one. A folder on PYTHONPATH that
is named after the kind, such as ``scaling_study_axes``, adds others. PYTHONPATH reaches every
process of a study, from the one that reads the config to the members.
"""

from __future__ import annotations

import importlib
import pkgutil
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import ModuleType

T = TypeVar("T")

PACKAGE = "scaling_study"


def found(
    folder: str, attribute: str, of: type[T], built_in: Mapping[str, T] | None = None
) -> dict[str, T]:
    """Return the entries of a kind, by the names of their modules.

    Args:
        folder: where the package has entries of this kind, such as ``launch.axes``.
        attribute: the entry's name in its module; modules of the package without one are skipped.
        of: type of an entry.
        built_in: entries of the package that have no module each.

    Raises:
        ImportError: a module outside the package has no such entry, or has another one's name.
    """
    entries = dict(built_in or {})
    outside = f"{PACKAGE}_{folder.rpartition('.')[2]}"
    for module in chain(_modules(f"{PACKAGE}.{folder}"), _modules(outside)):
        name = module.__name__.rpartition(".")[2]
        entry = getattr(module, attribute, None)
        if isinstance(entry, of) and name not in entries:
            entries[name] = entry
        elif module.__name__.startswith(outside):
            reason = f"there is {name} already" if name in entries else f"it has no {attribute}"
            raise ImportError(f"{module.__file__}: {reason}")
    return entries


def files_outside(kind: str) -> list[Path]:
    """Return the files of a kind's modules outside this package, sorted by name."""
    return [Path(str(module.__file__)) for module in _modules(f"{PACKAGE}_{kind}")]


def _modules(package: str) -> Iterator[ModuleType]:
    """Import the modules of a package and yield them; none if it does not exist or is a module."""
    try:
        parent = importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        return
    path = getattr(parent, "__path__", ())
    for module in sorted(pkgutil.iter_modules(path), key=lambda entry: entry.name):
        yield importlib.import_module(f"{package}.{module.name}")
