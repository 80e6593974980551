"""Notes on the files that a script writes, and on those that its loader reads.

A study lists the files that several members write. To find them, the functions that open files for
writing are wrapped. An audit hook (sys.addaudithook) would miss most checkpoints: torch.save has
C++ open its file, which raises no event. It would also cost 0.2 µs at each of Python's events, four
of which a member raises in each step of an ordinary loop (`id` and `sys._getframe`): 0.8 of 650 µs.
A wrapper costs nothing in a step that opens no file. It adds 0.4 µs to an `open` for reading, which
takes 9 µs, and 4 µs to one for writing, which takes 15 µs (CPU time, Python 3.11). Files that are
neither opened by Python's `open` or torch.save nor renamed by Python, such as those of safetensors,
are not seen.

An audit hook does note the files that are read, in an experiment that times nothing.
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

# Paths are written to files of these names and the slot's number, one on each line.
WRITTEN, OPENED = "written-", "opened-"
MOST_WRITTEN, MOST_OPENED = 10_000, 100_000
# The kernel's files, and caches, which many processes are meant to fill.
NO_OUTPUT = re.compile(r"/(dev|proc|sys)/|.*/(\.cache|__pycache__|\.triton|torchinductor_[^/]*)/")
CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "XDG_CACHE_HOME")
# Folders without a script's data.
NO_DATA = ("/proc/", "/sys/", "/dev/", "/usr/", "/etc/", "/lib/", sys.prefix + "/")


class _Noting:
    """Notes the path that a function is about to write, and calls the function.

    This is no function, because a class with `open` as an attribute would turn one into a method.
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
            pass  # no path, no room to note it, or Python ends and has dropped modules
        return self._inner(*args, **kwargs)


def _opened(
    file: File, mode: str = "r", *_: object, opener: object = None, **__: object
) -> File | None:
    reads = mode in {"r", "rb"} or {"w", "a", "x", "+"}.isdisjoint(mode)
    return None if reads or opener else file  # an opener chooses the file: tempfile's, in a folder


def note_written(folder: Path, slot: int) -> None:
    """Note each path that the script writes from now on, once.

    Args:
        folder: the cohort's private folder; files in it are not noted.
        slot: this member's slot.
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
            # The log is not kept open: a script may close all descriptors, and reuse the number.
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
    """Note the path of each file that is opened for reading from now on, once.

    Forked worker processes inherit the hook. Files that libraries open without Python's knowledge
    are not seen.
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
        with contextlib.suppress(OSError, ValueError):  # log closed or full, or no path
            line = str(Path(os.fsdecode(opened)).absolute())
            if "\n" not in line and not line.startswith(NO_DATA):
                os.write(log, os.fsencode(line) + b"\n")

    sys.addaudithook(note)
