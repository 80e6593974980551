"""The columns of the tables: name, type, unit and meaning, in one place.

Columns that hold a field of a record take all of these from the field; others are the fields of a
class here. The tables are written with this metadata; scripts/documents.py prints docs/columns.md.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated

from scaling_study.common.counter import COUNTERS
from scaling_study.records import experiment
from scaling_study.records.field import (
    LARGEST_COUNT,
    Amount,
    Count,
    Field,
    Index,
    Megahertz,
    Processes,
    Ratio,
    Seconds,
    StepCount,
    bounds,
    fields,
)
from scaling_study.records.tables import Table
from scaling_study.records.window import KERNEL_COUNTS, MEMBER, CohortHead, Window, WindowMachine

Cpus = Annotated[float, bounds("CPUs", LARGEST_COUNT)]
Threads = Annotated[float, bounds("threads", LARGEST_COUNT)]
MeanProcesses = Annotated[float, bounds("processes", LARGEST_COUNT)]
MeanBytes = Annotated[float, bounds("bytes", LARGEST_COUNT)]
MeanSteps = Annotated[float, bounds("steps", LARGEST_COUNT)]
Windows = Annotated[int, bounds("windows", LARGEST_COUNT)]
PerStep = Annotated[float, bounds("1/step", LARGEST_COUNT)]
StepsPerSecond = Annotated[float, bounds("steps/s", LARGEST_COUNT)]
ModelsPerHour = Annotated[float, bounds("models/h", LARGEST_COUNT)]

COHORT, WINDOW, MACHINE = fields(CohortHead), fields(Window), fields(WindowMachine)
EXPERIMENT = fields(experiment.WhyHead) | fields(experiment.ExperimentWindow)


def _columns(record: Mapping[str, Field], *names: str) -> tuple[Field, ...]:
    """Return columns for some fields of a record, or for all."""
    return tuple(record[name] for name in names or record)


def _per_step(field: Field, name: str | None = None) -> Field:
    """Return a column for a count of a member, per step."""
    unit = field.unit or "1/step"
    return Field(f"{name or field.name}_per_step", float, unit, field.meaning)


class _PerStep:
    trainer_runqueue_s_per_step: Seconds
    """Time in which the training thread waited for a CPU, without the time held back by a quota
    where that is counted."""
    trainer_throttled_s_per_step: Seconds
    """Time in which a cgroup's quota held the training thread back; empty where no cgroup counts
    it."""
    trainer_blocked_s_per_step: Seconds
    """Time in which the training thread slept: wall time less CPU time, run-queue wait and
    throttled time, at least 0."""
    trainer_residual_s_per_step: Seconds
    """Mean time of the counted steps less the five accounts of the training thread. The accounts
    cover all steps of the window and restarts of the script; points leave out windows with restarts
    if they have others."""


class _Window:
    flags: str
    """Why the window does not count, and remarks, joined by `;`."""
    step_mean_s: Seconds
    """Mean time of the counted steps."""
    step_median_s: Seconds
    """Median of the counted steps."""
    step_p95_s: Seconds
    """95th percentile of the counted steps."""
    step_p99_s: Seconds
    """99th percentile of the counted steps."""
    steps_per_s: StepsPerSecond
    """Counted steps over the time they took."""
    cpu_use: Cpus
    """User and system time over the time active."""
    runnable_threads: Threads
    """Threads of a member that ran or waited for a CPU: mean over the time active."""
    clock_mhz: Megahertz
    """Cycles in user mode over user time: the clock while computing."""


class _Replicate:
    replicate: Index
    """Fresh cohort of the launch, from 0."""
    windows: Windows
    """Valid windows."""
    steps_per_s: StepsPerSecond
    """Throughput: iterations over all active time, summed over members, divided by `drift`."""
    step_s: Seconds
    """Mean ordinary step, without the time between steps, times `drift`."""
    drift: Ratio
    """Factor by which everything that a race measured in this job was faster than at other times;
    1 without a race."""
    non_step_share: Ratio
    """Part of the active time that lies between steps: validation, checkpoints, ends of epochs."""
    start_s: Seconds
    """Start of a process, as in the table of points."""
    models_per_hour: ModelsPerHour
    """As in the table of points."""


class _Between:
    kind: Index
    """1 for the longest kind of the launch, and so on."""
    every_steps: MeanSteps
    """Steps from one phase of this kind to the next."""
    duration_s: Seconds
    """How long one phase takes, in addition to an ordinary step."""
    share: Ratio
    """Part of all active time that the phases take."""
    seen: Count
    """How many phases were seen, at all process counts."""


class _Point:
    replicates: Count
    """Replicates with a valid window."""
    windows: Windows
    """Valid windows."""
    windows_invalid: Windows
    """Windows that do not count."""
    steps: StepCount
    """Counted steps of all members."""
    steps_per_s: StepsPerSecond
    """Throughput of all members, including the time between steps; geometric mean over
    replicates."""
    step_s: Seconds
    """Mean ordinary step of a member."""
    non_step_share: Ratio
    """Part of the active time that lies between steps: validation, checkpoints, ends of epochs."""
    step_median_s: Seconds
    """Median of all counted steps."""
    step_p95_s: Seconds
    """95th percentile of all counted steps."""
    step_p99_s: Seconds
    """99th percentile of all counted steps."""
    models_per_hour: ModelsPerHour
    """Predicted, with a fresh process for each model: its start, the throughput of its further
    steps, and its end if a race has trained a whole model."""
    start_s: Seconds
    """Time from a process's start to the end of its first step, while n processes start, plus its
    compilation before the first window (with a filled cache, if seen). Launches that start
    processes alike are drawn towards their common mean. Without a whole model of a race, it is the
    time while a whole cohort starts."""
    speedup: Ratio
    """Throughput against n = 1 of the same launch, paired by replicate."""
    efficiency: Ratio
    """Speed-up over n."""
    cpu_use: Cpus
    """CPUs kept busy by all members together."""


class _PointMember:
    threads: Threads
    """OS threads per member."""
    processes: MeanProcesses
    """Processes per member."""
    rss_bytes: MeanBytes
    """Resident memory per member."""
    member_spread: Ratio
    """Slowest less fastest member's mean step over the mean of all, mean over replicates."""
    oversubscribed: bool
    """Whether the members ask for more threads than there are usable CPUs, or share CPUs."""


class _Operator:
    n: Processes
    """Members that trained; one of them was profiled."""
    operator: str
    """The operator's name in torch."""
    phase: str
    """Phase of a step; empty where it is unknown or mixed."""
    group: str
    """The resource that such an operator is bound by (operator_groups.yaml)."""
    calls_per_step: PerStep
    """Calls."""
    self_s_per_step: Seconds
    """Wall time in it, without operators it calls."""
    total_s_per_step: Seconds
    """Wall time in it, with operators it calls."""
    self_s_per_call: Seconds
    """Self time of a call."""
    total_s_per_call: Seconds
    """Total time of a call."""
    flops_per_step: PerStep
    """Floating-point operations, where known."""
    steps: StepCount
    """Steps that the profile covers."""
    overhead: Ratio
    """Step time while profiled over that of unprofiled windows."""


class _Experiment:
    valid: bool
    """Whether the window measures its launch."""
    usable: bool
    """Whether it is evidence: valid, or disturbed by foreign load or steal only."""
    flags: str
    """Remarks and reasons, joined by `;`."""
    step_s: Seconds
    """Mean time of a member's step: n over the throughput of all members."""
    slower_cores_s: Seconds
    """How much longer that is than the step of the members on fast cores; empty on machines with
    cores of one kind, and where a member is not bound to cores of one kind."""


class _ExperimentMember:
    restarts: Amount
    """Restarts of a member's script."""
    threads: Threads
    """OS threads per member and its children."""
    processes: MeanProcesses
    """Processes per member."""


class _ExperimentMachine:
    cpu_use: Cpus
    """CPUs kept busy by all members together."""
    foreign_cpus: Cpus
    """CPUs kept busy by other programs."""
    steal_cpus: Cpus
    """CPUs that the hypervisor took."""
    throttled_s_per_step: Seconds
    """Time the cgroup was throttled."""
    psi_cpu_share: Ratio
    """Share of the time some task waited for a CPU."""
    psi_memory_share: Ratio
    """Share of the time some task waited for memory."""
    psi_io_share: Ratio
    """Share of the time some task waited for a device."""


INTERVALS = {"steps_per_s", "step_s", "models_per_hour", "speedup", "efficiency"}


def _with_intervals(columns: Iterable[Field]) -> Iterator[Field]:
    """Yield columns, each followed by the ends of its interval if it has one."""
    for column in columns:
        yield column
        if column.name in INTERVALS:
            for end, text in (("_low", "Lower end"), ("_high", "Upper end")):
                meaning = f"{text} of its 95% interval over replicates."
                yield replace(column, name=f"{column.name}{end}", meaning=meaning)


WHERE = (
    Field("machine", str, "", "Hash of the machine; rows of different machines never mix."),
    *_columns(COHORT, "launch", "label", "role"),
)
POINT = (*WHERE, Field("n", int, "processes", "Members that trained."))
"""The columns whose values identify a point."""
PER_STEP = (
    *(_per_step(MEMBER[name]) for name in ("load_s", "forward_s", "backward_s", "optimizer_s")),
    *(
        Field(
            counter.column,
            float,
            counter.unit or "1/step",
            f"{counter.meaning[:-1]}; empty in files from before it was counted.",
        )
        for counter in COUNTERS
    ),
    _per_step(MEMBER["ranks_wait_s"]),
    _per_step(MEMBER["cpu_user_s"], "user_s"),
    _per_step(MEMBER["cpu_system_s"], "system_s"),
    *(_per_step(MEMBER[name]) for name in ("runqueue_s", "trainer_user_s", "trainer_system_s")),
    *_columns(fields(_PerStep)),
    *map(_per_step, KERNEL_COUNTS),
)
OWN = fields(_Window)
RUNNABLE, CLOCK = _columns(OWN, "runnable_threads", "clock_mhz")
WINDOWS = Table(
    "windows",
    "one member in one window, valid or not",
    (
        *WHERE,
        *_columns(COHORT, "replicate", "cohort"),
        *_columns(WINDOW, "window", "block", "n", "attempt", "valid"),
        *_columns(OWN, "flags"),
        *_columns(MEMBER, "slot", "steps"),
        *_columns(WINDOW, "window_s"),
        *_columns(OWN, "step_mean_s", "step_median_s", "step_p95_s", "step_p99_s", "steps_per_s"),
        *_columns(MEMBER, "active_s", "steps_active", "samples_active"),
        *_columns(OWN, "cpu_use"),
        *PER_STEP,
        RUNNABLE,
        CLOCK,
        *_columns(MEMBER, "threads", "processes", "rss_bytes", "restarts"),
        *_columns(WINDOW, "start_skew_s", "overlap"),
        *_columns(MACHINE, "foreign_cpu_s", "sleeping_cpu_s", "steal_s", "throttled_s"),
        *_columns(MACHINE, "psi_cpu_some_s", "psi_memory_some_s", "psi_io_some_s"),
        *_columns(MACHINE, "frequency_mhz", "members_cpus", "trainers_cpus"),
    ),
)
REPLICATES = Table(
    "replicates",
    "one process count in one replicate, from its valid windows; intervals are over these rows",
    (*POINT, *_columns(fields(_Replicate))),
)
BETWEEN = Table(
    "between",
    "one kind of phase that recurs between steps, such as validation, at one process count",
    (*POINT, *_columns(fields(_Between))),
)
POINTS = Table(
    "points",
    "one launch at one process count on one machine, from its valid windows",
    (
        *POINT,
        *_with_intervals(_columns(fields(_Point))),
        *PER_STEP,
        RUNNABLE,
        CLOCK,
        *_columns(fields(_PointMember)),
    ),
)
OPERATORS = Table(
    "operators",
    "one operator in one phase of one profiled member, from a few steps of torch's profiler",
    (*WHERE, *_columns(fields(_Operator))),
)
EXPERIMENTS = Table(
    "experiments",
    "one window of the experiments that look for causes",
    (
        *WHERE,
        *_columns(EXPERIMENT, "target", "replicate"),
        *_columns(EXPERIMENT, "experiment", "name", "dose", "count", "block", "n", "attempt"),
        *_columns(fields(_Experiment)),
        *_columns(EXPERIMENT, "rate_share"),
        *PER_STEP,
        *_columns(fields(_ExperimentMember)),
        RUNNABLE,
        CLOCK,
        *_columns(MACHINE, "members_cpus", "trainers_cpus"),
        *_columns(fields(_ExperimentMachine)),
        *_columns(MACHINE, "frequency_mhz"),
        *(
            Field(f"{name}_per_step", float, "1/step", f"`{name}` of /proc/vmstat (machine).")
            for name in experiment.VMSTAT
        ),
    ),
)
TABLES = (WINDOWS, REPLICATES, BETWEEN, POINTS)
"""The tables of every study; OPERATORS comes with profiles, EXPERIMENTS with `why`."""
