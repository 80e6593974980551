"""Read and write records: files with one JSON object per line, and files that are one record.

The ``kind`` of an object names its type.

Reading is strict, so that later code never meets a NaN, a wrong type or a mistake of unit. Fields
that a type does not name are ignored. Records of older versions are raised to today's, as far as
`OLDER` has a function for each step of their format.
"""

import functools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter, methodcaller
from pathlib import Path
from typing import TypeVar, get_args, get_origin, get_type_hints

import msgspec

from scaling_study.common.file_errors import UnusableError, unreadable
from scaling_study.common.printable import printable
from scaling_study.common.problems import shorten
from scaling_study.common.storage import read_bytes, write_whole
from scaling_study.records.field import Json

LONGEST_LINE = 2**28  # a window of 384 members with 10,000 steps each has some 30 MB
SHOWN_CHARACTERS = 200  # a message may quote a name of any length from the file
REMEDY = "delete the file and run the same command again: it measures what is missing"
CUT_OFF = (
    "the line has no end: it was cut off; add .part to the file's name to keep what is before it"
)

VERSION = "schema_version"
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The errors of decoding bytes that are not such a record."""

R = TypeVar("R")
Step = Callable[[Json], Json]


class _Head(msgspec.Struct):
    """The fields of a file's first record that tell its version."""

    kind: str
    schema_version: int


class RecordError(UnusableError):
    """A record that cannot be used; the message names its file and line."""


# numpy's numbers, which are floats to a type checker, are written as Python's.
ENCODER = msgspec.json.Encoder(enc_hook=methodcaller("item"))


def _confirmation_4(record: Json) -> Json:
    """Number a slot's models; versions up to 4 numbered processes, and starts in each of them."""
    if record["kind"] == "confirmation":
        return {**record, VERSION: 5}
    if record["kind"] != "round":
        return record
    runs = []
    models: Counter[int | float | None] = Counter()
    before = msgspec.convert(record["runs"], list[dict[str, int | float | None]])
    for run in sorted(before, key=itemgetter("process", "again")):
        rest = {name: run[name] for name in run.keys() - {"process", "again"}}
        runs.append({**rest, "model": models[run["slot"]], "ahead": bool(run["again"])})
        models[run["slot"]] += 1
    return {**record, "runs": runs}


OLDER: dict[str, dict[int, Step]] = {"confirmation": {4: _confirmation_4}}
"""For each step of a format, a function that takes a record of one version, as JSON data, and
returns it in the form of the next. Its keys are the kind of a file's first record, and the version
from which it raises all records of the file."""


def read(path: Path, decoder: msgspec.json.Decoder[R]) -> Iterator[tuple[int, R]]:
    """Read a file of records.

    Args:
        path: The file.
        decoder: Decoder of the records that it may hold, such as `window.DECODER`.

    Yields:
        Line number (from 1) and record.

    Raises:
        RecordError: A line is not such a record; the message names its first wrong field.
    """
    with path.open("rb") as file:
        lines = iter(lambda: file.readline(LONGEST_LINE + 1), b"")
        steps: Sequence[Step] = ()
        for number, line in enumerate(lines, start=1):
            steps = steps if number > 1 else _steps(line, decoder)
            yield number, decode(_raised(line, steps), decoder, f"{path}:{number}")


def _steps(line: bytes, decoder: msgspec.json.Decoder[R]) -> Sequence[Step]:
    """Return what raises a file to today's version, by its first line; empty if nothing does."""
    try:
        head = msgspec.json.decode(line, type=_Head)
    except UNREADABLE:
        return ()  # decoding the line says what is wrong
    known = OLDER.get(head.kind, {})
    versions = range(head.schema_version, _version(_kind(decoder, head.kind)) or 0)
    return [known[version] for version in versions] if known.keys() >= {*versions} else ()


def _raised(line: bytes, steps: Sequence[Step]) -> bytes:
    for step in steps:
        line = encode(step(msgspec.json.decode(line)))
    return line


def decode(line: bytes, decoder: msgspec.json.Decoder[R], place: str) -> R:
    """Read one line.

    Args:
        line: The line with its line break.
        decoder: As for `read`.
        place: Where the line is, for the message of an error.

    Raises:
        RecordError: The line is not such a record.
    """
    if len(line) > LONGEST_LINE:
        problem = f"has more than {LONGEST_LINE:,} bytes, which no record has"
        raise RecordError(f"{place}: {problem}; {REMEDY}")
    try:
        return decoder.decode(line)
    except UNREADABLE as error:
        raise RecordError(f"{place}: {_mistake(line, decoder, error)}; {REMEDY}") from error


def encode(record: object) -> bytes:
    """Return the line of a record, or of a dictionary of records.

    Characters that UTF-8 cannot encode, such as an undecoded byte of a variable, become ``?``.

    Raises:
        ValueError: A number in it is not finite.
    """
    text = json.dumps(record, default=plain, allow_nan=False, ensure_ascii=False)
    return f"{text}\n".encode(errors="replace")


def plain(record: object) -> Json:
    """Return the content of a record's line as dictionaries and lists."""
    content: Json = msgspec.to_builtins(record, enc_hook=methodcaller("item"))
    return content


def write_file(path: Path, content: object) -> None:
    """Write a file that is one record, such as analysis/noise.json, as indented JSON."""
    text = msgspec.json.format(ENCODER.encode(content), indent=1)
    write_whole(path, lambda beside: beside.write_bytes(text + b"\n"))


def read_file(path: Path, kind: type[R]) -> R:
    """Read a file that is one record.

    Raises:
        UnusableError: The file is not such a record, or another version wrote it.
    """
    try:
        content = msgspec.json.decode(read_bytes(path))
        if other := _another_version(content, get_origin(kind) or kind):
            raise UnusableError(f"{path}: {other}")
        return msgspec.convert(content, kind, str_keys=True)
    except UNREADABLE as error:
        raise unreadable(path, error) from error


def _mistake(line: bytes, decoder: msgspec.json.Decoder[R], error: Exception) -> str:
    """Return the first mistake of a line as text; a line without a line break was cut off."""
    try:
        record = msgspec.json.decode(line)
    except UNREADABLE:
        record = None
    kind = _kind(decoder, record.get("kind") if isinstance(record, dict) else None)
    if kind and (other := _another_version(record, kind)):
        return other
    text = printable(f"record: {error}")[:SHOWN_CHARACTERS]
    return text if line.endswith(b"\n") else f"{text} ({CUT_OFF})"


def _kind(decoder: msgspec.json.Decoder[R], tag: object) -> type | None:
    """Return a decoder's type of records of a kind."""
    kinds = get_args(decoder.type)
    return next((kind for kind in kinds if kind.__struct_config__.tag == tag), None)


@functools.cache
def _version(kind: type | None) -> int | None:
    """Return the version of a type of records; None if it has none."""
    versions: tuple[int, ...] = get_args(get_type_hints(kind).get(VERSION)) if kind else ()
    return versions[0] if versions else None


def _another_version(content: object, kind: type) -> str | None:
    """Return a message if another version of this program wrote a record; None otherwise."""
    today = _version(kind)
    if today is None or not isinstance(content, dict) or content.get(VERSION) == today:
        return None
    version = content.get(VERSION)
    who = "an older" if isinstance(version, int) and version < today else "another"
    return (
        f"it was written by {who} version of this program ({VERSION} {shorten(version)}, this one "
        f"reads {today}): measure again, or use the program that measured it"
    )
