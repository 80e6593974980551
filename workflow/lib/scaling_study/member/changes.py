"""Single changes inside a member that take something of a step away.

They are experiments and no launches: training on cached batches sees the same data again and again,
ranks that exchange one number drift apart, and other changes belong into the script itself. Each is
applied when torch has been imported, and tells afterwards whether it took effect. Standard library
and torch only.
"""

from __future__ import annotations

import functools
import gc
import math
import sys
from typing import TYPE_CHECKING, Any

from scaling_study.member import (
    after_torch,
    batch_getitems,
    fetching,
    loader_substitutes,
    no_transfer,
    pipelines,
    synthetic_load,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scaling_study.member.member import Member

_apart = 0
_without_snapshots = 0

# More steps than anybody trains.
NEVER = 1 << 40

# Python's own is 5 ms: for so long may a thread that computes keep others from the interpreter.
SWITCH_S = 1e-5


def _flush_denormals() -> None:
    import torch  # noqa: PLC0415

    torch.set_flush_denormal(True)


def _flushes_denormals() -> bool:
    """Whether an operator of torch, in this thread, makes zero of a denormal number."""
    import torch  # noqa: PLC0415

    denormal = torch.full((64,), 1e-39, dtype=torch.float32, device="cpu")
    return bool((denormal * 0.5 == 0).all())


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


def _take_no_snapshots() -> None:
    """Have torchdata's StatefulDataLoader write down its state in no step."""
    after_torch.call_back(_replace_snapshots, fetching.STATEFUL)


def _replace_snapshots() -> None:
    loader = sys.modules[fetching.STATEFUL].StatefulDataLoader
    make = loader.__init__

    def __init__(one: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 (as above)
        global _without_snapshots  # noqa: PLW0603
        make(one, *args, **kwargs)
        one.snapshot_every_n_steps = NEVER
        _without_snapshots += 1

    loader.__init__ = __init__


def _switch_soon() -> None:
    """Have a thread that computes give the interpreter to others almost at once."""
    sys.setswitchinterval(SWITCH_S)


def _switches_soon() -> bool:
    return math.isclose(sys.getswitchinterval(), SWITCH_S, rel_tol=0.1)


def _collect_nothing(generation: int = 2) -> int:  # noqa: ARG001 (as gc.collect)
    return 0


def _stop_collecting() -> None:
    """Stop the collections that Python starts, and those that the script asks for."""
    gc.disable()
    gc.collect = _collect_nothing


def _collects_nothing() -> bool:
    return gc.collect is _collect_nothing and not gc.isenabled()


def _once(make: Callable[[], None]) -> Callable[[Member | None, Sequence[str]], None]:
    """Return a change that needs neither the member nor its loaders."""
    return lambda *_: make()


CHANGES: dict[str, tuple[Callable[[Any, Sequence[str]], None], Callable[[], bool]]] = {
    "flush_denormals": (_once(_flush_denormals), _flushes_denormals),
    **{
        name: (functools.partial(of.change, name), functools.partial(of.holds, name))
        for of in (loader_substitutes, synthetic_load)
        for name in of.KINDS
    },
    "files_noted": (
        loader_substitutes.note_files,
        functools.partial(loader_substitutes.holds, "files_noted"),
    ),
    "one_element": (_once(_exchange_one_number), lambda: _apart > 0),
    "no_snapshots": (_once(_take_no_snapshots), lambda: _without_snapshots > 0),
    "no_copies": (no_transfer.send_nothing, no_transfer.sends_nothing),
    "whole_batches": (batch_getitems.fetch_whole, batch_getitems.fetches_whole),
    "pipeline_elsewhere": (pipelines.put_elsewhere, pipelines.is_elsewhere),
    "quick_switches": (_once(_switch_soon), _switches_soon),
    "no_collector": (_once(_stop_collecting), _collects_nothing),
}
"""By name: what makes the change, and what tells whether it holds."""


IMPOSSIBLE: dict[str, Callable[[], str | None]] = {
    "whole_batches": batch_getitems.why_not,
    "pipeline_elsewhere": pipelines.why_here,
}
"""By name: what tells why a change cannot be made in this script, though it was tried."""


def apply(name: str, member: Member | None = None, loaders: Sequence[str] = ()) -> None:
    """Make a change in this process.

    Args:
        name: one of CHANGES.
        member: this process's.
        loaders: kinds that the config names (see ``loaders``).
    """
    CHANGES[name][0](member, loaders)


def effective() -> dict[str, bool]:
    """Return, for every change, whether it holds in this process; asked for or not."""
    return {name: holds() for name, (_, holds) in CHANGES.items()}


def impossible() -> dict[str, str]:
    """Return why changes that were tried cannot be made, by their names."""
    return {name: reason for name, tell in IMPOSSIBLE.items() if (reason := tell()) is not None}
