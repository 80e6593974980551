"""One member under a profiler for a few steps, on its own side.

Operators come from torch's profiler, calls from cProfile. A profile is processed and written only
when the member rests and is asked for it, because that takes far longer than the steps. The module
needs torch and the standard library only, because it runs in every build.
"""

from __future__ import annotations

import cProfile
import ctypes
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from scaling_study.member import channel
from scaling_study.member.iterations import replace_closure

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from torch.autograd.profiler_util import FunctionEvent
    from torch.utils.hooks import RemovableHandle

    from scaling_study.member.iterations import Arguments

PR_SET_PTRACER = 0x59616D61
PR_SET_PTRACER_ANY = ctypes.c_ulong(-1)

WARM_UP_STEPS = 1
"""Steps under a profiler that is still being set up; they do not count."""

CLOSURE = "scaling_study: closure"

# The phase of an operator follows from the ranges around it, the innermost first. torch has ranges
# for loaders, the autograd engine and optimizers; we mark an optimizer's closure.
PHASES = (
    ("autograd::engine::evaluate_function", "backward"),
    ("enumerate(DataLoader)#", "load"),
    (CLOSURE, "forward"),
    ("Optimizer.step#", "optimizer"),
)


def start(order: int, steps: int) -> OperatorProfile | CallProfile:
    """Attach the profiler that an order names, for this many steps."""
    return OperatorProfile(steps) if order == channel.PROFILE_OPERATORS else CallProfile(steps)


def allow_tracing() -> None:
    """Let any process of this user trace this one, if Yama restricts that to ancestors.

    py-spy is no ancestor of a member (kernel documentation, admin-guide/LSM/Yama). A kernel without
    Yama refuses the request and does not need it.
    """
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0)


class StepProfile:
    """A profile of some steps.

    Args:
        steps: number of steps after the warm-up.
    """

    def __init__(self, steps: int) -> None:
        self._steps, self._covered = steps, -WARM_UP_STEPS

    def _goes_on(self, *, closed: bool) -> bool:
        """Count a step; return whether another one follows."""
        self._covered += 1
        return not closed and self._covered < self._steps


class OperatorProfile(StepProfile):
    """torch's profiler: operators with FLOPs, without stacks and shapes."""

    def __init__(self, steps: int) -> None:
        from torch import profiler  # noqa: PLC0415 (calls need no torch)

        super().__init__(steps)
        cpu = [profiler.ProfilerActivity.CPU]
        # The interface below torch.profiler.profile, whose own steps would be ranges in the result.
        self._profiler = profiler._KinetoProfile(activities=cpu, with_flops=True)  # noqa: SLF001
        self._mark = _mark_closures()
        self._profiler.prepare_trace()

    def step(self, *, closed: bool) -> bool:
        """Count a step; begin after the warm-up, and end after the last one or when closed."""
        goes_on = self._goes_on(closed=closed)
        if goes_on and self._covered == 0:
            self._profiler.start_trace()
        if not goes_on:
            if self._covered > 0:
                self._profiler.stop_trace()
            self._mark.remove()
        return goes_on

    def write(self, folder: Path) -> None:
        """Write operators.json, the text table and a Chrome trace; nothing without a whole step."""
        if self._covered < 1:
            return
        rows = operator_rows(self._profiler.events() or ())
        (folder / "operators.json").write_text(json.dumps({"steps": self._covered, "rows": rows}))
        table = self._profiler.key_averages().table(
            sort_by="self_cpu_time_total", row_limit=-1, max_name_column_width=100
        )
        (folder / "operators.txt").write_text(table)
        self._profiler.export_chrome_trace(str(folder / "trace.json.gz"))


@dataclass
class OperatorEvents:
    """The events of an operator in a phase."""

    operator: str
    phase: str
    calls: int = 0
    self_s: float = 0.0
    total_s: float = 0.0
    flops: int | None = None


def operator_rows(events: Iterable[FunctionEvent]) -> list[dict[str, object]]:
    """Sum a profiler's events by operator and phase.

    Args:
        events: torch.autograd.profiler_util.FunctionEvent, times in us.

    Returns:
        Rows with operator, phase, calls, self_s, total_s (the time of an operator inside one of
        its own name counts twice) and flops (None if torch knows none).
    """
    rows: dict[tuple[str, str], OperatorEvents] = {}
    for event in events:
        key = (event.name, _phase(event))
        row = rows.setdefault(key, OperatorEvents(*key))
        row.calls += 1
        row.self_s += event.self_cpu_time_total / 1e6
        row.total_s += event.cpu_time_total / 1e6
        if event.flops:
            row.flops = (row.flops or 0) + event.flops
    return [asdict(row) for row in rows.values()]


def _phase(event: FunctionEvent | None) -> str:
    """Return an operator's phase, as windows divide a step: forward is the rest."""
    while event is not None:
        for start_of_name, phase in PHASES:
            if event.name.startswith(start_of_name):
                return phase
        event = event.cpu_parent
    return "forward"


def _mark_closures() -> RemovableHandle:
    """Put a range around every closure that an optimizer's step gets; return the hook's handle."""
    from torch.autograd.profiler import record_function  # noqa: PLC0415
    from torch.optim import optimizer  # noqa: PLC0415

    def mark(_: object, args: tuple[object, ...], kwargs: dict[str, object]) -> Arguments | None:
        return replace_closure(args, kwargs, record_function(CLOSURE))

    return optimizer.register_optimizer_step_pre_hook(mark)


class CallProfile(StepProfile):
    """cProfile of the training thread."""

    def __init__(self, steps: int) -> None:
        super().__init__(steps)
        self._profiler = cProfile.Profile()

    def step(self, *, closed: bool) -> bool:
        """Count a step; begin after the warm-up, and end after the last one or when closed."""
        if self._covered >= 0:
            self._profiler.disable()
        goes_on = self._goes_on(closed=closed)
        if goes_on:
            self._profiler.enable()
        return goes_on

    def write(self, folder: Path) -> None:
        """Write calls.prof, which pstats, snakeviz and others open, and the steps it covers."""
        if self._covered < 1:
            return
        (folder / "calls.json").write_text(json.dumps({"steps": self._covered}))
        self._profiler.dump_stats(folder / "calls.prof")
