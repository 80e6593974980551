"""Changes what a script's DataLoaders are made with. Standard library only, and what is torch's."""

from __future__ import annotations

import functools
import inspect
import sys
from typing import TYPE_CHECKING, Any

from scaling_study.member.after_torch import call_back

if TYPE_CHECKING:
    from collections.abc import Callable

# torchdata's is derived from torch's, and does not call its __init__.
LOADERS = (
    ("torch.utils.data.dataloader", "DataLoader"),
    ("torchdata.stateful_dataloader.stateful_dataloader", "StatefulDataLoader"),
)


def change_arguments(change: Callable[[dict[str, Any]], None]) -> None:
    """Have a function change the arguments of every DataLoader that is made, by their names.

    What is put there last sees them first.
    """
    for module, name in LOADERS:
        call_back(functools.partial(_change_in, module, name, change), module)


def _change_in(module: str, name: str, change: Callable[[dict[str, Any]], None]) -> None:
    kind = getattr(sys.modules[module], name)
    make = kind.__init__
    signature = inspect.signature(make)

    @functools.wraps(make)
    def init(*args: Any, **kwargs: Any) -> None:
        given = signature.bind(*args, **kwargs).arguments
        change(given)
        make(**given)

    kind.__init__ = init
