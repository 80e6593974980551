"""Finds entries outside the package, which have a module each: axes, launchers, counters, causes.

A folder on PYTHONPATH that is named after the kind, such as ``scaling_study_axes``, adds them to
the package's. PYTHONPATH reaches every process of a study, from the one that reads the config to
the members.
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import ModuleType

T = TypeVar("T")


def found(folder: str, attribute: str, of: type[T], built_in: Mapping[str, T]) -> dict[str, T]:
    """Return the entries of a kind by their names: those of the package, then those outside.

    Args:
        folder: where the package has entries of this kind, such as ``launch.axes``.
        attribute: an entry's name in its module outside; the module's name is the entry's.
        of: type of an entry.
        built_in: entries of the package.

    Raises:
        ImportError: a module outside the package has no such entry, or has another one's name.
    """
    entries = {**built_in}
    for module in _modules(folder.rpartition(".")[2]):
        name = module.__name__.rpartition(".")[2]
        entry = getattr(module, attribute, None)
        if name in entries or not isinstance(entry, of):
            reason = f"there is {name} already" if name in entries else f"it has no {attribute}"
            raise ImportError(f"{module.__file__}: {reason}")
        entries[name] = entry
    return entries


def files_outside(kind: str) -> list[Path]:
    """Return the files of a kind's modules outside this package, sorted by name."""
    return [Path(str(module.__file__)) for module in _modules(kind)]


def _modules(kind: str) -> Iterator[ModuleType]:
    """Import a kind's modules outside this package and yield them; none if there is no folder."""
    package = f"scaling_study_{kind}"
    try:
        parent = importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        return
    folders = getattr(parent, "__path__", ())
    for module in sorted(pkgutil.iter_modules(folders), key=lambda entry: entry.name):
        yield importlib.import_module(f"{package}.{module.name}")
