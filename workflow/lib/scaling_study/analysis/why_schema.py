"""What a file of experiments may hold, and reading one strictly.

A file is `why/<target>/<replicate>.jsonl`: one JSON object a line, told apart by `kind`, as the
record files of the measurements are. Keys that are not named here are left out.

History of the schema:
    1: first version.
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

from scaling_study.analysis.record_schema import (
    STRICT,
    Check,
    Count,
    Index,
    Processes,
    Seconds,
    Slot,
    WindowMachine,
    WindowMember,
    read_lines,
)

SCHEMA_VERSION = 1
LARGEST_SHARE = 1e6  # a rate is no million times of what it should be: such a share is a mistake

Share = Annotated[float, Field(ge=0, le=LARGEST_SHARE)]
LOOSE = pydantic.ConfigDict(strict=True, extra="allow", allow_inf_nan=False)


class Relief(TypedDict):
    """A launch that differs from the reference by one change."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    relief: str
    title: str
    axes: dict[str, Any]
    options: dict[str, Any]


class LeftOut(TypedDict):
    """A relief that was not tried, and why."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    relief: str
    title: str
    reason: str


class Heading(TypedDict):
    """What the first record of every kind of experiment holds: of which launch and machine."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    study: str
    launch: str
    label: str
    arm: str
    axes: dict[str, Any]
    replicate: Index
    effort: Literal["quick", "full"]
    n: Processes
    seed: int
    machine_hash: str
    machine: dict[str, Any]
    measured_hash: str
    harness_hash: str
    started: str


class Head(Heading):
    """The first record: what is explained, and how."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    kind: Literal["why"]
    schema_version: Literal[1]  # SCHEMA_VERSION
    target: str
    same_as: str | None
    slots: list[Slot]
    shortest_s: NotRequired[Seconds]
    blocks: NotRequired[Processes]
    reliefs: list[Relief]
    not_applicable: list[LeftOut]


class Attested(TypedDict):
    """What one member reported about itself; all of it is kept, this much is needed."""

    __pydantic_config__ = LOOSE  # type: ignore[misc]
    slot: Index
    cpus: NotRequired[list[Index]]


class Attestation(TypedDict):
    """What the members of one cohort of the job reported before their first window."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    kind: Literal["attestation"]
    cohort: str
    checks: list[Check]
    members: list[Attested]


class Machine(WindowMachine):
    """Readings of the machine between a window's edges."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    busy_cpu_s: NotRequired[Seconds | None]


class Timed(TypedDict):
    """A timed interval in which exactly the first n members of one cohort trained."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    kind: Literal["window"]
    name: str
    dose: Annotated[float, Field(ge=0, le=1)] | None
    count: Index | None
    rate_share: Share | None
    block: Index
    n: Processes
    take: Index
    valid: bool
    flags: list[str]
    window_s: Seconds
    start_skew_s: Seconds
    overlap: Annotated[float, Field(ge=0, le=1)]
    machine: Machine
    members: list[WindowMember]
    vmstat: dict[str, int]


class Window(Timed):
    """A window of an experiment on causes."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    experiment: Literal["reference", "relief", "bystander"]


class Wait(TypedDict):
    """A system call in which a training thread was found waiting."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    syscall: str
    on: str
    count: Count


class SampledMember(TypedDict):
    """What one training thread was found doing."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    slot: Index
    samples: Count
    states: dict[str, Count]
    waits: list[Wait]


class SampledLock(TypedDict):
    """A file lock that members were found waiting for."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    path: str
    waiters_mean: Share
    samples: Count


class Samples(TypedDict):
    """What the training threads of n members were found doing, outside of all measuring."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    kind: Literal["samples"]
    n: Processes
    interval_s: Seconds
    step_s: NotRequired[Seconds]
    members: list[SampledMember]
    locks: list[SampledLock]


class ForeignProcess(TypedDict):
    """A program that does not belong to the study and took CPU time."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    name: str
    pid: Count
    cpu_s: Seconds
    share: Share


class Foreign(TypedDict):
    """The largest foreign consumers of CPU time over the whole job."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    kind: Literal["foreign"]
    span_s: Seconds
    processes: list[ForeignProcess]


class ReliefFailed(TypedDict):
    """A relief that did not start or did not prove itself."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    kind: Literal["relief_failed"]
    relief: str
    reason: str


class ReliefLeftOut(TypedDict):
    """A relief that was tried and cannot be made in this script."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    kind: Literal["relief_left_out"]
    relief: str
    reason: str


class Event(TypedDict):
    """Something that happened to a member, such as its death."""

    __pydantic_config__ = LOOSE  # type: ignore[misc]
    kind: Literal["event"]


class End(TypedDict):
    """The last record of a job."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    kind: Literal["end"]
    status: Literal["complete", "partial", "failed", "skipped"]
    reason: str | None
    remedy: str | None
    wall_s: Seconds


Record = (
    Head | Attestation | Window | Samples | Foreign | ReliefFailed | ReliefLeftOut | Event | End
)
_RECORD: pydantic.TypeAdapter[Record] = pydantic.TypeAdapter(
    Annotated[Record, Field(discriminator="kind")],
)


def read(path: Path) -> Iterator[tuple[int, Record]]:
    """Read one file of experiments.

    Args:
        path: why/<target>/<replicate>.jsonl.

    Yields:
        Line number (from 1) and record.

    Raises:
        RecordError: A line is no record of this schema version.
    """
    return read_lines(path, _RECORD)
