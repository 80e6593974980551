"""Run a script for some steps and write down its losses; nothing is timed.

``python -m scaling_study.member.losses FILE STEPS SEED SWITCHES PROGRAM``

SWITCHES is a JSON list of switches, as ``changes.switch`` takes them.

A loss is a tensor of one number that ``backward`` is called on. SEED is added to every seed that
the script sets for torch, so that runs of one script differ as repeated trainings on the same data
do. The process ends after STEPS steps of its optimizers, or with the script.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from scaling_study.member import after_torch, changes
from scaling_study.queues import program

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Generator, Tensor


class RunLosses:
    """The losses of one run."""

    def __init__(self, file: Path, steps: int) -> None:
        self._file, self._steps = file, steps
        self._done = 0
        self._values: list[float] = []

    def attach(self, shift: int) -> None:
        """Install the hooks in this process's torch; seeds are moved by ``shift``."""
        import torch  # noqa: PLC0415 (the script's to import first: see after_torch)
        from torch.optim import optimizer  # noqa: PLC0415

        backward: Callable[..., None] = torch.autograd.backward
        manual_seed = torch.manual_seed

        @functools.wraps(backward)
        def note(tensors: Tensor | Sequence[Tensor], *args: object, **kwargs: object) -> None:
            first = tensors[0] if isinstance(tensors, list | tuple) and tensors else tensors
            if isinstance(first, torch.Tensor) and first.numel() == 1:
                self._values.append(float(first.detach()))
            backward(tensors, *args, **kwargs)

        @functools.wraps(manual_seed)
        def moved(seed: int) -> Generator:  # named as torch's: scripts may name it
            return manual_seed(int(seed) + shift)

        torch.autograd.backward = note
        torch.manual_seed = torch.random.manual_seed = moved
        optimizer.register_optimizer_step_post_hook(self._step)

    def _step(self, *_: object) -> None:
        self._done += 1
        if self._done >= self._steps:
            self.write()
            sys.stdout.flush()
            os._exit(0)

    def write(self) -> None:
        """Write the number of ``steps`` and the ``losses``, in the order of calls of backward."""
        if os.environ.get("RANK", "0") != "0":  # the first of a group of ranks writes
            return
        content = {"steps": self._done, "losses": self._values}
        self._file.write_text(json.dumps(content), encoding="utf-8")


def main(file: str, steps: str, seed: str, switches: str, *command: str) -> None:
    """Run the program; the arguments are the words of the command line."""
    losses = RunLosses(Path(file).absolute(), int(steps))
    atexit.register(losses.write)

    def prepare() -> None:
        losses.attach(int(seed))
        changes.switch(json.loads(switches))

    after_torch.call_back(prepare)
    program.add_path(command)
    sys.exit(program.run_to_end(command))


if __name__ == "__main__":
    main(*sys.argv[1:])
