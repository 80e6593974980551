"""What a member stores of each step, and the gate at which it rests.

torch's global optimizer hooks end a step; light wrappers attribute its time to the loader, backward
and the optimizer, and Python tells how long its garbage collector took. What runs in every step is
kept to a few integer stores: no system call but the clock's (vDSO), no lock, no allocation that
lasts. Standard library only; ``worker`` installs the hooks.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from scaling_study.member import channel, loaders, runtime_settings
from scaling_study.member.iterations import Iterations, replace_closure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import TypeVar

    from scaling_study.member import profiled
    from scaling_study.member.iterations import Arguments
    from scaling_study.member.loaders import Makes

    T = TypeVar("T")

_now = time.perf_counter_ns


class Options(NamedTuple):
    """How a member runs its script.

    Attributes:
        step: what ends a step: ``mark`` where the script calls ``scaling_study.mark()``, else as
            ``Iterations`` takes it.
        launcher: how this process was started, for the readback.
        switches: values of axes that are made true in this process (see ``runtime_settings``).
        change: names of single changes to make in this process (see ``changes``).
        loader: a loader that the config names, as ``module:Class``; empty for none.
        ranks: of the group that this process is one of; None where it is none.
        once: the script can run only once in a process.
    """

    step: str = "optimizer"
    launcher: str = "exec"
    switches: Sequence[str] = ()
    change: Sequence[str] = ()
    loader: str = ""
    ranks: int | None = None
    once: bool = False


class Member:
    """A member's side of the channel, and the state of its current step."""

    def __init__(self, folder: Path, slot: int, options: Options, rank: int = 0) -> None:
        self.slot = slot
        self.folder = folder
        self._options = options
        self._iterations = Iterations(options.step)
        page = slot * (options.ranks or 1) + rank
        self._words = channel.Page(channel.open_words(folder), page).words
        self._gate = channel.Pipe(channel.gate(folder, slot, rank), os.O_RDONLY)
        self._rest = channel.Pipe(folder / "rest", os.O_WRONLY)
        self._pid = os.getpid()
        # Where this process has begun anew in the middle of a window, the window goes on.
        self._steps = self._words[channel.STEPS]
        self._began_at = self._words[channel.EARLIER] + self._steps
        self._load_ns = self._backward_ns = self._optimizer_ns = 0
        self._timed_ns, self._no_ns = _timed_ns(), _timed_ns()
        self._optimizer_began_ns = self._closure_ns = 0
        self._profile: profiled.Profile | None = None
        self._passed = False
        self._trainer = threading.get_ident()
        self._loaders: dict[str, loaders.Facts] = {}
        self.fresh = 1

    def step_end(self) -> None:
        """Store the step that ends now; sleep here if this member may not run."""
        words = self._words
        now = _now()
        step = self._steps
        if step < channel.CAPACITY:
            at = channel.HEADER + step * channel.STEP_FIELDS
            words[at] = now
            words[at + 1] = self._load_ns
            words[at + 2] = self._backward_ns
            words[at + 3] = self._optimizer_ns
            words[at + 4] = self.fresh
            words[at + channel.TIMED : at + channel.STEP_FIELDS] = self._timed_ns
        self._load_ns = self._backward_ns = self._optimizer_ns = self.fresh = 0
        self._timed_ns[:] = self._no_ns
        self._steps = step + 1
        words[channel.STEPS] = step + 1
        if words[channel.ORDER] != channel.RUN:
            self.park()

    def mark(self, samples: int = 0) -> None:
        """Count samples as the script says them; end a step where its calls end steps."""
        self._words[channel.SAMPLES] += samples
        if self._iterations.by_mark:
            self.step_end()

    def park(self) -> None:
        """Sleep until the coordinator lets this member run; answer its questions meanwhile."""
        words = self._words
        if words[channel.ORDER] == channel.CLOSING:
            self._pass()
            return
        # A member that is profiled has another order than RUN: it comes here after every step, and
        # a step that is measured does not pay for the question.
        closed = words[channel.ORDER] == channel.CLOSED
        if self._profile is not None and self._profile.step(closed=closed):
            return
        if not self._may_rest():
            return
        words[channel.PARKED_NS] = _now()
        words[channel.TRAINER_TID] = threading.get_native_id()
        self._trainer = threading.get_ident()
        while True:
            try:
                channel.write_rest(self._rest.descriptor(), self.slot)
                released = os.read(self._gate.descriptor(), 1)
            except OSError:
                released = b""
            if not released:
                # The coordinator is gone, and with it every reason to go on. No clean-up of the
                # script's may run: it could write checkpoints of a training nobody asked for.
                os._exit(1)
            order = words[channel.ORDER]
            if order not in channel.QUESTIONS:
                break
            self._answer(order)
        if order in channel.PROFILES:  # it may have been closed again already
            from scaling_study.member import profiled  # noqa: PLC0415 (as above)

            self._profile = profiled.start(order, words[channel.ASKED])
        # All members of a window are woken first and then start at one instant, by timer.
        time.sleep(max(0, words[channel.RELEASE_NS] - _now()) / 1e9)
        self._go_on()

    def _may_rest(self) -> bool:
        """Whether this process may rest at the end of the step that has just ended."""
        return True

    def _go_on(self) -> None:
        """Count steps from here on."""
        words = self._words
        words[channel.EARLIER] += self._steps
        self._steps = 0
        self._passed = False
        words[channel.STEPS] = words[channel.SAMPLES] = 0
        words[channel.RELEASED_NS] = _now()

    def _pass(self) -> None:
        """Tell, once, that the step in which the window closed has ended; train on.

        The others have not all ended theirs, and are not to be measured with one member fewer.
        """
        if not self._passed:
            self._passed = True
            try:
                channel.write_passed(self._rest.descriptor(), self.slot)
            except OSError:
                os._exit(1)  # the coordinator is gone, as in park

    def _answer(self, question: int) -> None:
        """Do what a resting member is asked for."""
        if question == channel.WRITE_PROFILE and self._profile is not None:
            self._profile.write(self.folder)
            self._profile = None
        elif question == channel.ALLOW_TRACING:
            from scaling_study.member import profiled  # noqa: PLC0415 (as above)

            profiled.allow_tracing()
        else:
            self._read_back(with_kernel=question == channel.READ_BACK_KERNEL)

    def _read_back(self, *, with_kernel: bool) -> None:
        from scaling_study.member import readback  # noqa: PLC0415 (not needed by any step)

        report = {
            "slot": self.slot,
            "launcher": self._options.launcher,
            "once": self._options.once,
            "counted": self._iterations.report(),
            "ended": self._ended(),
            **readback.report(with_kernel=with_kernel),
            "switches": runtime_settings.observed(self._options.switches),
            "loaders": [facts._asdict() for facts in self._loaders.values()],
        }
        (self.folder / f"readback-{self.slot}.json").write_text(json.dumps(report))

    def _ended(self) -> dict[str, float] | None:
        """Return how many starts of the script have ended, and after how many steps."""
        words = self._words
        starts = words[channel.RESTARTS]
        if not starts:
            return None
        fewest, most = words[channel.SHORTEST], words[channel.LONGEST]
        mean = words[channel.WHOLE] / starts
        return {"starts": starts, "steps": mean, "shortest": fewest, "longest": most}

    def leave(self, count: Callable[[], None]) -> None:
        """Have no part in the cohort any more: this is a process that the script has forked.

        What it trains is its own business: it stores no steps, rests at no gate and, when the
        script ends in it, ends with it. Its iterations are counted apart.

        Args:
            count: is called at the end of each iteration, in place of ``step_end``.
        """
        self._words = memoryview(bytearray(channel.HEADER * channel.WORD_BYTES)).cast("q")
        self._words[channel.ORDER] = channel.RUN
        self._iterations.begin()
        self.step_end = count  # type: ignore[method-assign]

    @property
    def forked(self) -> bool:
        """Whether this process is not the member, but one that the script has forked."""
        return os.getpid() != self._pid

    def asked(self) -> int:
        """Return the number that the coordinator has put beside its order."""
        return self._words[channel.ASKED]

    def asks(self) -> Callable[[], int]:
        """Return what reads that number, in processes that are forked from here too."""
        words = self._words
        return lambda: words[channel.ASKED]

    def script_ended(self) -> None:
        """Count a start of the script and, outside a window, sleep before the next one."""
        words = self._words
        ended_at = words[channel.EARLIER] + self._steps
        steps, self._began_at = ended_at - self._began_at, ended_at
        words[channel.RESTARTS] += 1
        words[channel.WHOLE] += steps
        words[channel.SHORTEST] = min(words[channel.SHORTEST] or steps, steps)
        words[channel.LONGEST] = max(words[channel.LONGEST], steps)
        self.fresh = 1
        self._iterations.begin()
        if words[channel.ORDER] in {channel.CLOSED, channel.CLOSING}:
            self.park()

    def wrap_iter(self, inner: Makes) -> Makes:
        """Time the making of an iterator, and all that it gives; note what it may hold ready.

        A loader's workers fill their queue while this member rests, and a window must not count
        what that saves (see ``Cohort._settle``).
        """
        times, thread = self.wrap_loader(inner), threading.get_ident

        def makes(loader: object, *args: object, **kwargs: object) -> Iterator[object]:
            iterator = times(loader, *args, **kwargs)
            if thread() != self._trainer:
                return iterator
            facts = loaders.facts(loader)
            self._loaders[facts.kind] = facts
            self.holds_ready(facts.ready)
            return loaders.time_next(iterator, self.wrap_loader)

        return makes

    def holds_ready(self, ready: int) -> None:
        """Note how many batches a loader may hold ready that is taken from."""
        if ready:
            # One more is in the loop's hands, and one may be on its way.
            self._words[channel.SAVED] = max(self._words[channel.SAVED], ready + 2)

    def wrap_loader(self, inner: Callable[..., T]) -> Callable[..., T]:
        """Time ``inner``, a method of a loader or of its iterator, as load."""
        now, thread = _now, threading.get_ident  # an iterator may end after this module

        def loads(loader: object, *args: object, **kwargs: object) -> T:
            if thread() != self._trainer:
                return inner(loader, *args, **kwargs)
            # A loader inside a loader is in the outer one's time already; so below.
            began, before_ns = now(), self._load_ns
            try:
                return inner(loader, *args, **kwargs)
            finally:
                self._load_ns = before_ns + now() - began

        loads.inner = inner  # type: ignore[attr-defined]
        return loads

    def timer(self, name: str) -> Callable[[int], None]:
        """Return what takes each time (ns) that a counter has timed."""
        timed_ns, at = self._timed_ns, channel.TIMERS.index(name)

        def add(ns: int) -> None:
            timed_ns[at] += ns

        return add

    def wrap_backward(self, inner: Callable[..., T]) -> Callable[..., T]:
        """Time ``inner``, torch.autograd.backward, as backward."""

        def backward(*args: object, **kwargs: object) -> T:
            began, before_ns = _now(), self._backward_ns
            try:
                return inner(*args, **kwargs)
            finally:
                self._backward_ns = before_ns + _now() - began

        return backward

    def before_optimizer(
        self, _: object, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Arguments | None:
        """Start the optimizer's time, and keep a closure's time out of it."""
        if not self._iterations.enter(sys._getframe(1)):  # noqa: SLF001 (CPython's, as documented)
            return None
        self._closure_ns = 0
        self._optimizer_began_ns = _now()
        return replace_closure(args, kwargs, self._timed)

    def _timed(self, closure: Callable[[], T]) -> Callable[[], T]:
        def timed() -> T:
            began = _now()
            try:
                return closure()
            finally:
                self._closure_ns += _now() - began

        return timed

    def after_optimizer(self, optimizer: object, *_: object) -> None:
        """End the optimizer's time and, where it is the last one of a round, the step."""
        if not self._iterations.leave(sys._getframe(1)):  # noqa: SLF001
            return
        self._optimizer_ns += _now() - self._optimizer_began_ns - self._closure_ns
        if self._iterations.ends(optimizer):
            self.step_end()


def _timed_ns() -> memoryview:
    """Return a place for a step's time of every counter."""
    return memoryview(bytearray(len(channel.TIMERS) * channel.WORD_BYTES)).cast("q")
