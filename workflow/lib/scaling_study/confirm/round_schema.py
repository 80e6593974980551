"""What confirm/rounds.jsonl may hold: a head, a line for each round, an end.

History of the schema:
    1: first version.
    2: starts say how long the ordinary iterations of their process took. Later files have
       `compared` in the head, and losses.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, NotRequired

import pydantic
from pydantic import Field
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from scaling_study.analysis.record_schema import (
    STRICT,
    Count,
    Index,
    Processes,
    Seconds,
    read_lines,
)
from scaling_study.confirm.round_plan import Role

SCHEMA_VERSION = 2


class ArmRecord(TypedDict):
    """An arm, as ``rounds.Arm``."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    role: Role
    launch: str
    label: str
    n: Processes
    queue: Literal["process_per_model", "one_process"]


class Head(TypedDict):
    """What is confirmed, where, and how long."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    kind: Literal["confirmation"]
    schema_version: Literal[2]  # SCHEMA_VERSION
    study: str
    machine_hash: str
    arms: list[ArmRecord]
    compared: NotRequired[list[str]]
    seed: int
    seconds: Seconds
    measured_hash: str
    harness_hash: str
    started: str


class RunRecord(TypedDict):
    """One start of the script in a slot; times in s since the round began, null if never.

    ``process`` counts the slot's processes from 0, ``again`` the starts in one of them. The time of
    ordinary iterations (`between.LONG`) is the mean of the process's, over all its starts.
    """

    __pydantic_config__ = STRICT  # type: ignore[misc]
    slot: Index
    process: Index
    again: Index
    began_s: Seconds
    first_s: Seconds | None
    latest_s: Seconds | None
    iterations: Count
    ordinary_s: Seconds | None
    ended_s: Seconds | None


class RoundRecord(TypedDict):
    """One round: every slot busy from 0 to ``cut_s``.

    ``status``: ``ok``; ``once`` where the script does not run a second time in one process;
    ``failed``. ``limit_s`` is what was planned; a longer ``cut_s`` waited for a slot that had
    hardly trained.
    """

    __pydantic_config__ = STRICT  # type: ignore[misc]
    kind: Literal["round"]
    turn: Index
    arm: str
    status: Literal["ok", "once", "failed"]
    reason: str | None
    limit_s: Seconds
    cut_s: Seconds
    frequency_mhz: Seconds | None
    foreign_cpu_s: Seconds
    runs: list[RunRecord]


class LeftOut(TypedDict):
    """An arm that this machine cannot run."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    kind: Literal["left_out"]
    arm: str
    reason: str


class Losses(TypedDict):
    """The losses of a launch that computes with other numbers, and the baseline's; see `losses`."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    kind: Literal["losses"]
    launch: str
    status: Literal["ok", "failed"]
    reason: str | None
    steps: Count
    baseline: list[float]
    losses: list[float]
    alike: bool | None


class End(TypedDict):
    """The last line."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    kind: Literal["end"]
    wall_s: Seconds


Record = Head | RoundRecord | LeftOut | Losses | End
_RECORD: pydantic.TypeAdapter[Record] = pydantic.TypeAdapter(
    Annotated[Record, Field(discriminator="kind")],
)


def read(path: Path) -> Iterator[tuple[int, Record]]:
    """Read confirm/rounds.jsonl.

    Yields:
        Line number (from 1) and record.

    Raises:
        RecordError: a line is no record of this schema version.
    """
    return read_lines(path, _RECORD)
