"""A private folder for what lives only while something is measured, part of it in memory."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 (only a private folder of a random name is used)
PREFIX = "scaling-study-"

# Where a keeper tells its command which folder to use: the keeper outlives a killed command.
VARIABLE = "SCALING_STUDY_FOLDER"


def make() -> Path:
    """Make a private folder; its ``memory`` lies in memory where the system has /dev/shm."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    memory = folder / "memory"
    if SHARED_MEMORY.is_dir() and os.access(SHARED_MEMORY, os.W_OK):
        shared = SHARED_MEMORY / folder.name  # as private and new as the folder: mkdir says so
        shared.mkdir(0o700)
        memory.symlink_to(shared)
    else:
        memory.mkdir()
    return folder


@contextmanager
def part(folder: Path, name: str) -> Iterator[Path]:
    """Give a folder inside a private one, with a ``memory`` of its own; remove it afterwards."""
    own = folder / name
    own.mkdir()
    memory = (folder / "memory" / name).resolve()
    memory.mkdir()
    (own / "memory").symlink_to(memory)
    try:
        yield own
    finally:
        remove(own)


def remove(folder: Path) -> None:
    """Remove a private folder and what it has in memory; it may be gone already."""
    memory = folder / "memory"
    if memory.is_symlink():
        shutil.rmtree(memory.resolve(), ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def folder() -> Iterator[Path]:
    """Give the keeper's private folder, or a new one; remove it afterwards."""
    given = os.environ.get(VARIABLE)
    own = Path(given) if given else make()
    try:
        yield own
    finally:
        remove(own)
