"""A study's folder as typed, frozen objects: all that a report shows, and nothing else.

Field names are those of the files. A file from before a field existed gives its default.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from scaling_study.analysis.noise import spread_at
from scaling_study.common import storage
from scaling_study.common.objectives import OBJECTIVES
from scaling_study.common.quantities import known
from scaling_study.common.topology import Topology, parse_cpu_list
from scaling_study.config import process_counts
from scaling_study.host.probe import usable_topology
from scaling_study.profiling import profiles
from scaling_study.records.columns import BETWEEN, POINTS, WINDOWS
from scaling_study.records.model_length import ModelLength  # noqa: TC001 (pydantic reads it)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pandas as pd

    from scaling_study.config.plan import Plan

    Json = dict[str, object]

MEMBER_COLUMNS = ["machine", "launch", "n", "slot", "valid", "step_mean_s"]
"""What ``compare_members`` reads of tables/windows."""
OTHER_NODES = ", other nodes"
"""Behind a machine's name: nodes under it that are another machine."""
ENOUGH_STARTS = 2
"""A figure from fewer starts is grey, and no sentence quotes it."""


class Typed(BaseModel):
    """A frozen object of a file; what the report does not show is left out."""

    model_config = ConfigDict(frozen=True)


class Interval(Typed):
    """A value with its 95% interval; all None where nothing is known."""

    value: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def sure(self) -> bool:
        """Whether it has an interval."""
        return known(self.low) and known(self.high)

    @property
    def above_one(self) -> bool:
        """Whether it is a ratio that is surely larger than 1."""
        return self.low is not None and self.sure and self.low > 1

    @property
    def below_one(self) -> bool:
        """Whether it is a ratio that is surely smaller than 1."""
        return self.high is not None and self.sure and self.high < 1


# What the study measured and recommends.


class Candidate(Typed):
    """A launch at a process count, and what it gives: rates of all processes together."""

    launch: str
    label: str
    n: int
    role: str = ""
    replicates: int = 1
    oversubscribed: bool = False
    steps_per_s: float | None = None
    low: float | None = None
    high: float | None = None
    models_per_hour: float | None = None
    models_per_hour_low: float | None = None
    models_per_hour_high: float | None = None
    probability_best: float | None = None

    def gives(self, objective: str) -> Interval:
        """Return the rate that an objective asks for, or the time of one model or step (s).

        Args:
            objective: a key of `OBJECTIVES`.
        """
        asked = OBJECTIVES[objective]
        if asked.rate == "steps_per_s":
            rate = (self.steps_per_s, self.low, self.high)
        else:
            rate = (self.models_per_hour, self.models_per_hour_low, self.models_per_hour_high)
        return _interval(asked.shown(*rate, self.n), known_ends=self.replicates >= ENOUGH_STARTS)

    @property
    def once(self) -> bool:
        """Whether its figures are of too few starts to be quoted."""
        return self.replicates < ENOUGH_STARTS


class Most(Candidate):
    """A launch with the most processes that it was measured with, against its best count."""

    ratio: Interval = Interval()


class Reference(Candidate):
    """Today's launch or the default one: at its best, and at the recommended count."""

    at_n: Candidate | None = None
    most: Most | None = None
    shell: object = None


class Slot(Typed):
    """Where one member runs; cpus is None where it may run anywhere."""

    slot: int
    cpus: str | None = None
    policy: str = "default"
    oversubscribed: bool = False
    loader_cpus: str | None = None


class Recommended(Candidate):
    """The launch to use."""

    axes: dict[str, object] = {}
    slots: tuple[Slot, ...] = ()
    requested_env: dict[str, str | None] = {}
    most: Most | None = None


class Ranked(Candidate):
    """A launch of the ranking, at its best process count."""

    ratio_to_default: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None

    @property
    def to_default(self) -> Interval:
        """Return its rate over the default launch's."""
        ends = (self.ratio_to_default, self.ratio_low, self.ratio_high)
        return _interval(ends, known_ends=not self.once and self.role != "default")


class Changed(Candidate):
    """A faster launch that changes training, and is therefore not recommended."""

    what: dict[str, object] = {}
    ratio: Interval = Interval()


class Recommendation(Typed):
    """A machine's entry of analysis/recommendation.json."""

    status: str
    reason: str | None = None
    objective: str = "models_per_hour"
    model_length: ModelLength | None = None
    tolerance: float = 0.02
    interval: str = ""
    probability: str = ""
    raced: bool = False
    default: Reference | None = None
    today: Reference | None = None
    best: Candidate | None = None
    throughput: Candidate | None = None
    recommended: Recommended | None = None
    ratio: Interval | None = None
    ratio_same_n: Interval | None = None
    changed: Changed | None = None
    ranking: tuple[Ranked, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether something is recommended."""
        return self.status == "ok" and self.recommended is not None

    @property
    def compared(self) -> Reference | None:
        """Return what the recommended launch is compared with: today's, or else the default."""
        return self.today or self.default

    @property
    def single(self) -> bool:
        """Whether one model soonest was asked for."""
        return OBJECTIVES[self.objective].single


class Loss(Typed):
    """A launch's training loss beside the baseline's."""

    launch: str
    status: str = "ok"
    reason: str | None = None
    alike: bool = False
    steps: int = 0
    losses: tuple[float, ...] = ()
    baseline: tuple[float, ...] = ()


class Arm(Typed):
    """A launch as it ran freely, in one kind of queue: what it gave, and what was predicted."""

    role: str
    launch: str
    label: str
    n: int
    queue: str
    rounds: int
    value: float
    low: float | None = None
    high: float | None = None
    predicted: float | None = None
    start_s: float | None = None
    iteration_s: float | None = None
    end_s: float | None = None
    whole_models: int = 0
    ended_after: int | None = None
    cut: bool = False
    end_seen: bool = True
    foreign_cpus: float = 0.0

    def gave(self, objective: str) -> Interval:
        """Return its rate, or the time of one model or step (s)."""
        return _interval(OBJECTIVES[objective].shown(self.value, self.low, self.high, self.n))


class Part(Typed):
    """A factor of the difference between confirmed and predicted."""

    what: str
    factor: float


class Difference(Typed):
    """Confirmed over predicted, and what it is made of."""

    value: float
    parts: tuple[Part, ...] = ()
    unexplained: float = 1.0


class LeftOut(Typed):
    """An arm of the confirmation that gave no figure."""

    label: str
    n: int
    queue: str
    status: str
    reason: str | None = None


class Confirmation(Typed):
    """A machine's entry of analysis/confirmation.json."""

    status: str
    reason: str | None = None
    objective: str = "models_per_hour"
    arms: tuple[Arm, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    losses: tuple[Loss, ...] = ()
    ratio: Interval | None = None
    ratio_same_n: Interval | None = None
    difference: Difference | None = None
    seconds: float | None = None
    against: str = "default"
    model_length: ModelLength | None = None

    def arm(self, role: str, queue: str = "process_per_model") -> Arm | None:
        """Return what ran in a role; None where it did not."""
        arms = self.arms if self.status == "confirmed" else ()
        return next((one for one in arms if (one.role, one.queue) == (role, queue)), None)


class NoisePoint(Typed):
    """The baseline's repeat over the baseline, at a process count."""

    n: int
    ratio: float
    low: float | None = None
    high: float | None = None


class Noise(Typed):
    """A machine's entry of analysis/noise.json: the A/A check."""

    points: tuple[NoisePoint, ...] = ()
    spread: float | None = None

    def at(self, *counts: int) -> float | None:
        """Return how far the same launch differed from itself at these counts."""
        return spread_at(self.model_dump(), *counts)


# What was lost, and what took effect.


class Failure(Typed):
    """A launch that was skipped or failed, in one replicate."""

    launch: str
    label: str = ""
    replicate: int = 0
    status: str
    reason: str | None = None
    remedy: str | None = None
    log: str | None = None


class Invalid(Typed):
    """Windows that do not count, by reason."""

    label: str
    n: int
    flag: str
    count: int


class Lost(Typed):
    """A process count without a valid window."""

    launch: str
    label: str
    n: int


class Event(Typed):
    """What happened to a member."""

    label: str
    replicate: int
    slot: int
    what: str
    reason: str | None = None
    log: str | None = None


class Failures(Typed):
    """A machine's entry of analysis/failures.json."""

    launches: tuple[Failure, ...] = ()
    windows: tuple[Invalid, ...] = ()
    points: tuple[Lost, ...] = ()
    members: tuple[Event, ...] = ()
    shared_files: dict[str, int] = {}


class Provenance(Typed):
    """A machine's entry of analysis/provenance.json: where its numbers come from."""

    machine: str
    description: dict[str, object]
    started: str
    cohorts: int
    windows_valid: int
    windows_invalid: int
    steps: int
    wall_s: float
    commit: str | None = None
    measured_hashes: tuple[str, ...] = ()
    harness_hashes: tuple[str, ...] = ()
    samples: dict[str, float] = {}

    @property
    def windows(self) -> int:
        """How many windows were taken."""
        return self.windows_valid + self.windows_invalid


class Check(Typed):
    """One axis of a launch: what was requested, and what a member read back."""

    axis: str
    requested: object
    effective: object
    ok: bool


class Optimizer(Typed):
    """An optimizer of the script."""

    name: str
    steps: int = 0
    ends: bool = False


class Counted(Typed):
    """How a member counted iterations."""

    how: str = ""
    optimizers: tuple[Optimizer, ...] = ()


class Change(Typed):
    """A setting that the script changed while it trained."""

    what: str
    before: object = None
    after: object = None


class Settling(Typed):
    """How often the first windows of a launch did not count."""

    cohorts: int
    of: int
    least: float
    most: float
    left: int = 0


class Effective(Typed):
    """What a launch's first member reported."""

    launch: str
    label: str
    checks: tuple[Check, ...] = ()
    member: dict[str, object] | None = None
    changes: tuple[Change, ...] | None = None
    counted: tuple[Counted | None, ...] | None = None
    once: bool | None = None
    pace: Interval | None = None
    settling: Settling | None = None

    @property
    def wrong(self) -> tuple[Check, ...]:
        """What did not take effect."""
        return tuple(check for check in self.checks if not check.ok)


class Readback(Typed):
    """A machine's entry of analysis/readback.json."""

    launches: tuple[Effective, ...] = ()


# Scaling, single changes, the front.


class Laws(Typed):
    """Scaling laws of one launch."""

    status: str = "refused"
    reason: str | None = None
    best: str | None = None
    text: str | None = None
    candidates: tuple[object, ...] = ()
    knee: Interval | None = None


class Scaled(Typed):
    """A launch of analysis/scaling.json."""

    launch: str
    laws: Laws = Laws()


class Scaling(Typed):
    """A machine's entry of analysis/scaling.json."""

    launches: tuple[Scaled, ...] = ()


class SingleChange(Typed):
    """A launch that differs from the baseline in one axis, or the baseline itself."""

    label: str = "baseline"
    axis: str = ""
    value: object = None
    replicates: int = 1
    step_s: float | None = None
    cpu_use: float | None = None
    load: float | None = None
    forward: float | None = None
    backward: float | None = None
    optimizer: float | None = None
    epoch_s: float | None = None
    gain: Interval = Interval()


class Combined(Typed):
    """A change on the way from the baseline to the best combination."""

    axis: str
    value: object
    alone: Interval = Interval()
    predicted: float | None = None
    measured: Interval | None = None


class SingleChanges(Typed):
    """A machine's entry of analysis/single_changes.json."""

    n: int | None = None
    baseline: SingleChange | None = None
    changes: tuple[SingleChange, ...] = ()
    steps: tuple[Combined, ...] = ()


class FrontPoint(Typed):
    """A point of the trade between one model soon and many per hour."""

    label: str
    n: int
    time_s: float
    rate: float
    changes_training: bool = False


class Pareto(Typed):
    """A machine's entry of analysis/pareto.json."""

    rate: str = "steps_per_s"
    points: tuple[FrontPoint, ...] = ()
    front: tuple[FrontPoint, ...] = ()


# Profiles.


class Side(Typed):
    """One side of a comparison of profiles."""

    launch: str
    label: str
    n: int
    step_s: float


class OperatorRow(Typed):
    """An operator's self time per step on both sides."""

    operator: str
    phase: str | None = None
    group: str
    calls_b: float | None = None
    self_a_s: float | None = None
    self_b_s: float | None = None
    difference_s: float
    share: float | None = None
    per_call_ratio: float | None = None

    @property
    def size(self) -> float:
        """Return how much it changed (s), in either direction."""
        return abs(self.difference_s)


class GroupRow(Typed):
    """The same of a group of operators."""

    group: str
    self_a_s: float | None = None
    self_b_s: float | None = None
    difference_s: float
    share: float | None = None
    ratio: float | None = None


class Comparison(Typed):
    """Two profiles side by side, of analysis/inflation.json."""

    kind: str
    title: str
    a: Side
    b: Side
    rows: tuple[OperatorRow, ...] = ()
    groups: tuple[GroupRow, ...] = ()

    @property
    def added_s(self) -> float:
        """What the second side's step takes more (s)."""
        return self.b.step_s - self.a.step_s

    @property
    def heads(self) -> tuple[str, str]:
        """What its sides are called."""
        if self.kind == "counts":
            return f"n = {self.a.n}", f"n = {self.b.n}"
        return "default", "recommended"


class Profile(Typed):
    """One profile of a point: how it was taken, and what it cost the step."""

    kind: str
    status: str
    reason: str | None = None
    remedy: str | None = None
    steps: int | None = None
    samples: int | None = None
    members: int | None = None
    rate_hz: float | None = None
    native: bool | None = None
    native_failed: str | None = None
    step_s: float | None = None
    unprofiled_step_s: float | None = None
    overhead: float | None = None
    others_overhead: float | None = None


class ProfiledPoint(Typed):
    """The profiles of a launch with n processes."""

    n: int
    unprofiled_step_s: float | None = None
    kinds: tuple[Profile, ...] = ()


class Profiled(Typed):
    """A launch that was to be profiled."""

    label: str | None = None
    status: str
    reason: str | None = None
    remedy: str | None = None
    points: tuple[ProfiledPoint, ...] = ()


# Causes.


class Evidence(Typed):
    """What speaks for or against a cause."""

    kind: str
    text: str


class Remedy(Typed):
    """What to do about a cause."""

    text: str | None = None
    axes: dict[str, object] | None = None
    config: str | None = None
    command: str | None = None
    code: str | None = None


class Cause(Typed):
    """A cause that was tested, or could not be."""

    cause: str = ""
    title: str
    share: Interval | None = None
    confidence: str = ""
    reason: str | None = None
    source: str | None = None
    remedy: Remedy | None = None
    speaks_for: tuple[Evidence, ...] = Field((), alias="for")
    against: tuple[Evidence, ...] = ()
    open: tuple[Evidence, ...] = ()

    @property
    def value(self) -> float | None:
        """Return the share alone."""
        return self.share.value if self.share else None


class Judged(Typed):
    """What explains the time that more processes add, or a step of one process alone."""

    named: tuple[Cause, ...] = ()
    ruled_out: tuple[Cause, ...] = ()
    inconclusive: tuple[Cause, ...] = ()
    not_tested: tuple[Cause, ...] = ()
    explained_share: Interval | None = None
    unexplained_share: Interval | None = None


class AccountTime(Typed):
    """A time account of the training thread, with one process and with n (s per step)."""

    account: str
    title: str
    low_s: float | None = None
    high_s: float | None = None
    difference_s: float | None = None
    share: float | None = None


class Count(Typed):
    """What the kernel counted, with one process and with n."""

    title: str
    low: float | None = None
    high: float | None = None


class Intervention(Typed):
    """One change of an experiment, and what it took away."""

    title: str
    status: str
    reason: str | None = None
    comes_back: Interval | None = None
    scaling_loss: Interval | None = None
    single_process_loss: Interval | None = None


class Dose(Typed):
    """A step beside other work, against one beside none."""

    dose: float = 0.0
    cpus: float = 0.0
    ratio: Interval | None = None
    spread: float | None = None


class Sensitivity(Typed):
    """Step times beside one kind of work."""

    kernel: str = ""
    title: str
    verified: bool = True
    doses: tuple[Dose, ...] = ()


class Wait(Typed):
    """A system call in which training threads were found."""

    n: int | None = None
    syscall: str | None = None
    on: str | None = None
    share: float | None = None


class Foreign(Typed):
    """A program beside the study."""

    name: str
    pid: int | str
    cpu_s: float | None = None
    share: float | None = None


class Boundary(Typed):
    """A process count at which a part of the machine is full."""

    name: str
    n: float


class Knee(Typed):
    """Where the step time of a launch bends."""

    boundary: Boundary | None = None


class Target(Typed):
    """A launch on which experiments were made, of analysis/causes.json."""

    target: str
    launch: str = ""
    label: str
    role: str = ""
    n: int | None = None
    effort: str | None = None
    status: str
    reason: str | None = None
    same_as: str | None = None
    units: str | None = None
    unit_count: int | None = None
    start_sd: float | None = None
    growth_ratio: Interval | None = None
    scaling_loss: Judged = Judged()
    single_process_loss: Judged = Judged()
    accounts: tuple[AccountTime, ...] = ()
    counts: tuple[Count, ...] = ()
    interventions: tuple[Intervention, ...] = ()
    sensitivities: tuple[Sensitivity, ...] = ()
    foreign: tuple[Foreign, ...] = ()
    waits: tuple[Wait, ...] = ()
    knee: Knee | None = None

    @property
    def title(self) -> str:
        """Return the launch, and why it is looked at."""
        if self.target == "recommended":
            return f"{self.label} (recommended)"
        if self.role == "default" and self.label != "default":
            return f"{self.label} (default)"
        return self.label

    @property
    def undecided(self) -> tuple[Cause, ...]:
        """Return what was tested without a result."""
        return (*self.scaling_loss.inconclusive, *self.single_process_loss.inconclusive)

    @property
    def untested(self) -> dict[str, str]:
        """Return what was not tested, with the reason: growth and level often have the same."""
        both = (*self.scaling_loss.not_tested, *self.single_process_loss.not_tested)
        return {cause.title: cause.reason or "" for cause in both}


class KernelRow(Typed):
    """Rates of a kernel on n processes, in one block."""

    kernel: str
    placement: str
    n: int
    block: int
    rates: tuple[float, ...] = ()
    valid: bool = True


class Kernel(Typed):
    """A kernel of the machine's microbenchmarks."""

    kernel: str
    title: str


class Ceiling(Typed):
    """What a part of the machine gives at most."""

    name: str
    title: str
    per_s: float | None = None
    unit: str = "B"
    note: str = ""


class Microbenchmarks(Typed):
    """microbenchmarks.json: the machine's own kernels and ceilings."""

    machine: str
    kernels: tuple[Kernel, ...] = ()
    rows: tuple[KernelRow, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()


# The data loader.


class LoaderPart(Typed):
    """A part of a step: waiting, training, interference, or what is not accounted for."""

    part: str
    s: float
    share: Interval


class Variant(Typed):
    """The script with its loader, without it, or the loader alone."""

    variant: str
    step_s: Interval
    cpu_s: float | None = None
    per_s: float | None = None


class Way(Typed):
    """Another way to load; the name is empty for the script as it is."""

    name: str
    title: str
    axes: dict[str, object] = {}
    loader_s: float | None = None
    predicted_s: float | None = None
    measured_s: float | None = None
    gain: Interval | None = None


class Span(Typed):
    """What the machine was used for at a moment: CPUs by kind of thread."""

    at_s: float
    trainers: float = 0.0
    threads: float = 0.0
    workers: float = 0.0
    others: float = 0.0
    disk: float | None = None
    network: float | None = None
    stalled_cpu: float | None = None
    stalled_io: float | None = None
    memory_left: float = 0.0
    shared_left: float = 0.0


class Use(Typed):
    """What the machine was used for while the script trained."""

    cpus: float
    shared_bytes: float | None = None
    spans: tuple[Span, ...] = ()


class Cached(Typed):
    """Batches that were kept in memory."""

    cached_bytes: float | None = None
    copied: bool = False


class Skipped(Typed):
    """What was not measured, with the reason."""

    title: str
    reason: str


class DataLoader(Typed):
    """A machine's entry of analysis/data_loader.json: the data loader."""

    status: str = "ok"
    reason: str | None = None
    label: str = ""
    n: int = 1
    cached: Cached | None = None
    left_out: tuple[Skipped, ...] = ()
    variants: tuple[Variant, ...] = ()
    parts: tuple[LoaderPart, ...] = ()
    fetching: Interval | None = None
    preparing: Interval | None = None
    most: dict[str, float] = {}
    ways: tuple[Way, ...] = ()
    neighbours: tuple[Sensitivity, ...] = ()
    disk_bytes_per_s: dict[str, float] = {}
    use: Use | None = None

    def part(self, name: str) -> LoaderPart | None:
        """Return a part of a step; None where it was not measured."""
        return next((one for one in self.parts if one.part == name), None)

    def step_s(self, variant: str) -> float | None:
        """Return a variant's step (s)."""
        found = (one.step_s.value for one in self.variants if one.variant == variant)
        return next(found, None)


# The machine, its study, several of them.


class Hardware(Typed):
    """The machine as its probe saw it (machine.json)."""

    hash: str
    hostname: str
    cpu_model: str
    topology: dict[str, object]
    allowed_cpus: str
    allowed_nodes: str = "0"
    quota_cpus: float | None = None
    isa: tuple[str, ...] = ()
    l2_bytes: float | None = None
    l3_bytes: float | None = None
    memory_bytes: float | None = None
    memory_limit_bytes: float | None = None
    swap_bytes: float | None = None
    virtual: str | None = None
    kernel: str = ""
    libc: str = ""
    governor: str | None = None
    thp: str | None = None
    numa_balancing: bool | None = None
    perf_counters: bool | None = None
    libraries: dict[str, str | None] = {}
    versions: dict[str, str | None] = {}
    commit: str | None = None

    @property
    def cpus(self) -> int:
        """How many CPUs members may use."""
        return len(parse_cpu_list(self.allowed_cpus))

    @property
    def layout(self) -> str:
        """Return its sockets, nodes, caches and cores in words."""
        return Topology.from_dict(self.topology).describe()

    def usable(self) -> Topology:
        """Return the part of the topology that members may use."""
        return usable_topology(self.model_dump())

    def boundaries(self) -> dict[int, tuple[str, ...]]:
        """Return the process counts at which a part of the machine is full."""
        return process_counts.boundaries(self.usable(), self.quota_cpus)


class Rate(Typed):
    """What a launch gives on a machine, per hour, per price and per energy."""

    label: str
    n: int
    rate: Interval
    per_price: Interval | None = None
    per_kwh: Interval | None = None


class Fact(Typed):
    """In what another node differs."""

    fact: str
    here: object
    there: object


class OtherNodes(Typed):
    """Nodes under a machine's name that are not the same machine."""

    hosts: tuple[str, ...]
    cohorts: int
    differences: tuple[Fact, ...] = ()


class ComparedMachine(Typed):
    """A machine of analysis/machines.json."""

    name: str
    status: str
    reason: str | None = None
    kind: dict[str, object] = {}
    machine: str = ""
    cpu_model: str = ""
    hosts: tuple[str, ...] = ()
    default: Rate | None = None
    recommended: Rate | None = None
    others: tuple[OtherNodes, ...] = ()
    to_reference: dict[str, Interval | None] = {}


class Best(Typed):
    """The machine that gives most by one measure, and how much more than the next."""

    first: str
    next: str
    ratio: Interval
    spread: float | None = None


class Software(Typed):
    """What machines differ in beside themselves."""

    what: str
    machines: dict[str, object]


class Compared(Typed):
    """analysis/machines.json: the machines of a study side by side."""

    objective: str | None = None
    single: bool = False
    currency: str = ""
    reference: str | None = None
    machines: tuple[ComparedMachine, ...]
    best: dict[str, Best | None] = {}
    same: tuple[tuple[str, ...], ...] = ()
    software: tuple[Software, ...] = ()

    @property
    def measured(self) -> tuple[ComparedMachine, ...]:
        """Return those that are measured."""
        return tuple(one for one in self.machines if one.status == "measured")


@dataclass(frozen=True, slots=True)
class Machine:
    """All that a study knows of one machine.

    Attributes:
        name: what the config calls it; ``""`` in a study of one machine.
        suffix: of its files' names; ``""`` for the first machine.
        points: its rows of tables/points, without the baseline's repeat.
        between: its rows of tables/between.
        members: of `compare_members`.
        manifests: of `profiles.read_manifests`, for the stacks.
    """

    name: str
    suffix: str
    hardware: Hardware
    provenance: Provenance
    recommendation: Recommendation
    confirmation: Confirmation | None
    noise: Noise
    failures: Failures
    readback: Readback
    scaling: Scaling
    single_changes: SingleChanges
    pareto: Pareto
    comparisons: tuple[Comparison, ...]
    profiled: tuple[Profiled, ...]
    targets: tuple[Target, ...]
    data_loader: DataLoader | None
    microbenchmarks: Microbenchmarks | None
    points: pd.DataFrame
    between: pd.DataFrame
    members: pd.DataFrame
    manifests: tuple[profiles.Manifest, ...]

    def point(self, launch: str, n: int | None = None) -> pd.Series | None:
        """Return a launch's row of points at a count (its largest by default); None without one."""
        rows = self.points[self.points["launch"] == launch].sort_values("n")
        rows = rows if n is None else rows[rows["n"] == n]
        return None if rows.empty else rows.iloc[-1]


def _interval(
    ends: tuple[float | None, float | None, float | None], *, known_ends: bool = True
) -> Interval:
    value, low, high = (None if end is None or math.isnan(end) else end for end in ends)
    return Interval(value=value, low=low if known_ends else None, high=high if known_ends else None)


def read_machines(folder: Path, plan: Plan, *, name: str = "", first: str = "") -> list[Machine]:
    """Read all machines of a folder.

    Args:
        folder: that holds tables, analysis and profile.
        plan: plan.json.
        name: of the machine in the config; ``""`` in a study of this machine alone.
        first: hash of the machine that comes first, which the name stands for.
    """
    found = {path.stem: _entries(path) for path in sorted((folder / "analysis").glob("*.json"))}
    frames = {table: storage.read_table(folder / "tables", table) for table in (POINTS, BETWEEN)}
    points, between = frames[POINTS], frames[BETWEEN]
    points = points[points["role"] != "repeat"]
    members = compare_members(storage.read_columns(folder / "tables", WINDOWS, MEMBER_COLUMNS))
    asked = plan.profiled  # profiles of an earlier config may lie there
    folders = [one for one in profiles.profile_folders(folder) if one.name in asked]
    manifests = profiles.read_manifests(folders)
    alone = read_microbenchmarks(folder)
    machines: list[Machine] = []
    for machine in sorted(found["provenance"], key=lambda one: one != first):
        entries = {stem: of.get(machine) for stem, of in found.items()}
        provenance = Provenance.model_validate(entries["provenance"])
        own = tuple(one for one in manifests if one["machine"] == machine)
        suffix = f"-{name}" if name else ""
        hardware = Hardware.model_validate(provenance.description)
        confirmation, data_loader = entries.get("confirmation"), entries.get("data_loader")
        inflation = entries.get("inflation") or {}
        machines.append(
            Machine(
                name=f"{name}{OTHER_NODES}" if name and machines else name,
                suffix=f"{suffix}-{_file_name(machine)}" if machines else suffix,
                hardware=hardware,
                provenance=provenance,
                recommendation=Recommendation.model_validate(entries["recommendation"]),
                confirmation=Confirmation.model_validate(confirmation) if confirmation else None,
                noise=Noise.model_validate(entries["noise"] or {}),
                failures=Failures.model_validate(entries["failures"] or {}),
                readback=Readback.model_validate(entries["readback"] or {}),
                scaling=Scaling.model_validate(entries["scaling"] or {}),
                single_changes=SingleChanges.model_validate(entries.get("single_changes") or {}),
                pareto=Pareto.model_validate(entries["pareto"] or {}),
                comparisons=read_comparisons(inflation),
                profiled=tuple(Profiled.model_validate(one) for one in own),
                targets=read_targets(entries.get("causes") or {}),
                data_loader=DataLoader.model_validate(data_loader)
                if data_loader and plan.data_loader != "off"
                else None,
                microbenchmarks=alone if alone and alone.machine == machine else None,
                points=points[points["machine"] == machine],
                between=between[between["machine"] == machine],
                members=members[members["machine"] == machine],
                manifests=own,
            )
        )
    return machines


def read_comparisons(entry: Mapping[str, object]) -> tuple[Comparison, ...]:
    """Return a machine's comparisons of profiles, the slower question first."""
    found = entry.get("comparisons", ())
    return tuple(Comparison.model_validate(one) for one in found)  # type: ignore[attr-defined]


def read_targets(entry: Mapping[str, object]) -> tuple[Target, ...]:
    """Return the targets of a machine's experiments."""
    found = entry.get("targets", ())
    return tuple(Target.model_validate(one) for one in found)  # type: ignore[attr-defined]


def read_microbenchmarks(folder: Path) -> Microbenchmarks | None:
    """Return the machine's microbenchmarks; None where it was not measured."""
    path = folder / "microbenchmarks.json"
    return Microbenchmarks.model_validate(storage.read_json(path)) if path.exists() else None


def _entries(path: Path) -> dict[str, Json]:
    """Return the entries of an analysis file by machine; machines.json has none of its own."""
    if path.stem in {"machines", "tables"}:
        return {}
    return {entry["machine"]: entry for entry in storage.read_json(path)["machines"]}


def _file_name(text: str) -> str:
    return "".join(
        sign if sign.isascii() and (sign.isalnum() or sign in "_-") else "_" for sign in text
    )


def compare_members(windows: pd.DataFrame) -> pd.DataFrame:
    """Mean step time of every member against its cohort's, at each launch's largest n.

    Args:
        windows: rows of tables/windows, ``MEMBER_COLUMNS``.

    Returns:
        Columns ``machine``, ``launch``, ``n``, ``slot``, ``relative`` (0.02: two percent slower
        than the mean of the members).
    """
    valid = windows[windows["valid"].astype(bool) & (windows["n"] > 1)]
    largest = valid.groupby(["machine", "launch"])["n"].transform("max")
    point = ["machine", "launch", "n"]
    rows = valid[valid["n"] == largest].groupby([*point, "slot"])["step_mean_s"]
    members = rows.mean().to_frame("step_mean_s").reset_index()
    mean_s = members.groupby(point)["step_mean_s"].transform("mean")
    members["relative"] = members["step_mean_s"] / mean_s - 1
    return members[[*point, "slot", "relative"]]
