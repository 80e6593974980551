"""One target's experiments, arranged so that rules can ask them questions.

A measurement belongs to one cohort, at one process count, in one block. Every comparison is made
within a block. All cohorts took their windows of a block in a shuffled order, so that machine drift
affects both sides.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, cast

import numpy as np
import pandas as pd
from msgspec import structs

from scaling_study.analysis import experiment_runs
from scaling_study.analysis.accounts import without_restarts
from scaling_study.analysis.experiment_runs import WhyRun
from scaling_study.diagnosis import waits
from scaling_study.diagnosis.waits import Sampled
from scaling_study.experiments import conditions, interventions
from scaling_study.launch.axes import ranks
from scaling_study.records.experiment import Microbenchmarks
from scaling_study.records.readback import Loader, Readback
from scaling_study.stats import ratios
from scaling_study.stats.interval import Floats, Integers
from scaling_study.stats.ratios import Pairs, Units, start_deviation

Scope = Literal["scaling_loss", "single_process_loss"]
REFERENCE = conditions.REFERENCE
CACHED, BESIDE = "cached_batches", "loader_beside"
"""Interventions without the wait for the loader: there is none, or it is subtracted."""
KINDS = ("lock", "device", "peer", "futex", "sleep", "stopped")
"""Kinds of waits that blocked time is divided into."""
DERIVED = 1024
"""Derived values that each function caches: the most recently used ones."""
MEASUREMENT = ["experiment", "name", "dose", "n", "replicate", "block"]
NO_DOSE = -1.0
"""The dose of windows without stressors."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Measurements:
    """Windows of several conditions, in blocks that all of them share.

    Attributes:
        columns: Values of windows by (name, process count) or (name, dose), then by column: one
            value per block. NaN where a block has no such window.
        replicates: The replicate of each block.
        units: The units over which intervals are computed.
    """

    columns: Mapping[tuple[str, float], Mapping[str, Floats]]
    replicates: Integers
    units: Units

    def column(self, column: str, name: str, at: float) -> Floats:
        """Return a column of one condition by block; NaN where it was not measured."""
        condition = self.columns.get((name, at))
        return np.full(len(self.replicates), np.nan) if condition is None else condition[column]

    def pair(self, over: Floats, under: Floats) -> Pairs:
        """Return numerators and denominators by unit."""
        return ratios.pair(over, under, self.replicates, self.units)


def units_of(replicates: Iterable[object]) -> Units:
    """Return replicates as the units of intervals if enough have windows, otherwise blocks."""
    return "replicates" if len({*replicates}) >= ratios.ENOUGH_REPLICATES else "blocks"


def arrange(rows: pd.DataFrame, by: str, units: Units) -> Measurements:
    """Arrange windows by block, in the order of replicates and blocks.

    Args:
        rows: One per window, with `name`, `replicate` and `block`.
        by: The column that tells conditions of one name apart.
        units: The units over which intervals are computed.
    """
    numbers = rows.set_index(["replicate", "block"]).select_dtypes("number")
    blocks = numbers.index.unique().sort_values()
    conditions = numbers.groupby([rows["name"].to_numpy(), rows[by].to_numpy()], sort=False)
    columns: dict[tuple[str, float], dict[str, Floats]] = {}
    for key, windows in conditions:
        values = windows.reindex(blocks).to_numpy(dtype=np.float64)
        columns[cast("tuple[str, float]", key)] = dict(zip(numbers.columns, values.T, strict=True))
    replicates = blocks.get_level_values("replicate").to_numpy(dtype=np.int64)
    return Measurements(columns, replicates, units)


class Case:
    """All measurements of one target. Derived values are cached by the object's identity.

    Args:
        runs: Its replicates, at least one.
        microbenchmarks: microbenchmarks.json of the machine; None without one.

    Attributes:
        head: First record of the target's first run.
        measurements: Windows without stressors, by (name, n). Columns are those of
            tables/experiments, the parts of the run-queue wait (`waits.split`), time lost to
            the hypervisor and to memory stalls, `blocked_<kind>_s_per_step` by what the training
            thread was found waiting for, and `idle_s_per_step`; NaN where that was not counted or
            sampled.
        stressed: Windows beside stressors, by (kernel, dose), with the same columns.
        start_sd: Standard deviation between starts of one launch, as part of its step at n.
        alone: Number of members that took turns in the windows of one process, by cohort.
        read_back: First report of each cohort's first member.
        failed: Reasons of interventions without a result, by intervention.
        left_out: Reasons of interventions that do not apply, by intervention.
        titles: Title of each intervention.
        shares_members_with: For each intervention without members of its own, the intervention
            whose members it shares.
        sampled: Samples of the training threads, by n.
        foreign: Other programs that took CPU time.
        calls: What calls of operators cost a step; None if that was not measured.
        machine: The machine.
        n: The process count whose slowdown is explained.
    """

    def __init__(self, runs: Sequence[WhyRun], microbenchmarks: Microbenchmarks | None) -> None:
        self.microbenchmarks = microbenchmarks
        self.calls = next((run.calls for run in runs if run.calls is not None), None)
        self.head = runs[0].head
        self.machine, self.n = self.head.machine, self.head.n
        rows = without_restarts(_best(experiment_runs.frame(runs)), ["name", "dose", "n"])
        samples = [sample for run in runs for sample in run.samples]
        self.sampled = {n: Sampled(samples, n) for n in (1, self.n)}
        online = len(self.machine.topology.cpus)
        parts = waits.split(rows, allowed_cpus=len(self.machine.cpus), online_cpus=online)
        rows = _with_stolen(rows.join(parts))
        self.read_back = _readbacks(runs)
        rows = rows.join(_blocked(rows, self.sampled, self.read_back))
        beside = rows["experiment"] == "stressor"
        reference = rows[rows["name"] == REFERENCE]
        step_s = reference.loc[reference["n"] == self.n, "step_s"].mean()
        self.measurements = arrange(rows[~beside], "n", units_of(reference["replicate"]))
        self.stressed = arrange(rows[beside], "dose", "blocks")
        self.start_sd = start_deviation([run.members for run in runs], step_s)
        self.alone = _alone(runs)
        self.foreign = [process for run in runs for process in run.foreign]
        self.failed = {name: reason for run in runs for name, reason in run.failed.items()}
        unfit = [change for run in runs for change in run.head.not_applicable]
        tried = [change for run in runs for change in run.head.interventions]
        self.left_out = {change.intervention: change.reason for change in unfit}
        for run in runs:
            self.left_out |= run.left_out
        self.titles = {change.intervention: change.title for change in unfit}
        self.titles |= {change.intervention: change.title for change in tried}
        shared = {
            change.intervention: change.options.get("of") for change in self.head.interventions
        }
        self.shares_members_with = {name: str(other) for name, other in shared.items() if other}

    def reported(self, key: str, name: str = REFERENCE) -> object:
        """Return a field of the report of a cohort's first member; None if it has none."""
        return getattr(self.read_back.get(name), key, None)

    @property
    def threads(self) -> int:
        """Threads of an operator in the reference."""
        return self.read_back[REFERENCE].intra_op

    @property
    def loaders(self) -> Sequence[Loader]:
        """The loaders that the reference reports."""
        return self.read_back[REFERENCE].loaders or ()

    @property
    def demand(self) -> int:
        """Threads of all ranks of a member of the reference, which compute at once."""
        return self.threads * ranks.processes(self.head.axes)

    def column(self, column: str, n: int, name: str = REFERENCE) -> Floats:
        """Return a column of a cohort at a process count, by block."""
        return self.measurements.column(column, name, n)

    def time(self, column: str, n: int, name: str = REFERENCE) -> Floats:
        """Return a time per step; 0 where the machine does not count it."""
        times = self.column(column, n, name)
        return np.where(np.isnan(times) & ~np.isnan(self.step(n, name)), 0.0, times)

    def step(self, n: int, name: str = REFERENCE) -> Floats:
        """Return a member's mean step (s); with replaced batches, less the wait for the loader."""
        step_s = self.column("step_s", n, name)
        if name != BESIDE:
            return step_s
        return step_s - np.nan_to_num(self.column("load_s_per_step", n, name))

    def counts(self, scope: Scope) -> tuple[int, ...]:
        """Return the process counts whose windows a loss is computed from; the last is its own."""
        return (1, self.n) if scope == "scaling_loss" else (1,)

    def measured(self, name: str, scope: Scope) -> bool:
        """Return whether a cohort has the windows that a comparison in this scope needs."""
        if name == interventions.QUOTA_BURSTS and scope == "single_process_loss":
            return False  # bursts cost a process time that continuous training does not
        return all((name, n) in self.measurements.columns for n in self.counts(scope))

    def tried(self, scope: Scope) -> list[str]:
        """Return the interventions that can be compared in this scope."""
        names = dict.fromkeys(name for name, _ in self.measurements.columns)
        return [name for name in names if name != REFERENCE and self.measured(name, scope)]

    def under(self, scope: Scope) -> Floats:
        """Return the time to explain, as part of T(1): the added time, or one process's step."""
        alone = self.step(1)
        return self.step(self.n) / alone - 1 if scope == "scaling_loss" else alone / alone

    def account(self, column: str, scope: Scope, name: str = REFERENCE) -> Floats:
        """Return a time per step as part of T(1): its growth from 1 to n, or its value at 1."""
        alone = self.time(column, 1, name)
        if scope == "scaling_loss":
            return (self.time(column, self.n, name) - alone) / self.step(1, name)
        return alone / self.step(1, name)

    def mean(self, column: str, n: int, name: str = REFERENCE) -> float:
        """Return the mean of a column over blocks; NaN where it was never counted."""
        return ratios.mean(self.column(column, n, name))

    def shares(self, over: Floats, scope: Scope) -> Pairs:
        """Return numerators and denominators of a share, both as part of the block's own T(n).

        A launch with two modes may take twenty times as long in one block as in another. Weighted
        by time, such a block would decide alone. As parts of T(n), all blocks have equal weight.

        Args:
            over: The explained time by block, as part of T(1).
            scope: The loss that it is a share of.
        """
        under = self.under(scope)
        whole = 1 + np.maximum(under, 0.0)
        return self.measurements.pair(over / whole, under / whole)


def or_none(value: float) -> float | None:
    """Return a number; None for NaN or an infinite one."""
    return float(value) if np.isfinite(value) else None


def make_case(runs: Sequence[WhyRun], microbenchmarks: Microbenchmarks | None) -> Case | None:
    """Arrange the runs of one target; return None without windows of the reference at 1 and at n.

    Args:
        runs: Its replicates, at least one.
        microbenchmarks: microbenchmarks.json of the machine; None without one.
    """
    case = Case(runs, microbenchmarks)
    return case if case.measured(REFERENCE, "scaling_loss") else None


def _alone(runs: Sequence[WhyRun]) -> dict[str, int]:
    """Return how many members of each cohort had windows alone: the fewest of all replicates."""
    counts = [run.members[run.members["n"] == 1].groupby("name")["slot"].nunique() for run in runs]
    fewest = pd.concat(counts).groupby(level=0).min()
    return {str(name): int(count) for name, count in fewest.items()}


def _best(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one window of each measurement: the last valid attempt, or the last usable one."""
    usable = rows[rows["usable"]].assign(dose=rows["dose"].fillna(NO_DOSE))
    ordered = usable.sort_values(["valid", "attempt"], kind="stable")
    return ordered.drop_duplicates(MEASUREMENT, keep="last").reset_index(drop=True)


def _blocked(
    rows: pd.DataFrame, waits: Mapping[int, Sampled], read_back: Mapping[str, Readback]
) -> pd.DataFrame:
    """Return blocked time per step by what threads waited for at the same process count.

    A thread whose CPU the hypervisor has taken looks blocked, but waits for nothing.
    """
    blocked = (rows["trainer_blocked_s_per_step"] - rows["stolen_s_per_step"]).clip(lower=0.0)
    parts = pd.DataFrame(index=rows.index)
    for kind in KINDS:
        shares = {n: sampled.share(kind) for n, sampled in waits.items()}
        parts[f"blocked_{kind}_s_per_step"] = blocked * rows["n"].map(shares)
    parts["blocked_device_s_per_step"] *= 1 - _in_loader(rows, blocked, read_back)
    # A loader waits for its workers and its source in the same system calls.
    load = rows["load_s_per_step"].where(rows["name"] != CACHED, 0.0)
    idle = parts["blocked_peer_s_per_step"] + parts["blocked_sleep_s_per_step"]
    return parts.assign(idle_s_per_step=(idle - load).clip(lower=0.0))


def _in_loader(
    rows: pd.DataFrame, blocked: "pd.Series[float]", read_back: Mapping[str, Readback]
) -> "pd.Series[float]":
    """Return the part of blocked time in which the training thread itself makes a batch.

    It then waits for the loader's storage, which has a cause of its own.
    """
    here = {
        name
        for name, report in read_back.items()
        if all(loader.workers == 0 for loader in report.loaders or ())
    }
    making = rows["loader_made_s_per_step"] - rows["loader_computed_s_per_step"]
    own_making = making.where(rows["name"].isin(here)).fillna(0.0)
    return (own_making / blocked.where(blocked > 0)).fillna(0.0).clip(0.0, 1.0)


def _with_stolen(rows: pd.DataFrame) -> pd.DataFrame:
    """Add the times per step that the hypervisor took, and that a thread stalled for memory."""
    busy = (rows["cpu_use"] + rows["foreign_cpus"].fillna(0.0)).clip(lower=1.0)
    per_cpu = (rows["steal_cpus"].fillna(0.0) / busy).clip(upper=1.0)
    ran = rows["trainer_user_s_per_step"] + rows["trainer_system_s_per_step"]
    share = (ran / rows["step_s"]).clip(upper=1.0)
    stalled = rows["psi_memory_share"] * rows["step_s"]
    most_stalled = rows["trainer_blocked_s_per_step"] + rows["trainer_system_s_per_step"]
    return rows.assign(
        stolen_s_per_step=rows["step_s"] * per_cpu * share,
        memory_stall_s_per_step=np.minimum(stalled, most_stalled),
    )


def _readbacks(runs: Sequence[WhyRun]) -> dict[str, Readback]:
    """Return the first member's report of each cohort, with the fastest multiply of all runs."""
    reports: dict[str, list[Readback]] = {}
    for run in runs:
        for name, cohort in run.readbacks.items():
            if cohort.members:
                first = min(cohort.members, key=lambda each: each.slot)
                reports.setdefault(name, []).append(first)
    return {
        name: structs.replace(
            readbacks[0], sgemm_gflops=max(readback.sgemm_gflops for readback in readbacks)
        )
        for name, readbacks in reports.items()
    }
