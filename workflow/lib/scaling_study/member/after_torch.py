"""Calls back when the script has imported torch, and changes the arguments of its DataLoaders.

The file of a launch's switches gets a copy: standard library and torch only. The part about loaders
comes last, and is left out if no switch needs it (``runner.switch_script``).
"""

from __future__ import annotations

import functools
import inspect
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
    """Call ``call`` as soon as torch, or another module, is imported.

    The script imports torch, not the harness, so that variables which it sets before the import,
    such as thread counts, take effect.
    """
    if module in sys.modules:
        call()
    else:
        sys.meta_path.insert(0, _AfterTorch(module, call))


# ---- loaders

# torchdata's is derived from torch's, and does not call its __init__.
LOADERS = (
    ("torch.utils.data.dataloader", "DataLoader"),
    ("torchdata.stateful_dataloader.stateful_dataloader", "StatefulDataLoader"),
)


def change_arguments(change: Callable[[dict[str, object]], None]) -> None:
    """Have a function change the arguments, by name, of every DataLoader that is made.

    The function that was added last gets them first.
    """
    for module, name in LOADERS:
        call_back(functools.partial(_change_in, module, name, change), module)


def shares_out(dataset: object, worker_init_fn: object) -> bool:
    """Return whether several workers together give each batch of a data set once.

    An iterable data set gives all batches in each worker, unless it shards itself. It is taken to
    shard itself if its class's module asks for the worker.
    """
    from torch.utils.data import IterableDataset  # noqa: PLC0415 (the script's to import first)

    if worker_init_fn or not isinstance(dataset, IterableDataset):
        return True
    return _asks_for_worker(type(dataset).__module__)


@functools.cache
def _asks_for_worker(module: str) -> bool:
    try:
        return "get_worker_info" in inspect.getsource(sys.modules[module])
    except (KeyError, OSError, TypeError):  # no source: typed in, or compiled
        return False


def _change_in(module: str, name: str, change: Callable[[dict[str, object]], None]) -> None:
    kind = getattr(sys.modules[module], name)
    make = kind.__init__
    signature = inspect.signature(make)

    @functools.wraps(make)
    def init(*args: object, **kwargs: object) -> None:
        arguments = signature.bind(*args, **kwargs).arguments
        change(arguments)
        make(**arguments)

    kind.__init__ = init
