"""A private folder for files that exist only during a measurement, some of them in memory."""

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 (only a private folder of a random name is used)
PREFIX = "scaling-study-"

# A supervisor sets this to the folder that its command makes. It outlives a killed command, and
# then removes the folder.
VARIABLE = "SCALING_STUDY_FOLDER"


def choose() -> Path:
    """Return the name of a private folder that nobody can guess.

    Nothing is made yet: a caller must be ready to remove the folder before it makes it.
    """
    return Path(tempfile.gettempdir()).absolute() / f"{PREFIX}{secrets.token_hex(8)}"


def make(folder: Path) -> None:
    """Make a private folder; its ``memory`` lies in memory if the system has /dev/shm.

    Raises:
        FileExistsError: somebody else has made it.
    """
    folder.mkdir(0o700)
    memory = folder / "memory"
    if SHARED_MEMORY.is_dir() and os.access(SHARED_MEMORY, os.W_OK):
        shared = SHARED_MEMORY / folder.name
        # The link comes first: ``remove`` finds the folder in memory by it.
        memory.symlink_to(shared)
        shared.mkdir(0o700)
    else:
        memory.mkdir()


@contextmanager
def part(folder: Path, name: str) -> Iterator[Path]:
    """Make a folder inside a private one, with its own ``memory``, and remove it afterwards."""
    path = folder / name
    path.mkdir()
    memory = (folder / "memory" / name).resolve()
    memory.mkdir()
    (path / "memory").symlink_to(memory)
    try:
        yield path
    finally:
        remove(path)


def remove(folder: Path) -> None:
    """Remove a private folder and what it has in memory; it may be gone already."""
    memory = folder / "memory"
    if memory.is_symlink():
        shutil.rmtree(memory.resolve(), ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def folder() -> Iterator[Path]:
    """Make the private folder, which a supervisor may have named, and remove it afterwards."""
    path = Path(os.environ.get(VARIABLE) or choose())
    try:
        make(path)
        yield path
    finally:
        remove(path)
