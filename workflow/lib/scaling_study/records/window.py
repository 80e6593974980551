"""The records of a cohort's windows: a file ``measure/<launch>/<replicate>.jsonl``.

The format has version 2: version 1 had other names.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct, defstruct, json, structs

from scaling_study.common.axis_values import Axes
from scaling_study.common.counter import READ, TIMED, Counter
from scaling_study.records.field import (
    Amount,
    Bytes,
    Count,
    CpuCount,
    CpuSeconds,
    Index,
    Json,
    Megahertz,
    ProcessCount,
    Processes,
    SampleCount,
    Seconds,
    Share,
    StepCount,
    StepMicroseconds,
    ThreadCount,
    fields,
)
from scaling_study.records.machine import Machine
from scaling_study.records.readback import Checked, Readback


class Slot(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The place where one member was meant to run."""

    slot: Index
    """The member."""
    cpus: str | None
    """CPUs it is bound to; null where it is not bound."""
    policy: str
    """Memory policy."""
    oversubscribed: bool
    """Whether it shares its CPUs with another member."""
    loader_cpus: str | None = None
    """CPUs of its loader's workers."""


class MeasuredLaunch(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A launch that was measured: which one it is, and how it was measured."""

    launch: str
    """Launch id, as in plan.json."""
    role: str
    """Why the launch is in the plan."""
    label: str
    """The launch's values that differ from all-default."""
    axes: Axes
    """All values of the launch."""
    replicate: Index
    """Fresh cohort of the launch, from 0."""
    seed: int
    """Seed of all shuffles."""
    measured_hash: str
    """Hash of the script, its arguments, inputs and build."""
    harness_hash: str
    """Hash of the measuring code."""
    started: str
    """Time of the start."""


class AskedCohort(MeasuredLaunch, frozen=True, kw_only=True):
    """The request that a cohort was started with."""

    cohort: Index
    """Cohort in the replicate; above 0 after a rerun."""
    process_counts: list[Processes]
    """Process counts."""
    batch: str | None = None
    """The job that measured several launches in turns; null for one launch alone."""
    slots: list[Slot]
    """CPUs and memory policy of each member."""
    requested_env: dict[str, str | None]
    """The requested environment."""


class CohortHead(AskedCohort, frozen=True, kw_only=True, tag_field="kind", tag="cohort"):
    """A cohort starts: its request, and its machine."""

    schema_version: Literal[2]
    study: str
    """The study."""
    measure: Json | None = None
    """The config's section `measure`."""
    machine_hash: str
    """Hash of the machine."""
    machine: Machine
    """The machine, as in machine.json."""


class Readbacks(
    Checked, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="readback"
):
    """Reports of a cohort's members before its first window and after its last one."""

    cohort: Index
    """The cohort."""
    when: Literal["before", "after"] | None = None
    """Before the first window or after the last one."""
    members: list[Readback]
    """The report of each member."""
    shared_files: dict[str, Processes] | None = None
    """Files that several members wrote, and how many wrote each."""


class WindowMachine(Struct, frozen=True, kw_only=True, gc=False):
    """Readings of the whole machine over a window; null where the machine has no such counter."""

    busy_cpu_s: CpuSeconds | None = None
    """CPU time of all programs. Source: /proc/stat."""
    foreign_cpu_s: CpuSeconds
    """CPU time of other programs. Source: /proc/stat without what the study used."""
    sleeping_cpu_s: CpuSeconds
    """CPU time of members meant to sleep. Source: /proc/PID/stat."""
    coordinator_cpu_s: CpuSeconds | None = None
    """CPU time of the coordinator. Source: its process clock."""
    steal_s: CpuSeconds | None
    """CPU time the hypervisor took. Source: /proc/stat."""
    throttled_s: CpuSeconds | None
    """Time for which a quota held the members' cgroups back, summed over CPUs. Source:
    cpu.stat.local of the members' cgroups, or cpu.stat of these and of all above them."""
    psi_cpu_some_s: Seconds | None
    """Pressure: some task waited for a CPU. Source: /proc/pressure/cpu."""
    psi_memory_some_s: Seconds | None
    """Pressure: some task waited for memory. Source: /proc/pressure/memory."""
    psi_io_some_s: Seconds | None
    """Pressure: some task waited for input or output. Source: /proc/pressure/io."""
    frequency_mhz: Megahertz | None
    """Mean frequency of the CPUs that the members ran on, where readable. Source:
    /sys/devices/system/cpu."""
    members_cpus: CpuCount | None = None
    """CPUs that some thread of a member may run on. Source: /proc/PID/task/TID/status."""
    trainers_cpus: CpuCount | None = None
    """CPUs that some member's training thread may run on. Source: /proc/PID/task/TID/status."""


class MemberSteps(Struct, frozen=True, kw_only=True, gc=False):
    """The counted steps of a member in a window, and the parts of their time."""

    slot: Index
    """The member."""
    steps: StepCount
    """Steps that begin inside the window, once settled."""
    step_us: list[StepMicroseconds]
    """Times of the counted steps."""
    load_s: Seconds | None
    """Time in the loader, including the start and end of its workers."""
    forward_s: Seconds | None
    """Time in the rest of the steps: forward pass, Python, work between steps."""
    backward_s: Seconds | None
    """Time in `backward`."""
    optimizer_s: Seconds | None
    """Time in the optimizer."""
    ranks_wait_s: Seconds | None = None
    """Time outside of backward that the slowest rank of each step takes beyond the mean of all
    ranks; 0 without ranks, empty in older files."""
    active_s: Seconds
    """Time from the member's release to its next sleep."""
    steps_active: StepCount
    """Whole steps in that time."""
    samples_active: SampleCount | None = None
    """Samples that the script marked in these steps."""
    restarts: Count
    """Times the script ended and was started again."""


class Usage(Struct, frozen=True, kw_only=True, gc=False):
    """Kernel counts of a member and all its child processes, between two counter snapshots.

    Of whole runs they are what wait4(2) tells of each counted run, and its most memory. What it
    does not tell is null.
    """

    cpu_user_s: CpuSeconds
    """User time, all threads and child processes. Source: the process's CPU clock, divided
    in the proportion of /proc/PID/stat."""
    cpu_system_s: CpuSeconds
    """System time, all threads and children. Source: as for user time."""
    runqueue_s: Seconds | None
    """Time runnable but waiting for a CPU, all threads; includes time held back by a quota.
    Source: /proc/PID/task/TID/schedstat."""
    trainer_user_s: CpuSeconds | None
    """User time of the training thread. Source: its schedstat, divided
    in the proportion of its stat."""
    trainer_system_s: CpuSeconds | None
    """System time of the training thread. Source: as for user time."""
    trainer_runqueue_s: Seconds | None
    """Time in which the training thread was ready to run but did not; includes time held back
    by a quota. Source: its schedstat."""
    minor_faults: Annotated[Count, Meta(title="minor page faults")]
    """Page faults served from memory. Source: /proc/PID/stat."""
    major_faults: Annotated[Count, Meta(title="major page faults")]
    """Page faults that needed a disk. Source: /proc/PID/stat."""
    voluntary_switches: Annotated[Count, Meta(title="voluntary switches")]
    """Times a thread gave up its CPU. Source: /proc/PID/task/TID/status."""
    involuntary_switches: Annotated[Count, Meta(title="involuntary switches")]
    """Times a thread lost its CPU. Source: /proc/PID/task/TID/status."""
    migrations: Annotated[Count, Meta(title="migrations")] | None
    """Moves of a thread to another CPU. Source: /proc/PID/task/TID/sched."""
    instructions: Annotated[Count, Meta(title="instructions")] | None = None
    """Instructions in user mode, all threads; this and the next three need hardware
    counters. Source: perf_event_open(2) in user mode, with all threads and children."""
    cycles: Annotated[Count, Meta(title="CPU cycles")] | None = None
    """CPU cycles in user mode, all threads. Source: perf_event_open(2) in user mode, with
    all threads and children."""
    cache_misses: Annotated[Count, Meta(title="cache misses")] | None = None
    """Cache misses as the processor counts them: of the last level on Intel, of L2 on AMD.
    Source: perf_event_open(2) in user mode, with all threads and children."""
    stalled_cycles: Annotated[Count, Meta(title="stalled cycles")] | None = None
    """Cycles in user mode in which the processor's back end waited. Source:
    perf_event_open(2) in user mode, with all threads and children."""
    threads: ThreadCount | None
    """OS threads of the member and its children."""
    processes: ProcessCount | None
    """The member and its child processes."""
    rss_bytes: Bytes
    """Resident memory of the member and its children. Source: /proc/PID/stat."""

    @property
    def cpu_s(self) -> float:
        """User and system time together."""
        return self.cpu_user_s + self.cpu_system_s


class Life(Struct, frozen=True, gc=False):
    """The place of a window among all steps of its member; null for bursts and in older files."""

    first_step: StepCount | None = None
    """Number of steps that the member had done before the window."""
    settled_us: list[StepMicroseconds] | None = None
    """Times of its steps that began before the window opened."""
    inside: StepCount | None = None
    """Number of steps that began inside the window, including those in which the script
    restarted."""
    after_us: list[StepMicroseconds] | None = None
    """Times of its steps that began after the window closed."""
    fresh: list[tuple[Count, StepMicroseconds]] | None = None
    """Index and time of each step in which the script restarted; such steps never count."""


MEMBER = fields(MemberSteps) | fields(Life) | fields(Usage)
"""The described fields of a member's record, without counters that have a file of their own."""
KERNEL_COUNTS = tuple(field for field in MEMBER.values() if field.title)
"""The fields of a member that are numbers of events, counted by the kernel."""


def _with_counters(
    name: str, parts: Iterable[type[Struct]], counters: Iterable[Counter]
) -> type[Struct]:
    """Return a record with the fields of its parts and one for each counter (`common.counter`)."""
    known = [
        (entry.name, entry.type, entry.default) for part in parts for entry in structs.fields(part)
    ]
    counted = [
        (counter.field, (Seconds if counter.unit else Amount) | None, None) for counter in counters
    ]
    return defstruct(name, [*known, *counted], frozen=True, kw_only=True, gc=False)


if TYPE_CHECKING:

    class MemberWindow(MemberSteps, Life, Usage, frozen=True):
        """One member's share of a window."""

else:
    MemberSteps = _with_counters("MemberSteps", [MemberSteps], TIMED)
    MemberWindow = _with_counters("MemberWindow", [MemberSteps, Life, Usage], READ)


class Taken(Struct, frozen=True, kw_only=True):
    """A timed interval in which exactly n members trained."""

    window: Index
    """Window in the cohort, in the order they were taken."""
    block: Index
    """Randomised block: each holds every process count once."""
    n: Processes
    """Members that trained in the window."""
    valid: bool
    """Whether the window counts."""
    flags: list[str]
    """Why it does not count, and remarks."""
    window_s: Seconds
    """Time from release to close."""
    released_s: Seconds | None = None
    """When the first member was released, on the machine's monotonic clock; null in older files."""
    start_skew_s: Seconds
    """Time from the first to the last release of a member."""
    overlap: Share
    """Share of the window in which all n members trained."""
    machine: WindowMachine
    """Readings of the machine."""
    members: list[MemberWindow]
    """A record for each active member."""


class Window(Taken, frozen=True, kw_only=True, tag_field="kind", tag="window"):
    """A window of a cohort."""

    cohort: Index
    """The cohort."""
    attempt: Index
    """0 for the first attempt, larger for a retry."""


ONE_PROGRAM = "one_program"
"""The flag of a window in which one run of the program holds all n processes."""
NOT_COUNTED = "not_counted"
"""The kind of a member's end whose steps cannot be counted; all starts of its script end so."""
CHILDREN_HANG = "children_hang"
"""That of one whose child processes hang; all starts of its launch end so."""


class LostMember(Struct, frozen=True, kw_only=True):
    """A member that ended before its time."""

    slot: Index | None
    """The member."""
    what: str
    """The kind of event."""
    reason: str
    """Why it ended; for a script that failed, the exception's last line."""
    log: str
    """The ends of its standard output and standard error."""


class CohortEvent(LostMember, frozen=True, kw_only=True, tag_field="kind", tag="event"):
    """A member ends too early."""

    cohort: Index
    """The cohort."""


class Stopped(Struct, frozen=True, kw_only=True):
    """Why the default launch's script cannot be measured: measure/stopped.json."""

    script: str
    reason: str
    log: str
    """The ends of its standard output and standard error."""


Status = Literal["complete", "partial", "failed", "skipped"]


class Ending(Struct, frozen=True, kw_only=True):
    """How a cohort or an experiment ended."""

    status: Status
    """`complete`, `partial`, `failed` or `skipped`."""
    reason: str | None
    """Why it is not complete."""
    remedy: str | None
    """Remedy, if one is known."""
    wall_s: Seconds
    """How long it took."""


class CohortEnd(Ending, frozen=True, kw_only=True, tag_field="kind", tag="end"):
    """A cohort ends."""

    cohort: Index
    """The cohort."""
    start_s: Seconds | None
    """Time until the first window."""
    in_windows_s: Seconds
    """Time inside windows."""
    member_bytes: Bytes | None = None
    """Memory that each member took once all had started."""
    member_shared_bytes: Bytes | None = None
    """Memory that each took in /dev/shm, through which loader workers pass batches."""


class Settled(Struct, frozen=True, kw_only=True, tag_field="kind", tag="settled"):
    """The first windows were taken again, because the script had not settled.

    If a process count has valid windows from ``block`` on, its earlier windows do not count. This
    also holds for earlier, interrupted cohorts.
    """

    cohort: Index
    """The cohort."""
    block: Index
    """The first block of windows that counts."""
    change: float
    """Growth of the step time before that block, as part of all time (below 0: shorter steps)."""
    left: float | None
    """The same after that; null if the script has settled."""


Record = CohortHead | Readbacks | Window | CohortEvent | Settled | CohortEnd
DECODER: json.Decoder[Record] = json.Decoder(Record)
