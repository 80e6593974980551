"""profile/<target>/profile.json: how a launch was profiled. The format has version 3.

1: profiles of one member. 2: stacks of several members, sampled in turns. 3: other names.
"""

from pathlib import Path
from typing import Literal

from msgspec import Struct

from scaling_study.records.analysis import Number

Kind = Literal["operators", "calls", "stacks"]
Status = Literal["ok", "skipped", "failed", "complete"]


class OperatorSums(Struct, frozen=True, kw_only=True):
    """An operator in a phase: sums over all steps; None where it is not known."""

    operator: str
    phase: str
    """Empty where phases are not known."""
    calls: Number = None
    self_s: Number = None
    """Without the operators that it calls."""
    total_s: Number = None
    flops: Number = None


class Operators(Struct, frozen=True, kw_only=True):
    """The content of operators.json: what a member did in its profiled steps."""

    steps: int
    rows: tuple[OperatorSums, ...]


class Turn(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The sampled stacks of one member in one turn."""

    slot: int
    """The member."""
    pid: int
    samples: int
    seconds: float
    steps: int
    """Steps of the member in that time."""
    trainer_tid: int | None = None
    """The kernel's number of its training thread."""
    file: str
    """py-spy's raw output, in the folder of the point."""


class PointProfile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One profile of a point: how it was taken, and what it cost the step."""

    kind: Kind
    status: Status
    reason: str | None = None
    """Why there is no profile."""
    remedy: str | None = None
    steps: int | None = None
    """Steps that it covers."""
    samples: int | None = None
    members: int | None = None
    """Members that were sampled."""
    seconds: Number = None
    """Seconds that were sampled."""
    rate_hz: Number = None
    """Samples per second."""
    native: bool | None = None
    """Whether it has frames of native libraries."""
    native_failed: str | None = None
    """Why it has no such frames."""
    step_s: Number = None
    """Mean step time of the profiled members."""
    unprofiled_step_s: Number = None
    """Mean step time of the same members in the windows around it."""
    overhead: Number = None
    """`step_s` over `unprofiled_step_s`."""
    turns: tuple[Turn, ...] = ()
    files: tuple[str, ...] = ()
    """Its files, as paths in the folder of the target."""


class ProfiledPoint(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The profiles of a launch with n processes."""

    n: int
    unprofiled_step_s: Number = None
    """Mean step time of all windows without a profiler."""
    unprofiled_windows: tuple[Number, ...] = ()
    """Mean step time of each of these windows."""
    kinds: tuple[PointProfile, ...] = ()

    def profile(self, kind: str) -> PointProfile | None:
        """Return the profile of a kind, if it was taken."""
        return next(
            (profile for profile in self.kinds if (profile.kind, profile.status) == (kind, "ok")),
            None,
        )


class Profiled(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A launch that was to be profiled."""

    schema_version: Literal[3]
    machine: str
    """Hash of the machine."""
    target: str
    """A launch id, or `recommended`."""
    launch: str | None = None
    """Id of the launch; None if none is recommended."""
    label: str | None = None
    role: str | None = None
    same_as: str | None = None
    """The target whose profiles stand for this one."""
    status: Status
    reason: str | None = None
    remedy: str | None = None
    points: tuple[ProfiledPoint, ...] = ()
    folder: str = ""
    """Folder where it was read; no file holds it."""

    def place(self, n: int) -> Path:
        """Return the folder of the files of a point."""
        return Path(self.folder, str(n))
