"""SPDL's pipelines in a process of their own, where their threads take nothing from training.

What ``spdl.pipeline.run_pipeline_in_subprocess`` does, for a script that builds its pipelines in
its own process. Standard library only.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from scaling_study.member import after_torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scaling_study.member.member import Member

_elsewhere = 0
_refused: list[str] = []


def put_elsewhere(_: Member, _further: Sequence[str]) -> None:
    """Have every pipeline that the script builds run in a process of its own."""
    after_torch.call_back(_replace, "spdl.pipeline")


def is_elsewhere() -> bool:
    """Whether any pipeline does."""
    return _elsewhere > 0


def why_here() -> str | None:
    """Say why none does, where that was tried."""
    return _refused[0] if _refused and not _elsewhere else None


def _replace() -> None:
    from spdl import pipeline  # noqa: PLC0415 (the script's to import first)

    builder_kind: Any = pipeline.PipelineBuilder
    build, build_pipeline = builder_kind.build, pipeline.build_pipeline

    def builds(builder: Any, **options: Any) -> Any:
        return _built(builder, builder.get_config(), options, lambda: build(builder, **options))

    def builds_pipeline(config: Any, /, **options: Any) -> Any:
        return _built(config, config, options, lambda: build_pipeline(config, **options))

    builder_kind.build = builds
    pipeline.build_pipeline = builds_pipeline


def _built(what: Any, config: Any, options: dict[str, Any], here: Callable[[], Any]) -> Any:
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

    def __init__(self, batches: Any) -> None:
        self._batches = batches
        self._iterator: Iterator[Any] | None = None

    def start(self, **_: Any) -> None:
        """Do nothing: the other process starts what is asked for."""

    def stop(self, **_: Any) -> None:
        """Do nothing: the other process ends with this one."""

    @contextlib.contextmanager
    def auto_stop(self, **_: Any) -> Iterator[_Pipeline]:
        """Return itself in a context, as a pipeline does."""
        yield self

    def get_iterator(self, **_: Any) -> Iterator[Any]:
        """Return an iterator over one pass."""
        return iter(self._batches)

    __iter__ = get_iterator

    def get_item(self, **_: Any) -> Any:
        """Return the next batch; raise EOFError after the last one, as a pipeline does."""
        if self._iterator is None:
            self._iterator = self.get_iterator()
        try:
            return next(self._iterator)
        except StopIteration:
            raise EOFError from None
