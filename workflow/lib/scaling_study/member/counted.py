"""Count the optimizer steps of a program that otherwise runs as its user starts it.

There is no gate and no window. A module on PYTHONPATH (``hook/sitecustomize.py``) attaches a
counter in each process of the program. A process that takes steps keeps a page of integers, a file
with its process id as the name, that another process reads: when the first and the latest iteration
ended, how many there were, how long they took, and how many ended in each tenth of a second.
``worker`` says what an iteration is. Where one process trains one model after the other
(``again``), each start of the script has numbers of its own.

A step costs a clock reading and some ten integer stores. The module needs torch and the standard
library only.
"""

from __future__ import annotations

import mmap
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scaling_study.member import after_torch
from scaling_study.member.iterations import Iterations

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "SCALING_STUDY_COUNT"
"""Its value: what ends an iteration, a bar, and the folder of the pages."""

ELSEWHERE = "elsewhere-"
"""With a member's slot, the folder of the pages of processes that its script starts."""

HOOK = str(Path(__file__).with_name("hook"))

# Fields of one start of the script. Times in ns of the monotonic clock, 0 for what has not been.
FIRST_NS, LATEST_NS, ITERATIONS, ENDED_NS = range(4)
FIELDS = 4
WORD_BYTES = 8
# Starts of a script in one process that are counted: at one a second, an hour.
MOST_STARTS = 3600

# Of the histogram: bins of half an octave up to 2**48 ns, three days. A count and a sum of ns each.
BINS = 96
HISTOGRAM = 2 * BINS

# Iterations that ended in each tenth of a second since the page was made, for almost four hours.
# Only the parts of a page that are written take memory.
TENTH_NS = 100_000_000
TENTHS = 2**17

MADE_NS, PARENT = range(2)
STARTS = 2 + HISTOGRAM
TIMELINE = STARTS + MOST_STARTS * FIELDS
WORDS = TIMELINE + TENTHS


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


class Page:
    """What a process has counted; it may still be counting.

    Args:
        path: of the file; its name is the process id.
    """

    def __init__(self, path: Path) -> None:
        self.pid = int(path.name)
        with path.open("rb") as file:
            self._words = memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)).cast("q")
        self.parent = self._words[PARENT]

    def starts(self) -> list[Counted]:
        """Return all starts of the script that have numbers."""
        rows = []
        for at in range(STARTS, TIMELINE, FIELDS):
            row = Counted(*self._words[at : at + FIELDS])
            if not any(row):
                break
            rows.append(row)
        return rows

    @property
    def iterations(self) -> int:
        """Iterations of all starts."""
        return sum(one.iterations for one in self.starts())

    def iterations_by_tenth(self) -> dict[int, int]:
        """Return how many iterations ended in each tenth of a second of the monotonic clock."""
        made = self._words[MADE_NS] // TENTH_NS
        timeline = self._words[TIMELINE:]
        span = (max((one.latest_ns for one in self.starts()), default=0)) // TENTH_NS - made + 1
        return {made + at: timeline[at] for at in range(min(span, TENTHS)) if timeline[at]}

    def ordinary_ns(self, long: float) -> float | None:
        """Return the mean time of ordinary iterations; None where there are none.

        Args:
            long: an iteration of so many times the median is none of them. To half an octave,
                since bins are whole.
        """
        words = self._words
        # Counts are written first: one without its sum yet is left out.
        places = range(STARTS - HISTOGRAM, STARTS, 2)
        bins = [(words[at], words[at + 1]) for at in places if words[at + 1]]
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


def read_pages(folder: Path) -> list[Page]:
    """Return what all processes have counted that write to a folder."""
    return [Page(path) for path in sorted(folder.iterdir()) if path.name.isdecimal()]


def environment(folder: Path, step: str, before: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that have a program's processes count their steps.

    Args:
        folder: of the pages.
        step: what ends an iteration, as ``Iterations`` takes it.
        before: the program's environment, whose PYTHONPATH is kept.
    """
    paths = [HOOK, *filter(None, [before.get("PYTHONPATH")])]
    return {VARIABLE: f"{step}|{folder}", "PYTHONPATH": os.pathsep.join(paths)}


class Counter:
    """Counts the iterations of this process, and of those that are forked from it.

    Args:
        folder: of the pages.
        step: what ends an iteration.
    """

    def __init__(self, folder: str, step: str) -> None:
        self._folder = folder
        self._iterations = Iterations(step)
        self._begin()

    def attach(self) -> None:
        """Count from now on, or as soon as the program has imported torch."""
        # Of a group of ranks the first one counts.
        if os.environ.get("RANK", "0") != "0":
            return
        os.register_at_fork(after_in_child=self._begin)
        sys.scaling_study_counter = self  # type: ignore[attr-defined] # for ``again``
        if self._iterations.by_mark:
            after_torch.call_back(self._take_marks, "scaling_study")
        else:
            after_torch.call_back(self._hook)

    def _hook(self) -> None:
        from torch.optim import optimizer  # noqa: PLC0415 (see after_torch)

        optimizer.register_optimizer_step_pre_hook(self._before)
        optimizer.register_optimizer_step_post_hook(self._after)

    def _take_marks(self) -> None:
        sys.modules["scaling_study"].mark = self._mark  # type: ignore[attr-defined]

    def _begin(self) -> None:
        """Forget the page: this process has none yet, or is a new one."""
        self._words: memoryview | None = None
        self._at = STARTS
        self._fresh = True
        self._iterations.begin()

    def _make_page(self) -> memoryview:
        path = os.path.join(self._folder, str(os.getpid()))  # noqa: PTH118 (no pathlib is needed)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        os.ftruncate(file, WORDS * WORD_BYTES)
        words = memoryview(mmap.mmap(file, 0)).cast("q")
        os.close(file)
        words[MADE_NS], words[PARENT] = time.monotonic_ns(), os.getppid()
        self._words = words
        return words

    def _before(self, *_: Any) -> None:
        self._iterations.enter(sys._getframe(1))  # noqa: SLF001 (CPython's, as documented)

    def _after(self, optimizer: Any, *_: Any) -> None:
        if self._iterations.leave(sys._getframe(1)) and self._iterations.ends(optimizer):  # noqa: SLF001
            self._count()

    def _mark(self, samples: int = 0) -> None:  # noqa: ARG002 (as the script calls it)
        self._count()

    def _count(self) -> None:
        words, at = self._words or self._make_page(), self._at
        now = time.monotonic_ns()
        if self._fresh:
            self._fresh = False
            words[at + FIRST_NS] = now
        else:
            took_ns = now - words[at + LATEST_NS]
            longer = STARTS - HISTOGRAM + 2 * bin_of(took_ns)
            words[longer] += 1
            words[longer + 1] += took_ns
        words[at + LATEST_NS] = now
        words[at + ITERATIONS] += 1
        tenth = now // TENTH_NS - words[MADE_NS] // TENTH_NS
        if tenth < TENTHS:
            words[TIMELINE + tenth] += 1

    def script_ended(self) -> None:
        """Note that the script has ended, and count the next start apart."""
        if self._words is None:
            return
        self._words[self._at + ENDED_NS] = time.monotonic_ns()
        self._at += FIELDS
        self._fresh = True
        self._iterations.begin()
        if self._at == TIMELINE:
            os._exit(0)  # the page is full; who reads it has more than enough
