"""Calls back when the script has imported torch, or a module of it. Standard library only."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class _AfterTorch(MetaPathFinder):
    """Calls a function when a module has been imported; finds nothing itself."""

    def __init__(self, module: str, call: Callable[[], None]) -> None:
        self._module = module
        self._call = call

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        """Let the other finders find the module, and have its loader call back."""
        if fullname != self._module:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_call(module: ModuleType) -> None:
                load(module)
                self._call()

            spec.loader.exec_module = load_and_call  # type: ignore[method-assign]
        return spec


def call_back(call: Callable[[], None], module: str = "torch") -> None:
    """Call ``call`` as soon as torch, or a module of it, is there.

    The script imports torch, not the harness: what it puts into ``os.environ`` before, such as
    thread counts, has its effect.
    """
    if module in sys.modules:
        call()
    else:
        sys.meta_path.insert(0, _AfterTorch(module, call))
