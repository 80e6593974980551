"""Notes on the files that a script writes, and on those that its loader reads.

A study lists the files that several members write. An audit hook (sys.addaudithook) shows what
Python opens and renames, so nothing of Python is replaced, and no traceback has a frame of ours.
torch.save has C++ open its file, which raises no event: the context manager that torch.save then
enters notes the file. Files of other libraries, such as those of safetensors, are not seen.

Python calls the hook at each of its events, which takes 0.21 µs if the hook ignores the event, as
for an empty hook. A member raises four in each step of an ordinary loop (`id`, `sys._getframe`):
0.9 of 650 µs. Lightning raises about 160 in each TSMixerx step: 34 µs, 0.3% of 12 ms. The first
`open` of a file for writing also writes the note, each later one takes 2 µs longer (CPU time,
Python 3.11). In an experiment that times nothing, a second hook notes the files that are read.
Standard library only.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from scaling_study.member.after_torch import call_back

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    File = str | bytes | os.PathLike[str]
    Hook = Callable[[str, tuple[object, ...]], None]

# Paths are written to files of these names and the slot's number, one on each line.
WRITTEN, OPENED = "written-", "opened-"
MOST_WRITTEN, MOST_OPENED = 10_000, 100_000
# The kernel's files, and caches, which many processes are meant to fill.
NO_OUTPUT = re.compile(r"/(dev|proc|sys)/|.*/(\.cache|__pycache__|\.triton|torchinductor_[^/]*)/")
CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "XDG_CACHE_HOME")
# Folders without a script's data.
NO_DATA = ("/proc/", "/sys/", "/dev/", "/usr/", "/etc/", "/lib/", sys.prefix + "/")


def _audit(
    choose: Callable[..., File | None], log: Path, most: int, ignored: Callable[[str], object]
) -> Hook:
    """Note the paths of files that Python opens or renames, each once; return the audit hook.

    Forked processes inherit the hook. Nothing removes it, and an error in it would be the script's.

    Args:
        choose: the file to note of an event's arguments; None for none.
        log: gets the paths.
        most: number of paths at most.
        ignored: whether a path is left out.
    """
    known: set[str] = set()

    # When the interpreter ends, even `Exception` is None before the last file is opened.
    def note(event: str, args: tuple[object, ...], errors: type[Exception] = Exception) -> None:
        if event != "open" and event != "os.rename":  # noqa: PLR1714 (a set takes 40 ns longer)
            return
        try:  # contextlib.suppress takes longer than all the rest
            if (file := choose(*args)) is None:
                return
            path = os.path.join(os.getcwd(), os.fsdecode(file))  # noqa: PTH109, PTH118 (faster)
            if path in known or len(known) == most:
                return
            known.add(path)
            if "\n" not in path and not ignored(path):
                # The log is not kept open: a script may close all descriptors, and reuse numbers.
                with log.open("ab") as lines:
                    lines.write(os.fsencode(path) + b"\n")
        except errors:
            pass  # a descriptor, another library's event, a full disk, or the interpreter's end

    sys.addaudithook(note)
    return note


def note_written(folder: str, number: int) -> None:
    """Note each path that this process writes from now on, once.

    Args:
        folder: a private folder; files in it are not noted.
        number: this process's, or its slot's.
    """
    places = (folder, *(os.environ[name] for name in CACHES if name in os.environ))
    apart = tuple(f"{os.path.abspath(place)}/" for place in places)  # noqa: PTH100 (keeps links)

    def choose(file: File, mode: File | None, flags: int, *renamed: int) -> File | None:
        if renamed:  # the arguments are the old path, the new one, and two folders
            return mode
        # An event without a mode is os.open's, as of temporary files.
        return file if mode and flags & os.O_ACCMODE else None

    def ignored(path: str) -> bool:  # tempfile opens a folder, and lets os.open choose the file
        return bool(path.startswith(apart) or NO_OUTPUT.match(path) or os.path.isdir(path))  # noqa: PTH112

    note = _audit(choose, Path(folder, f"{WRITTEN}{number}"), MOST_WRITTEN, ignored)
    call_back(lambda: _note_saved(note))


def _note_saved(note: Hook) -> None:
    """Note the files of torch.save, which C++ opens, when they are open."""
    module = sys.modules.get("torch.serialization")
    writer = getattr(module, "_open_zipfile_writer_file", None)
    enter = getattr(writer, "__enter__", None)
    if enter is None:
        return  # another version of torch

    def noted(self: object) -> object:
        note("open", (getattr(self, "name", None), "w", os.O_WRONLY))
        return enter(self)

    writer.__enter__ = noted  # type: ignore[union-attr]


def written(notes: Iterable[Path]) -> set[str]:
    """Return the files in some notes, without links in their paths."""
    lines = (line for note in notes for line in os.fsdecode(note.read_bytes()).splitlines())
    return {os.path.realpath(line) for line in lines}


def shared(folder: Path) -> dict[str, int]:
    """Return the files that several members of a cohort wrote, and how many of them did."""
    by_slot = (written([note]) for note in folder.glob(f"{WRITTEN}*"))
    writers = Counter(path for paths in by_slot for path in paths)
    return {path: count for path, count in sorted(writers.items()) if count > 1}


def note_opened(folder: Path, slot: int) -> None:
    """Note the path of each file that is opened for reading from now on, once.

    Files that libraries open without Python's knowledge are not seen.
    """

    def choose(file: File, mode: object, flags: int, *renamed: int) -> File | None:
        return None if renamed or mode == "w" or flags & os.O_ACCMODE else file

    log = folder / f"{OPENED}{slot}"
    _audit(choose, log, MOST_OPENED, lambda path: path.startswith(NO_DATA))
