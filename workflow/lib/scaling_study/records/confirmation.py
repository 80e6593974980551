"""The records of a confirmation: a file ``confirm/rounds.jsonl``.

History of the format:
    1: first version.
    2: starts have the mean time of the ordinary iterations of their process. Later files have
       `compared` in the head, and losses.
    3: arms have a `start` in place of a `queue`, and models may be forked.
    4: what servers import before they fork models is recorded.
    5: `model` and `ahead` in place of `process` and `again`: each model is a process. Version 4 is
       read (`codec.OLDER`).
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

FIRST_MODELS = "models.json"
"""In measure/: the first models of a race (``FirstModels``)."""

Role = Literal["recommended", "today", "today_same_n", "default", "default_same_n"]
Start = Literal["fresh", "forked"]
Status = Literal["ok", "failed"]


class Arm(Struct, frozen=True):
    """One launch at one process count, with one way to start its models."""

    role: Role
    launch: str
    label: str
    n: Processes
    """Slots."""
    start: Start
    """`fresh`: a process for each model; `forked`: the same, forked from a process that has
    imported the modules of the script."""

    @property
    def key(self) -> str:
        """The arm's name in records."""
        return f"{self.role}/{self.start}"


class Head(Struct, frozen=True, kw_only=True, tag_field="kind", tag="confirmation"):
    """A confirmation begins."""

    schema_version: Literal[5]
    study: str
    """The study."""
    machine_hash: str
    """Hash of the machine."""
    arms: list[Arm]
    """The arms that are compared: role, launch, count, start."""
    compared: list[str] = []
    """Launches whose losses are compared."""
    seed: int
    """Seed of the order of arms."""
    seconds: Seconds
    """Planned time of all rounds together."""
    measured_hash: str
    """Hash of the script, its arguments, inputs and build."""
    harness_hash: str
    """Hash of the code that runs the confirmation."""
    started: str
    """Time of the start."""


class ModelRun(Struct, frozen=True, kw_only=True):
    """A model of a slot; times count from the start of the round, null if never."""

    slot: Index
    """The slot."""
    model: Index
    """Its number in the slot, from 0."""
    ahead: bool
    """Whether it was forked from a process that had made its imports."""
    began_s: Seconds
    """When it began."""
    first_s: Seconds | None
    """End of its first iteration."""
    latest_s: Seconds | None
    """End of its latest iteration."""
    iterations: Count
    """Number of its iterations."""
    ordinary_s: Seconds | None
    """Its mean ordinary iteration."""
    ended_s: Seconds | None
    """When it ended."""

    @property
    def span_s(self) -> float:
        """Time from the end of its first iteration to the end of its latest one (s)."""
        return (self.latest_s or 0.0) - (self.first_s or 0.0)


class Round(Struct, frozen=True, kw_only=True, tag_field="kind", tag="round"):
    """One round: every slot is busy from 0 to ``cut_s``."""

    turn: Index
    """Number of the turn, in which one round of each arm runs."""
    arm: str
    """Role and start."""
    status: Status
    """`ok` or `failed`."""
    reason: str | None
    """Why it failed."""
    limit_s: Seconds
    """Planned length."""
    cut_s: Seconds
    """Its length; longer than planned if a slot had hardly trained, or had ended no model."""
    frequency_mhz: Megahertz | None
    """Mean frequency of the CPUs."""
    foreign_cpu_s: CpuSeconds
    """CPU time of other programs."""
    runs: list[ModelRun]
    """The models that have begun."""

    @classmethod
    def failed(cls, arm: str, reason: str) -> "Round":
        """Return the record of a round that could not begin."""
        return cls(
            turn=0,
            arm=arm,
            status="failed",
            reason=reason,
            limit_s=0.0,
            cut_s=0.0,
            frequency_mhz=None,
            foreign_cpu_s=0.0,
            runs=[],
        )


class FirstModels(Struct, frozen=True, kw_only=True):
    """The first models that a race trains as a whole: measure/models.json."""

    schema_version: Literal[1]
    launch: str
    """Launch id: the baseline."""
    machine_hash: str
    """Hash of the machine."""
    wall_s: Seconds
    """How long it took."""
    rounds: list[Round]
    """Rounds with a single slot: of a fresh model, and then of a forked one if there was time."""


class ArmLeftOut(Struct, frozen=True, kw_only=True, tag_field="kind", tag="left_out"):
    """An arm that this machine cannot run."""

    arm: str
    """Role and start."""
    reason: str
    """Why."""


class Losses(Struct, frozen=True, kw_only=True, tag_field="kind", tag="losses"):
    """The losses of a launch that computes in another order or precision, and the baseline's."""

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
    """Whether the loss of the launch falls as the baseline's does."""


class Imports(Struct, frozen=True, kw_only=True, tag_field="kind", tag="imports"):
    """Modules that are imported before models are forked, and the time that this takes."""

    modules: list[str]
    """In order."""
    left: dict[str, str]
    """Modules that forked models import by themselves, and why."""
    seconds: dict[str, Seconds]
    """Time of each package, including packages that it is the first to import."""


class ConfirmationEnd(Struct, frozen=True, kw_only=True, tag_field="kind", tag="end"):
    """A confirmation ends."""

    wall_s: Seconds
    """How long it took."""


Record = Head | Round | ArmLeftOut | Losses | Imports | ConfirmationEnd
DECODER: json.Decoder[Record] = json.Decoder(Record)
