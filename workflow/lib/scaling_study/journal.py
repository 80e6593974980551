"""The record file of one (launch, replicate) while it is being written.

Records go to ``<replicate>.jsonl.part``, each one flushed to the disk as soon as it exists, and the
file gets its final name when the job is done: a crash loses at most the window that was being
taken. A rerun reads the part, drops a half-written last line, and goes on.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# What must be equal for windows of an earlier run to stand beside new ones.
SAME = ("schema_version", "launch", "replicate", "axes", "ladder", "seed", "measured_hash",
        "harness_hash", "machine_hash")  # fmt: skip

Record = dict[str, Any]


class Journal:
    """Appends records to the part of one record file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = path.with_name(f"{path.name}.part")
        path.parent.mkdir(parents=True, exist_ok=True)

    def resume(self, head: Record, same: Sequence[str] = SAME) -> list[Record]:
        """Return the records of an interrupted run of the same thing, and keep them.

        Anything else that the part holds, of another script, machine or harness, is removed.

        Args:
            head: the record that a new run would begin with.
            same: what must be equal in it for old windows to stand beside new ones.
        """
        records = read_part(self._part)
        old = [record for record in records if record["kind"] == head["kind"]]
        if old and all(one.get(key) == head[key] for one in old for key in same):
            # Whole lines are not written again: a crash here could lose them.
            os.truncate(self._part, self._part.read_bytes().rfind(b"\n") + 1)
            return records
        self.restart()
        return []

    def restart(self) -> None:
        """Remove what an interrupted run has left."""
        self._part.unlink(missing_ok=True)

    def write(self, record: Record) -> None:
        """Append a record; it is on the disk when this returns."""
        with self._part.open("a") as file:
            file.write(json.dumps(record, allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def finish(self) -> None:
        """Give the file its final name."""
        self._part.replace(self._path)


def read_part(path: Path) -> list[Record]:
    """Return the whole records of a part; a last line without its end is left out."""
    if not path.exists():
        return []
    *lines, _ = path.read_bytes().split(b"\n")
    return [json.loads(line) for line in lines]
