"""Records of experiments: ``why/<target>/<replicate>.jsonl``, ``data_loader/<replicate>.jsonl``.

The formats have versions 2 and 3: older ones had other names.
"""

from typing import Literal

from msgspec import Struct, field, json

from scaling_study.common.axis_values import Axes
from scaling_study.records.field import (
    Amount,
    Count,
    Index,
    Json,
    Positive,
    Processes,
    Ratio,
    Seconds,
    Share,
)
from scaling_study.records.machine import Machine
from scaling_study.records.readback import Checked, Readback
from scaling_study.records.window import Ending, LostMember, MeasuredLaunch, Slot, Taken

EffortName = Literal["quick", "full"]
VMSTAT = (
    *("pswpin", "pswpout", "pgmajfault", "numa_hint_faults", "numa_pages_migrated"),
    *("thp_fault_alloc", "thp_split_page", "compact_stall"),
)
"""Counters of /proc/vmstat that windows have, where the kernel has them: pages and huge pages."""


class Heading(MeasuredLaunch, frozen=True, kw_only=True):
    """The first record of every kind of experiment: its launch and its machine."""

    replicate: Index
    """Fresh start of the whole experiment, from 0."""
    study: str
    """The study."""
    effort: EffortName
    """How much is tried."""
    n: Processes
    """Members that train."""
    machine_hash: str
    """Hash of the machine."""
    machine: Machine
    """The machine, as in machine.json."""


class Change(Struct, frozen=True, kw_only=True):
    """A launch that differs from the reference by one change."""

    intervention: str
    title: str
    axes: Axes
    options: Json


class UntriedChange(Struct, frozen=True, kw_only=True):
    """A change that was not tried, and why."""

    intervention: str
    title: str
    reason: str


class WhyHead(Heading, frozen=True, kw_only=True, tag_field="kind", tag="why"):
    """Experiments on one launch begin."""

    schema_version: Literal[2]
    target: str
    """The launch that is explained: its id, or `recommended`."""
    same_as: str | None
    """The target whose experiments stand for this one."""
    slots: list[Slot]
    """CPUs and memory policy of each member."""
    shortest_s: Seconds | None = None
    """Shortest time of a window."""
    blocks: Positive | None = None
    """Randomised blocks."""
    interventions: list[Change]
    """The changes that are tried."""
    not_applicable: list[UntriedChange]
    """Interventions that cannot matter here, with the reason."""


class ExperimentReadbacks(Checked, frozen=True, kw_only=True, tag_field="kind", tag="readback"):
    """Reports of the members of one cohort of the job before their first window."""

    cohort: str
    """`reference`, a change, or a variant."""
    members: list[Readback]
    """The report of each member."""


class ExperimentWindow(Taken, frozen=True, kw_only=True, tag_field="kind", tag="window"):
    """A window of an experiment."""

    experiment: Literal["reference", "intervention", "stressor", "data_loader", "kernel"]
    """`reference`, `intervention`, `stressor` or `data_loader`."""
    name: str
    """`reference`, or the name of the change, the stressor's kernel or the variant."""
    dose: Share | None
    """Share of the time in which the stressor ran."""
    count: Index | None
    """Processes of the stressor."""
    rate_share: Ratio | None
    """The rate that the stressor reached, over `dose` times its rate alone."""
    attempt: Index
    """0 for the first attempt, above for a retry."""
    vmstat: dict[str, int]
    """Changes of counters. Source: /proc/vmstat."""
    resident_before: Share | None = None
    """Part of the loader's files that was in memory before the window; null if all of them belong
    to other users. Source: mincore(2)."""
    resident_after: Share | None = None
    """The same after the window. Source: mincore(2)."""


class Wait(Struct, frozen=True, kw_only=True):
    """A system call in which a training thread was found waiting."""

    syscall: str
    on: str
    count: Count


class SampledMember(Struct, frozen=True, kw_only=True):
    """Samples of one training thread."""

    slot: Index
    samples: Count
    states: dict[str, Count]
    waits: list[Wait]


class SampledLock(Struct, frozen=True, kw_only=True):
    """A file lock that members were found waiting for."""

    path: str
    waiters_mean: Ratio
    samples: Count


class Samples(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="samples"
):
    """Samples of the training threads of n members, taken outside of all windows."""

    n: Processes
    """Members that trained."""
    interval_s: Seconds
    """Mean time between two samples."""
    step_s: Seconds | None = None
    """Mean step in that time."""
    members: list[SampledMember]
    """States of each training thread, the system calls in which it waited, and on what: a
    file, shared memory (`futex`), or the lock held by another member. Source:
    /proc/PID/task/TID."""
    locks: list[SampledLock]
    """Waiters for file locks. Source: /proc/locks."""


class ForeignProcess(Struct, frozen=True, kw_only=True):
    """A program that does not belong to the study and took CPU time."""

    name: str
    pid: Count
    cpu_s: Seconds
    share: Ratio
    """Share of one CPU."""


class Foreign(Struct, frozen=True, kw_only=True, tag_field="kind", tag="foreign"):
    """Programs beside the study; those that ended in that time are not seen."""

    span_s: Seconds
    """Time over which they were observed."""
    processes: list[ForeignProcess]
    """Programs that took 5% of a CPU or more. Source: /proc/PID/stat."""


class OperatorCalls(Struct, frozen=True, kw_only=True, tag_field="kind", tag="operator_calls"):
    """What calls of operators cost a step with one process."""

    calls_per_step: Amount
    """Operators that a step calls, by torch's profiler."""
    call_s: Seconds
    """Time of a call with hardly any numbers to compute with, and of all that belongs to it."""
    width: Count | None
    """Units of linear layers, at batches of 64, whose multiplies have as many operations as those
    of the script on average; null without multiplies."""
    stacks: dict[int, Amount]
    """Steps per second of so many models of that width trained as one, over those of one model at a
    time."""


class ChangeFailed(Struct, frozen=True, kw_only=True, tag_field="kind", tag="intervention_failed"):
    """A change that did not start or did not take effect."""

    intervention: str
    """The change."""
    reason: str
    """Why."""


class ChangeLeftOut(
    Struct, frozen=True, kw_only=True, tag_field="kind", tag="intervention_left_out"
):
    """A change that was tried and cannot be made in this script."""

    intervention: str
    """The change."""
    reason: str
    """Why."""


class ExperimentEvent(LostMember, frozen=True, kw_only=True, tag_field="kind", tag="event"):
    """A member ends too early."""

    cohort: str
    """Its cohort."""


class VariantLeftOut(Struct, frozen=True, kw_only=True):
    """A variant that was not measured, and why."""

    variant: str
    title: str
    reason: str


class ExperimentEnd(
    Ending, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="end"
):
    """An experiment ends."""

    left_out: list[VariantLeftOut] = field(default_factory=list)
    """Variants of a data loader that were left out, and why."""


class LoaderHead(Heading, frozen=True, kw_only=True, tag_field="kind", tag="data_loader"):
    """A data-loader experiment begins: one start of all variants of the recommended launch."""

    schema_version: Literal[3]
    blocks: Positive
    """Randomised blocks."""


class Way(Struct, frozen=True, kw_only=True):
    """A way to load batches."""

    name: str
    """Suffix of the variants' names; empty for the script as it is."""
    title: str
    """Its name in the report."""
    workers: Count | None
    """Workers of the loader; null if it has threads or processes of its own."""
    axes: dict[str, int] = {}
    """Axes of a launch that loads this way."""
    change: str | None = None
    """The change inside members that makes them load this way."""
    as_fast: bool = False
    """Whether the loader alone is as fast as it is now."""

    @property
    def alone(self) -> str:
        """The name of the variant in which the loader is alone."""
        return "only" if self.as_fast else f"only@{self.name}"

    @property
    def trains(self) -> str:
        """The name of the variant in which the script trains."""
        return f"as_is@{self.name}" if self.name else "as_is"


class Ways(Struct, frozen=True, kw_only=True, tag_field="kind", tag="ways"):
    """Ways to load whose steps are predicted."""

    cpus: float
    """CPUs that each process has."""
    ways: list[Way]
    """The script as it is comes first; variants of other ways are named `only@NAME`,
    `as_is@NAME`."""


class UseReading(Struct, frozen=True, kw_only=True):
    """Use of the machine up to one time: counters since processes or the machine started."""

    at_s: float
    """Time of the reading, on a monotonic clock."""
    trainers_s: float
    """CPU time of training threads."""
    threads_s: float
    """CPU time of other threads in the members' processes."""
    workers_s: float
    """CPU time of the members' child processes."""
    busy_s: float
    """CPU time of all programs."""
    stalled_cpu_s: float | None
    """Time in which something waited for a CPU."""
    stalled_io_s: float | None
    """Time in which something waited for a disk."""
    disk_bytes: Count
    """Bytes read from disks."""
    network_bytes: Count
    """Bytes received by network devices."""
    memory_left_bytes: Count
    """Memory that is left."""
    shared_left_bytes: Count
    """Free space in /dev/shm."""


class Use(Struct, frozen=True, kw_only=True, tag_field="kind", tag="use"):
    """CPU time, disks, network and memory while the script trained as it is."""

    cpus: Positive
    """CPUs that the study may use."""
    shared_bytes: Count | None
    """Size of /dev/shm."""
    looks: list[UseReading]
    """Readings, eight a second for some seconds, outside of all windows."""


class KernelRates(Struct, frozen=True, kw_only=True):
    """Rates of a kernel's processes in one window of the microbenchmarks (batches a second)."""

    kernel: str
    placement: str
    n: Processes
    block: Index
    rates: list[float]
    valid: bool
    flags: list[str]


class NamedKernel(Struct, frozen=True, kw_only=True):
    """A kernel of the microbenchmarks, which one part of the machine bounds."""

    kernel: str
    title: str
    bound_by: str


class DiskRate(Struct, frozen=True, kw_only=True):
    """The rate at which one process reads a file from the disk, in order."""

    per_s: float | None
    """Bytes a second; null where it could not be measured."""
    note: str
    """How it was measured, or why it was not."""


class Microbenchmarks(Struct, frozen=True, kw_only=True):
    """The content of microbenchmarks.json."""

    schema_version: Literal[1]
    machine: str
    """Hash of the machine."""
    started: str
    """Time of the start."""
    kernels: list[NamedKernel]
    """The kernels that ran."""
    rows: list[KernelRates]
    """A row for each window."""
    disk: DiskRate | None = None
    """The rate at which one process reads from the disk."""


WhyRecord = (
    WhyHead | ExperimentReadbacks | ExperimentWindow | Samples | Foreign | ChangeFailed
    | ChangeLeftOut | OperatorCalls | ExperimentEvent | ExperimentEnd
)  # fmt: skip
LoaderRecord = (
    LoaderHead | ExperimentReadbacks | ExperimentWindow | Ways | Use
    | ExperimentEvent | ExperimentEnd
)  # fmt: skip
Record = WhyRecord | LoaderRecord
DECODER: json.Decoder[Record] = json.Decoder(Record)
