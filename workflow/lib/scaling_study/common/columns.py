"""The columns of the tables: name, type, unit and meaning, in one place.

The tables are written with this metadata, and `python -m scaling_study.common.columns` prints the
documentation, docs/columns.md.
"""

import dataclasses
from typing import Literal

import pandas as pd

from scaling_study.common.counter import COUNTERS, KERNEL_COUNTS

Kind = Literal["text", "integer", "number", "yes/no"]
PANDAS_TYPES: dict[Kind, str] = {
    "text": "str",
    "integer": "int64",
    "number": "float64",
    "yes/no": "bool",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes:
        name: As in the table; ends in its unit where it has one.
        kind: What its cells hold; only a number may be missing (an empty cell).
        unit: Unit as text; empty for names and flags.
        meaning: One sentence.
    """

    name: str
    kind: Kind
    unit: str
    meaning: str


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """One table of a study.

    Attributes:
        name: File name in tables/, without its ending.
        row: What one row is.
        columns: In the order of the files.
    """

    name: str
    row: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> list[str]:
        """Names of the columns, in order."""
        return [column.name for column in self.columns]

    def frame(self, data: pd.DataFrame | None = None) -> pd.DataFrame:
        """The table's columns of `data` in order and type; an empty table without data."""
        if data is None:
            data = pd.DataFrame(columns=self.names)
        types = {column.name: PANDAS_TYPES[column.kind] for column in self.columns}
        return data[self.names].astype(types)


WHERE = (
    Column("machine", "text", "", "Hash of the machine; rows of different machines never mix."),
    Column("launch", "text", "", "Launch id, as in plan.json."),
    Column("label", "text", "", "The launch's values that differ from all-default."),
    Column("arm", "text", "", "Why the launch is in the plan."),
)
PER_STEP = (
    Column("load_s_per_step", "number", "s", "Time in the loader, its workers' start and end too."),
    Column(
        "forward_s_per_step", "number", "s", "Rest: forward pass, Python, what lies between steps."
    ),
    Column("backward_s_per_step", "number", "s", "Time in `backward`."),
    Column("optimizer_s_per_step", "number", "s", "Time in the optimizer."),
    *(
        Column(
            one.column,
            "number",
            one.unit or "1/step",
            f"{one.meaning[:-1]}; empty in files from before it was counted.",
        )
        for one in COUNTERS
    ),
    Column(
        "ranks_wait_s_per_step",
        "number",
        "s",
        "What the slowest rank takes outside of backward beyond the mean of all ranks, step by "
        "step; 0 without ranks, empty in older files.",
    ),
    Column("user_s_per_step", "number", "CPU s", "User time, all threads and child processes."),
    Column("system_s_per_step", "number", "CPU s", "System time, all threads and children."),
    Column(
        "runqueue_s_per_step",
        "number",
        "s",
        "Runnable but waiting for a CPU, all threads; time held back by a quota is in it.",
    ),
    Column("trainer_user_s_per_step", "number", "CPU s", "User time of the training thread."),
    Column("trainer_system_s_per_step", "number", "CPU s", "System time of the training thread."),
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
    *(Column(one.column, "number", "1/step", one.meaning) for one in KERNEL_COUNTS),
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
        Column("replicate", "integer", "", "Fresh cohort of the launch, from 0."),
        Column("cohort", "integer", "", "Cohort in the replicate; above 0 after a rerun."),
        Column("window", "integer", "", "Window in the cohort, in the order they were taken."),
        Column("block", "integer", "", "Randomised block: each holds every process count once."),
        Column("n", "integer", "processes", "Members that trained in the window."),
        Column("take", "integer", "", "0 for the first take, above for a retake."),
        Column("valid", "yes/no", "", "Whether the window counts."),
        Column("flags", "text", "", "Why not, joined by `;`."),
        Column("slot", "integer", "", "The member."),
        Column("steps", "integer", "steps", "Steps that begin inside the window, once settled."),
        Column("window_s", "number", "s", "Release to close."),
        Column("step_mean_s", "number", "s", "Mean time of the counted steps."),
        Column("step_median_s", "number", "s", "Median of the counted steps."),
        Column("step_p95_s", "number", "s", "95th percentile of the counted steps."),
        Column("step_p99_s", "number", "s", "99th percentile of the counted steps."),
        Column("steps_per_s", "number", "steps/s", "Counted steps over the time they took."),
        Column("active_s", "number", "s", "Release of the member to its next sleep."),
        Column("steps_active", "integer", "steps", "Whole steps in that time."),
        Column("samples_active", "number", "samples", "What the script marked in these steps."),
        Column("cpu_use", "number", "CPUs", "User and system time over the time active."),
        *PER_STEP,
        RUNNABLE,
        CLOCK,
        Column("threads", "integer", "threads", "OS threads of the member and its children."),
        Column("processes", "integer", "processes", "The member and its child processes."),
        Column("rss_bytes", "integer", "bytes", "Resident memory of the member and its children."),
        Column("restarts", "integer", "", "Times the script ended and was started again."),
        Column("start_skew_s", "number", "s", "First to last member released."),
        Column("overlap", "number", "", "Share of the window in which all n members trained."),
        Column("foreign_cpu_s", "number", "CPU s", "CPU time of other programs."),
        Column("sleeping_cpu_s", "number", "CPU s", "CPU time of members meant to sleep."),
        Column("steal_s", "number", "CPU s", "CPU time the hypervisor took."),
        Column(
            "throttled_s",
            "number",
            "CPU s",
            "Time for which a quota held the members' cgroups back, summed over CPUs.",
        ),
        Column("psi_cpu_some_s", "number", "s", "Pressure: some task waited for a CPU."),
        Column("psi_memory_some_s", "number", "s", "Pressure: some task waited for memory."),
        Column("psi_io_some_s", "number", "s", "Pressure: some task waited for input or output."),
        Column(
            "frequency_mhz",
            "number",
            "MHz",
            "Mean frequency of the CPUs that the members ran on, where readable.",
        ),
        Column("members_cpus", "number", "CPUs", "CPUs that some thread of a member may run on."),
        Column(
            "trainers_cpus", "number", "CPUs", "CPUs that some member's training thread may run on."
        ),
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
        Column("target", "text", "", "What is explained: a launch id, or `recommended`."),
        Column("replicate", "integer", "", "Fresh start of the whole experiment, from 0."),
        Column("experiment", "text", "", "`reference`, `relief` or `bystander`."),
        Column("name", "text", "", "`reference`, the relief, or the kernel of the bystanders."),
        Column("dose", "number", "", "Share of the time in which bystanders ran their kernel."),
        Column("count", "number", "processes", "Bystanders."),
        Column("block", "integer", "", "Randomised block."),
        Column("n", "integer", "processes", "Members that trained."),
        Column("take", "integer", "", "0 for the first take, above for a retake."),
        Column("valid", "yes/no", "", "Whether the window measures its launch."),
        Column(
            "usable",
            "yes/no",
            "",
            "Whether it is evidence: valid, or disturbed by foreign load or steal only.",
        ),
        Column("flags", "text", "", "Remarks and reasons, joined by `;`."),
        Column("step_s", "number", "s", "Mean time of a member's step: n over all throughput."),
        Column("rate_share", "number", "", "What bystanders achieved of what they should."),
        *PER_STEP,
        Column("restarts", "number", "", "Times a member's script was started anew."),
        Column("threads", "number", "threads", "OS threads per member and its children."),
        Column("processes", "number", "processes", "Processes per member."),
        RUNNABLE,
        CLOCK,
        Column("members_cpus", "number", "CPUs", "CPUs that some thread of a member may run on."),
        Column(
            "trainers_cpus", "number", "CPUs", "CPUs that some member's training thread may run on."
        ),
        Column("cpu_use", "number", "CPUs", "CPUs kept busy by all members together."),
        Column("foreign_cpus", "number", "CPUs", "CPUs kept busy by other programs."),
        Column("steal_cpus", "number", "CPUs", "CPUs that the hypervisor took."),
        Column("throttled_s_per_step", "number", "s", "Time the cgroup was throttled."),
        Column("psi_cpu_share", "number", "", "Share of the time some task waited for a CPU."),
        Column("psi_memory_share", "number", "", "Share of the time some task waited for memory."),
        Column("psi_io_share", "number", "", "Share of the time some task waited for a device."),
        Column(
            "frequency_mhz",
            "number",
            "MHz",
            "Mean frequency of the CPUs that the members ran on, where readable.",
        ),
        *(
            Column(f"{name}_per_step", "number", "1/step", f"`{name}` of /proc/vmstat (machine).")
            for name in VMSTAT
        ),
    ),
)
TABLES = (WINDOWS, REPLICATES, BETWEEN, POINTS)
"""What every study has; OPERATORS comes with profiles, EXPERIMENTS with `why`."""

_HEAD = """\
# Columns of the tables

`results/<study>/tables/` holds each table as parquet (with units and meanings as field metadata)
and as CSV. An empty cell is a number that was not measured or does not exist. Printed by
`python -m scaling_study.common.columns`.
"""


def markdown() -> str:
    """The tables' documentation, as in docs/columns.md."""
    parts = [_HEAD]
    for table in (*TABLES, OPERATORS, EXPERIMENTS):
        parts.append(f"\n## {table.name}\n\nA row is {table.row}.\n\n")
        parts.append("| column | type | unit | meaning |\n|---|---|---|---|\n")
        parts.extend(
            f"| `{column.name}` | {column.kind} | {column.unit} | {column.meaning} |\n"
            for column in table.columns
        )
    return "".join(parts)


if __name__ == "__main__":
    print(markdown(), end="")
