"""Results of the analyses: an entry for each machine in analysis/*.json.

A file holds `Machines`, which are never pooled. Rates are those of all processes of a point
together, in steps of the default launch.
"""

from typing import Generic, Literal, TypeVar

from msgspec import Struct

from scaling_study.common.axis_values import Axes
from scaling_study.common.objectives import OBJECTIVES, Objective, time_s
from scaling_study.common.quantities import known
from scaling_study.records.cohorts import Got, Replicate
from scaling_study.records.confirmation import Imports, Losses, Start
from scaling_study.records.field import Json
from scaling_study.records.machine import Fact, Machine
from scaling_study.records.model_length import ModelLength
from scaling_study.records.readback import Check
from scaling_study.records.window import Slot
from scaling_study.stats.interval import Interval

ENOUGH_STARTS = 2
"""A figure from fewer starts is grey, and no sentence quotes it."""

Number = float | None
"""None where it is not known."""


class OfMachine(Struct, frozen=True, kw_only=True):
    """The entry of one machine in an analysis file."""

    machine: str = ""
    """Hash of the machine."""


E = TypeVar("E", bound=OfMachine)


class Machines(Struct, Generic[E], frozen=True):
    """An analysis file."""

    machines: tuple[E, ...]

    def of(self, machine: str) -> E | None:
        """Return a machine's entry; None without one."""
        return next((entry for entry in self.machines if entry.machine == machine), None)


# The recommendation.


class Point(Struct, frozen=True, kw_only=True):
    """A launch at a process count."""

    launch: str = ""
    """Launch id, as in plan.json."""
    label: str
    """The launch's values that differ from all-default."""
    n: int
    """Members that trained."""


class Candidate(Point, frozen=True, kw_only=True):
    """A launch at a process count, with its rates."""

    role: str = ""
    """Why the launch is in the plan."""
    replicates: int = 1
    """Fresh starts with a valid window."""
    oversubscribed: bool = False
    """Whether members ask for more threads than there are CPUs, or share CPUs."""
    steps_per_s: Number = None
    """Throughput, including the time between steps."""
    step_s: Number = None
    """Mean ordinary step of a member."""
    low: Number = None
    """Lower end of the throughput."""
    high: Number = None
    """Upper end of the throughput."""
    non_step_share: Number = None
    """Part of the active time that lies between steps."""
    models_per_hour: Number = None
    """Predicted, with a process for each model: its start and its steps."""
    models_per_hour_low: Number = None
    """Its lower end."""
    models_per_hour_high: Number = None
    """Its upper end."""
    probability_best: Number = None
    """Probability that no point is better by more than the tolerance."""

    @property
    def at(self) -> tuple[str, int]:
        """Its key in `intervals.Means`."""
        return self.launch, self.n

    def rate(self, objective: Objective) -> Interval:
        """Return the rate of all processes from which an objective is computed."""
        if objective.rate == "steps_per_s":
            return _interval(self.steps_per_s, self.low, self.high)
        ends = (self.models_per_hour_low, self.models_per_hour_high)
        return _interval(self.models_per_hour, *ends)

    def gives(self, objective: str) -> Interval:
        """Return the rate that an objective asks for, or the time of one model or step (s).

        Args:
            objective: A key of `OBJECTIVES`.
        """
        interval = shown(self.rate(OBJECTIVES[objective]), objective, self.n)
        return Interval(interval.value) if self.once else interval

    @property
    def once(self) -> bool:
        """Whether its figures come from too few starts to be quoted."""
        return self.replicates < ENOUGH_STARTS


class Most(Candidate, frozen=True, kw_only=True):
    """A launch at its largest measured process count, compared with its best count."""

    ratio: Interval = Interval()


class ReferencePoint(Candidate, frozen=True, kw_only=True):
    """Today's launch or the default one, at its best process count."""

    at_n: Candidate | None = None
    """The same launch at the recommended process count."""
    most: Most | None = None
    """The same launch with the most processes, where that is another point."""
    shell: object = None
    """The variables of the user's shell that make today's launch."""


class Recommended(Candidate, frozen=True, kw_only=True):
    """The launch to use, with the settings that start its members."""

    axes: Axes = {}
    slots: tuple[Slot, ...] = ()
    requested_env: dict[str, str | None] = {}
    most: Most | None = None
    """The same launch with the most processes, where that is another point."""
    forked: Number = None
    """Its models per hour with forked starts; None if no forked model was trained."""


class Ranked(Candidate, frozen=True, kw_only=True):
    """A launch of the ranking, at its best process count; models start as the ranking says."""

    ratio_to_default: Number = None
    ratio_low: Number = None
    ratio_high: Number = None

    @property
    def to_default(self) -> Interval:
        """Return its rate over the default launch's."""
        interval = _interval(self.ratio_to_default, self.ratio_low, self.ratio_high)
        return Interval(interval.value) if self.once or self.role == "default" else interval


class Changed(Candidate, frozen=True, kw_only=True):
    """A faster launch that changes training, and is therefore not recommended."""

    what: Axes = {}
    """Its changes: values by axis."""
    ratio: Interval = Interval()
    """To the recommended launch."""


class Recommendation(OfMachine, frozen=True, kw_only=True):
    """A machine's entry of recommendation.json."""

    status: str
    """``ok``, or ``none`` with a `reason`."""
    reason: str | None = None
    """Why nothing is recommended."""
    objective: str = "models_per_hour"
    """The objective that is compared: a key of `OBJECTIVES`."""
    model_length: ModelLength | None = None
    """Steps of a model, if they were learnt from scripts that ended."""
    tolerance: float = 0.02
    """A smaller difference is not worth more processes."""
    interval: str = ""
    """How intervals are computed, in words."""
    probability: str = ""
    """The meaning of the probability of being best, in words."""
    raced: bool = False
    """Whether a race chose the launch."""
    start: Start = "fresh"
    """How models start in the choice, its probability and the ranking: `fresh` or `forked`."""
    default: ReferencePoint | None = None
    """None where it was not measured."""
    today: ReferencePoint | None = None
    """None where it is the default launch, or was not measured."""
    best: Candidate | None = None
    """The best point by the objective."""
    throughput: Candidate | None = None
    """The point with the highest rate."""
    recommended: Recommended | None = None
    ratio: Interval | None = None
    """The recommended launch over today's or else the default one, each at its best count."""
    ratio_same_n: Interval | None = None
    """Both at the recommended count."""
    as_run: Interval | None = None
    """The recommended launch over today's with the processes that the user runs today."""
    as_run_n: int | None = None
    """How many these are."""
    changed: Changed | None = None
    ranking: tuple[Ranked, ...] = ()
    """Every launch at its best point, best first."""

    @property
    def ok(self) -> bool:
        """Whether something is recommended."""
        return self.recommended is not None

    @property
    def compared(self) -> ReferencePoint | None:
        """Return the launch to compare the recommended one with: today's, or else the default."""
        return self.today or self.default

    @property
    def single(self) -> bool:
        """Whether the objective is one model as soon as possible."""
        return OBJECTIVES[self.objective].single


class FrontPoint(Point, frozen=True, kw_only=True):
    """A point of the trade-off between one model soon and many per hour."""

    time_s: float
    """Time of one model, or step."""
    rate: float
    """Rate of all processes together."""
    changes_training: bool = False
    """Whether it changes training; such a point is not on the front."""


class Pareto(OfMachine, frozen=True, kw_only=True):
    """A machine's entry of pareto.json."""

    rate: str = "steps_per_s"
    """`models_per_hour`, or `steps_per_s` if the steps of a model are not known."""
    points: tuple[FrontPoint, ...] = ()
    """All points, in the order of the table of points."""
    front: tuple[FrontPoint, ...] = ()
    """Points that no other one beats, soonest first."""


class SingleChange(Struct, frozen=True, kw_only=True):
    """A launch that differs from the baseline in one axis, or the baseline itself."""

    launch: str = ""
    axis: str = ""
    """The axis that it changes; empty for the baseline."""
    value: object = None
    replicates: int = 1
    step_s: Number = None
    cpu_use: Number = None
    """CPUs kept busy by all members."""
    load: Number = None
    """Time of a step in the loader (s); it and the next three add up to the step."""
    forward: Number = None
    backward: Number = None
    optimizer: Number = None
    epoch_s: Number = None
    gain: Interval = Interval()
    """Throughput over the baseline's."""

    @property
    def phases(self) -> tuple[Number, ...]:
        """Parts that add up to a step."""
        return self.load, self.forward, self.backward, self.optimizer


class Combined(Struct, frozen=True, kw_only=True):
    """One of the changes that lead step by step from the baseline to the best combination."""

    axis: str
    value: object
    alone: Interval = Interval()
    """Its gain alone."""
    predicted: Number = None
    """Predicted gain of this change and all before it together."""
    measured: Interval | None = None
    """Measured gain of the launch with exactly these changes; None without such a launch."""


class SingleChanges(OfMachine, frozen=True, kw_only=True):
    """A machine's entry of single_changes.json."""

    n: int | None = None
    """Process count of all these launches."""
    baseline: SingleChange | None = None
    """None where it has no valid window."""
    changes: tuple[SingleChange, ...] = ()
    """In the order of the axes."""
    steps: tuple[Combined, ...] = ()
    """The changes that lead to the best launch whose changes were all tried alone."""


# The confirmation.


class ArmResult(Point, frozen=True, kw_only=True):
    """A launch in free runs with one kind of start: its result and its prediction."""

    role: str
    start: str
    """How models start: `fresh` or `forked`."""
    rounds: int
    """Rounds that gave a value."""
    value: float
    """Models per hour, or steps per second."""
    low: Number = None
    high: Number = None
    predicted: Number = None
    """The prediction of the table of points; None for a start that is not predicted."""
    start_s: Number = None
    """Time from the start of a process to the end of its first iteration."""
    iteration_s: Number = None
    end_s: Number = None
    """Time from the last iteration to the end of the process."""
    whole_models: int = 0
    cut: bool = False
    """Whether the value is from models that were cut off."""
    end_seen: bool = True
    foreign_cpus: float = 0.0
    """CPUs kept busy by other programs."""

    def gives(self, objective: str) -> Interval:
        """Return its rate, or the time of one model or step (s)."""
        return shown(Interval(self.value, self.low, self.high), objective, self.n)


class Part(Struct, frozen=True, kw_only=True):
    """A factor of the difference between confirmed and predicted."""

    what: str
    factor: float


class Difference(Struct, frozen=True, kw_only=True):
    """Confirmed over predicted, and its factors."""

    value: float
    parts: tuple[Part, ...] = ()
    unexplained: float = 1.0


class MissingArm(Struct, frozen=True, kw_only=True):
    """An arm of the confirmation that gave no figure."""

    arm: str = ""
    """Role and start."""
    role: str = ""
    label: str
    n: int
    start: str
    status: str
    reason: str | None = None


class Confirmation(OfMachine, frozen=True, kw_only=True):
    """A machine's entry of confirmation.json."""

    status: str = ""
    """`confirmed`, `failed`, `none` or `off`; empty before the confirmation."""
    reason: str | None = None
    objective: str = "models_per_hour"
    start: str = "fresh"
    """The best way to start the recommended launch's models in a process of their own: `fresh`
    or `forked`. The ratios use it."""
    arms: tuple[ArmResult, ...] = ()
    left_out: tuple[MissingArm, ...] = ()
    losses: tuple[Losses, ...] = ()
    steps_per_model: Number = None
    """Steps of a model under the recommended launch; None if unknown."""
    imports: Imports | None = None
    """Modules that are imported before models are forked."""
    ratio: Interval | None = None
    """The recommended launch over the one it is compared with, each at its best count."""
    ratio_same_n: Interval | None = None
    difference: Difference | None = None
    against: str = "default"
    """The launch that the recommended one is compared with: `today` or `default`."""
    model_length: ModelLength | None = None

    def arm(self, role: str, start: str | None = None) -> ArmResult | None:
        """Return the arm of a role, by default with its best start; None if it did not run."""
        start = start or (self.start if role == "recommended" else "fresh")
        arms = self.arms if self.status == "confirmed" else ()
        return next((arm for arm in arms if (arm.role, arm.start) == (role, start)), None)


# Noise, failures, effective settings and provenance.


class NoisePoint(Struct, frozen=True, kw_only=True):
    """The baseline's repeat over the baseline, at a process count."""

    n: int
    ratio: float
    low: Number = None
    high: Number = None


class Noise(OfMachine, frozen=True, kw_only=True):
    """A machine's entry of noise.json: the A/A check."""

    points: tuple[NoisePoint, ...] = ()
    """The process counts that baseline and repeat both have."""
    spread: Number = None
    """The largest difference; None without a point."""

    def at(self, *counts: int) -> float | None:
        """Return the largest difference at some process counts; None without a repeat.

        For a count that the repeat lacks, the largest difference of all is used.
        """
        if self.spread is None:
            return None
        differences = {point.n: abs(point.ratio - 1) for point in self.points}
        return max((differences.get(n, self.spread) for n in counts), default=self.spread)


class Failure(Replicate, frozen=True, kw_only=True):
    """A cohort that did not complete, or a file that is missing, and what to do."""

    status: str
    reason: str | None = None
    remedy: str | None = None
    log: str | None = None


class Invalid(Point, frozen=True, kw_only=True):
    """How many invalid windows of a point have a flag."""

    flag: str
    count: int


class MemberEvent(Replicate, frozen=True, kw_only=True):
    """An event of a member, with the reason and its log."""

    slot: int | None
    what: str
    reason: str | None = None
    log: str | None = None


class Failures(OfMachine, frozen=True, kw_only=True):
    """A machine's entry of failures.json."""

    launches: tuple[Failure, ...] = ()
    windows: tuple[Invalid, ...] = ()
    points: tuple[Point, ...] = ()
    """Points that were asked for and have no valid window."""
    members: tuple[MemberEvent, ...] = ()
    shared_files: dict[str, int] = {}
    """Files that several members wrote, and how many of one cohort wrote each, at most."""


class Settling(Struct, frozen=True, kw_only=True):
    """Cohorts of a launch whose windows were taken anew, because steps had changed."""

    cohorts: int
    """Number of these cohorts."""
    of: int
    """Number of all measured cohorts of the launch."""
    least: float
    """The smallest change of the time of steps, as part of it."""
    most: float
    """The largest change."""
    left: int = 0
    """Cohorts whose steps were still changing in the last windows."""


class Effective(Got, frozen=True, kw_only=True, omit_defaults=False):
    """The settings that a launch asked for and got."""

    launch: str
    label: str
    pace: Interval | None = None
    """The time of a step in later windows over that in earlier ones."""
    settling: Settling | None = None
    """None where no window was taken anew."""

    @property
    def wrong(self) -> tuple[Check, ...]:
        """Checks of values that did not take effect."""
        return tuple(check for check in self.checks if not check.ok)


class EffectiveSettings(OfMachine, frozen=True, kw_only=True):
    """A machine's entry of readback.json."""

    launches: tuple[Effective, ...] = ()

    def optimizers(self, launch: str) -> list[str]:
        """Return the classes of the optimizers that a launch's script used, as far as known."""
        members = (
            member
            for entry in self.launches
            if entry.launch == launch
            for member in entry.counted or ()
        )
        return [optimizer.name for member in members if member for optimizer in member.optimizers]


class Provenance(OfMachine, frozen=True, kw_only=True):
    """A machine's entry of provenance.json: where its numbers come from."""

    description: Machine
    measured_hashes: tuple[str, ...] = ()
    """Digests of the script, its arguments, inputs and build."""
    harness_hashes: tuple[str, ...] = ()
    """Digests of the measuring code."""
    started: str
    """Start of the first cohort."""
    cohorts: int
    windows_valid: int
    windows_invalid: int
    steps: int
    """Steps counted in valid windows."""
    wall_s: float
    """Time of all cohorts, each from its first exec to its last exit."""
    in_windows_s: float = 0.0
    samples: dict[str, float] = {}
    """Samples of a step by launch, if scripts count them."""

    @property
    def windows(self) -> int:
        """How many windows were taken."""
        return self.windows_valid + self.windows_invalid


STAGE_TIMES = "stages.json"
"""In results/<study>: how long (s) the stages that measure took in all runs, by their rules."""


class Analysed(Machines[Provenance], frozen=True):
    """The content of provenance.json."""

    plan: Json
    """The plan that was analysed, as in plan.json."""


# Scaling laws.


class FittedLaw(Struct, frozen=True, kw_only=True):
    """A law fitted to the points of a launch."""

    law: str
    domain: str | None = None
    """The part of the machine that saturates."""
    formula: str
    parameters: dict[str, float]
    aicc: float
    weight: float
    """Akaike weight."""
    r2: Number = None
    """Share of the variance of log throughput that it explains."""


class ChosenLaw(Struct, frozen=True, kw_only=True):
    """The scaling law of a launch."""

    status: Literal["fitted", "refused"] = "refused"
    reason: str | None = None
    """Why none was fitted."""
    best: str | None = None
    """Name of the chosen law."""
    text: str | None = None
    """The law, its probability, and the others that fit as well."""
    candidates: tuple[FittedLaw, ...] = ()
    """Best first."""
    knee: Interval | None = None
    """Process count at which throughput bends; None where it is not known."""


class LaunchLaws(Struct, frozen=True, kw_only=True):
    """The scaling laws of a launch."""

    launch: str
    laws: ChosenLaw = ChosenLaw()


class Scaling(OfMachine, frozen=True, kw_only=True):
    """A machine's entry of scaling.json."""

    launches: tuple[LaunchLaws, ...] = ()


# Compared profiles.


class Side(Point, frozen=True, kw_only=True):
    """One of two profiles."""

    step_s: float
    """Time of a step while it was profiled."""


class OperatorRow(Struct, frozen=True, kw_only=True):
    """An operator in one phase, on both sides: self time (s) and calls per step."""

    operator: str
    phase: str | None = None
    group: str
    """The resource that such an operator is bound by."""
    calls_a: Number = None
    self_a_s: Number = None
    calls_b: Number = None
    self_b_s: Number = None
    difference_s: Number = None
    share: Number = None
    """Share of the difference between both steps."""
    per_call_ratio: Number = None

    @property
    def size(self) -> float:
        """Return how much it changed (s), in either direction."""
        return abs(self.difference_s or 0.0)


class GroupRow(Struct, frozen=True, kw_only=True):
    """The operators of a group, on both sides: self time per step (s)."""

    group: str
    self_a_s: Number = None
    self_b_s: Number = None
    difference_s: float
    share: Number = None
    """Share of the difference between both steps."""
    ratio: Number = None


class Comparison(Struct, frozen=True, kw_only=True):
    """Two profiles side by side; the differences of the rows add up to that of the steps."""

    kind: Literal["counts", "launches"]
    """The difference between the sides."""
    title: str
    a: Side
    b: Side
    rows: tuple[OperatorRow, ...] = ()
    """The largest added time first."""
    groups: tuple[GroupRow, ...] = ()

    @property
    def added_s(self) -> float:
        """Time by which the second side's step is longer (s)."""
        return self.b.step_s - self.a.step_s

    @property
    def heads(self) -> tuple[str, str]:
        """The names of its sides."""
        return name_sides(self.kind, self.a, self.b)


class Inflation(OfMachine, frozen=True, kw_only=True):
    """A machine's entry of inflation.json: operators that take longer."""

    comparisons: tuple[Comparison, ...] = ()


# Saved tables of torch's profiler.


class SavedTable(Struct, frozen=True, kw_only=True):
    """A saved table, with its figures of a step."""

    n: int
    """Processes that ran."""
    path: str
    steps: int
    """Steps that it covers."""
    steps_from: str
    """The source of the number of steps."""
    step_s: float
    step_from: str
    """The source of the time of a step."""
    self_s: Number = None
    """All self time, if the table states it."""
    rows_s: float
    """Self time of its rows."""
    rows: int
    unread: tuple[str, ...] = ()
    """Columns that are not used."""
    cut: tuple[str, ...] = ()
    """Names that torch has shortened."""

    @property
    def covered(self) -> float | None:
        """The share of all self time that the rows hold."""
        return self.rows_s / self.self_s if self.self_s else None


class Findings(Struct, frozen=True, kw_only=True):
    """Findings from saved tables on why a step takes longer."""

    answer: str
    facts: tuple[str, ...] = ()
    command: str
    """The command that runs the experiments."""


class SavedTables(Struct, frozen=True, kw_only=True):
    """analysis/tables.json: an imported study."""

    config: Json
    """The config, as in its file."""
    tables: tuple[SavedTable, ...]
    findings: Findings


# Several machines.


class Rate(Point, frozen=True, kw_only=True):
    """A point, with its models or steps per unit of time on a machine."""

    rate: Interval


class OtherNodes(Struct, frozen=True, kw_only=True):
    """Nodes under a machine's name that are not the same machine."""

    machine: str = ""
    """Their hash."""
    hosts: tuple[str, ...]
    cohorts: int
    differences: tuple[Fact, ...] = ()


class ComparedMachine(Struct, frozen=True, kw_only=True):
    """A named machine of a study."""

    name: str
    status: Literal["measured", "missing"]
    reason: str | None = None
    """The reason why it is missing, or why nothing is recommended."""
    kind: Json = {}
    """The machine's section of the config."""
    machine: str = ""
    """Its hash."""
    cpu_model: str = ""
    hosts: tuple[str, ...] = ()
    default: Rate | None = None
    recommended: Rate | None = None
    others: tuple[OtherNodes, ...] = ()
    to_reference: Interval | None = None
    """Its recommended launch's rate over that of the reference machine."""


class Best(Struct, frozen=True, kw_only=True):
    """The machine that gives most, and how much more than the next."""

    first: str
    next: str
    ratio: Interval = Interval()
    spread: Number = None
    """Spread of the A/A checks of both."""


class Software(Struct, frozen=True, kw_only=True):
    """Software in which machines differ."""

    what: str
    machines: dict[str, str]
    """By the machine's name."""


class Compared(Struct, frozen=True, kw_only=True):
    """analysis/machines.json: the machines of a study side by side."""

    objective: str | None = None
    """The rate that is compared."""
    single: bool = False
    """Whether launches were chosen for the time of one model."""
    reference: str | None = None
    """The machine that others are compared with."""
    machines: tuple[ComparedMachine, ...]
    best: Best | None = None
    same: tuple[tuple[str, ...], ...] = ()
    """Names that stand for one machine."""
    software: tuple[Software, ...] = ()

    @property
    def measured(self) -> tuple[ComparedMachine, ...]:
        """Return the machines that are measured."""
        return tuple(machine for machine in self.machines if machine.status == "measured")


def name_sides(kind: Literal["counts", "launches"], a: Point, b: Point) -> tuple[str, str]:
    """Return the names of two compared points, by what they differ in."""
    return (f"n = {a.n}", f"n = {b.n}") if kind == "counts" else ("default", "recommended")


def shown(rate: Interval, objective: str, n: int) -> Interval:
    """Return what an objective shows of a rate: the rate, or the time (s) of one model or step.

    Args:
        rate: Rate of all n processes together.
        objective: A key of `OBJECTIVES`.
        n: Process count.
    """
    goal = OBJECTIVES[objective]
    if not goal.single or not known(rate.value):
        return rate
    shortest, longest = (
        None if end is None else time_s(end, n, goal.rate) for end in (rate.high, rate.low)
    )
    return Interval(time_s(rate.value, n, goal.rate), shortest, longest)


def _interval(value: Number, *ends: Number) -> Interval:
    """Return an interval from columns of a table, in which NaN stands for not known."""
    low, high = (end if known(end) else None for end in ends)
    return Interval(value if value is not None else float("nan"), low, high)
