"""A member that is a group of ranks: all of them rest at the end of the same step.

Only rank 0 reads the coordinator's orders. At the end of step k it publishes that all rest after
step k + 1, and goes on: no rank can end step k + 1 without rank 0's part of its all-reduce, so all
of them see it in time. They rest without a collective, each at a gate of its own, which rank 0
opens; rank 0 rests once the others do. A rank whose steps do not keep pace with rank 0's may rest
while rank 0 waits for it inside a collective: it goes on after `PATIENCE_S`; the window says so.
A rank that is ahead of rank 0 does not rest: it waits inside its next collective, and rank 0 rests
alone after `PATIENCE_S`.
Standard library only.
"""

from __future__ import annotations

import os
import select
import time
from typing import TYPE_CHECKING

from scaling_study.member import channel
from scaling_study.member.member import Member, Options

if TYPE_CHECKING:
    from pathlib import Path

# Far longer than ranks take to come to rest one after the other, and far shorter than gloo's own
# patience (30 minutes).
PATIENCE_S = 2.0

# Rank 0 looks so often whether the others rest. The window is over then.
LOOK_S = 0.0005


def rests(words: memoryview) -> bool:
    """Whether a rank has come to rest since it was released."""
    return words[channel.PARKED_NS] > words[channel.RELEASED_NS]


class Rank(Member):
    """This process's part of a group; all of its ranks count their steps alike."""

    def __init__(self, folder: Path, slot: int, options: Options, rank: int) -> None:
        super().__init__(folder, slot, options, rank)
        ranks = options.ranks or 1
        page = channel.open_words(folder)
        self._group = [channel.Page(page, slot * ranks + each).words for each in range(ranks)]
        self._total = 0

    def step_end(self) -> None:
        """Store the step that ends now; rest here if the whole group does."""
        self._total += 1
        super().step_end()


class Lead(Rank):
    """Rank 0, which rests and goes on as the coordinator says, and the others with it."""

    def __init__(self, folder: Path, slot: int, options: Options, rank: int) -> None:
        super().__init__(folder, slot, options, rank)
        self._words[channel.REST_AT] = 0  # of the group that was here before
        # Opened for reading, too, so that a rank that does not come here yet is no error.
        self._gates = [
            os.open(channel.gate(folder, slot, each), os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            for each in range(1, len(self._group))
        ]

    def _may_rest(self) -> bool:
        """Whether the others rest, too; if not, tell them to after the next step."""
        # At the script's end they rest nowhere: they wait for the next group, or have ended.
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
        for gate in self._gates:
            os.write(gate, b"!")


class Follower(Rank):
    """Another rank, which rests when rank 0 has said so."""

    def park(self) -> None:
        """Rest where rank 0 rests; called in every step, since nobody orders this rank to run."""
        lead = self._group[0]
        if lead[channel.REST_AT] != self._total or self.fresh:
            return
        self._words[channel.PARKED_NS] = time.perf_counter_ns()
        gate = self._gate.descriptor()
        poll = select.poll()
        poll.register(gate, select.POLLIN)
        # What an earlier release has left in the pipe is no release from here.
        while lead[channel.REST_AT] == self._total:
            if not poll.poll(None if rests(lead) else PATIENCE_S * 1000):
                if rests(lead):
                    continue
                lead[channel.REOPENED] += 1
                break
            if not os.read(gate, 1):
                os._exit(1)  # the coordinator and rank 0 are gone
        self._go_on()


def member(folder: Path, slot: int, options: Options) -> Member:
    """Return this process's part of a group; its rank is in its environment."""
    rank = int(os.environ["RANK"])
    return (Follower if rank else Lead)(folder, slot, options, rank)
