"""A member: the record of its steps, and the gate at which it rests.

torch's global optimizer hooks end a step; light wrappers attribute its time to the loader, backward
and the optimizer, and Python reports how long its garbage collector took. Each step costs a few
integer stores: no system call but the clock's (vDSO), no lock, no allocation that lasts. A member
may be a group of ranks. Standard library only; ``worker`` installs the hooks.
"""

from __future__ import annotations

import functools
import os
import select
import sys
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from scaling_study.member import channel, loaders
from scaling_study.member.iterations import MARK, THREADS, Iterations, replace_closure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import TypeVar

    from scaling_study.member import profiled
    from scaling_study.member.iterations import Args, Arguments, Kwargs
    from scaling_study.member.loaders import Makes

    Writes = Callable[..., None]
    T = TypeVar("T")

_now = time.perf_counter_ns


class Options(NamedTuple):
    """How a member runs its script.

    Attributes:
        step: what ends a step, as ``Iterations`` takes it; ``mark`` for the script's calls of
            ``scaling_study.mark()``.
        launcher: how this process was started, for the readback.
        switches: values of axes to apply in this process (see ``changes``).
        change: names of single changes to make in this process (see ``changes``).
        loader: a loader that the config names, as ``module:Class``; empty for none.
        ranks: number of ranks in this process's group; None without a group.
        once: whether the script can run only once in a process.
        fresh_folder: whether each start of the script has a new folder.
    """

    step: str = "optimizer"
    launcher: str = "exec"
    switches: Sequence[str] = ()
    change: Sequence[str] = ()
    loader: str = ""
    ranks: int | None = None
    once: bool = False
    fresh_folder: bool = False


NO_STEP = (
    "ended without a step: a step ends with optimizer.step() or, with 'step: mark' in the config,"
    " with scaling_study.mark(). If it found a result and skipped the training, remove the result"
)
SKIPS = "when it was started before, and none now"
SKIPPED = (
    f"made {{steps:,.0f}} steps {SKIPS}: it may have found its result and skipped the training. Set"
    " workload.fresh_folder to true, and each start has a new folder"
)


class Member(Iterations):
    """A member's side of the channel, and the state of its current step.

    Attributes:
        options: how it runs its script.
        forked: whether the script has forked this process from the member.
    """

    def __init__(
        self, folder: Path, slot: int, options: Options, write_readback: Writes, rank: int = 0
    ) -> None:
        super().__init__(options.step)
        self.slot = slot
        self.folder = folder
        self.options = options
        # Not imported: a readback knows all changes, and changes know the member.
        self._write_readback = write_readback
        page, ranks = channel.open_words(folder), options.ranks or 1
        # The blocks of all ranks of its group.
        self._group = [channel.PageBlock(page, slot * ranks + each).words for each in range(ranks)]
        self._words = self._group[rank]
        self._words[channel.REST_AT] = 0  # the group before may have set it
        self._gate = channel.gate(folder, slot, rank)
        self.forked = False
        # If this process was restarted in the middle of a window, the window goes on.
        self._steps = self._words[channel.STEPS]
        self._began_at = self._words[channel.EARLIER] + self._steps
        # The fields of the step that runs now, and those of a step that begins.
        self._step, self._blank = _step(), _step()
        self._step[channel.FRESH] = 1
        self._optimizer_began_ns = self._closure_ns = 0
        self._profile: profiled.OperatorProfile | profiled.CallProfile | None = None
        self._passed = False
        self._trainer = threading.get_ident()
        self._loaders: dict[str, loaders.Facts] = {}

    def step_end(self) -> None:
        """Store the step that ends now; sleep here if this member may not run."""
        words, step, done = self._words, self._step, self._steps
        step[channel.END_NS] = _now()
        if done < channel.CAPACITY:
            at = channel.HEADER + done * channel.STEP_FIELDS
            words[at : at + channel.STEP_FIELDS] = step
        step[:] = self._blank
        self._steps = words[channel.STEPS] = done + 1
        if words[channel.ORDER] != channel.RUN:
            self.park()

    @property
    def fresh(self) -> bool:
        """Whether no step has ended since the script was started."""
        return bool(self._step[channel.FRESH])

    @property
    def _total(self) -> int:
        """The steps of this start of the script; in a group of ranks, of this process."""
        return self._words[channel.EARLIER] + self._steps - self._began_at

    def refuse_threads(self) -> None:
        """End this process: another thread may sleep at the gate, and shares the current step."""
        if not self.forked:
            os.write(2, f"{THREADS}\n".encode())
            os._exit(1)

    def had_step(self) -> bool:
        """Count a backward pass; return whether a step has ended before it."""
        self._words[channel.BACKWARDS] += 1
        return not self.fresh

    def mark(self, samples: int = 0) -> None:
        """Count the samples that the script reports; end a step if its calls end steps."""
        self._words[channel.SAMPLES] += samples
        if self.how == MARK:
            super().mark()

    def park(self) -> None:
        """Sleep until the coordinator lets this member run; answer its questions meanwhile."""
        words = self._words
        if words[channel.ORDER] == channel.CLOSING:
            # This step may end in time, others not: they must not be measured with one member
            # fewer. So this member trains on, and reports once that its window closed.
            if not self._passed:
                self._passed = True
                channel.write_rest(self.folder, self.slot, passed=True)
            return
        # The order of a profiled member is not RUN, so it comes here after every step. Measured
        # steps do not pay for this check.
        closed = words[channel.ORDER] == channel.CLOSED
        if self._profile is not None and self._profile.step(closed=closed):
            return
        if not self._may_rest():
            return
        words[channel.PARKED_NS] = _now()
        words[channel.TRAINER_TID] = threading.get_native_id()
        self._trainer = threading.get_ident()
        while True:
            channel.write_rest(self.folder, self.slot)
            with channel.opened(self._gate, os.O_RDONLY) as gate:
                channel.pass_gate(gate)
            order = words[channel.ORDER]
            if order not in channel.QUESTIONS:
                break
            self._answer(order)
        if order in channel.PROFILES:  # the order may be CLOSED again by now
            from scaling_study.member import profiled  # noqa: PLC0415 (not needed by any step)

            self._profile = profiled.start(order, words[channel.ASKED])
        # All members of a window are woken first and then start at one instant, by timer.
        time.sleep(max(0, words[channel.RELEASE_NS] - _now()) / 1e9)
        self._go_on()

    def _may_rest(self) -> bool:
        """Return whether this process may rest after the step that has just ended."""
        return True

    def _go_on(self) -> None:
        """Start the count of steps anew, at a release."""
        words = self._words
        words[channel.EARLIER] += self._steps
        self._steps = 0
        self._passed = False
        words[channel.STEPS] = words[channel.SAMPLES] = 0
        words[channel.RELEASED_NS] = _now()

    def _answer(self, question: int) -> None:
        """Do what the coordinator asks of a resting member."""
        if question == channel.WRITE_PROFILE and self._profile is not None:
            self._profile.write(self.folder)
            self._profile = None
        elif question == channel.ALLOW_TRACING:
            from scaling_study.member import profiled  # noqa: PLC0415 (as above)

            profiled.allow_tracing()
        else:
            self._read_back()

    def _read_back(self) -> None:
        self._write_readback(
            str(self.folder / f"readback-{self.slot}.json"),
            slot=self.slot,
            launcher=self.options.launcher,
            once=self.options.once,
            counted=self.report(),
            ended=self._ended(),
            switches=self.options.switches,
            loaders=[facts._asdict() for facts in self._loaders.values()],
        )

    def _ended(self) -> dict[str, float] | None:
        """Return how many starts of the script have ended, and their steps; None if none has."""
        words = self._words
        starts = words[channel.RESTARTS]
        if not starts:
            return None
        fewest, most = words[channel.SHORTEST], words[channel.LONGEST]
        mean = words[channel.WHOLE] / starts
        return {"starts": starts, "steps": mean, "shortest": fewest, "longest": most}

    def leave_cohort(self, count: Callable[[], None]) -> None:
        """Leave the cohort, in a process that the script has forked.

        The process stores no steps, rests at no gate, and ends when the script ends in it. Its
        iterations are counted apart.

        Args:
            count: called at the end of each iteration, in place of ``step_end``.
        """
        self.forked = True
        self._words = memoryview(bytearray(channel.HEADER * channel.WORD_BYTES)).cast("q")
        self._words[channel.ORDER] = channel.RUN
        self.begin()
        self.step_end = count  # type: ignore[method-assign]

    def asked(self) -> int:
        """Return the number that comes with the coordinator's order."""
        return self._words[channel.ASKED]

    def script_ended(self) -> None:
        """Count a start of the script that ended; outside a window, sleep before the next one."""
        words = self._words
        steps = self._total
        self._began_at += steps
        words[channel.RESTARTS] += 1
        words[channel.WHOLE] += steps
        words[channel.SHORTEST] = min(words[channel.SHORTEST] or steps, steps)
        words[channel.LONGEST] = max(words[channel.LONGEST], steps)
        self._step[channel.FRESH] = 1
        self.begin()
        if words[channel.ORDER] in {channel.CLOSED, channel.CLOSING}:
            self.park()

    def without_step(self) -> str:
        """Return what to say of a start that ended without a step."""
        ended = self._ended()
        return SKIPPED.format(steps=ended["steps"]) if ended else NO_STEP

    def iterates(
        self, inner: Makes, loader: object, *args: object, **kwargs: object
    ) -> Iterator[object]:
        """Time the making of a loader's iterator and of its batches; note how many it holds ready.

        A loader's workers fill their queue while this member rests, and a window must not count
        the time that this saves (see ``Cohort._settle``).
        """
        time_load = functools.partial(self.timed, channel.LOAD_NS)
        iterator = time_load(inner)(loader, *args, **kwargs)
        if threading.get_ident() != self._trainer:
            return iterator
        facts = loaders.facts(loader)
        self._loaders[facts.kind] = facts
        self.holds_ready(facts.ready)
        return loaders.time_next(iterator, time_load)

    def holds_ready(self, ready: int) -> None:
        """Note how many batches a loader in use may hold ready."""
        if ready:
            # The loop holds one more, and another may be on its way.
            self._words[channel.SAVED] = max(self._words[channel.SAVED], ready + 2)

    def timed(self, phase: int, inner: Callable[..., T]) -> Callable[..., T]:
        """Time a function of the training thread as a phase of its steps.

        Args:
            phase: LOAD_NS or BACKWARD_NS (see ``channel``).
            inner: a method of a loader or of its iterator, or torch.autograd.backward.
        """
        step, now, thread = self._step, _now, threading.get_ident  # calls may outlive this module

        def times(*args: object, **kwargs: object) -> T:
            if thread() != self._trainer:
                return inner(*args, **kwargs)
            # A loader inside a loader counts in the outer one's time; backward likewise.
            began, before_ns = now(), step[phase]
            try:
                return inner(*args, **kwargs)
            finally:
                step[phase] = before_ns + now() - began

        times.inner = inner  # type: ignore[attr-defined]
        return times

    def timer(self, name: str) -> Callable[[int], None]:
        """Return a function that adds a counter's times (ns) to the current step."""
        step, at = self._step, channel.TIMED + channel.TIMERS.index(name)

        def add(ns: int) -> None:
            step[at] += ns

        return add

    def before_optimizer(self, _: object, args: Args, kwargs: Kwargs) -> Arguments | None:
        """Start the optimizer's time, and keep a closure's time out of it."""
        if not self.enter(sys._getframe(1)):  # noqa: SLF001 (CPython's, as documented)
            return None
        self._closure_ns = 0
        self._optimizer_began_ns = _now()
        return replace_closure(args, kwargs, self._timed_closure)

    def _timed_closure(self, closure: Callable[[], T]) -> Callable[[], T]:
        def timed_closure() -> T:  # flame graphs know it by its name
            began = _now()
            try:
                return closure()
            finally:
                self._closure_ns += _now() - began

        return timed_closure

    def after_optimizer(self, optimizer: object, *_: object) -> None:
        """End the optimizer's time and, if this optimizer ends a round, the step."""
        if not self.leave(sys._getframe(1)):  # noqa: SLF001
            return
        took_ns = _now() - self._optimizer_began_ns - self._closure_ns
        self._step[channel.OPTIMIZER_NS] += took_ns
        if self.ends(optimizer):
            self.step_end()


def _step() -> memoryview:
    """Return zeroed fields of one step, in the page's layout."""
    return memoryview(bytearray(channel.STEP_FIELDS * channel.WORD_BYTES)).cast("q")


# ---- a group of ranks

# All ranks rest at the end of the same step. Only rank 0 reads the coordinator's orders. At the end
# of step k it publishes that all rest after step k + 1, and goes on. No rank can end step k + 1
# without rank 0's part of its all-reduce, so all of them see the order in time. They rest without a
# collective, each at a gate of its own, which rank 0 opens; rank 0 rests once the others do. A rank
# whose steps do not keep pace with rank 0's may rest while rank 0 waits for it in a collective: the
# rank goes on after `PATIENCE_S`, and the window records it. A rank ahead of rank 0 does not rest:
# it waits in its next collective, and rank 0 rests alone after `PATIENCE_S`.

# Far longer than ranks take to come to rest one after the other, and far shorter than gloo's own
# patience (30 minutes).
PATIENCE_S = 2.0

# How often rank 0 checks whether the others rest. The window is over then.
LOOK_S = 0.0005


def rests(words: memoryview) -> bool:
    """Return whether a rank has come to rest since it was released."""
    return words[channel.PARKED_NS] > words[channel.RELEASED_NS]


class Lead(Member):
    """Rank 0, which follows the coordinator's orders; the other ranks follow rank 0."""

    def _may_rest(self) -> bool:
        """Return whether rank 0 may rest now; if not, have all ranks rest after the next step."""
        # At the script's end the others do not rest: they wait for the next group, or have ended.
        if self.fresh:
            return True
        if self._words[channel.REST_AT] == self._total:
            until = time.monotonic() + PATIENCE_S
            while not all(map(rests, self._group[1:])) and time.monotonic() < until:
                time.sleep(LOOK_S)
            return True
        if self._words[channel.ORDER] == channel.CLOSED and self._profile is None:
            self._words[channel.REST_AT] = self._total + 1
            return False
        return True  # a profile has come to its end: the others wait in their next collective

    def _go_on(self) -> None:
        super()._go_on()
        self._words[channel.REST_AT] = 0
        for rank in range(1, len(self._group)):
            # The coordinator holds all gates open, so a rank that is not there yet is no error.
            path = channel.gate(self.folder, self.slot, rank)
            with channel.opened(path, os.O_WRONLY) as gate:
                os.write(gate, b"!")


class Follower(Member):
    """Any other rank, which rests after the step that rank 0 publishes."""

    def park(self) -> None:
        """Rest where rank 0 rests; called after every step, as this rank's order is never RUN."""
        lead = self._group[0]
        if lead[channel.REST_AT] != self._total or self.fresh:
            return
        self._words[channel.PARKED_NS] = _now()
        with channel.opened(self._gate, os.O_RDONLY) as gate:
            poll = select.poll()
            poll.register(gate, select.POLLIN)
            # A byte that an earlier release has left in the pipe must not release this rank.
            while lead[channel.REST_AT] == self._total:
                if poll.poll(None if rests(lead) else PATIENCE_S * 1000):
                    channel.pass_gate(gate)
                elif not rests(lead):
                    lead[channel.REOPENED] += 1
                    break
        self._go_on()


def member_of(folder: Path, slot: int, options: Options, write_readback: Writes) -> Member:
    """Return this process's member; in a group, its rank comes from the environment."""
    if options.ranks is None:
        return Member(folder, slot, options, write_readback)
    rank = int(os.environ["RANK"])
    return (Follower if rank else Lead)(folder, slot, options, write_readback, rank)
