"""Count the iterations of a training script that otherwise runs as ``python SCRIPT ARGS``.

``python -m scaling_study.member.counted PAGE [options] -- SCRIPT ARGS...``

No gate and no window: the hook stores when the first and the latest iteration ended, and how many
there were, in a page of integers that another process reads. What an iteration is, ``worker`` says.
With ``--again`` the script is started anew in this process whenever it has ended, as often as the
page has room for; each start has numbers of its own. The page begins with a histogram of how long
iterations took, those of all starts.

The module needs torch and the standard library only.
"""

from __future__ import annotations

import functools
import mmap
import os
import runpy
import sys
import time
from pathlib import Path
from typing import NamedTuple

import scaling_study
from scaling_study.member import after_torch, bind, switching, worker
from scaling_study.member.iterations import MARK, Iterations
from scaling_study.member.member import Member

# Fields of one start of the script. Times in ns of the monotonic clock, 0 for what has not been.
FIRST_NS, LATEST_NS, ITERATIONS, ENDED_NS = range(4)
FIELDS = 4
WORD_BYTES = 8

# Of the histogram: bins of half an octave up to 2**48 ns, three days. A count and a sum of ns each.
BINS = 96
HISTOGRAM = 2 * BINS


class Counted(NamedTuple):
    """One start of a script; times in ns of the monotonic clock, 0 for what has not been.

    ``ended_ns`` is known only where the process goes on after the script's end.
    """

    first_ns: int
    latest_ns: int
    iterations: int
    ended_ns: int


def bin_of(ns: int) -> int:
    """Return the bin of the histogram that holds a time."""
    octave = max(ns, 2).bit_length() - 1
    return min(2 * octave + (max(ns, 2) >> (octave - 1) & 1), BINS - 1)


def make_page(path: Path, starts: int) -> None:
    """Make an empty page for so many starts."""
    path.write_bytes(bytes((HISTOGRAM + starts * FIELDS) * WORD_BYTES))


def read_page(path: Path) -> list[Counted]:
    """Return all starts that a page has numbers of; a script may be writing it."""
    words = memoryview(path.read_bytes()).cast("q")
    rows = []
    for at in range(HISTOGRAM, len(words), FIELDS):
        row = Counted(*words[at : at + FIELDS])
        if not any(row):
            break
        rows.append(row)
    return rows


def read_ordinary_ns(path: Path, long: float) -> float | None:
    """Return the mean time of a page's ordinary iterations; None where there are none.

    Args:
        path: the page.
        long: an iteration of so many times the median is none of them. To half an octave, since
            bins are whole.
    """
    words = memoryview(path.read_bytes()[: HISTOGRAM * WORD_BYTES]).cast("q")
    # Counts are written first: one without its sum yet is left out.
    bins = [(words[at], words[at + 1]) for at in range(0, HISTOGRAM, 2) if words[at + 1]]
    half, passed = sum(count for count, _ in bins) / 2, 0
    median = 0.0
    for count, total in bins:
        median = total / count
        passed += count
        if passed >= half:
            break
    ordinary = [one for one in bins if one[1] < long * median * one[0]]
    if not ordinary:
        return None
    return sum(total for _, total in ordinary) / sum(count for count, _ in ordinary)


def _map(path: Path) -> memoryview:
    with path.open("r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), 0))


class Counter(Member):
    """A member of no cohort: it decides what an iteration is as a member does, and only counts."""

    def __init__(self, words: memoryview, step: str) -> None:
        # Not a member's own start, which opens the channel to a coordinator.
        self._words = words
        self._iterations = Iterations(step)
        self._at = HISTOGRAM
        self._pid = os.getpid()
        self._load_ns = self._backward_ns = self._optimizer_ns = 0
        self._optimizer_began_ns = self._closure_ns = 0
        self._optimizer_frame = None
        self.fresh = 1

    def step_end(self) -> None:
        """Count an iteration."""
        words, at = self._words, self._at
        now = time.monotonic_ns()
        if self.fresh:
            self.fresh = 0
            words[at + FIRST_NS] = now
        else:
            took_ns = now - words[at + LATEST_NS]
            longer = 2 * bin_of(took_ns)
            words[longer] += 1
            words[longer + 1] += took_ns
        words[at + LATEST_NS] = now
        words[at + ITERATIONS] += 1

    def mark(self, samples: int = 0) -> None:  # noqa: ARG002 (as the script calls it)
        """Count an iteration where the script's calls end them."""
        if self._iterations.by_mark:
            self.step_end()

    def script_ended(self) -> None:
        """Note that the script has ended, and count the next start apart."""
        self._words[self._at + ENDED_NS] = time.monotonic_ns()
        self._at += FIELDS
        self.fresh = 1
        self._iterations.begin()
        if self._at == len(self._words):
            os._exit(0)  # the page is full; who reads it has more than enough

    def leave(self) -> None:
        """Count no more: this is a process that the script has forked."""
        self._words = memoryview(bytearray(len(self._words) * WORD_BYTES)).cast("q")


def attach(counter: Counter, step: str) -> None:
    """Have the script's iterations counted as soon as it has imported torch."""
    os.register_at_fork(after_in_child=counter.leave)

    def hook() -> None:
        from torch.optim import optimizer  # noqa: PLC0415 (see after_torch)

        optimizer.register_optimizer_step_pre_hook(counter.before_optimizer)
        optimizer.register_optimizer_step_post_hook(counter.after_optimizer)

    scaling_study.mark = counter.mark
    if step != MARK:
        after_torch.call_back(hook)


def run_once(script: str, args: list[str]) -> None:
    """Run the script as ``python SCRIPT ARGS`` does."""
    sys.path.insert(0, str(Path(script).resolve().parent))
    sys.argv = [script, *args]
    runpy.run_path(script, run_name="__main__")


def main(argv: list[str]) -> None:
    """Parse ``PAGE [options] -- SCRIPT ARGS`` and run."""
    import argparse  # noqa: PLC0415

    parser = argparse.ArgumentParser(description="Count a training script's iterations.")
    parser.add_argument("page", type=Path)
    parser.add_argument("--again", action="store_true", help="start the script again at its end")
    parser.add_argument("--step", default="optimizer", help="what ends a step")
    parser.add_argument("--switch", action="append", default=[], help="an axis's value to set")
    arguments, command = bind.split_command(argv)
    options = parser.parse_args(arguments)
    del sys.path[0]  # -m put the working directory there
    # Of a group of ranks the first one counts; the page is its own.
    first = os.environ.get("RANK", "0") == "0"
    words = _map(options.page) if first else memoryview(bytearray(options.page.stat().st_size))
    counter = Counter(words.cast("q"), options.step)
    attach(counter, options.step)
    if options.switch:
        after_torch.call_back(functools.partial(switching.apply, options.switch))
    script, *args = command
    if options.again:
        worker.run(counter, script, args)
    else:
        run_once(script, args)


if __name__ == "__main__":
    main(sys.argv[1:])
