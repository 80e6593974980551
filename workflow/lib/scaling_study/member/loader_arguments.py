"""Changes what a script's DataLoaders are made with. Standard library only, and what is torch's."""

from __future__ import annotations

import functools
import inspect
import sys
from typing import TYPE_CHECKING

from scaling_study.member.after_torch import call_back

if TYPE_CHECKING:
    from collections.abc import Callable

# torchdata's is derived from torch's, and does not call its __init__.
LOADERS = (
    ("torch.utils.data.dataloader", "DataLoader"),
    ("torchdata.stateful_dataloader.stateful_dataloader", "StatefulDataLoader"),
)


def change_arguments(change: Callable[[dict[str, object]], None]) -> None:
    """Have a function change the arguments of every DataLoader that is made, by their names.

    What is put there last sees them first.
    """
    for module, name in LOADERS:
        call_back(functools.partial(_change_in, module, name, change), module)


def shares_out(dataset: object, worker_init_fn: object) -> bool:
    """Whether several workers give each of its batches once.

    An iterable data set gives all of them in each worker, unless it shards itself: that is taken to
    be so where something in its class's module asks for its worker.
    """
    from torch.utils.data import IterableDataset  # noqa: PLC0415 (the script's to import first)

    if worker_init_fn or not isinstance(dataset, IterableDataset):
        return True
    return _asks_for_worker(type(dataset).__module__)


@functools.cache
def _asks_for_worker(module: str) -> bool:
    try:
        return "get_worker_info" in inspect.getsource(sys.modules[module])
    except (KeyError, OSError, TypeError):  # typed in, or compiled
        return False


def _change_in(module: str, name: str, change: Callable[[dict[str, object]], None]) -> None:
    kind = getattr(sys.modules[module], name)
    make = kind.__init__
    signature = inspect.signature(make)

    @functools.wraps(make)
    def init(*args: object, **kwargs: object) -> None:
        given = signature.bind(*args, **kwargs).arguments
        change(given)
        make(**given)

    kind.__init__ = init
