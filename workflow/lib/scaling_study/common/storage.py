"""Files of a study, each written whole or not at all."""

import shutil
from collections.abc import Callable
from pathlib import Path

from scaling_study.common import file_errors

LARGEST_BYTES = 1 << 28  # of a JSON file; cohorts.json of 10,000 cohorts has some 30 MB


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file beside `path` and rename it there: no reader sees half a file.

    Args:
        path: The file; its folder is made when missing.
        write: Called with the path to write to.
    """
    # The name is always the same, so the next process removes what a killed one left there.
    folder = path.parent / f".{path.name}.new"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        with file_errors.of(path):
            write(folder / path.name)
        (folder / path.name).replace(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def read_bytes(path: Path) -> bytes:
    """Read a JSON file that a study has written.

    Raises:
        UnusableError: The file is larger than any that a study writes.
    """
    if path.stat().st_size > LARGEST_BYTES:
        raise file_errors.unreadable(path, ValueError(f"more than {LARGEST_BYTES:,} bytes"))
    return path.read_bytes()
