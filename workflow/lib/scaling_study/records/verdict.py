"""Results of experiments: causes.json and data_loader.json of analysis/, and microbenchmarks.json.

Shares are parts of a step's time: of what more processes add to it (the scaling loss), or of the
step of one process alone (the single-process loss).
"""

from msgspec import Struct, field

from scaling_study.common.axis_values import Axes
from scaling_study.records.analysis import Number, OfMachine
from scaling_study.records.experiment import ForeignProcess, VariantLeftOut
from scaling_study.stats.interval import Interval


class EvidenceText(Struct, frozen=True, kw_only=True):
    """Evidence for or against a cause."""

    kind: str
    text: str


class Remedy(Struct, frozen=True, kw_only=True):
    """A remedy for a cause."""

    text: str | None = None
    axes: Axes | None = None
    """A launch's values that apply it."""
    config: str | None = None
    command: str | None = None
    code: str | None = None


class CauseResult(Struct, frozen=True, kw_only=True):
    """A cause that was tested, or could not be."""

    cause: str = ""
    """Its id."""
    title: str
    share: Interval | None = None
    confidence: str = ""
    """`high` or `low`."""
    reason: str | None = None
    """Why it was not tested."""
    source: str | None = None
    """The document that describes it."""
    remedy: Remedy | None = None
    speaks_for: tuple[EvidenceText, ...] = field(default=(), name="for")
    against: tuple[EvidenceText, ...] = ()
    open: tuple[EvidenceText, ...] = ()
    """Evidence that speaks neither way."""

    @property
    def value(self) -> float | None:
        """Return the share without its interval."""
        return self.share.value if self.share else None


class Judged(Struct, frozen=True, kw_only=True):
    """Causes of the time that more processes add, or of a step of one process alone."""

    named: tuple[CauseResult, ...] = ()
    ruled_out: tuple[CauseResult, ...] = ()
    inconclusive: tuple[CauseResult, ...] = ()
    not_tested: tuple[CauseResult, ...] = ()
    explained_share: Interval | None = None
    unexplained_share: Interval | None = None


class AccountTime(Struct, frozen=True, kw_only=True):
    """A time account of the training thread, with one process and with n (s per step)."""

    account: str
    title: str
    low_s: Number = None
    high_s: Number = None
    difference_s: Number = None
    share: Number = None
    """Share of the added time."""


class CountPerStep(Struct, frozen=True, kw_only=True):
    """A count of the kernel per step, with one process and with n."""

    name: str = ""
    title: str
    low: Number = None
    high: Number = None


class InterventionResult(Struct, frozen=True, kw_only=True):
    """One change of an experiment, and the time that it recovered."""

    intervention: str = ""
    title: str
    status: str
    reason: str | None = None
    comes_back: Interval | None = None
    """Recovered share of the step with n processes."""
    scaling_loss: Interval | None = None
    """Recovered share of the added time."""
    single_process_loss: Interval | None = None
    """Recovered share of the step of one process."""
    units: int | None = None


class Dose(Struct, frozen=True, kw_only=True):
    """A step beside a stressor at one dose, over a step without it."""

    dose: float
    """Share of the time in which the stressor ran."""
    ratio: Interval | None = None
    rate_share: Number = None
    """The rate that the stressor reached, over `dose` times its rate alone."""


class Sensitivity(Struct, frozen=True, kw_only=True):
    """Step times beside one stressor."""

    kernel: str = ""
    title: str
    verified: bool = True
    """Whether the stressor reached enough of its rate to load the machine as it should."""
    doses: tuple[Dose, ...] = ()
    effect: Interval | None = None
    """The time that the largest dose adds to a step, as part of it."""


class TrainerWait(Struct, frozen=True, kw_only=True):
    """A system call in which training threads were found."""

    n: int
    syscall: str
    on: str | None
    share: float
    """Share of all samples."""


class Boundary(Struct, frozen=True):
    """A process count at which something of the machine runs out, with its name."""

    name: str
    n: float


class Knee(Interval, frozen=True):
    """The process count at which the throughput of a launch bends."""

    boundary: Boundary | None = None
    """The machine's boundary at the same place, if any."""


class Target(Struct, frozen=True, kw_only=True):
    """A launch on which experiments were made."""

    target: str
    """A launch id, or `recommended`."""
    launch: str = ""
    label: str
    role: str = ""
    n: int | None = None
    """Members that trained."""
    effort: str | None = None
    status: str
    reason: str | None = None
    same_as: str | None = None
    """The target whose experiments stand for this one."""
    units: str | None = None
    """The units of intervals: `blocks` or `replicates`."""
    unit_count: int | None = None
    start_sd: Number = None
    """Standard deviation between starts, as part of a step."""
    step_1_s: Interval | None = None
    """Step of one process."""
    step_n_s: Interval | None = None
    """Step with n processes."""
    growth_ratio: Interval | None = None
    """Step with n processes over the step of one."""
    summary: str | None = None
    scaling_loss: Judged = Judged()
    single_process_loss: Judged = Judged()
    accounts: tuple[AccountTime, ...] = ()
    counts: tuple[CountPerStep, ...] = ()
    interventions: tuple[InterventionResult, ...] = ()
    sensitivities: tuple[Sensitivity, ...] = ()
    foreign: tuple[ForeignProcess, ...] = ()
    waits: tuple[TrainerWait, ...] = ()
    knee: Knee | None = None

    @property
    def title(self) -> str:
        """Return the label of the launch, and its role if it is recommended or the default."""
        if self.target == "recommended":
            return f"{self.label} (recommended)"
        if self.role == "default" and self.label != "default":
            return f"{self.label} (default)"
        return self.label

    @property
    def undecided(self) -> tuple[CauseResult, ...]:
        """Return the causes that were tested without a result."""
        return (*self.scaling_loss.inconclusive, *self.single_process_loss.inconclusive)

    @property
    def untested(self) -> dict[str, str]:
        """Return the titles of untested causes with the reason; both losses often share them."""
        both = (*self.scaling_loss.not_tested, *self.single_process_loss.not_tested)
        return {cause.title: cause.reason or "" for cause in both}


class Causes(OfMachine, frozen=True, kw_only=True):
    """A machine's entry of causes.json."""

    targets: tuple[Target, ...] = ()


# The data loader.


class LoaderPart(Struct, frozen=True, kw_only=True):
    """A part of a step: waiting, training, interference, or what is not accounted for."""

    part: str
    s: float
    share: Interval
    """Share of the step."""


class LoaderVariant(Struct, frozen=True, kw_only=True):
    """The script with its loader, without it, or the loader alone."""

    variant: str
    step_s: Interval
    against: Interval | None = None
    """Its step over the step as it is."""
    cpu_s: Number = None
    """CPU time of a step, all threads and processes."""
    per_s: Number = None
    """Steps per second of all members."""


class LoaderWay(Struct, frozen=True, kw_only=True):
    """Another way to load; the name is empty for the script as it is."""

    name: str
    title: str
    axes: Axes = {}
    """Axes of a launch that loads this way."""
    loader_s: Number = None
    """Time of a batch while nobody trains."""
    predicted_s: Number = None
    """Predicted time of a step."""
    measured_s: Number = None
    """Measured time of a step, if the script was run this way."""
    gain: Interval | None = None
    """Speedup over the script as it is."""


class Span(Struct, frozen=True, kw_only=True):
    """Use of the machine between two readings: CPUs by kind of thread."""

    at_s: float
    trainers: float = 0.0
    threads: float = 0.0
    workers: float = 0.0
    others: float = 0.0
    disk: Number = None
    """Bytes/s read from disks."""
    network: Number = None
    """Bytes/s received from the network."""
    stalled_cpu: Number = None
    """Share of the time in which something waited for a CPU."""
    stalled_io: Number = None
    memory_left: float = 0.0
    """Free memory (bytes)."""
    shared_left: float = 0.0
    """Free space in /dev/shm (bytes)."""


class MachineUse(Struct, frozen=True, kw_only=True):
    """Use of the machine while the script trained."""

    cpus: float
    """CPUs that the study may use."""
    shared_bytes: Number = None
    """Size of /dev/shm."""
    spans: tuple[Span, ...] = ()


class Cached(Struct, frozen=True, kw_only=True):
    """Batches that were kept in memory."""

    cached_batches: int | None = None
    cached_bytes: Number = None
    copied: bool = False
    """Whether the script changes them, so that each was copied."""


class DataLoader(OfMachine, frozen=True, kw_only=True):
    """A machine's entry of data_loader.json: what the data loader costs."""

    status: str = "ok"
    reason: str | None = None
    launch: str = ""
    label: str = ""
    n: int = 1
    effort: str = ""
    replicates: int = 1
    cached: Cached | None = None
    invalid: int = 0
    """Windows that do not count."""
    left_out: tuple[VariantLeftOut, ...] = ()
    variants: tuple[LoaderVariant, ...] = ()
    parts: tuple[LoaderPart, ...] = ()
    fetching: Interval | None = None
    """Time of a step (s) for reading files that are not in memory."""
    preparing: Interval | None = None
    """Time of a step (s) for making batches of files in memory."""
    most: dict[str, float] = field(default_factory=dict)
    """Steps per second of the `loader` alone and of `training` alone."""
    ways: tuple[LoaderWay, ...] = ()
    disk_bytes_per_s: dict[str, float] = field(default_factory=dict)
    """Bytes/s read from disks, by variant."""
    use: MachineUse | None = None

    def part(self, name: str) -> LoaderPart | None:
        """Return a part of a step; None where it was not measured."""
        return next((part for part in self.parts if part.part == name), None)

    def step_s(self, variant: str) -> float | None:
        """Return a variant's step (s)."""
        times_s = (entry.step_s.value for entry in self.variants if entry.variant == variant)
        return next(times_s, None)
