"""Which files a script writes, so that a study names those that several members write.

The functions that open files are wrapped. An audit hook (sys.addaudithook) would miss most
checkpoints: torch.save has C++ open its file, which raises no event. It would also take 0.2 µs at
each of Python's events, four of which a member raises in each step of an ordinary loop (`id` and
`sys._getframe`): 0.8 of 650 µs. A wrapper takes nothing of a step that opens no file, 0.4 µs of an
`open` for reading and 4 µs of one for writing, which take 9 and 15 (CPU time, Python 3.11). What
neither Python's `open` nor torch.save opens, such as a file of safetensors, is not seen.
Standard library only.
"""

from __future__ import annotations

import builtins
import functools
import io
import os
import re
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from scaling_study.member import after_torch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    File = str | bytes | os.PathLike[str]
    Add = Callable[[File], None]

# Paths are in a file of this name and the slot's, a line for each.
WRITTEN = "written-"
MOST_FILES = 10_000
# The kernel's files, and caches, which are made for many processes to fill.
NO_OUTPUT = re.compile(r"/(dev|proc|sys)/|.*/(\.cache|__pycache__|\.triton|torchinductor_[^/]*)/")
CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "XDG_CACHE_HOME")


class _Noting:
    """Notes what a function is about to write, and calls it.

    It is no function: a class that has `open` for an attribute would make a method of one.
    """

    def __init__(
        self, inner: Callable[..., object], path: Callable[..., File | None], add: Add
    ) -> None:
        self._inner, self._path, self._add = inner, path, add
        functools.update_wrapper(self, inner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:  # contextlib.suppress takes longer than all the rest
            if (path := self._path(*args, **kwargs)) is not None:
                self._add(path)
        except (AttributeError, OSError, TypeError, ValueError):
            pass  # no path, no room to note it, or Python ends and has let go of modules
        return self._inner(*args, **kwargs)


def _opened(
    file: File, mode: str = "r", *_: object, opener: object = None, **__: object
) -> File | None:
    reads = mode in {"r", "rb"} or {"w", "a", "x", "+"}.isdisjoint(mode)
    return None if reads or opener else file  # an opener chooses the file: tempfile's, in a folder


def note(folder: Path, slot: int) -> None:
    """Have each path that the script writes written down, once.

    Args:
        folder: the cohort's private folder; what lies in it is not the script's.
        slot: this member's.
    """
    places = (str(folder), *(os.environ[name] for name in CACHES if name in os.environ))
    apart = tuple(f"{os.path.abspath(place)}/" for place in places)  # noqa: PTH100 (as below)
    known: set[str] = set()
    opens = io.open

    def add(file: File) -> None:
        path = os.path.abspath(os.fsdecode(file))  # noqa: PTH100 (takes a fifth of Path's time)
        if path in known or len(known) == MOST_FILES:
            return
        known.add(path)
        if "\n" not in path and not path.startswith(apart) and not NO_OUTPUT.match(path):
            # It does not stay open: a script may close all descriptors, and get the number again.
            with opens(folder / f"{WRITTEN}{slot}", "ab") as log:
                log.write(os.fsencode(path) + b"\n")

    def wrap_save() -> None:
        torch: Any = sys.modules["torch"]
        torch.save = _Noting(torch.save, lambda _, f, *__, **___: f, add)

    builtins.open = io.open = _Noting(io.open, _opened, add)
    os.rename = _Noting(os.rename, lambda _, to, **__: to, add)
    os.replace = _Noting(os.replace, lambda _, to, **__: to, add)
    after_torch.call_back(wrap_save)


def shared(folder: Path) -> dict[str, int]:
    """Return the files that several members of a cohort wrote, and how many of them did."""
    by_slot = [
        {os.path.realpath(path) for path in os.fsdecode(log.read_bytes()).splitlines()}
        for log in folder.glob(f"{WRITTEN}*")
    ]
    writers = Counter(path for paths in by_slot for path in paths)
    return {path: count for path, count in sorted(writers.items()) if count > 1}
