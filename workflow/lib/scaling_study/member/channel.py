"""The channel between a cohort's members and their coordinator: a page of integers and some pipes.

The coordinator writes orders and members write steps into one file that all of them map. Nothing
is allocated and no system call is made for a step. A member that may not run sleeps in a blocking
read of its own gate, a named pipe; when the coordinator dies the read returns at once and the
member ends. A member that has come to rest writes its slot's number into the cohort's pipe.

This module is imported by every measured process: standard library only.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import struct
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from scaling_study.common import counter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Orders: rest; train; train under a profiler for ASKED steps; train on, but report when the step
# that runs now has ended; and questions to a resting member: to report its settings, to write its
# profile, to let itself be traced.
CLOSED, RUN, PROFILE_OPERATORS, PROFILE_CALLS, CLOSING = range(5)
READ_BACK, WRITE_PROFILE, ALLOW_TRACING = range(5, 8)
PROFILES = frozenset({PROFILE_OPERATORS, PROFILE_CALLS})
QUESTIONS = frozenset({READ_BACK, WRITE_PROFILE, ALLOW_TRACING})

# Fields of a member's header; the rest of its block holds its steps. STEPS counts since the last
# release, EARLIER before it. SAVED is how many batches its loader may hold ready, plus two in use
# or on their way. A group of ranks rests at the end of step REST_AT, and REOPENED is how often one
# of them stopped waiting for rank 0. SAMPLES are those that the script has marked since the last
# release. RESTARTS starts have ended; WHOLE is the sum of their steps, SHORTEST and LONGEST the
# fewest and the most. BACKWARDS are the backward passes up to the first that follows a step.
ORDER, RELEASE_NS, STEPS, RELEASED_NS, PARKED_NS, TRAINER_TID, RESTARTS, ASKED = range(8)
EARLIER, SAVED, REST_AT, REOPENED, SAMPLES, WHOLE, SHORTEST, LONGEST, BACKWARDS = range(8, 17)
HEADER = 24

# Fields of one step. All but the first and FRESH are durations in ns inside that step; FRESH is 1
# if the script was started anew inside it, so that its length is no step time. From TIMED on, the
# fields hold the times of counters, in all phases.
END_NS, LOAD_NS, BACKWARD_NS, OPTIMIZER_NS, FRESH, TIMED = range(6)
TIMERS = tuple(counter.name for counter in counter.TIMED)
STEP_FIELDS = TIMED + len(TIMERS)

# Steps of one window that are kept. At the shortest window of one second, steps of 60 us fit; a
# window with more still counts its steps, but is flagged. This takes 1.25 MiB for each member.
CAPACITY = 16_384

BLOCK = HEADER + CAPACITY * STEP_FIELDS
PAGE = Path("memory", "page")
WORD_BYTES = 8
REST = "rest"
_NUMBER = struct.Struct("<i")


class Step(NamedTuple):
    """One finished step, times in ns of the monotonic clock."""

    end_ns: int
    load_ns: int
    backward_ns: int
    optimizer_ns: int
    fresh: int
    timed_ns: Sequence[int] = (0,) * len(TIMERS)

    def ns(self, timer: str) -> int:
        """Return the time that a counter has measured in this step."""
        return self.timed_ns[TIMERS.index(timer)]


class PageBlock:
    """One member's block of the shared page, as a flat sequence of 64-bit integers."""

    def __init__(self, words: memoryview, slot: int) -> None:
        self.words = words[slot * BLOCK : (slot + 1) * BLOCK]

    def steps(self) -> list[Step]:
        """Return the steps since the last release, oldest first; at most CAPACITY."""
        kept = min(self.words[STEPS], CAPACITY)
        flat = self.words[HEADER : HEADER + kept * STEP_FIELDS].tolist()
        return [
            Step._make([*flat[at : at + TIMED], flat[at + TIMED : at + STEP_FIELDS]])
            for at in range(0, len(flat), STEP_FIELDS)
        ]


@contextlib.contextmanager
def opened(path: Path, mode: int) -> Iterator[int]:
    """Open a member's end of a named pipe for a moment; end this process without a coordinator.

    It is not kept open: a script may close all descriptors, and get the number for another file.
    The script's clean-up must not run: it could write checkpoints of a training that nobody asked
    for.
    """
    try:
        # Opening must not block if the pipe has no other end. Reading from it afterwards may block.
        descriptor = os.open(path, mode | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.set_blocking(descriptor, True)
            yield descriptor
        finally:
            os.close(descriptor)
    except OSError:
        os._exit(1)


def pass_gate(gate: int) -> None:
    """Sleep at an open gate until a byte lets this process pass.

    Raises:
        BrokenPipeError: the coordinator is gone.
    """
    if not os.read(gate, 1):
        raise BrokenPipeError


def open_words(folder: Path) -> memoryview:
    """Map the whole shared page, because a block need not start where the kernel's pages do.

    A mapping keeps a descriptor, so each process makes one for all its blocks.
    """
    with (folder / PAGE).open("r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), 0)).cast("q")


def gate(folder: Path, slot: int, rank: int = 0) -> Path:
    """Return the pipe at which a rank of a slot rests; a member without ranks is rank 0."""
    return folder / (f"gate-{slot}-{rank}" if rank else f"gate-{slot}")


def create(folder: Path, members: int, ranks: int = 1) -> None:
    """Make the shared page, the gates and the cohort's pipe in an empty private folder.

    Each rank of a member has a block and a gate.

    The page is in the folder's ``memory`` if that has room (containers often have 64 MiB). On a
    disk's file system the kernel would write it back, and fault it in again, while members are
    timed.
    """
    size_bytes = members * ranks * BLOCK * WORD_BYTES
    page = folder / PAGE
    try:
        _reserve(page, size_bytes)
    except OSError:
        page.unlink()
        page.symlink_to(folder / "page")
        _reserve(page, size_bytes)
    gates = [gate(folder, slot, rank) for slot in range(members) for rank in range(ranks)]
    for path in [folder / REST, *gates]:
        os.mkfifo(path, 0o600)


def _reserve(path: Path, size_bytes: int) -> None:
    """Make a file with all blocks allocated, as touching an unallocated one may raise SIGBUS."""
    path.touch(0o600)
    with path.open("r+b") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size_bytes)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from error  # it named no file


def write_rest(folder: Path, slot: int, *, passed: bool = False) -> None:
    """Report to the coordinator that this slot rests (one atomic write, pipe(7)).

    Args:
        folder: the cohort's folder.
        slot: this member's slot.
        passed: whether it trains on instead, after the step in which its window closed.
    """
    with opened(folder / REST, os.O_WRONLY) as rest:
        os.write(rest, _NUMBER.pack(~slot if passed else slot))


def drain(descriptor: int) -> None:
    """Empty a pipe whose descriptor does not block."""
    with contextlib.suppress(BlockingIOError):
        os.read(descriptor, select.PIPE_BUF)


def read_rest(descriptor: int) -> tuple[set[int], set[int]]:
    """Return which slots have reported since the last call; does not block.

    Returns:
        Those that have come to rest, and those that have passed their window's close.
    """
    try:
        data = os.read(descriptor, 4096 * _NUMBER.size)
    except BlockingIOError:
        return set(), set()
    numbers = [number for (number,) in _NUMBER.iter_unpack(data)]
    return {slot for slot in numbers if slot >= 0}, {~number for number in numbers if number < 0}
