"""What a file of `feed/` may hold, and reading one strictly.

A file is `feed/<replicate>.jsonl`: one JSON object a line, told apart by `kind`, as the record
files of the measurements are. Keys that are not named here are left out.

History of the schema:
    1: first version.
    2: ways to load in place of numbers of workers.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,  # pydantic needs this one before Python 3.12
)

import pydantic
from pydantic import Field
from typing_extensions import TypedDict

from scaling_study.analysis import why_schema
from scaling_study.analysis.record_schema import (
    STRICT,
    Check,
    Count,
    Index,
    Processes,
    read_lines,
)

SCHEMA_VERSION = 2

Share = Annotated[float, Field(ge=0, le=1)]


class Head(why_schema.Heading):
    """The first record: which launch, of which machine, and how."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    kind: Literal["feed"]
    schema_version: Literal[2]  # SCHEMA_VERSION
    blocks: Processes


class Loader(TypedDict):
    """A kind of loader that the script has iterated over."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    kind: str
    workers: Count | None
    threads: bool
    settable: bool
    by_row: bool
    ready: Count


class Cached(TypedDict):
    """Batches from memory: how many, how large, and whether the script changes them."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    cached_batches: NotRequired[Count]
    cached_bytes: NotRequired[Count]
    copied: NotRequired[bool]


class Attested(TypedDict):
    """What one member reported about itself; all of it is kept, this much is needed."""

    __pydantic_config__ = why_schema.LOOSE  # type: ignore[misc]
    slot: Index
    loaders: list[Loader]
    cached: Cached


class Attestation(TypedDict):
    """What the members of one variant reported before their first window."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    kind: Literal["attestation"]
    cohort: str
    checks: list[Check]
    members: list[Attested]


class Window(why_schema.Timed):
    """A window of a variant, with the part of the loader's files in memory at its edges."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    experiment: Literal["feed"]
    resident_before: NotRequired[Share | None]
    resident_after: NotRequired[Share | None]


class LeftOut(TypedDict):
    """A variant that was not measured, and why."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    variant: str
    title: str
    reason: str


class Way(TypedDict):
    """A way to load: see `experimenting.loader_model`."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    name: str
    title: str
    workers: Count | None
    axes: dict[str, Any]
    change: str | None
    as_fast: bool


class Ways(TypedDict):
    """The CPUs of a process, and the ways to load whose steps were predicted, as it is first."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    kind: Literal["ways"]
    cpus: Annotated[float, Field(gt=0)]
    ways: list[Way]


class Look(TypedDict):
    """What was seen at one time: see `experimenting.use`."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    at_s: float
    trainers_s: float
    threads_s: float
    workers_s: float
    busy_s: float
    stalled_cpu_s: float | None
    stalled_io_s: float | None
    disk_bytes: Count
    network_bytes: Count
    memory_left_bytes: Count
    shared_left_bytes: Count


class Use(TypedDict):
    """CPU time, disks, network and memory while the script trained as it is."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    kind: Literal["use"]
    cpus: Processes
    shared_bytes: Count | None
    looks: list[Look]


class End(why_schema.End):
    """The last record."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    left_out: list[LeftOut]


Record = Head | Attestation | Window | Ways | Use | why_schema.Event | End
_RECORD: pydantic.TypeAdapter[Record] = pydantic.TypeAdapter(
    Annotated[Record, Field(discriminator="kind")],
)


def read(path: Path) -> Iterator[tuple[int, Record]]:
    """Read one file.

    Args:
        path: feed/<replicate>.jsonl.

    Yields:
        Line number (from 1) and record.

    Raises:
        RecordError: A line is no record of this schema version; every mistake of the line is named.
    """
    return read_lines(path, _RECORD)
