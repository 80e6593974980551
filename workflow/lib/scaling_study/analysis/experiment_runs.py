"""Files of experiments as runs, and their windows as tables.

Windows of experiments on causes are the rows of tables/experiments.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd

from scaling_study.analysis import record_rows
from scaling_study.analysis.accounts import OF_ALL_STEPS
from scaling_study.records import experiment
from scaling_study.records.codec import REMEDY, RecordError
from scaling_study.records.columns import CLOCK, EXPERIMENTS, PER_STEP, RUNNABLE
from scaling_study.records.machine import Machine
from scaling_study.records.readback import Readback

R = TypeVar("R")
Windows = Sequence[experiment.ExperimentWindow]

EVIDENCE = frozenset({"foreign_cpu", "stolen_cpu"})
"""Flags of a window that is no measurement of the launch, but shows what disturbs it."""

COPIED = ("experiment", "name", "block", "n", "attempt", "dose", "count", "rate_share", "valid")
"""Fields of a window that its row copies; null is NaN."""
OF_RUN = ("launch", "label", "role", "target", "replicate")
"""Fields of a run's first record that its rows copy."""

CPU_WAITS = ("trainer_runqueue_s_per_step", "trainer_throttled_s_per_step")
RESIDENT = ("resident_before", "resident_after")
OF_MEMBER = ("name", "n", "block", "valid")
MEMBERS = ["name", "n", "block", "slot", "unhindered_s"]
OVER_MEMBERS = {
    **dict.fromkeys(("threads", "processes", RUNNABLE.name, CLOCK.name), "mean"),
    **dict.fromkeys(("restarts", "cpu_use", "steps_active"), "sum"),
    "active_s": "max",
}
"""How the values of a window's members are combined."""


class WhyRun:
    """One job of experiments: one target, one replicate.

    Args:
        head: Its first record.
        records: All of them.

    Attributes:
        readbacks: By cohort: ``reference``, names of interventions, ``kernels``.
        failed: Reasons why interventions did not start, take effect or last, by name.
        left_out: Reasons of interventions that were tried and cannot be made here, by name.
        windows: Rows of tables/experiments.
        members: A row per member and window that counts: `name`, `n`, `block`, `slot` and
            `unhindered_s`, the time of a step without waiting for a CPU.
        samples: Samples of training threads.
        calls: What calls of operators cost; None if that was not measured.
        foreign: The largest foreign consumers of CPU time.
        end: Its last record; None where the job was cut off.
    """

    def __init__(self, head: experiment.WhyHead, records: Sequence[experiment.Record]) -> None:
        self.head = head
        readbacks = record_rows.of_kind(records, experiment.ExperimentReadbacks)
        self.readbacks = {readback.cohort: readback for readback in readbacks}
        unproven = {name for name, readback in self.readbacks.items() if not readback.proven}
        windows = [
            record_rows.flagged(window, record_rows.NOT_PROVEN)
            if _cohort(window) in unproven
            else window
            for window in record_rows.of_kind(records, experiment.ExperimentWindow)
        ]
        counted = record_rows.member_rows(windows, OF_MEMBER)
        slower_s = _slower_cores_s(windows, counted, _kinds_of_cores(head.machine, self.readbacks))
        self.windows, self.members = _frame(head, windows, counted, slower_s), _unhindered(counted)
        failed = record_rows.of_kind(records, experiment.ChangeFailed)
        self.failed = {change.intervention: change.reason for change in failed}
        left_out = record_rows.of_kind(records, experiment.ChangeLeftOut)
        self.left_out = {change.intervention: change.reason for change in left_out}
        self.samples = record_rows.of_kind(records, experiment.Samples)
        self.calls = record_rows.last(records, experiment.OperatorCalls)
        foreign = record_rows.of_kind(records, experiment.Foreign)
        self.foreign = [process for each in foreign for process in each.processes]
        self.end = record_rows.last(records, experiment.ExperimentEnd)


def _read(path: Path, kind: type[R]) -> tuple[R, list[experiment.Record]]:
    """Read a file of experiments; return its first record, of this kind, and all records.

    Raises:
        RecordError: A record is unreadable or contradicts itself, or there is not one first record.
    """
    records = [*record_rows.read_each(path, experiment.DECODER, _refuse)]
    heads = record_rows.of_kind(records, kind)
    if len(heads) != 1:
        raise RecordError(f"{path}: {len(heads)} first records; {REMEDY}")
    return heads[0], records


def _refuse(record: experiment.Record) -> None:
    if isinstance(record, experiment.ExperimentWindow):
        record_rows.refuse_contradictions(record, in_turns=True)


def read_run(path: Path) -> WhyRun:
    """Read one file of experiments.

    Args:
        path: why/<target>/<replicate>.jsonl.

    Raises:
        RecordError: A record is unreadable or contradicts itself, or there is not one first record.
    """
    return WhyRun(*_read(path, experiment.WhyHead))


def frame(runs: Iterable[WhyRun]) -> pd.DataFrame:
    """Return all windows of some runs, as tables/experiments holds them."""
    frames = [run.windows for run in runs if not run.windows.empty]
    return EXPERIMENTS.frame(pd.concat(frames, ignore_index=True) if frames else None)


def _cohort(window: experiment.ExperimentWindow) -> str:
    """Return the name of the cohort whose members trained in a window."""
    return window.name if window.experiment == "intervention" else "reference"


def _kinds_of_cores(
    machine: Machine, readbacks: Mapping[str, experiment.ExperimentReadbacks]
) -> dict[tuple[str, int], int]:
    """Return the kind of core that members are bound to, by cohort and slot.

    Empty on a machine with cores of one kind; members that may run on several kinds are left out.
    """
    kind_of = {cpu.cpu: cpu.kind for cpu in machine.topology.cpus}
    if not any(kind_of.values()):
        return {}
    kinds = {
        (cohort, member.slot): {kind_of.get(cpu) for cpu in member.cpus}
        for cohort, record in readbacks.items()
        for member in record.members
    }
    return {key: kind for key, (kind, *others) in kinds.items() if kind is not None and not others}


def _slower_cores_s(
    windows: Windows, rows: pd.DataFrame, kinds: Mapping[tuple[str, int], int]
) -> "pd.Series[float]":
    """Return how much longer the mean step of each window is than that on fast cores (s).

    NaN where the kind of a member's core is not known, and where none has fast ones.
    """
    members = zip(rows["at"], rows["slot"].astype(np.int64), strict=True)
    kind = pd.Series(
        [kinds.get((_cohort(windows[at]), slot)) for at, slot in members], rows.index, np.float64
    )
    slower_s = _mean_step_s(rows) - _mean_step_s(rows[kind == 0])
    return slower_s.mask(kind.isna().groupby(rows["at"]).any())


def _mean_step_s(rows: pd.DataFrame) -> "pd.Series[float]":
    """Return the mean step of each window's members (s): their number over their throughput."""
    by_window = rows.groupby("at")
    return by_window.size() / by_window["steps_per_s"].sum()


def _frame(
    head: experiment.WhyHead, windows: Windows, counted: pd.DataFrame, slower_s: "pd.Series[float]"
) -> pd.DataFrame:
    """Return rows of the table, one per window."""
    if not windows:
        return EXPERIMENTS.frame()
    members = _per_window(counted)
    rows = record_rows.window_rows(windows, COPIED).assign(
        machine=head.machine_hash,
        usable=[_is_evidence(window) for window in windows],
        **{name: getattr(head, name) for name in OF_RUN},
    )
    rows = rows.join(members).join(_machine(windows, members)).assign(slower_cores_s=slower_s)
    rows["usable"] &= rows["step_s"].gt(0) & np.isfinite(rows["step_s"])
    return EXPERIMENTS.frame(rows)


def _is_evidence(window: experiment.ExperimentWindow) -> bool:
    """Return whether a window is valid, or only disturbed from outside, and all members trained."""
    against = record_rows.AGAINST.intersection(window.flags)
    return len(window.members) == window.n and (window.valid or against <= EVIDENCE)


def _unhindered(rows: pd.DataFrame) -> pd.DataFrame:
    """Return `WhyRun.members`, from windows that count."""
    waits_s = rows[[*CPU_WAITS]].fillna(0.0).sum(axis=1)
    rows = rows.astype({"slot": np.int64}).assign(unhindered_s=1 / rows["steps_per_s"] - waits_s)
    counts = rows["valid"] & np.isfinite(rows["unhindered_s"])
    return pd.DataFrame(rows.loc[counts, MEMBERS]).reset_index(drop=True)


def _per_window(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row per window: sums of its members' counts over sums of steps, and step times."""
    by_window = rows.groupby("at")
    names = (column.name for column in PER_STEP)
    bases = {name: "steps_active" if name in OF_ALL_STEPS else "steps" for name in names}
    values = rows[[*bases]]
    steps = rows[[*bases.values()]].set_axis([*bases], axis=1).where(values.notna(), 0)
    per_step = (values * steps).groupby(rows["at"]).sum() / steps.groupby(rows["at"]).sum()
    table = per_step.join(by_window.agg(OVER_MEMBERS))
    table["step_s"] = _mean_step_s(rows)
    return table


def _machine(windows: Windows, members: pd.DataFrame) -> pd.DataFrame:
    """Return readings of the machine: per second of a window's span, or per step of all members."""
    machine = record_rows.machine_rows(windows)
    window_s = pd.Series([window.window_s for window in windows])
    # The last step of a window ends after its close, and the counters are read after that.
    span_s = pd.concat([window_s, members["active_s"]], axis=1).max(axis=1)
    steps = members["steps_active"].where(members["steps_active"] > 0)
    readings = machine[["members_cpus", "trainers_cpus", "frequency_mhz"]].assign(
        foreign_cpus=machine["foreign_cpu_s"] / span_s,
        steal_cpus=machine["steal_s"] / span_s,
        throttled_s_per_step=machine["throttled_s"] / steps,
        psi_cpu_share=machine["psi_cpu_some_s"] / span_s,
        psi_memory_share=machine["psi_memory_some_s"] / span_s,
        psi_io_share=machine["psi_io_some_s"] / span_s,
    )
    counts = pd.DataFrame(
        [window.vmstat for window in windows], columns=[*experiment.VMSTAT], dtype=np.float64
    )
    return readings.join(counts.div(steps, axis=0).add_suffix("_per_step"))


@dataclass(frozen=True, slots=True)
class LoaderRun:
    """One job of experiments on a data loader: one start of all variants.

    Attributes:
        head: Its first record.
        readbacks: The report of the first member of each variant, by the variant's name.
        windows: A row per valid window: `name` of the variant, `n`, `replicate`, `block`, `step_s`,
            everything per step that members count, `disk_bytes_per_s` (what the machine read from
            disks), and `resident_before` and `resident_after`.
        ways: Its record of other ways to load; None where the loader cannot be changed.
        invalid: How many windows were not valid.
        end: Its last record; None where the job was cut off.
        use: Use of the machine meanwhile; None if it was not recorded.
    """

    head: experiment.LoaderHead
    readbacks: dict[str, Readback]
    windows: pd.DataFrame
    ways: experiment.Ways | None
    invalid: int
    end: experiment.ExperimentEnd | None
    use: experiment.Use | None = None


def read_loader_run(path: Path) -> LoaderRun:
    """Read one file of experiments on a data loader.

    Args:
        path: data_loader/<replicate>.jsonl.

    Raises:
        RecordError: A record is unreadable or contradicts itself, or there is not one first record.
    """
    head, records = _read(path, experiment.LoaderHead)
    taken = record_rows.of_kind(records, experiment.ExperimentWindow)
    readbacks = record_rows.of_kind(records, experiment.ExperimentReadbacks)
    return LoaderRun(
        head=head,
        readbacks={readback.cohort: readback.members[0] for readback in readbacks},
        windows=_loader_windows(head.replicate, taken),
        ways=record_rows.last(records, experiment.Ways),
        invalid=sum(not window.valid for window in taken),
        end=record_rows.last(records, experiment.ExperimentEnd),
        use=record_rows.last(records, experiment.Use),
    )


def _loader_windows(replicate: int, taken: Windows) -> pd.DataFrame:
    valid = [window for window in taken if window.valid]
    if not valid:
        return pd.DataFrame()
    rows = record_rows.window_rows(valid, ("name", "n", "block", *RESIDENT))
    read_bytes = [1024 * window.vmstat.get("pgpgin", np.nan) for window in valid]
    rows = rows.astype(dict.fromkeys(RESIDENT, np.float64)).assign(
        replicate=replicate,
        disk_bytes_per_s=np.array(read_bytes) / [window.window_s for window in valid],
    )
    return rows.join(_per_window(record_rows.member_rows(valid, OF_MEMBER)))
