"""The records of a confirmation: a file ``confirm/rounds.jsonl``.

History of the format:
    1: first version.
    2: starts say how long the ordinary iterations of their process took. Later files have
       `compared` in the head, and losses.
    3: arms have a `start` in place of a `queue`, and models may be forked.
"""

from typing import Literal

from msgspec import Struct, json

from scaling_study.records.field import (
    Count,
    CpuSeconds,
    Index,
    Megahertz,
    Processes,
    Seconds,
    StepCount,
)

Role = Literal["recommended", "today", "today_same_n", "default", "default_same_n"]
Start = Literal["fresh", "forked", "reused"]
Status = Literal["ok", "failed"]


class Arm(Struct, frozen=True):
    """One launch at one process count, with one way to start its models."""

    role: Role
    launch: str
    label: str
    n: Processes
    """Slots."""
    start: Start
    """`fresh`: a process for each model; `forked`: one that is forked from a process that has
    imported what the script imports; `reused`: one process for all models of a slot."""

    @property
    def key(self) -> str:
        """The arm's name in records."""
        return f"{self.role}/{self.start}"


class Head(Struct, frozen=True, kw_only=True, tag_field="kind", tag="confirmation"):
    """A confirmation begins."""

    schema_version: Literal[3]
    study: str
    """The study."""
    machine_hash: str
    """Hash of the machine."""
    arms: list[Arm]
    """The arms that are compared: role, launch, count, start."""
    compared: list[str] = []
    """Launches whose losses are compared."""
    seed: int
    """Seed of the order."""
    seconds: Seconds
    """All rounds together."""
    measured_hash: str
    """Hash of the script, its arguments, inputs and build."""
    harness_hash: str
    """Hash of the code that runs it."""
    started: str
    """Time of the start."""


class Run(Struct, frozen=True, kw_only=True):
    """One start of the script in a slot; times are since the round began, null if never."""

    slot: Index
    """The slot."""
    process: Index
    """The slot's processes, or its servers, from 0."""
    again: Index
    """Starts of the script in that process, from 0; from a server that has imported, from 1."""
    began_s: Seconds
    """Its beginning."""
    first_s: Seconds | None
    """End of its first iteration."""
    latest_s: Seconds | None
    """End of its latest iteration."""
    iterations: Count
    """Iterations."""
    ordinary_s: Seconds | None
    """Mean ordinary iteration of the process, over all its starts."""
    ended_s: Seconds | None
    """Its end."""

    @property
    def span_s(self) -> float:
        """From the end of its first iteration to that of its latest one."""
        return (self.latest_s or 0.0) - (self.first_s or 0.0)


class Round(Struct, frozen=True, kw_only=True, tag_field="kind", tag="round"):
    """One round: every slot is busy from 0 to ``cut_s``."""

    turn: Index
    """Rounds of a turn follow each other, one of each arm."""
    arm: str
    """Role and start."""
    status: Status
    """`ok` or `failed`."""
    reason: str | None
    """Why it failed."""
    limit_s: Seconds
    """Planned length."""
    cut_s: Seconds
    """Its length; more than planned where a slot had hardly trained."""
    frequency_mhz: Megahertz | None
    """Mean frequency of the CPUs."""
    foreign_cpu_s: CpuSeconds
    """CPU time of other programs."""
    runs: list[Run]
    """Starts of the script."""


class LeftOut(Struct, frozen=True, kw_only=True, tag_field="kind", tag="left_out"):
    """An arm that this machine cannot run."""

    arm: str
    """Role and start."""
    reason: str
    """Why."""


class Losses(Struct, frozen=True, kw_only=True, tag_field="kind", tag="losses"):
    """The losses of a launch that computes with other numbers, and the baseline's."""

    launch: str
    """Launch id."""
    status: Literal["ok", "failed"]
    """`ok` or `failed`."""
    reason: str | None
    """Why it failed."""
    steps: StepCount
    """Steps of each run."""
    baseline: list[float]
    """Mean losses of the baseline's runs."""
    losses: list[float]
    """Mean losses of the launch's runs."""
    alike: bool | None
    """Whether the loss falls alike."""


class Imports(Struct, frozen=True, kw_only=True, tag_field="kind", tag="imports"):
    """Modules that a model had imported at its end, and the time that importing them takes."""

    steps: list[list[str]]
    """In order: `import` and a module, `set`, a variable and its value, `unset` and a variable."""
    left: dict[str, str]
    """Modules that forked models import by themselves, and why."""
    seconds: dict[str, Seconds]
    """The packages that take longest: the time of their own modules (`-X importtime`)."""
    all_s: Seconds
    """The time of all modules."""


class End(Struct, frozen=True, kw_only=True, tag_field="kind", tag="end"):
    """A confirmation ends."""

    wall_s: Seconds
    """How long it took."""


Record = Head | Round | LeftOut | Losses | Imports | End
DECODER: json.Decoder[Record] = json.Decoder(Record)
