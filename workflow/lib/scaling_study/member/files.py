"""Notes of the files that a script writes, and of those that its loader reads.

A study names files that several members write. The functions that open files are wrapped for that.
An audit hook (sys.addaudithook) would miss most checkpoints: torch.save has C++ open its file,
which raises no event. It would also take 0.2 µs at each of Python's events, four of which a member
raises in each step of an ordinary loop (`id` and `sys._getframe`): 0.8 of 650 µs. A wrapper takes
nothing of a step that opens no file, 0.4 µs of an `open` for reading and 4 µs of one for writing,
which take 9 and 15 (CPU time, Python 3.11). What neither Python's `open` nor torch.save opens, such
as a file of safetensors, is not seen.

An audit hook does note the files that are read: it runs in an experiment that times nothing.
Standard library only.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import io
import os
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from scaling_study.member.after_torch import call_back
from scaling_study.member.loaders import effects

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scaling_study.member.member import Member

    File = str | bytes | os.PathLike[str]
    Add = Callable[[File], None]

# Paths are in files of these names and the slot's, a line for each.
WRITTEN, OPENED = "written-", "opened-"
MOST_WRITTEN, MOST_OPENED = 10_000, 100_000
# The kernel's files, and caches, which are made for many processes to fill.
NO_OUTPUT = re.compile(r"/(dev|proc|sys)/|.*/(\.cache|__pycache__|\.triton|torchinductor_[^/]*)/")
CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "XDG_CACHE_HOME")
# Nobody's data.
NO_DATA = ("/proc/", "/sys/", "/dev/", "/usr/", "/etc/", "/lib/", sys.prefix + "/")


class _Noting:
    """Notes what a function is about to write, and calls it.

    It is no function: a class that has `open` for an attribute would make a method of one.
    """

    def __init__(
        self, inner: Callable[..., object], path: Callable[..., File | None], add: Add
    ) -> None:
        self._inner, self._path, self._add = inner, path, add
        functools.update_wrapper(self, inner)

    def __call__(self, *args: object, **kwargs: object) -> object:
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


def note_written(folder: Path, slot: int) -> None:
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
        if path in known or len(known) == MOST_WRITTEN:
            return
        known.add(path)
        if "\n" not in path and not path.startswith(apart) and not NO_OUTPUT.match(path):
            # It does not stay open: a script may close all descriptors, and get the number again.
            with opens(folder / f"{WRITTEN}{slot}", "ab") as log:
                log.write(os.fsencode(path) + b"\n")

    def wrap(owner: object, name: str, path: Callable[..., File | None]) -> None:
        setattr(owner, name, _Noting(getattr(owner, name), path, add))

    wrap(io, "open", _opened)
    builtins.open = io.open
    for name in ("rename", "replace"):
        wrap(os, name, lambda _, to, **__: to)
    call_back(lambda: wrap(sys.modules["torch"], "save", lambda _, f, *__, **___: f))


def shared(folder: Path) -> dict[str, int]:
    """Return the files that several members of a cohort wrote, and how many of them did."""
    by_slot = [
        {os.path.realpath(path) for path in os.fsdecode(log.read_bytes()).splitlines()}
        for log in folder.glob(f"{WRITTEN}*")
    ]
    writers = Counter(path for paths in by_slot for path in paths)
    return {path: count for path, count in sorted(writers.items()) if count > 1}


def note_opened(member: Member, _: Sequence[str]) -> None:
    """Have the paths of files that are opened for reading written down, once.

    Worker processes inherit the hook. What is opened by libraries without Python's knowledge is not
    seen.
    """
    effects["files_noted"] += 1
    path = member.folder / f"{OPENED}{member.slot}"
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    known: set[object] = set()

    def note(event: str, args: tuple[object, ...]) -> None:
        if event != "open" or args[0] in known or len(known) == MOST_OPENED:
            return
        opened, mode, flags = args
        reads = not (isinstance(flags, int) and flags & os.O_ACCMODE) and mode != "w"
        if not reads or not isinstance(opened, (str, bytes, os.PathLike)):  # else a descriptor
            return
        known.add(opened)
        with contextlib.suppress(OSError, ValueError):  # no descriptor is left, or no such text
            line = str(Path(os.fsdecode(opened)).absolute())
            if "\n" not in line and not line.startswith(NO_DATA):
                os.write(log, os.fsencode(line) + b"\n")

    sys.addaudithook(note)
