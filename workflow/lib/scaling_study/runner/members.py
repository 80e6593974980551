"""The coordinator's side of the channel: releases members, puts them to rest, sees them end."""

import bisect
import contextlib
import itertools
import os
import select
import signal
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from scaling_study.member import channel

# Members are woken this long before they start together; waking one takes some 10 us.
RELEASE_LEAD_NS = 2_000_000
RELEASE_LEAD_PER_MEMBER_NS = 30_000

# The shortest sleep: waiting for less would be spinning.
_MOMENT_S = 0.001


class Members:
    """All members of a cohort, by slot, as seen by their coordinator."""

    def __init__(self, folder: Path, count: int, ranks: int = 1) -> None:
        channel.create(folder, count, ranks)
        words = channel.open_words(folder)
        # Gates are opened for reading too, so that a gate without a member is no error and the pipe
        # of resting slots never ends. These descriptors do not block; a member's own ones do. Rank
        # 0 writes to the gates of the other ranks. They are open here too, so that all ranks end
        # with this process.
        flags = os.O_RDWR | os.O_NONBLOCK
        # By slot and rank; a member that is no group is rank 0.
        self._pages: list[list[channel.PageBlock]] = []
        self._gates: list[list[int]] = []
        for slot in range(count):
            gates = [channel.gate(folder, slot, rank) for rank in range(ranks)]
            self._gates.append([os.open(gate, flags) for gate in gates])
            self._pages.append(
                [channel.PageBlock(words, slot * ranks + rank) for rank in range(ranks)]
            )
        self._rest = os.open(folder / "rest", flags)
        self._pidfds: dict[int, int] = {}
        self._poll = select.epoll()
        self._slots: dict[int, int] = {}  # by the descriptor of a member's process
        self.pids: dict[int, int] = {}
        self.resting: set[int] = set()
        self.passed: set[int] = set()  # those that train on after their window's close

    def close(self) -> None:
        """Close the gates, which ends members that still sleep at them."""
        self._poll.close()
        gates = itertools.chain.from_iterable(self._gates)
        for descriptor in (*gates, self._rest, *self._pidfds.values()):
            os.close(descriptor)

    def pages(self, slot: int) -> Sequence[channel.PageBlock]:
        """Return the pages of a member's ranks, by rank; only one if it is no group."""
        return self._pages[slot]

    def ask(self, slot: int, number: int) -> None:
        """Put a number beside the orders of a member, for all of its ranks."""
        for page in self._pages[slot]:
            page.words[channel.ASKED] = number

    def words(self, slot: int) -> memoryview:
        """Return the words of a member's block (see ``channel``)."""
        return self._pages[slot][0].words

    def steps(self, slot: int) -> list[channel.Step]:
        """Return a member's kept steps since its last release."""
        return self._pages[slot][0].steps()

    def done(self, slot: int, since_ns: int) -> int:
        """Count a member's steps that began after ``since_ns``: all that ended then but the first.

        A step in which the script was started anew does not count. Only the marks of such steps are
        copied, because members train meanwhile.
        """
        words = self.words(slot)
        end = channel.HEADER + min(words[channel.STEPS], channel.CAPACITY) * channel.STEP_FIELDS
        ends = range(channel.HEADER + channel.END_NS, end, channel.STEP_FIELDS)
        later = bisect.bisect_left(ends, since_ns, key=words.__getitem__) + 1
        first = channel.HEADER + later * channel.STEP_FIELDS + channel.FRESH
        return max(0, len(ends) - later - sum(words[first : end : channel.STEP_FIELDS]))

    def latest(self, slot: int) -> int:
        """Return when (ns) a member last ended a step, or was released if that was later.

        If not all its steps are kept, it is assumed to have ended one just now.
        """
        words = self.words(slot)
        steps = words[channel.STEPS]
        if steps > channel.CAPACITY:
            return time.perf_counter_ns()
        last = channel.HEADER + (steps - 1) * channel.STEP_FIELDS + channel.END_NS
        return max(words[channel.RELEASE_NS], words[last] if steps else 0)

    def saved(self, slot: int) -> int:
        """Return how many of a member's coming steps its saved batches may still shorten."""
        words = self.words(slot)
        released = words[channel.RELEASED_NS] >= words[channel.RELEASE_NS]
        return max(0, words[channel.SAVED] - (words[channel.STEPS] if released else 0))

    def clear(self, slot: int) -> None:
        """Reset a slot before a process is started for it, which is to rest at its first step.

        Afterwards would be too late: the process may rest before its id is known here.
        """
        words = self.words(slot)
        # A number is left out between the steps of two processes: no distance of phases spans both.
        earlier = words[channel.EARLIER] + words[channel.STEPS] + bool(words[channel.PARKED_NS])
        for page in self._pages[slot]:
            page.words[:] = memoryview(bytes(words.nbytes)).cast("q")
        words[channel.EARLIER] = earlier
        # A byte that an earlier process of this slot left unread must not let the next one pass its
        # gate, and its reports must not count as the next one's.
        channel.drain(self._gates[slot][0])
        self._listen()
        self.resting.discard(slot)

    def add(self, slot: int, pid: int) -> None:
        """Watch a process that was started for a slot.

        Raises:
            ProcessLookupError: it has ended already, and left nothing to watch.
        """
        descriptor = os.pidfd_open(pid)
        self.pids[slot] = pid
        self._pidfds[slot] = descriptor
        self._slots[descriptor] = slot
        self._poll.register(descriptor, select.EPOLLIN)

    def kill(self, slot: int) -> None:
        """End a slot's process, if it has not ended by itself, and stop watching it."""
        descriptor = self._pidfds.pop(slot)
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        self._poll.unregister(descriptor)
        del self._slots[descriptor]
        os.close(descriptor)
        del self.pids[slot]
        self.resting.discard(slot)
        self.passed.discard(slot)

    def order(
        self, slots: Collection[int], order: int, *, but: Mapping[int, int] | None = None
    ) -> int:
        """Give resting members an order; return the time (ns) at which they start together.

        Args:
            slots: the members.
            order: an order of ``channel``.
            but: other orders for some of them, by slot.
        """
        orders = {**dict.fromkeys(slots, order), **(but or {})}
        lead = RELEASE_LEAD_NS + RELEASE_LEAD_PER_MEMBER_NS * len(slots)
        release_ns = time.perf_counter_ns() + lead
        for slot in slots:
            words = self.words(slot)
            words[channel.RELEASE_NS] = release_ns
            words[channel.ORDER] = orders[slot]
        for slot in slots:
            os.write(self._gates[slot][0], b"!")
        self.resting.difference_update(slots)
        self.passed.difference_update(slots)
        return release_ns

    def tell(self, slots: Iterable[int], order: int) -> int:
        """Give members that train an order for their next step's end; return the time (ns).

        Args:
            slots: the members.
            order: ``CLOSED`` to rest then, ``CLOSING`` to report it and train on.
        """
        at_ns = time.perf_counter_ns()
        for slot in slots:
            self.words(slot)[channel.ORDER] = order
        return at_ns

    def sleep_until(self, until_ns: int) -> set[int]:
        """Sleep, without reading anything, until a time or a member's end; return who ended."""
        while (left_ns := until_ns - time.perf_counter_ns()) > 0:
            ended = self._ended(left_ns / 1e9)
            if ended:
                return ended
        return set()

    def wait_resting(self, slots: Collection[int], until_ns: int) -> set[int]:
        """Sleep until all of ``slots`` rest, a member ends or time is up; return who ended."""
        return self.wait_told(self.resting, slots, until_ns)

    def wait_told(self, reported: set[int], slots: Collection[int], until_ns: int) -> set[int]:
        """Sleep likewise until ``reported`` (``resting`` or ``passed``) has all of ``slots``."""
        self._poll.register(self._rest, select.EPOLLIN)
        try:
            while not reported.issuperset(slots):
                left_ns = until_ns - time.perf_counter_ns()
                if left_ns <= 0:
                    break
                ended = self._ended(left_ns / 1e9)
                self._listen()
                if ended:
                    return ended
        finally:
            self._poll.unregister(self._rest)
        return set()

    def _listen(self) -> None:
        resting, passed = channel.read_rest(self._rest)
        self.resting |= resting
        self.passed |= passed

    def _ended(self, timeout_s: float) -> set[int]:
        ready = self._poll.poll(max(_MOMENT_S, timeout_s))
        return {self._slots[descriptor] for descriptor, _ in ready if descriptor in self._slots}
