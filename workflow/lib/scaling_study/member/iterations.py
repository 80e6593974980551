"""The iterations of a script that trains with torch's optimizers: their ends, and their number.

With one optimizer, each of its steps ends an iteration. Several optimizers may take turns, as in a
GAN: then a round of them is an iteration, and the one that steps least often ends it. The first
rounds show which one that is, before anything is measured. An optimizer that steps for the first
time ends rounds from then on. Another one takes over if it steps after the present one has stepped
several times in a row, so a script that trains with one optimizer after the other is counted right
too. The config can choose another end: every K steps of any optimizers, or the steps of a class of
optimizers.

A program that runs as its user starts it has no gate and no window: its iterations are counted. A
module on PYTHONPATH (``hook/sitecustomize.py``) attaches a counter in each process of the program.
In a process that the script of a member forks, the member's own hooks count. Each process keeps a
page of integers, a file with its process id as the name, that another process reads: how many
iterations there were, and when each of them ended. A step costs a clock reading and a few integer
stores.

Standard library and torch only.
"""

from __future__ import annotations

import functools
import mmap
import os
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scaling_study.member import after_torch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType

    Args = tuple[object, ...]
    Kwargs = dict[str, object]
    Arguments = tuple[Args, Kwargs]
    Closure = Callable[[], object]

MARK = "mark"
"""In a config: the script's calls of ``scaling_study.mark`` end iterations."""

BACKWARD = "backward"
"""In a config: backward passes end iterations, for a script that updates its parameters itself."""

OBSERVE = "observe"
"""Optimizers' rounds end iterations, and backward passes are counted beside them."""

BEGAN = "began-"
"""With its id, the file of an observed process; it has a byte for each program that it became."""

VARIABLE = "SCALING_STUDY_COUNT"
"""Its value: what ends an iteration, ``read_back`` or nothing, and the folder of the pages."""

ELSEWHERE = "elsewhere-"
"""With a member's slot, the folder of the pages of processes that its script starts."""

HOOK = str(Path(__file__).with_name("hook"))

WORD_BYTES = 8

# After its first steps a process has all its threads and libraries.
READ_BACK_AFTER = 3
READBACK = "readback-"

THREADS = (
    "several threads of one process make steps, and only those of one thread can be counted:"
    " measure whole runs (workload.step: run)"
)

# The ends of this many iterations are kept. Only the written parts of a page take memory.
KEPT = 2**18

# Fields of a page. Times in ns of the monotonic clock, 0 before the event. SEVERAL is 1 once a
# second thread has made a step.
MADE_NS, PARENT, TRAINER_TID, FIRST_NS, LATEST_NS, ITERATIONS, SEVERAL, BACKWARDS, ENDS = range(9)
WORDS = ENDS + KEPT


@dataclass
class OptimizerSteps:
    """An optimizer: its class's name, and its steps."""

    name: str
    steps: int = 0


class Iterations:
    """Counts the steps of a script's optimizers and finds those that end an iteration.

    A subclass stores iterations: ``IterationCounter`` their ends, and a member its steps.

    Args:
        how: ``mark``, ``backward``, ``optimizer``, ``every:K`` or ``only:CLASS`` (see ``encode``).
    """

    def __init__(self, how: str = "optimizer") -> None:
        self.how = how
        kind, _, value = how.partition(":")
        self._every = int(value) if kind == "every" else 0
        self._only = value if kind == "only" else ""
        self.begin()

    def begin(self) -> None:
        """Forget all optimizers: the script starts anew, and makes others."""
        self._optimizer_steps = self._thread = 0
        self._frame: FrameType | None = None
        # By identity.
        self._optimizers: dict[int, OptimizerSteps] = {}
        self._last = 0
        self._in_a_row = 0

    def hook(self) -> None:
        """Have torch report the steps of optimizers, or backward passes, from now on."""
        if self.how == BACKWARD:
            # A forked process of a member has another function for the end of a step.
            after_backward(lambda: self.step_end(), self.note_thread)  # noqa: PLW0108
            return
        from torch.optim import optimizer  # noqa: PLC0415 (see after_torch)

        optimizer.register_optimizer_step_pre_hook(self.before_optimizer)
        optimizer.register_optimizer_step_post_hook(self.after_optimizer)

    def before_optimizer(self, _: object, args: Args, kwargs: Kwargs) -> Arguments | None:  # noqa: ARG002
        """Note that an optimizer's step begins; return its new arguments, if any."""
        self.enter(sys._getframe(1))  # noqa: SLF001 (CPython's, as documented)
        return None

    def after_optimizer(self, optimizer: object, *_: object) -> None:
        """Note that an optimizer's step ends, and an iteration if the step ends one."""
        if self.leave(sys._getframe(1)) and self.ends(optimizer):  # noqa: SLF001
            self.step_end()

    def mark(self, samples: int = 0) -> None:  # noqa: ARG002 (as the script calls it)
        """End an iteration, as the script says."""
        self.note_thread()
        self.step_end()

    def step_end(self) -> None:
        """Store an iteration that ends now."""

    def refuse_threads(self) -> None:
        """Refuse a step of another thread than the one before."""

    def note_thread(self) -> None:
        """Note the thread that makes a step; only one may, since they would share these numbers."""
        thread = threading.get_ident()
        if thread != self._thread:
            if self._thread:
                self.refuse_threads()
            self._thread = thread

    def enter(self, frame: FrameType) -> bool:
        """Note that an optimizer's step begins; return whether it is part of no other step.

        An optimizer that calls another one's step, or its own class's, makes one step: torch
        calls both hooks from one frame, and all calls below it belong to that step.

        Args:
            frame: the frame from which torch calls its hooks.
        """
        self.note_thread()
        if self._frame is not None and _runs(self._frame):
            return False
        self._frame = frame
        return True

    def leave(self, frame: FrameType) -> bool:
        """Note that an optimizer's step ends; return whether it was part of no other step."""
        if frame is not self._frame:
            return False
        self._frame = None
        return True

    def ends(self, optimizer: object) -> bool:
        """Count a step of an optimizer; return whether an iteration ends with it."""
        self._optimizer_steps += 1
        known = self._optimizers.get(id(optimizer))
        new = known is None
        if known is None:
            known = self._optimizers[id(optimizer)] = OptimizerSteps(type(optimizer).__name__)
        known.steps += 1
        if self._every:
            return self._optimizer_steps % self._every == 0
        if self._only:
            return known.name == self._only
        if id(optimizer) == self._last:
            self._in_a_row += 1
        elif new or self._in_a_row > 1:
            self._last, self._in_a_row = id(optimizer), 1
        else:
            self._in_a_row = 0
            return False
        return True

    def report(self) -> dict[str, object]:
        """Return, as JSON data, what has ended iterations so far.

        Returns:
            ``how`` as configured, and the ``optimizers`` since the script's start, each with its
            class's ``name``, its number of ``steps`` and whether it ``ends`` rounds now.
        """
        return {
            "how": self.how,
            "optimizers": [
                {
                    "name": known.name,
                    "steps": known.steps,
                    "ends": bool(self._every) or self._only == known.name or identity == self._last,
                }
                for identity, known in self._optimizers.items()
            ],
        }


def encode(step: str | Mapping[str, object]) -> str:
    """Return the config's ``workload.step`` as one word, as Iterations takes it."""
    if isinstance(step, str):
        return "optimizer" if step == "auto" else step
    ((kind, value),) = step.items()
    return f"every:{value}" if kind == "every" else f"only:{value}"


def _runs(frame: FrameType) -> bool:
    """Return whether the function of a frame still runs; one that has raised does not."""
    caller: FrameType | None = sys._getframe(1)  # noqa: SLF001 (CPython's, as documented)
    while caller is not None and caller is not frame:
        caller = caller.f_back
    return caller is frame


def after_backward(call: Callable[[], object], before: Callable[[], object] = lambda: None) -> None:
    """Call a function before each backward pass, and one after it, until this returns True.

    A pass inside another one, as in checkpointing, is part of that one.
    """
    import torch  # noqa: PLC0415 (see after_torch)

    inner: Callable[..., None] = torch.autograd.backward
    state = threading.local()

    def backward(*args: object, **kwargs: object) -> None:
        if getattr(state, "inside", False):
            return inner(*args, **kwargs)
        before()
        state.inside = True
        try:
            inner(*args, **kwargs)
        finally:
            state.inside = False
        if call() and torch.autograd.backward is backward:
            torch.autograd.backward = inner
        return None

    torch.autograd.backward = backward


def replace_closure(
    args: Args, kwargs: Kwargs, wrap: Callable[[Closure], Closure]
) -> Arguments | None:
    """Wrap the closure among the arguments of an optimizer's step.

    Returns:
        New arguments, as torch takes them from a pre-hook; None if there is no closure.
    """
    closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
    if not callable(closure):
        return None
    if "closure" in kwargs:
        return args, {**kwargs, "closure": wrap(closure)}
    return (args[0], wrap(closure), *args[2:]), kwargs


# ---- counting iterations where nothing else is measured


class Page:
    """The counts of a process, which may still run.

    Args:
        path: the file, whose name is the process id.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.pid = path, int(path.name)
        with path.open("rb") as file:
            self._words = memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)).cast("q")
        self.made_ns, self.parent = self._words[MADE_NS], self._words[PARENT]
        self.trainer_tid = self._words[TRAINER_TID]

    @property
    def span_ns(self) -> tuple[int, int]:
        """When its first and its latest iteration ended (ns of the monotonic clock)."""
        return self._words[FIRST_NS], self._words[LATEST_NS]

    @property
    def several(self) -> bool:
        """Whether several threads of the process make steps, so that these are not counted."""
        return bool(self._words[SEVERAL])

    @property
    def iterations(self) -> int:
        """Iterations so far."""
        return self._words[ITERATIONS]

    @property
    def backwards(self) -> int:
        """Backward passes so far, if they are counted beside iterations."""
        return self._words[BACKWARDS]

    def ends_ns(self) -> list[int]:
        """Return when iterations ended; the first ``KEPT`` of them."""
        return self._words[ENDS : ENDS + min(self.iterations, KEPT)].tolist()


def read_pages(folder: Path) -> list[Page]:
    """Return the counts of all processes that write to a folder, the earliest first."""
    pages = [Page(path) for path in folder.iterdir() if path.name.isdecimal()]
    return sorted(pages, key=lambda page: page.made_ns)


def environment(
    folder: Path, step: str, before: Mapping[str, str], *, read_back: bool = False
) -> dict[str, str]:
    """Return the variables that make a program's processes count their iterations.

    Args:
        folder: the folder of the pages.
        step: what ends an iteration, as ``Iterations`` takes it.
        before: the program's environment, whose PYTHONPATH is kept.
        read_back: whether each process writes its settings once, to ``READBACK`` and its id.
    """
    paths = [HOOK, *filter(None, [before.get("PYTHONPATH")])]
    return {
        VARIABLE: f"{step}|{'read_back' if read_back else ''}|{folder}",
        "PYTHONPATH": os.pathsep.join(paths),
    }


class IterationCounter(Iterations):
    """Counts the iterations of this process, and of those that are forked from it.

    Args:
        folder: the folder of the pages.
        step: what ends an iteration, as ``Iterations`` takes it.
        read_back: called in each process after a few iterations, with the file to write and the
            report of ``Iterations``.
    """

    def __init__(
        self, folder: str, step: str, read_back: Callable[[str, object], None] | None = None
    ) -> None:
        self._folder, self._read_back = folder, read_back
        super().__init__(step)

    @property
    def leads(self) -> bool:
        """Whether this process counts; in a group of ranks, only the first one does."""
        return os.environ.get("RANK", "0") == "0"

    def attach(self) -> None:
        """Count from now on, or as soon as the program has imported torch."""
        if not self.leads:
            return
        os.register_at_fork(after_in_child=self.begin)
        if self.how == MARK:
            after_torch.call_back(self._take_marks, "scaling_study")
        else:
            after_torch.call_back(self.hook)
        if self.how == OBSERVE:
            noted = self._note_backward, self.note_thread
            after_torch.call_back(functools.partial(after_backward, *noted))
            began = os.path.join(self._folder, f"{BEGAN}{os.getpid()}")  # noqa: PTH118 (as below)
            with open(began, "ab") as file:  # noqa: PTH123 (as below)
                file.write(b".")

    def _note_backward(self) -> None:
        words = self._words or self._page()
        words[BACKWARDS] += 1

    def _take_marks(self) -> None:
        sys.modules["scaling_study"].mark = self.mark  # type: ignore[attr-defined]

    def begin(self) -> None:
        """Forget optimizers and the page: this process is new, or was forked, and has none."""
        self._words: memoryview | None = None
        self._making = threading.Lock()
        super().begin()

    def _page(self) -> memoryview:
        """Return the page; several threads may ask for it first."""
        with self._making:
            return self._words or self._make_page()

    def _make_page(self) -> memoryview:
        path = os.path.join(self._folder, str(os.getpid()))  # noqa: PTH118 (no pathlib is needed)
        # The page is renamed when it is whole, because readers cannot map an empty file.
        part = f"{path}.part"
        file = os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        os.ftruncate(file, WORDS * WORD_BYTES)
        words = memoryview(mmap.mmap(file, 0)).cast("q")
        os.close(file)
        words[MADE_NS], words[PARENT] = time.monotonic_ns(), os.getppid()
        words[TRAINER_TID] = threading.get_native_id()
        os.rename(part, path)  # noqa: PTH104 (as above)
        self._words = words
        return words

    def refuse_threads(self) -> None:
        """Note that several threads make steps."""
        self._page()[SEVERAL] = 1

    def step_end(self) -> None:
        """Count an iteration that ends now."""
        words = self._words or self._page()
        now, done = time.monotonic_ns(), words[ITERATIONS]
        words[FIRST_NS] = words[FIRST_NS] or now
        words[LATEST_NS] = now
        words[ITERATIONS] = done + 1
        if done < KEPT:
            words[ENDS + done] = now
        if done + 1 == READ_BACK_AFTER and self._read_back is not None:
            self._read_back(f"{self._folder}/{READBACK}{os.getpid()}", self.report())
