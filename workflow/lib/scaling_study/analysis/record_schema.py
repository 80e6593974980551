"""What a record file may hold, and reading one strictly.

A record file is `measure/<launch>/<replicate>.jsonl`: one JSON object a line, told apart by `kind`.
Every number is checked on the way in, so that nothing behind this module meets a NaN or a unit
mistake of a power of two. Keys that are not named here are left out.

History of the schema:
    1: first version. Later added, and null where a file is older: `members_cpus` and
        `trainers_cpus` of a window's machine, and the hardware counters and `collect_s` of a
        member. In files from before the counters `throttled_s` counts only a quota of the cgroup
        itself, not of those above it. Absent where a file is older: `compile_s`, `ranks_wait_s`,
        `samples_active`, `first_step`, `settled_us`, `inside`, `after_us` and `fresh` of a member.
        In files without the last five a step counts that lies wholly inside its window, since then
        one that begins inside. Nor have older files an attestation with `when`: there was none
        after the last window; and they have no `settled`. `batch` of a cohort names the job that
        measured several launches in turns; absent where one was alone.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired

import pydantic
from pydantic import Field
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from scaling_study.common.counter import COUNTERS, KERNEL_COUNTS, KernelCount
from scaling_study.common.file_errors import UnusableError
from scaling_study.common.printable import printable
from scaling_study.common.problems import shorten

SCHEMA_VERSION = 1
LARGEST_SECONDS = 1e9  # thirty years: a longer time is a mistake of unit
LARGEST_COUNT = 10**15  # a petabyte, and what a double still holds exactly
LARGEST_STEP_US = 2**32 - 1  # 71 minutes; step times are sorted as 32 bits beside their group
LONGEST_LINE = 2**28  # a window of 384 members with 10,000 steps each has some 30 MB
LARGEST_N = 2**20  # far more processes than Linux starts (its pid_max is 2**22)

Seconds = Annotated[float, Field(ge=0, le=LARGEST_SECONDS)]
Amount = Annotated[float, Field(ge=0, le=LARGEST_COUNT)]
Count = Annotated[int, Field(ge=0, le=LARGEST_COUNT)]
Index = Annotated[int, Field(ge=0, le=LARGEST_N)]
Processes = Annotated[int, Field(ge=1, le=LARGEST_N)]
StepMicroseconds = Annotated[int, Field(ge=0, le=LARGEST_STEP_US)]
STRICT = pydantic.ConfigDict(strict=True, allow_inf_nan=False)


REMEDY = "delete the file and run the same command again: it measures what is missing"


class RecordError(UnusableError):
    """A record that cannot be used; the message names its file and line."""


class Slot(TypedDict):
    """Where one member was meant to run."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    slot: Index
    cpus: str | None
    policy: str
    oversubscribed: bool
    loader_cpus: NotRequired[str]


class Cohort(TypedDict):
    """The first record of a cohort: what was asked for, of which machine."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    kind: Literal["cohort"]
    schema_version: Literal[1]  # SCHEMA_VERSION
    study: str
    launch: str
    arm: str
    label: str
    axes: dict[str, Any]
    replicate: Index
    cohort: Index
    ladder: list[Processes]
    batch: NotRequired[str]
    seed: int
    measured_hash: str
    harness_hash: str
    machine_hash: str
    machine: dict[str, Any]
    started: str
    slots: list[Slot]
    requested_env: dict[str, str | None]


class Check(TypedDict):
    """One axis: what was asked for and what the members really got."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    axis: str
    requested: Any
    effective: Any
    ok: bool


class Ended(TypedDict):
    """Starts of a member's script that have ended: how many, and after how many steps."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    starts: Annotated[Count, Field(ge=1)]
    steps: Amount
    shortest: Count
    longest: Count


class AttestedMember(TypedDict):
    """What one member reported about itself; all of it is kept, this much is needed."""

    __pydantic_config__ = pydantic.ConfigDict(strict=True, extra="allow")  # type: ignore[misc]
    slot: Index
    intra_op: Processes
    ended: NotRequired[Ended | None]


class Attestation(TypedDict):
    """What the members of a cohort reported before its first window, or after its last one."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    kind: Literal["attestation"]
    cohort: Index
    when: NotRequired[Literal["before", "after"]]
    checks: list[Check]
    members: list[AttestedMember]
    shared_files: NotRequired[dict[str, Processes]]


class WindowMachine(TypedDict):
    """Readings of the whole machine between a window's edges; null where it has no such counter."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    foreign_cpu_s: Seconds
    sleeping_cpu_s: Seconds
    steal_s: Seconds | None
    throttled_s: Seconds | None
    psi_cpu_some_s: Seconds | None
    psi_memory_some_s: Seconds | None
    psi_io_some_s: Seconds | None
    frequency_mhz: Seconds | None
    members_cpus: NotRequired[Count | None]
    trainers_cpus: NotRequired[Count | None]


class _WindowMember(TypedDict):
    """One member's share of a window, without what is declared in `counter`."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    slot: Index
    steps: Count
    step_us: list[StepMicroseconds]
    load_s: Seconds | None
    forward_s: Seconds | None
    backward_s: Seconds | None
    optimizer_s: Seconds | None
    ranks_wait_s: NotRequired[Seconds]
    active_s: Seconds
    steps_active: Count
    samples_active: NotRequired[Count]
    cpu_user_s: Seconds
    cpu_system_s: Seconds
    runqueue_s: Seconds
    trainer_user_s: Seconds
    trainer_system_s: Seconds
    trainer_runqueue_s: Seconds
    threads: Count
    processes: Count
    rss_bytes: Count
    restarts: Count
    first_step: NotRequired[Count]
    settled_us: NotRequired[list[StepMicroseconds]]
    inside: NotRequired[Count]
    after_us: NotRequired[list[StepMicroseconds]]
    fresh: NotRequired[list[tuple[Count, StepMicroseconds]]]


def _counted(one: KernelCount) -> Any:
    kind: Any = Count if one.always else Count | None
    return NotRequired[kind] if one.hardware else kind


if TYPE_CHECKING:
    WindowMember = _WindowMember
else:
    WindowMember = TypedDict(
        "WindowMember",
        {
            **_WindowMember.__annotations__,
            **{one.name: _counted(one) for one in KERNEL_COUNTS},
            **{
                one.field: NotRequired[(Seconds if one.unit else Amount) | None] for one in COUNTERS
            },
        },
    )
    WindowMember.__pydantic_config__ = STRICT


class Window(TypedDict):
    """A timed interval in which exactly the first n members trained."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    kind: Literal["window"]
    cohort: Index
    window: Index
    block: Index
    n: Processes
    take: Index
    valid: bool
    flags: list[str]
    window_s: Seconds
    start_skew_s: Seconds
    overlap: Annotated[float, Field(ge=0, le=1)]
    machine: WindowMachine
    members: list[WindowMember]


class Event(TypedDict):
    """Something that happened to a member, such as its death."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    kind: Literal["event"]
    cohort: Index
    slot: Index | None
    what: str
    reason: str
    log: str


class End(TypedDict):
    """The last record of a cohort."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    kind: Literal["end"]
    cohort: Index
    status: Literal["complete", "partial", "failed", "skipped"]
    reason: str | None
    remedy: str | None
    wall_s: Seconds
    start_s: Seconds | None
    in_windows_s: Seconds
    member_bytes: NotRequired[Count | None]
    member_shared_bytes: NotRequired[Count | None]


class Settled(TypedDict):
    """Windows of this cohort were taken anew, because its script had not settled before.

    Of each process count that has valid windows from ``block`` on, those before do not count, in
    cohorts before this one either, which were interrupted. ``change`` is the part of all time by
    which steps became longer (or shorter, below 0) in them; ``left`` the same in the new ones, null
    where the script has settled.
    """

    __pydantic_config__ = STRICT  # type: ignore[misc]
    kind: Literal["settled"]
    cohort: Index
    block: Index
    change: float
    left: float | None


Record = Cohort | Attestation | Window | Event | Settled | End
_RECORD: pydantic.TypeAdapter[Record] = pydantic.TypeAdapter(
    Annotated[Record, Field(discriminator="kind")],
)


def read(path: Path) -> Iterator[tuple[int, Record]]:
    """Read one record file.

    Args:
        path: measure/<launch>/<replicate>.jsonl.

    Yields:
        Line number (from 1) and record.

    Raises:
        RecordError: A line is no record of this schema version; every mistake of the line is named.
    """
    return read_lines(path, _RECORD)


def read_lines(path: Path, kinds: pydantic.TypeAdapter[Any]) -> Iterator[tuple[int, Any]]:
    """Read one JSON record a line.

    Args:
        path: the file.
        kinds: what a record may be.

    Yields:
        Line number (from 1) and record.

    Raises:
        RecordError: A line is no such record; every mistake of the line is named.
    """
    with path.open("rb") as file:
        lines = iter(lambda: file.readline(LONGEST_LINE + 1), b"")
        for number, line in enumerate(lines, start=1):
            if len(line) > LONGEST_LINE:
                what = f"has more than {LONGEST_LINE:,} bytes, which no record has"
                raise RecordError(f"{path}:{number}: {what}; {REMEDY}")
            try:
                record = kinds.validate_json(line)
            except pydantic.ValidationError as error:
                mistakes = _mistakes(error, line)
                raise RecordError(f"{path}:{number}: {mistakes}; {REMEDY}") from error
            yield number, record


SHOWN_CHARACTERS = 200  # a mistake may quote a name, as long as the file has it
CUT_OFF = (
    "the line has no end: it was cut off; add .part to the file's name to keep what is before it"
)
SHOWN_MISTAKES = 5  # a record of another kind altogether would fill the screen


def _mistakes(error: pydantic.ValidationError, line: bytes) -> str:
    """The mistakes of one line as text; a line without its end was cut off."""
    mistakes = error.errors(include_url=False)
    for mistake in mistakes:
        if mistake["loc"][-1:] == ("schema_version",) and mistake["type"] == "literal_error":
            return (
                f"schema_version is {shorten(mistake['input'])}, this program reads "
                f"{SCHEMA_VERSION}: use the program that measured it, or measure again"
            )
    found = [
        printable(
            f"{'.'.join(str(part) for part in mistake['loc']) or 'record'}: {mistake['msg']}"
        )[:SHOWN_CHARACTERS]
        for mistake in mistakes
    ]
    more = len(found) - SHOWN_MISTAKES
    text = "; ".join(found[:SHOWN_MISTAKES]) + (f"; and {more} more" if more > 0 else "")
    return text if line.endswith(b"\n") else f"{text} ({CUT_OFF})"
