"""Finds entries that have a module each: axes, launchers.

A package holds those that come with the study. A folder of a name of its own on PYTHONPATH, such as
``scaling_study_axes``, adds others: PYTHONPATH reaches every process of a study, from the one that
reads the config to the members.
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
INSIDE = {
    "axes": "launch.axes",
    "launchers": "launch.launchers",
    "counters": "launch.counters",
    "causes": "diagnosis.causes",
}
"""The package's own modules of each kind."""


def found(
    kind: str, attribute: str, of: type[T], own: Mapping[str, T] | None = None
) -> dict[str, T]:
    """Return the entries of a kind, by the names of their modules.

    Args:
        kind: the package, such as ``axes``, of `INSIDE`.
        attribute: the entry's name in its module; modules of the package without one are skipped.
        of: what an entry is.
        own: entries of the package that have no module each.

    Raises:
        ImportError: a module outside the package has no such entry, or the name of another one.
    """
    entries = dict(own or {})
    inside = _modules(f"{PACKAGE}.{INSIDE[kind]}")
    for module in chain(inside, _modules(f"{PACKAGE}_{kind}")):
        name = module.__name__.rpartition(".")[2]
        entry = getattr(module, attribute, None)
        if isinstance(entry, of) and name not in entries:
            entries[name] = entry
        elif module.__name__.startswith(f"{PACKAGE}_"):
            reason = f"there is {name} already" if name in entries else f"it has no {attribute}"
            raise ImportError(f"{module.__file__}: {reason}")
    return entries


def files_outside(kind: str) -> list[Path]:
    """Return the files of the modules of a kind that do not come with the study, by name."""
    return [Path(str(module.__file__)) for module in _modules(f"{PACKAGE}_{kind}")]


def _modules(package: str) -> Iterator[ModuleType]:
    """Import the modules of a package; of none where there is no such package."""
    try:
        parent = importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        return
    for module in sorted(pkgutil.iter_modules(parent.__path__), key=lambda one: one.name):
        yield importlib.import_module(f"{package}.{module.name}")
