"""Files of experiments as runs, and their windows as tables.

Those on causes are the rows of tables/experiments.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd

from scaling_study.analysis.accounts import PHASES
from scaling_study.analysis.record_rows import (
    NOT_PROVEN,
    machine_rows,
    member_rows,
    read_each,
    refuse_contradictions,
    window_rows,
)
from scaling_study.records import experiment
from scaling_study.records.codec import REMEDY, RecordError
from scaling_study.records.columns import CLOCK, EXPERIMENTS, PER_STEP, RUNNABLE, VMSTAT
from scaling_study.records.readback import Readback
from scaling_study.runner.windows import INVALID

R = TypeVar("R")

EVIDENCE = frozenset({"foreign_cpu", "stolen_cpu"})
"""Flags of a window that is no measurement of the launch, but shows what disturbs it."""

COPIED = ("experiment", "name", "block", "n", "attempt", "dose", "count", "rate_share")
"""Fields of a window that its row has as they are; null is NaN."""

MEANS = ("threads", "processes", RUNNABLE.name, CLOCK.name)
CPU_WAITS = ("trainer_runqueue_s_per_step", "trainer_throttled_s_per_step")
MEMBERS = ["name", "n", "block", "slot", "unhindered_s"]


@dataclass(frozen=True, slots=True)
class WhyRun:
    """One job of experiments: one target, one replicate.

    Attributes:
        head: Its first record.
        readbacks: By cohort: ``reference``, names of interventions, ``kernels``.
        failed: Reason by intervention that did not start, prove itself or last.
        left_out: Reason by intervention that cannot be made in this script, which was tried.
        windows: Rows of tables/experiments.
        members: A row per member and window that counts: `name`, `n`, `block`, `slot` and
            `unhindered_s`, the step less its waiting for a CPU.
        samples: Samples of training threads.
        foreign: The largest foreign consumers of CPU time.
        end: Its last record; None where the job was cut off.
    """

    head: experiment.Why
    readbacks: dict[str, experiment.Readbacks]
    failed: dict[str, str]
    left_out: dict[str, str]
    windows: pd.DataFrame
    members: pd.DataFrame
    samples: list[experiment.Samples]
    foreign: list[experiment.ForeignProcess]
    end: experiment.End | None


def _read(path: Path, kind: type[R]) -> tuple[R, list[experiment.Record]]:
    """Read a file of experiments; return its first record, of this kind, and all of them.

    Raises:
        RecordError: A record cannot be read or contradicts the ones before it.
    """
    records = [*read_each(path, experiment.DECODER, _refuse)]
    heads = _of_kind(records, kind)
    if len(heads) != 1:
        raise RecordError(f"{path}: {len(heads)} first records; {REMEDY}")
    return heads[0], records


def _refuse(record: experiment.Record) -> None:
    if isinstance(record, experiment.Window):
        refuse_contradictions(record, in_turns=True)


def _of_kind(records: Iterable[object], kind: type[R]) -> list[R]:
    """Return the records of a kind, in order."""
    return [one for one in records if isinstance(one, kind)]


def _last(records: Iterable[object], kind: type[R]) -> R | None:
    """Return the last record of a kind; None without one."""
    return next(reversed(_of_kind(records, kind)), None)


def read_run(path: Path) -> WhyRun:
    """Read one file of experiments.

    Args:
        path: why/<target>/<replicate>.jsonl.

    Raises:
        RecordError: A record cannot be read or contradicts the ones before it.
    """
    return make_run(*_read(path, experiment.Why))


def make_run(head: experiment.Why, records: Sequence[experiment.Record]) -> WhyRun:
    """Arrange the records of one job."""
    windows = _of_kind(records, experiment.Window)
    readbacks = {one.cohort: one for one in _of_kind(records, experiment.Readbacks)}
    unproven = frozenset(name for name, one in readbacks.items() if not one.proven)
    counted = _member_rows(windows)
    foreign = _of_kind(records, experiment.Foreign)
    return WhyRun(
        head=head,
        readbacks=readbacks,
        failed={one.intervention: one.reason for one in _of_kind(records, experiment.ChangeFailed)},
        left_out={
            one.intervention: one.reason for one in _of_kind(records, experiment.ChangeLeftOut)
        },
        windows=_frame(head, windows, counted, unproven),
        members=_unhindered(windows, counted),
        samples=_of_kind(records, experiment.Samples),
        foreign=[one for each in foreign for one in each.processes],
        end=_last(records, experiment.End),
    )


def frame(runs: Iterable[WhyRun]) -> pd.DataFrame:
    """All windows of some runs, as tables/experiments holds them."""
    frames = [run.windows for run in runs if not run.windows.empty]
    return EXPERIMENTS.frame(pd.concat(frames, ignore_index=True) if frames else None)


def _frame(
    head: experiment.Why,
    windows: Sequence[experiment.Window],
    counted: pd.DataFrame,
    unproven: frozenset[str],
) -> pd.DataFrame:
    """Rows of the table, one per window."""
    if not windows:
        return EXPERIMENTS.frame()
    names = {
        "machine": head.machine_hash,
        **{key: getattr(head, key) for key in ("launch", "label", "role", "target", "replicate")},
    }
    rows = pd.DataFrame([names | _row(window, unproven) for window in windows])
    members = _per_window(counted)
    rows = rows.join(members).join(_machine(windows, members))
    rows["usable"] &= rows["step_s"].gt(0) & np.isfinite(rows["step_s"])
    return EXPERIMENTS.frame(rows)


def _row(window: experiment.Window, unproven: frozenset[str]) -> dict[str, object]:
    """Return the part of a row that is not counted."""
    cohort = window.name if window.experiment == "intervention" else "reference"
    flags = [*window.flags, *([NOT_PROVEN] if cohort in unproven else [])]
    # Remarks on a valid window make it no less valid, so they do not make it useless either.
    evidence = EVIDENCE.issuperset(_invalid(flags))
    whole = len(window.members) == window.n
    return {
        **{key: getattr(window, key) for key in COPIED},
        "valid": window.valid and NOT_PROVEN not in flags,
        "usable": whole and NOT_PROVEN not in flags and (window.valid or evidence),
        "flags": ";".join(flags),
    }


def _invalid(flags: Sequence[str]) -> list[str]:
    return [flag for flag in flags if flag in INVALID or flag == NOT_PROVEN]


def _member_rows(windows: Sequence[experiment.Window]) -> pd.DataFrame:
    """Return the counts of members, a row per member and window; `at` is the window's place."""
    rows = member_rows(windows)
    return rows if rows.empty else window_rows(rows, ["at"])


def _unhindered(windows: Sequence[experiment.Window], rows: pd.DataFrame) -> pd.DataFrame:
    """Return `WhyRun.members`: of windows that count only."""
    if rows.empty:
        return pd.DataFrame(columns=MEMBERS)
    names = ["name", "n", "block", "valid"]
    of_window = pd.DataFrame([[getattr(one, key) for key in names] for one in windows])
    found = of_window.set_axis(names, axis=1).loc[rows["at"]].reset_index(drop=True)
    found["slot"] = rows["slot"].astype(np.int64)
    waits_s = rows[[*CPU_WAITS]].fillna(0.0).sum(axis=1)
    found["unhindered_s"] = 1 / rows["steps_per_s"] - waits_s
    counts = found["valid"] & np.isfinite(found["unhindered_s"])
    return pd.DataFrame(found.loc[counts, MEMBERS]).reset_index(drop=True)


def _per_window(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the counts of members, a row per window: their sums over the sums of their steps."""
    by_window = rows["at"]
    steps_per_s = rows["steps_per_s"].groupby(by_window).sum()
    found = {"step_s": rows.groupby(by_window).size() / steps_per_s}
    for column in PER_STEP:
        phase = column.name.removesuffix("_per_step") in PHASES
        steps = rows["steps" if phase else "steps_active"].where(rows[column.name].notna(), 0.0)
        total = (rows[column.name].fillna(0.0) * steps).groupby(by_window).sum()
        found[column.name] = total / steps.groupby(by_window).sum()
    for name in MEANS:
        found[name] = rows[name].groupby(by_window).mean()
    found["restarts"] = rows["restarts"].groupby(by_window).sum()
    found["cpu_use"] = rows["cpu_use"].groupby(by_window).sum()
    found["steps"] = rows["steps_active"].groupby(by_window).sum()
    found["active_s"] = rows["active_s"].groupby(by_window).max()
    return pd.DataFrame(found)


def _machine(windows: Sequence[experiment.Window], members: pd.DataFrame) -> pd.DataFrame:
    """Readings of the machine: per second between the edges, or per step of all members."""
    machine = machine_rows(windows)
    window_s = pd.Series([window.window_s for window in windows])
    # The last step of a window ends after its close, and the counters are read after that.
    span_s = pd.concat([window_s, members["active_s"]], axis=1).max(axis=1)
    steps = members["steps"].where(members["steps"] > 0)
    found = pd.DataFrame(
        {
            "foreign_cpus": machine["foreign_cpu_s"] / span_s,
            "steal_cpus": machine["steal_s"] / span_s,
            "throttled_s_per_step": machine["throttled_s"] / steps,
            **{name: machine[name] for name in ("members_cpus", "trainers_cpus", "frequency_mhz")},
            **{
                f"psi_{kind}_share": machine[f"psi_{kind}_some_s"] / span_s
                for kind in ("cpu", "memory", "io")
            },
        }
    )
    for name in VMSTAT:
        counts = pd.Series([float(one.vmstat.get(name, np.nan)) for one in windows])
        found[f"{name}_per_step"] = counts / steps
    return found


@dataclass(frozen=True, slots=True)
class LoaderRun:
    """One job: one start of all variants.

    Attributes:
        head: Its first record.
        readbacks: The report of the first member of each variant, by the variant's name.
        windows: A row per valid window: `variant`, `n`, `replicate`, `block`, `step_s`,
            everything per step that members count, `disk_bytes_per_s` (what the machine read from
            disks), and `resident_before` and `resident_after`.
        ways: Its record of other ways to load; None where the loader cannot be changed.
        invalid: How many windows were not valid.
        end: Its last record; None where the job was cut off.
        use: Use of the machine meanwhile; None where it was not looked at.
    """

    head: experiment.LoaderExperiment
    readbacks: dict[str, Readback]
    windows: pd.DataFrame
    ways: experiment.Ways | None
    invalid: int
    end: experiment.End | None
    use: experiment.Use | None = None


def read_loader_run(path: Path) -> LoaderRun:
    """Read one file of experiments on a data loader.

    Args:
        path: data_loader/<replicate>.jsonl.

    Raises:
        RecordError: A record cannot be read or contradicts the ones before it.
    """
    head, records = _read(path, experiment.LoaderExperiment)
    taken = _of_kind(records, experiment.Window)
    return LoaderRun(
        head=head,
        readbacks={one.cohort: one.members[0] for one in _of_kind(records, experiment.Readbacks)},
        windows=_loader_windows(head.replicate, taken),
        ways=_last(records, experiment.Ways),
        invalid=sum(not window.valid for window in taken),
        end=_last(records, experiment.End),
        use=_last(records, experiment.Use),
    )


def _loader_windows(replicate: int, taken: list[experiment.Window]) -> pd.DataFrame:
    valid = [window for window in taken if window.valid]
    if not valid:
        return pd.DataFrame()
    names = pd.DataFrame(
        {
            "variant": [window.name for window in valid],
            "n": [window.n for window in valid],
            "replicate": replicate,
            "block": [window.block for window in valid],
            "disk_bytes_per_s": [_disk_bytes_per_s(window) for window in valid],
            **{
                name: np.array([getattr(window, name) for window in valid], dtype=np.float64)
                for name in ("resident_before", "resident_after")
            },
        }
    )
    return names.join(_per_window(_member_rows(valid)))


def _disk_bytes_per_s(window: experiment.Window) -> float:
    read = window.vmstat.get("pgpgin")
    return np.nan if read is None else 1024 * read / window.window_s
