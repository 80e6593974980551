"""Changes inside a process, made as soon as torch is imported, and checks that they hold.

Values of axes belong to a launch. A switch is a text ``MODULE:AXIS=VALUE``, with the value as JSON.

Single changes remove or replace a part of a step. They are experiments, not launches: ranks that
exchange one number drift apart, and other changes belong in the script itself. Each reports whether
it took effect. Standard library and torch only, and what an axis's own function imports.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import math
import sys
from typing import TYPE_CHECKING, Protocol

from scaling_study.member import files, loader_substitutes, loaders
from scaling_study.member.after_torch import call_back, change_arguments
from scaling_study.member.loader_substitutes import effects, refusals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from spdl.pipeline import PipelineBuilder
    from torch import Tensor
    from torch.distributed import GradBucket
    from torch.futures import Future

    from scaling_study.member.member import Member

    Change = Callable[[Member, Sequence[str]], None]


# ---- values of axes


class MemberAxis(Protocol):
    """The part of an axis that a process needs."""

    apply: Callable[[object], None] | None
    observe: Callable[[], object] | None


def _axis(switch: str) -> tuple[str, MemberAxis, object]:
    """Return an axis's name, the axis and its value."""
    place, _, value = switch.partition("=")
    module, _, name = place.partition(":")
    source = importlib.import_module(module)
    axis = source.AXES[name] if hasattr(source, "AXES") else source.AXIS
    return name, axis, json.loads(value)


def switch(switches: Sequence[str]) -> None:
    """Apply values of axes to this process, in which torch is imported."""
    for _, axis, value in map(_axis, switches):
        if axis.apply is not None:
            axis.apply(value)


def observed(switches: Sequence[str]) -> dict[str, object]:
    """Return the values that hold in this process, by the name of the axis."""
    return {
        name: axis.observe() for name, axis, _ in map(_axis, switches) if axis.observe is not None
    }


# ---- single changes

# More steps than any training has.
NEVER = 1 << 40

# The time that a computing thread may keep others from the interpreter. Python's default is 5 ms.
SWITCH_S = 1e-5


def _flush_denormals(*_: object) -> None:
    import torch  # noqa: PLC0415 (the script's to import first)

    torch.set_flush_denormal(True)


def _flushes_denormals() -> bool:
    """Return whether torch's operators flush denormal numbers to zero in this thread."""
    import torch  # noqa: PLC0415 (as above)

    denormal = torch.full((64,), 1e-39, dtype=torch.float32, device="cpu")
    return bool((denormal * 0.5 == 0).all())


def _exchange_one_number(*_: object) -> None:
    """Have ranks wait for each other as before, but exchange one number of each bucket only."""
    from torch import distributed  # noqa: PLC0415 (as above)
    from torch.nn.parallel import DistributedDataParallel  # noqa: PLC0415

    make = DistributedDataParallel.__init__

    def one_number(_: object, bucket: GradBucket) -> Future[Tensor]:
        gradients = bucket.buffer()
        work = distributed.all_reduce(gradients[:1].clone(), async_op=True)
        return work.get_future().then(lambda _: gradients)

    def __init__(model: DistributedDataParallel, *args: object, **kwargs: object) -> None:  # noqa: N807
        make(model, *args, **kwargs)
        hook(model, None, one_number)
        effects["one_element"] += 1

    one_number.__annotations__.clear()  # torch compares them with classes, and these are texts
    # A model takes one hook: the script's own is left out.
    hook = DistributedDataParallel.register_comm_hook
    DistributedDataParallel.register_comm_hook = lambda *_, **__: None
    DistributedDataParallel.__init__ = __init__


def _take_no_snapshots(*_: object) -> None:
    """Have torchdata's StatefulDataLoader save its state in no step."""

    def change(arguments: dict[str, object]) -> None:
        if any(kind.__module__ == loaders.STATEFUL for kind in type(arguments["self"]).__mro__):
            arguments["snapshot_every_n_steps"] = NEVER
            effects["no_snapshots"] += 1

    change_arguments(change)


def _switch_soon(*_: object) -> None:
    """Have a computing thread hand the interpreter to others almost at once."""
    sys.setswitchinterval(SWITCH_S)


def _switches_soon() -> bool:
    return math.isclose(sys.getswitchinterval(), SWITCH_S, rel_tol=0.1)


def _collect_nothing(generation: int = 2) -> int:  # noqa: ARG001 (as gc.collect)
    return 0


def _stop_collecting(*_: object) -> None:
    """Stop the collections that Python starts, and those that the script asks for."""
    gc.disable()
    gc.collect = _collect_nothing


def _collects_nothing() -> bool:
    return gc.collect is _collect_nothing and not gc.isenabled()


def _note_opened(member: Member, _: Sequence[str]) -> None:
    """Have the files noted that are opened for reading from now on."""
    files.note_opened(member.folder, member.slot)
    effects["files_noted"] += 1


# ---- SPDL's pipelines in a process of their own, where their threads take nothing from training

ELSEWHERE = "pipeline_elsewhere"


def _put_elsewhere(*_: object) -> None:
    """Have every pipeline that the script builds run in a process of its own.

    That is what ``spdl.pipeline.run_pipeline_in_subprocess`` does, for a script that builds its
    pipelines in its own process.
    """
    call_back(_replace_pipelines, "spdl.pipeline")


def _replace_pipelines() -> None:
    from spdl import pipeline  # noqa: PLC0415 (as above)

    builder_kind = pipeline.PipelineBuilder
    build: Callable[..., object] = builder_kind.build
    build_pipeline: Callable[..., object] = pipeline.build_pipeline

    def builds(builder: PipelineBuilder[object, object], **options: object) -> object:
        return _built(builder, builder.get_config(), options) or build(builder, **options)

    def builds_pipeline(config: object, /, **options: object) -> object:
        return _built(config, config, options) or build_pipeline(config, **options)

    builder_kind.build = builds  # type: ignore[assignment, method-assign] # what it takes stays
    pipeline.build_pipeline = builds_pipeline  # type: ignore[assignment] # likewise


def _built(origin: object, config: object, options: dict[str, object]) -> _Pipeline | None:
    """Return a stand-in for a pipeline in another process; None if it cannot run there.

    All pipelines that are built from one object share a process.
    """
    from spdl import pipeline  # noqa: PLC0415 (as above)

    run: Callable[..., Iterable[object]] = pipeline.run_pipeline_in_subprocess
    options.pop("stage_id", None)  # which is for logs
    notes: dict[str, Iterable[object]] = getattr(origin, "__dict__", {})
    if "_study" not in notes:
        try:
            notes["_study"] = run(config, **options)
        except Exception as error:  # noqa: BLE001 (the script's own objects: whatever they raise)
            reason = f"its pipeline cannot run in another process: {error}"
            refusals.setdefault(ELSEWHERE, reason)
            return None
        effects[ELSEWHERE] += 1
        refusals[ELSEWHERE] = None
    return _Pipeline(notes["_study"])


class _Pipeline:
    """Takes the place of a pipeline that would run in this process."""

    def __init__(self, batches: Iterable[object]) -> None:
        self._batches = batches
        self._iterator: Iterator[object] | None = None

    def start(self, **_: object) -> None:
        """Do nothing: the other process starts what is asked for."""

    def stop(self, **_: object) -> None:
        """Do nothing: the other process ends with this one."""

    @contextlib.contextmanager
    def auto_stop(self, **_: object) -> Iterator[_Pipeline]:
        """Yield itself in a context, as a pipeline does."""
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


CHANGES: Mapping[str, Change] = {
    "flush_denormals": _flush_denormals,
    "loader_switched": loader_substitutes.switch,
    "files_noted": _note_opened,
    "one_element": _exchange_one_number,
    "no_snapshots": _take_no_snapshots,
    "no_copies": loader_substitutes.send_nothing,
    loader_substitutes.WHOLE: loader_substitutes.fetch_whole,
    ELSEWHERE: _put_elsewhere,
    "quick_switches": _switch_soon,
    "no_gc": _stop_collecting,
}
"""Functions that make the changes in this process. They take its member and the kinds of loaders
that the config names (see ``loaders``)."""

READ: Mapping[str, Callable[[], bool]] = {
    "flush_denormals": _flushes_denormals,
    "quick_switches": _switches_soon,
    "no_gc": _collects_nothing,
}
"""Functions that check whether a change holds; other changes count when they take effect."""


def effective() -> dict[str, bool]:
    """Return for every change, requested or not, whether it holds in this process."""
    return {name: READ[name]() if name in READ else effects[name] > 0 for name in CHANGES}


def impossible() -> dict[str, str]:
    """Return why changes that were tried cannot be made, by their names."""
    return {name: reason for name, reason in refusals.items() if reason is not None}
