"""Single changes inside a member that take something of a step away.

They are experiments and no launches: training on cached batches sees the same data again and again,
ranks that exchange one number drift apart, and other changes belong into the script itself. Each is
applied when torch has been imported, and tells afterwards whether it took effect. Standard library
and torch only.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import math
import sys
from typing import TYPE_CHECKING, Any

from scaling_study.member import (
    after_torch,
    loader_substitutes,
    loader_ways,
    loaders,
    synthetic_load,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeVar

    from torch import Tensor
    from torch.distributed import GradBucket
    from torch.futures import Future

    from scaling_study.member.loaders import Trainer

    T = TypeVar("T")

_apart = 0
_without_snapshots = 0
_elsewhere = 0
_refused: list[str] = []

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

    def one_number(_: object, bucket: GradBucket) -> Future[Tensor]:
        gradients = bucket.buffer()
        work = distributed.all_reduce(gradients[:1].clone(), async_op=True)
        return work.get_future().then(lambda _: gradients)

    def __init__(model: DistributedDataParallel, *args: Any, **kwargs: Any) -> None:  # noqa: N807
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
    after_torch.call_back(_replace_snapshots, loaders.STATEFUL)


def _replace_snapshots() -> None:
    loader = sys.modules[loaders.STATEFUL].StatefulDataLoader
    make = loader.__init__

    def __init__(one: Any, *args: object, **kwargs: object) -> None:  # noqa: N807
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


# ---- SPDL's pipelines in a process of their own, where their threads take nothing from training


def _put_elsewhere() -> None:
    """Have every pipeline that the script builds run in a process of its own.

    That is what ``spdl.pipeline.run_pipeline_in_subprocess`` does, for a script that builds its
    pipelines in its own process.
    """
    after_torch.call_back(_replace_pipelines, "spdl.pipeline")


def _why_here() -> str | None:
    """Say why no pipeline is elsewhere, where that was tried."""
    return _refused[0] if _refused and not _elsewhere else None


def _replace_pipelines() -> None:
    from spdl import pipeline  # noqa: PLC0415 (the script's to import first)

    builder_kind: Any = pipeline.PipelineBuilder
    build, build_pipeline = builder_kind.build, pipeline.build_pipeline

    def builds(builder: Any, **options: Any) -> object:
        return _built(builder, builder.get_config(), options, lambda: build(builder, **options))

    def builds_pipeline(config: Any, /, **options: Any) -> Any:
        return _built(config, config, options, lambda: build_pipeline(config, **options))

    builder_kind.build = builds
    pipeline.build_pipeline = builds_pipeline


def _built(
    what: object, config: Any, options: dict[str, Any], here: Callable[[], T]
) -> T | _Pipeline:
    """Return a pipeline elsewhere; one process for all that are built of the same thing."""
    global _elsewhere  # noqa: PLW0603
    from spdl.pipeline import run_pipeline_in_subprocess  # noqa: PLC0415 (as above)

    options.pop("stage_id", None)  # which is for logs
    notes = getattr(what, "__dict__", {})
    if "_study" not in notes:
        try:
            notes["_study"] = run_pipeline_in_subprocess(config, **options)
        except Exception as error:  # noqa: BLE001 (the script's own objects: whatever they raise)
            _refused.append(f"its pipeline cannot run in another process: {error}")
            return here()
        _elsewhere += 1
    return _Pipeline(notes["_study"])


class _Pipeline:
    """Stands for a pipeline that was built here."""

    def __init__(self, batches: Iterable[object]) -> None:
        self._batches = batches
        self._iterator: Iterator[object] | None = None

    def start(self, **_: object) -> None:
        """Do nothing: the other process starts what is asked for."""

    def stop(self, **_: object) -> None:
        """Do nothing: the other process ends with this one."""

    @contextlib.contextmanager
    def auto_stop(self, **_: object) -> Iterator[_Pipeline]:
        """Return itself in a context, as a pipeline does."""
        yield self

    def get_iterator(self, **_: object) -> Iterator[object]:
        """Return an iterator over one pass."""
        return iter(self._batches)

    __iter__ = get_iterator

    def get_item(self, **_: object) -> object:
        """Return the next batch; raise EOFError after the last one, as a pipeline does."""
        if self._iterator is None:
            self._iterator = self.get_iterator()
        try:
            return next(self._iterator)
        except StopIteration:
            raise EOFError from None


# ---- all changes


def _once(make: Callable[[], None]) -> Callable[[object, object], None]:
    """Return a change that needs neither the member nor its loaders."""
    return lambda *_: make()


CHANGES: dict[str, tuple[Callable[[Trainer, Sequence[str]], None], Callable[[], bool]]] = {
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
    "no_copies": (
        loader_substitutes.send_nothing,
        functools.partial(loader_substitutes.holds, "no_copies"),
    ),
    "whole_batches": (loader_ways.fetch_whole, loader_ways.fetches_whole),
    "pipeline_elsewhere": (_once(_put_elsewhere), lambda: _elsewhere > 0),
    "quick_switches": (_once(_switch_soon), _switches_soon),
    "no_gc": (_once(_stop_collecting), _collects_nothing),
}
"""By name: what makes the change, and what tells whether it holds."""


IMPOSSIBLE: dict[str, Callable[[], str | None]] = {
    "whole_batches": loader_ways.why_not_whole,
    "pipeline_elsewhere": _why_here,
}
"""By name: what tells why a change cannot be made in this script, though it was tried."""


def apply(name: str, member: Trainer, further: Sequence[str] = ()) -> None:
    """Make a change in this process.

    Args:
        name: one of CHANGES.
        member: this process's.
        further: kinds that the config names (see ``loaders``).
    """
    CHANGES[name][0](member, further)


def effective() -> dict[str, bool]:
    """Return, for every change, whether it holds in this process; asked for or not."""
    return {name: holds() for name, (_, holds) in CHANGES.items()}


def impossible() -> dict[str, str]:
    """Return why changes that were tried cannot be made, by their names."""
    return {name: reason for name, tell in IMPOSSIBLE.items() if (reason := tell()) is not None}
