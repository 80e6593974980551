"""The columns of the tables: name, type, unit and meaning, in one place.

Columns that hold a field of a record take all of these from the field. The tables are written with
this metadata, and `records.docs` prints the documentation, docs/columns.md.
"""

from collections.abc import Mapping

from scaling_study.common.counter import COUNTERS
from scaling_study.common.storage import Column, Kind, Table
from scaling_study.records import experiment
from scaling_study.records.field import Field, fields
from scaling_study.records.window import KERNEL_COUNTS, MEMBER, Cohort, Window, WindowMachine

KINDS: Mapping[object, Kind] = {bool: "yes/no", int: "integer", float: "number"}


def _columns(record: Mapping[str, Field], *names: str) -> tuple[Column, ...]:
    """Columns for some fields of a record; only a number may be missing."""
    return tuple(
        Column(
            name,
            "number" if one.nullable and one.type is int else KINDS.get(one.type, "text"),
            one.unit,
            one.meaning,
        )
        for name in names
        for one in [record[name]]
    )


def _per_step(field: Field, name: str | None = None) -> Column:
    """A column for what a member counted, per step."""
    unit = field.unit or "1/step"
    return Column(f"{name or field.name}_per_step", "number", unit, field.meaning)


COHORT, WINDOW, MACHINE = fields(Cohort), fields(Window), fields(WindowMachine)
EXPERIMENT = fields(experiment.Why) | fields(experiment.Window)
_PHASES = ("load_s", "forward_s", "backward_s", "optimizer_s")
WHERE = (
    Column("machine", "text", "", "Hash of the machine; rows of different machines never mix."),
    *_columns(COHORT, "launch", "label", "arm"),
)
PER_STEP = (
    *(_per_step(MEMBER[name]) for name in _PHASES),
    *(
        Column(
            one.column,
            "number",
            one.unit or "1/step",
            f"{one.meaning[:-1]}; empty in files from before it was counted.",
        )
        for one in COUNTERS
    ),
    _per_step(MEMBER["ranks_wait_s"]),
    _per_step(MEMBER["cpu_user_s"], "user_s"),
    _per_step(MEMBER["cpu_system_s"], "system_s"),
    *(_per_step(MEMBER[name]) for name in ("runqueue_s", "trainer_user_s", "trainer_system_s")),
    Column(
        "trainer_runqueue_s_per_step",
        "number",
        "s",
        "Training thread waiting for a CPU, without the time held back by a quota where that is "
        "counted.",
    ),
    Column(
        "trainer_throttled_s_per_step",
        "number",
        "s",
        "Training thread held back by a cgroup's quota; empty where no cgroup counts it.",
    ),
    Column(
        "trainer_blocked_s_per_step",
        "number",
        "s",
        "Training thread asleep: wall time less CPU time, run-queue wait and throttled time, "
        "at least 0.",
    ),
    Column(
        "trainer_residual_s_per_step",
        "number",
        "s",
        "Mean time of the counted steps less the five accounts of the training thread, which are "
        "of all steps of the window and of the script's new starts; points leave out windows with "
        "new starts where they have others.",
    ),
    *map(_per_step, KERNEL_COUNTS),
)
RUNNABLE = Column(
    "runnable_threads",
    "number",
    "threads",
    "Threads of a member that ran or waited for a CPU: mean over the time active.",
)
CLOCK = Column(
    "clock_mhz", "number", "MHz", "Cycles in user mode over user time: the clock while computing."
)
WINDOWS = Table(
    "windows",
    "one member in one window, valid or not",
    (
        *WHERE,
        *_columns(COHORT, "replicate", "cohort"),
        *_columns(WINDOW, "window", "block", "n", "take", "valid"),
        Column("flags", "text", "", "Why not, joined by `;`."),
        *_columns(MEMBER, "slot", "steps"),
        *_columns(WINDOW, "window_s"),
        Column("step_mean_s", "number", "s", "Mean time of the counted steps."),
        Column("step_median_s", "number", "s", "Median of the counted steps."),
        Column("step_p95_s", "number", "s", "95th percentile of the counted steps."),
        Column("step_p99_s", "number", "s", "99th percentile of the counted steps."),
        Column("steps_per_s", "number", "steps/s", "Counted steps over the time they took."),
        *_columns(MEMBER, "active_s", "steps_active", "samples_active"),
        Column("cpu_use", "number", "CPUs", "User and system time over the time active."),
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
BETWEEN_SHARE = Column(
    "between_share",
    "number",
    "",
    "Part of the active time that lies between steps: validation, checkpoints, ends of epochs.",
)
REPLICATES = Table(
    "replicates",
    "one process count in one replicate, its valid windows: what the intervals are taken over",
    (
        *WHERE,
        Column("n", "integer", "processes", "Members that trained."),
        Column("replicate", "integer", "", "Fresh cohort of the launch, from 0."),
        Column("windows", "integer", "windows", "Valid windows."),
        Column(
            "steps_per_s",
            "number",
            "steps/s",
            "Throughput: iterations over all active time, summed over members, over `drift`.",
        ),
        Column(
            "step_s",
            "number",
            "s",
            "Mean ordinary step, without what lies between steps, times `drift`.",
        ),
        Column(
            "drift",
            "number",
            "",
            "By what factor all that a race measured in the same job was faster than at other "
            "times; 1 without a race.",
        ),
        BETWEEN_SHARE,
        Column("start_s", "number", "s", "Start of a process, as in the table of points."),
        Column("models_per_hour", "number", "models/h", "As in the table of points."),
    ),
)
BETWEEN = Table(
    "between",
    "one kind of what comes back between steps, such as a validation, at one process count",
    (
        *WHERE,
        Column("n", "integer", "processes", "Members that trained."),
        Column("kind", "integer", "", "1 for the longest kind of the launch, and so on."),
        Column("every_steps", "number", "steps", "Steps from one to the next."),
        Column("duration_s", "number", "s", "How long one takes, beside an ordinary step."),
        Column("share", "number", "", "Part of all active time that it takes."),
        Column("seen", "integer", "", "How many were seen, at all process counts."),
    ),
)


def _with_interval(name: str, unit: str, meaning: str) -> tuple[Column, Column, Column]:
    return (
        Column(name, "number", unit, meaning),
        Column(f"{name}_low", "number", unit, "Lower end of its 95% interval over replicates."),
        Column(f"{name}_high", "number", unit, "Upper end of its 95% interval over replicates."),
    )


POINTS = Table(
    "points",
    "one launch at one process count on one machine, from its valid windows",
    (
        *WHERE,
        Column("n", "integer", "processes", "Members that trained."),
        Column("replicates", "integer", "", "Replicates with a valid window."),
        Column("windows", "integer", "windows", "Valid windows."),
        Column("windows_invalid", "integer", "windows", "Windows that do not count."),
        Column("steps", "integer", "steps", "Counted steps of all members."),
        *_with_interval(
            "steps_per_s",
            "steps/s",
            "Throughput of all members with what lies between steps, geometric mean over "
            "replicates.",
        ),
        *_with_interval("step_s", "s", "Mean ordinary step of a member."),
        BETWEEN_SHARE,
        Column("step_median_s", "number", "s", "Median of all counted steps."),
        Column("step_p95_s", "number", "s", "95th percentile of all counted steps."),
        Column("step_p99_s", "number", "s", "99th percentile of all counted steps."),
        *_with_interval(
            "models_per_hour",
            "models/h",
            "Predicted: a process for each model, its start and the throughput of its steps, "
            "without the end of the process.",
        ),
        Column(
            "start_s",
            "number",
            "s",
            "A process's start to the end of its first step, and what it compiled before its first "
            "window (with a filled cache, where seen), while all of a cohort start; launches "
            "that start alike and differ as starts of one launch do are taken together.",
        ),
        *_with_interval(
            "speedup",
            "",
            "Throughput against n = 1 of the same launch, paired by replicate.",
        ),
        *_with_interval("efficiency", "", "Speed-up over n."),
        Column("cpu_use", "number", "CPUs", "CPUs kept busy by all members together."),
        *PER_STEP,
        RUNNABLE,
        CLOCK,
        Column("threads", "number", "threads", "OS threads per member."),
        Column("processes", "number", "processes", "Processes per member."),
        Column("rss_bytes", "number", "bytes", "Resident memory per member."),
        Column(
            "member_spread",
            "number",
            "",
            "Slowest less fastest member's mean step over the mean of all, mean over replicates.",
        ),
        Column(
            "oversubscribed",
            "yes/no",
            "",
            "The members ask for more threads than there are usable CPUs, or share CPUs.",
        ),
    ),
)
OPERATORS = Table(
    "operators",
    "one operator in one phase of one profiled member, from a few steps of torch's profiler",
    (
        *WHERE,
        Column("n", "integer", "processes", "Members that trained; one of them was profiled."),
        Column("operator", "text", "", "As torch names it."),
        Column("phase", "text", "", "Phase of a step; empty where it is unknown or mixed."),
        Column("group", "text", "", "What such an operator is bound by (operator_groups.yaml)."),
        Column("calls_per_step", "number", "1/step", "Calls."),
        Column("self_s_per_step", "number", "s", "Wall time in it, without operators it calls."),
        Column("total_s_per_step", "number", "s", "Wall time in it, with operators it calls."),
        Column("self_s_per_call", "number", "s", "Self time of a call."),
        Column("total_s_per_call", "number", "s", "Total time of a call."),
        Column("flops_per_step", "number", "1/step", "Floating-point operations, where known."),
        Column("steps", "integer", "steps", "Steps that the profile covers."),
        Column("tax", "number", "", "Step time while profiled over that of unprofiled windows."),
    ),
)
VMSTAT = (
    *("pswpin", "pswpout", "pgmajfault", "numa_hint_faults", "numa_pages_migrated"),
    *("thp_fault_alloc", "thp_split_page", "compact_stall"),
)
"""Counters of /proc/vmstat whose change in a window is recorded, where the kernel has them."""
EXPERIMENTS = Table(
    "experiments",
    "one window of the experiments that look for causes",
    (
        *WHERE,
        *_columns(EXPERIMENT, "target", "replicate"),
        *_columns(EXPERIMENT, "experiment", "name", "dose", "count", "block", "n", "take"),
        Column("valid", "yes/no", "", "Whether the window measures its launch."),
        Column(
            "usable",
            "yes/no",
            "",
            "Whether it is evidence: valid, or disturbed by foreign load or steal only.",
        ),
        Column("flags", "text", "", "Remarks and reasons, joined by `;`."),
        Column("step_s", "number", "s", "Mean time of a member's step: n over all throughput."),
        *_columns(EXPERIMENT, "rate_share"),
        *PER_STEP,
        Column("restarts", "number", "", "Times a member's script was started anew."),
        Column("threads", "number", "threads", "OS threads per member and its children."),
        Column("processes", "number", "processes", "Processes per member."),
        RUNNABLE,
        CLOCK,
        *_columns(MACHINE, "members_cpus", "trainers_cpus"),
        Column("cpu_use", "number", "CPUs", "CPUs kept busy by all members together."),
        Column("foreign_cpus", "number", "CPUs", "CPUs kept busy by other programs."),
        Column("steal_cpus", "number", "CPUs", "CPUs that the hypervisor took."),
        Column("throttled_s_per_step", "number", "s", "Time the cgroup was throttled."),
        Column("psi_cpu_share", "number", "", "Share of the time some task waited for a CPU."),
        Column("psi_memory_share", "number", "", "Share of the time some task waited for memory."),
        Column("psi_io_share", "number", "", "Share of the time some task waited for a device."),
        *_columns(MACHINE, "frequency_mhz"),
        *(
            Column(f"{name}_per_step", "number", "1/step", f"`{name}` of /proc/vmstat (machine).")
            for name in VMSTAT
        ),
    ),
)
TABLES = (WINDOWS, REPLICATES, BETWEEN, POINTS)
"""What every study has; OPERATORS comes with profiles, EXPERIMENTS with `why`."""
