"""What ends an iteration of a script that trains with torch's optimizers.

One optimizer: each of its steps does. Several that take turns, as those of a GAN: a round of them
does, which is a step of the one that steps least often. Which one that is is learnt in the first
rounds, before anything is measured: an optimizer that steps for the first time is taken to end
rounds from then on, and another one takes that part over where it steps after the present one has
stepped several times in a row. So a script that trains with one optimizer after the other is
counted right too. The config decides where this is wrong: every so many steps of any optimizer, or
the steps of a class of optimizers.

Standard library only; called in every step, so that it looks up one number and compares it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

MARK = "mark"
"""In a config: what the script says by calling ``scaling_study.mark``."""


class Iterations:
    """Counts the steps of a script's optimizers and tells which of them end an iteration.

    Args:
        how: ``mark``, ``optimizer``, ``every:K`` or ``only:CLASS`` (see ``encode``).
    """

    def __init__(self, how: str = "optimizer") -> None:
        self.how = how
        self.by_mark = how == MARK
        kind, _, value = how.partition(":")
        self._every = int(value) if kind == "every" else 0
        self._only = value if kind == "only" else ""
        self.begin()

    def begin(self) -> None:
        """Forget all optimizers: the script starts anew, and makes others."""
        self._steps = 0
        self._frame: FrameType | None = None
        # By identity, each with its class's name and its steps.
        self._seen: dict[int, list[Any]] = {}
        self._last = 0
        self._in_a_row = 0

    def enter(self, frame: FrameType) -> bool:
        """Note that an optimizer's step begins; return whether it is part of no other one.

        An optimizer that calls another one's step, or its own class's, makes one step: torch
        calls both hooks from one frame, and what runs below it belongs to that step.

        Args:
            frame: from which torch calls its hooks.
        """
        if self._frame is not None and _runs(self._frame):
            return False
        self._frame = frame
        return True

    def leave(self, frame: FrameType) -> bool:
        """Note that an optimizer's step ends; return whether it was part of no other one."""
        if frame is not self._frame:
            return False
        self._frame = None
        return True

    def ends(self, optimizer: Any) -> bool:
        """Count a step of an optimizer; return whether an iteration ends with it."""
        self._steps += 1
        seen = self._seen.get(id(optimizer))
        new = seen is None
        if seen is None:
            seen = self._seen[id(optimizer)] = [type(optimizer).__name__, 0]
        seen[1] += 1
        if self._every:
            return self._steps % self._every == 0
        if self._only:
            return bool(seen[0] == self._only)
        if id(optimizer) == self._last:
            self._in_a_row += 1
        elif new or self._in_a_row > 1:
            self._last, self._in_a_row = id(optimizer), 1
        else:
            self._in_a_row = 0
            return False
        return True

    def report(self) -> dict[str, Any]:
        """Return, as JSON data, what has ended iterations so far.

        Returns:
            ``how`` as asked, and ``optimizers`` since the script's start: of each its class's
            ``name``, its ``steps`` and whether it ``ends`` rounds now.
        """
        return {
            "how": self.how,
            "optimizers": [
                {
                    "name": name,
                    "steps": steps,
                    "ends": bool(self._every) or self._only == name or identity == self._last,
                }
                for identity, (name, steps) in self._seen.items()
            ],
        }


def encode(step: Any) -> str:
    """Return the config's ``workload.step`` as one word: ``mark``, or what Iterations takes."""
    if isinstance(step, str):
        return step
    ((kind, value),) = dict(step).items()
    return f"every:{value}" if kind == "every" else f"only:{value}"


def _runs(frame: FrameType) -> bool:
    """Whether a function is still running: one that has raised is not."""
    caller: FrameType | None = sys._getframe(1)  # noqa: SLF001 (CPython's, as documented)
    while caller is not None and caller is not frame:
        caller = caller.f_back
    return caller is frame
