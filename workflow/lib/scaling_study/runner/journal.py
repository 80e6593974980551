"""The record file of one (launch, replicate) while it is being written.

Records go to ``<replicate>.jsonl.part``, each one flushed to the disk as soon as it exists: a crash
loses at most the window that was being taken. A rerun reads the part, drops a half-written last
line, and goes on. When the job is done, the part also gets the record file's name, as a second
link. The part stays until its records have been collected, because Snakemake deletes an output if
it did not see the job succeed, even if only Snakemake itself was killed.

A file that lacks results has a mark beside it (`mark_of`). When the run ends, such a file loses its
name and only the part stays, so the next run of the same command goes on with it. The file of a
skipped launch loses its name later, at the start of a run that can measure the launch.
"""

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Generic, TypeVar

from msgspec.json import Decoder

from scaling_study.common import file_errors, storage
from scaling_study.records import codec

# Fields that must be equal for windows of an earlier run to be kept with new ones.
SAME = ("schema_version", "launch", "replicate", "axes", "process_counts", "seed", "measure",
        "measured_hash", "harness_hash", "machine_hash")  # fmt: skip

# A job that is being ended has let go of its part after this time (see ``supervisor``).
PATIENCE_S = 20.0

MARK = ".again"
"""Suffix of the file beside a record file that lacks results; its text is the reason."""

log = logging.getLogger("measure")

R = TypeVar("R")
Json = dict[str, object]


class Journal(Generic[R]):
    """Appends records to the part of one record file, which no other process may do meanwhile.

    Args:
        path: the record file.
        decoder: decodes its records.
        kind: kind of the records that identify the measurement; the first record is of this kind.
        same: fields that must be equal in these for windows of an earlier run to be kept.
    """

    def __init__(
        self, path: Path, decoder: Decoder[R], kind: str = "cohort", same: Sequence[str] = SAME
    ) -> None:
        self._path = path
        self._decoder = decoder
        self._part = part_of(path)
        self._kind = kind
        self._same = same
        self._file: IO[bytes] | None = None

    def resume(self, head: R) -> list[R]:
        """Return the records of an interrupted run of the same measurement, and keep them.

        Records of another script, machine or harness are set aside. Records of this measurement
        that an earlier run has set aside are brought back.

        Args:
            head: the record that a new run would begin with.
        """
        self._opened()
        kept, heads = read_part(self._part), [codec.plain(head)]
        if self._identity(kept) != self._identity(heads):
            self._set_aside(kept, heads)
            other = self._other(heads)
            if other.exists():
                log.info("windows that were set aside come back: %s", other)
                other.replace(self._part)
                self._close()
            else:
                self._opened().truncate(0)
        # Only the half-written line goes: writing whole lines again could lose them in a crash.
        self._opened().truncate(self._part.read_bytes().rfind(b"\n") + 1)
        return self.read()

    def read(self) -> list[R]:
        """Return all records so far.

        Raises:
            RecordError: a line is no record.
        """
        return [record for _, record in codec.read(self._part, self._decoder)]

    def keep(self, records: list[R]) -> list[R]:
        """Keep and return only these records; a crash leaves the old part or the new one."""
        beside = self._part.with_name(f"{self._part.name}.new")
        with beside.open("wb") as file, file_errors.of(beside):
            file.writelines(map(codec.encode, records))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._part)
        self._close()
        return records

    def restart(self) -> None:
        """Begin anew; windows that an interrupted run has left are set aside."""
        self._opened()
        self._set_aside(read_part(self._part))
        self._opened().truncate(0)

    def write(self, record: R) -> None:
        """Append a record. It is on the disk when this returns; if this raises, none of it is."""
        line = codec.encode(record)
        file = self._opened()
        before = os.fstat(file.fileno()).st_size
        try:
            with file_errors.of(self._part):
                written = 0
                while written < len(line):
                    written += os.write(file.fileno(), line[written:])
                os.fsync(file.fileno())
        except OSError:
            file.truncate(before)
            raise

    def finish(self, again: str = "") -> None:
        """Give the records their file's name, and let other processes write the part.

        Args:
            again: why the next run is to measure what the records lack; empty if they are complete.
        """
        self._opened()
        mark_of(self._path).unlink(missing_ok=True)
        if again:
            mark_of(self._path).write_text(again)
        self._path.unlink(missing_ok=True)
        try:
            os.link(self._part, self._path)
        except OSError:  # a file system without links, such as some on clusters
            storage.write_whole(self._path, lambda beside: shutil.copyfile(self._part, beside))
        self._close()

    def _identity(self, records: Iterable[Json]) -> list[object]:
        """Return the values that identify the measurement to which all records of a part belong."""
        head = next((record for record in records if record["kind"] == self._kind), {})
        return [head.get(key) for key in self._same]

    def _other(self, records: Iterable[Json]) -> Path:
        """Return the file for records that are set aside, one for each measurement."""
        text = json.dumps([self._identity(records)], sort_keys=True)
        name = hashlib.sha256(text.encode()).hexdigest()[:12]
        return self._path.with_name(f"{self._path.name}.{name}.other")

    def _set_aside(self, records: Sequence[Json], heads: Sequence[Json] = ()) -> None:
        """Move windows of another measurement to a file of their own: they may be wanted again."""
        if not any(record["kind"] == "window" for record in records):
            return
        pairs = zip(self._same, self._identity(records), self._identity(heads), strict=True)
        changed = [key for key, before, now in pairs if heads and before != now]
        other = self._other(records)
        self._part.replace(other)
        log.info("windows of another %s are set aside: %s", " and ".join(changed) or "run", other)
        self._close()

    def _opened(self) -> IO[bytes]:
        """Open the part for this process alone.

        Raises:
            UnusableError: another process keeps writing it.
        """
        while self._file is None:
            self._part.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._part.open("ab", buffering=0)
            if not storage.lock(self._file, PATIENCE_S):
                self._close()
                raise file_errors.UnusableError(
                    f"{self._part} is being written by another process: wait for it, or stop it, "
                    f"{file_errors.AGAIN}"
                )
            ours = os.fstat(self._file.fileno())
            if not self._part.exists() or not os.path.samestat(ours, self._part.stat()):
                self._close()  # the process that we waited for has set it aside
        return self._file

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None


def part_of(path: Path) -> Path:
    """Return where the records of a file are while it is being written."""
    return path.with_name(f"{path.name}.part")


def mark_of(path: Path) -> Path:
    """Return the mark of a record file, which exists if the next run is to go on with the file."""
    return path.with_name(f"{path.name}{MARK}")


def settle(paths: Iterable[Path]) -> None:
    """Remove the parts of collected record files: Snakemake has seen their jobs end."""
    for path in paths:
        part = part_of(path)
        if mark_of(path).exists():  # the next run goes on with it
            continue
        if part.exists() and path.exists() and part.stat().st_size == path.stat().st_size:
            part.unlink()


def read_part(path: Path) -> list[Json]:
    """Return the whole records of a part as dictionaries, whatever their format.

    Raises:
        UnusableError: a line is no record.
    """
    records = []
    data = path.read_bytes() if path.exists() else b""
    # A half-written last line is left out.
    for number, line in enumerate(data[: data.rfind(b"\n") + 1].splitlines(), start=1):
        try:
            record = json.loads(line)
            reason = "" if isinstance(record, dict) and "kind" in record else "it is no record"
        except ValueError as error:
            reason = str(error)
        if reason:
            raise file_errors.UnusableError(
                f"{path}, line {number}, is damaged ({reason}): delete that line, or the whole"
                f" file, {file_errors.AGAIN}"
            )
        records.append(record)
    return records
