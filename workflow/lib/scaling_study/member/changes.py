"""Single changes inside a member that take one cause of slow steps away.

They are experiments, no launches: cached batches train on the same data again and again, ranks that
exchange one number train apart, and the other two belong into the script itself. Each is applied
when torch has been imported, and tells afterwards whether it took effect. Standard library and
torch only.
"""

from __future__ import annotations

import gc
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Enough for the batches to differ, few enough to stay in memory.
CACHED_BATCHES = 8

_cached_loaders = 0
_apart = 0


def _flush_denormals() -> None:
    import torch  # noqa: PLC0415

    torch.set_flush_denormal(True)


def _flushes_denormals() -> bool:
    """Whether an operator of torch, in this thread, makes zero of a denormal number."""
    import torch  # noqa: PLC0415

    denormal = torch.full((64,), 1e-39, dtype=torch.float32, device="cpu")
    return bool((denormal * 0.5 == 0).all())


def _cache_batches() -> None:
    from torch.utils.data import DataLoader  # noqa: PLC0415

    make: Callable[[Any], Iterator[Any]] = DataLoader.__iter__

    def __iter__(loader: Any) -> Iterator[Any]:  # noqa: N807 (the replaced method's name)
        global _cached_loaders  # noqa: PLW0603
        batches = loader.__dict__.get("_study_batches")
        if batches is None:
            batches = list(islice(make(loader), CACHED_BATCHES))
            loader.__dict__["_study_batches"] = batches
            _cached_loaders += bool(batches)
        try:
            epoch = len(loader)
        except TypeError:  # an iterable dataset that does not know its length
            return cycle(batches)
        return islice(cycle(batches), epoch)

    DataLoader.__iter__ = __iter__


def _exchange_one_number() -> None:
    """Let ranks wait for each other as before, and exchange nothing but one number."""
    from torch import distributed  # noqa: PLC0415
    from torch.nn.parallel import DistributedDataParallel  # noqa: PLC0415

    make = DistributedDataParallel.__init__

    def one_number(_: object, bucket: Any) -> Any:
        gradients = bucket.buffer()
        work = distributed.all_reduce(gradients[:1].clone(), async_op=True)
        return work.get_future().then(lambda _: gradients)

    def __init__(model: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 (as above)
        global _apart  # noqa: PLW0603
        make(model, *args, **kwargs)
        hook(model, None, one_number)
        _apart += 1

    one_number.__annotations__.clear()  # torch compares them with classes, and these are texts
    # A model takes one hook: the script's own is left out.
    hook = DistributedDataParallel.register_comm_hook
    DistributedDataParallel.register_comm_hook = lambda *_, **__: None
    DistributedDataParallel.__init__ = __init__


def _collect_nothing(generation: int = 2) -> int:  # noqa: ARG001 (as gc.collect)
    return 0


def _stop_collecting() -> None:
    """Stop the collections that Python starts, and those that the script asks for."""
    gc.disable()
    gc.collect = _collect_nothing


def _collects_nothing() -> bool:
    return gc.collect is _collect_nothing and not gc.isenabled()


CHANGES: dict[str, tuple[Callable[[], None], Callable[[], bool]]] = {
    "flush_denormals": (_flush_denormals, _flushes_denormals),
    "cached_batches": (_cache_batches, lambda: _cached_loaders > 0),
    "one_element": (_exchange_one_number, lambda: _apart > 0),
    "no_collector": (_stop_collecting, _collects_nothing),
}
"""By name: what makes the change, and what tells whether it holds."""


def apply(name: str) -> None:
    """Make a change in this process."""
    CHANGES[name][0]()


def effective() -> dict[str, bool]:
    """Return, for every change, whether it holds in this process; asked for or not."""
    return {name: holds() for name, (_, holds) in CHANGES.items()}
