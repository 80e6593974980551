"""Record files of launches, as cohorts and as rows of members with all that tables derive."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd
from msgspec import convert, json
from msgspec.structs import replace

from scaling_study.analysis.accounts import accounts
from scaling_study.records import codec, experiment, window
from scaling_study.records.codec import RecordError
from scaling_study.records.cohorts import CohortSummary, Compiled, Counting, InvalidWindow, Reported
from scaling_study.records.machine import Machine
from scaling_study.records.model_length import ModelLength
from scaling_study.runner.windows import INVALID
from scaling_study.stats.interval import Floats, Integers

NOT_PROVEN = "not_proven"
"""Flag of a window whose cohort did not show that its settings took effect."""
AGAINST = INVALID | {NOT_PROVEN}
"""Flags of a window that count against it; others are remarks."""
UNSETTLED = "unsettled"
"""Flag of a window in which the script had not settled; later ones count instead."""
WINDOW_FIELDS = tuple(
    name for name in window.Window.__struct_fields__ if name not in {"flags", "machine", "members"}
)
US_PER_S = 1e6
STEP_QUANTILES = {"step_median_s": 0.5, "step_p95_s": 0.95, "step_p99_s": 0.99}
MACHINE_FIELDS = window.WindowMachine.__struct_fields__
LIFE_FIELDS = window.Life.__struct_fields__
MEMBER_FIELDS = tuple(
    name for name in window.MemberWindow.__struct_fields__ if name not in {"step_us", *LIFE_FIELDS}
)
member_values, life_values = attrgetter(*MEMBER_FIELDS), attrgetter(*LIFE_FIELDS)
R = TypeVar("R")
W = TypeVar("W", window.Window, experiment.ExperimentWindow)


@dataclass(frozen=True, slots=True)
class FileRows:
    """The content of one record file.

    Attributes:
        rows: `member_rows` of its windows, with their `WINDOW_FIELDS` and the `machine`.
        cohorts: Its cohorts, with the names that their launch had.
        machines: The machines that measured them, by hash.
        ended: Steps of the script's starts that have ended, an entry for each member.
    """

    rows: pd.DataFrame
    cohorts: tuple[CohortSummary, ...]
    machines: dict[str, Machine]
    ended: tuple[ModelLength, ...]


def read_rows(path: Path) -> FileRows:
    """Read one record file.

    Args:
        path: measure/<launch>/<replicate>.jsonl.

    Raises:
        RecordError: A record cannot be read or contradicts the ones before it.
    """
    numbers: set[tuple[int, ...]] = set()
    records = [*read_each(path, window.DECODER, lambda record: _refuse(record, numbers))]
    heads = of_kind(records, window.CohortHead)
    if not heads:
        raise RecordError(f"{path}: no cohort in it; {codec.REMEDY}")
    windows = _flagged_windows(records)
    rows = member_rows(windows, WINDOW_FIELDS)
    rows["machine"] = rows["cohort"].map({head.cohort: head.machine_hash for head in heads})
    after = [record for record in of_kind(records, window.Readbacks) if record.when == "after"]
    return FileRows(
        rows,
        tuple(_summary(path, head, records, windows) for head in heads),
        {head.machine_hash: head.machine for head in heads},
        tuple(member.ended for readback in after for member in readback.members if member.ended),
    )


def read_each(path: Path, decoder: json.Decoder[R], refuse: Callable[[R], None]) -> Iterator[R]:
    """Read the records of a file.

    Args:
        path: The file.
        decoder: The decoder of its records.
        refuse: Raises a RecordError for a record that contradicts itself or those before it.

    Raises:
        RecordError: A record cannot be read or is refused; its line is named.
    """
    for line, record in codec.read(path, decoder):
        try:
            refuse(record)
        except RecordError as error:
            raise RecordError(f"{path}:{line}: {error}; {codec.REMEDY}") from None
        yield record


def of_kind(records: Iterable[object], kind: type[R]) -> list[R]:
    """Return the records of a kind, in order."""
    return [record for record in records if isinstance(record, kind)]


def last(records: Iterable[object], kind: type[R]) -> R | None:
    """Return the last record of a kind; None without one."""
    return next(reversed(of_kind(records, kind)), None)


def flagged(record: W, flag: str) -> W:
    """Return a window as one that does not count, with this flag added."""
    return replace(record, valid=False, flags=[*record.flags, flag])


def _flagged_windows(records: Sequence[window.Record]) -> list[window.Window]:
    """Return the windows of a file; those that other records invalidate are flagged.

    If a cohort did not prove its launch before its first window or after its last one, or failed
    between them, none of its windows counts: it is not known when its settings changed.
    """
    readbacks = of_kind(records, window.Readbacks)
    proven = {readback.cohort for readback in readbacks if readback.when != "after"}
    proven -= {readback.cohort for readback in readbacks if not readback.proven}
    proven -= {end.cohort for end in of_kind(records, window.CohortEnd) if end.status == "failed"}
    windows = [
        record if record.cohort in proven else flagged(record, NOT_PROVEN)
        for record in of_kind(records, window.Window)
    ]
    for settled in of_kind(records, window.Settled):
        begin = settled.cohort, settled.block
        later = {
            record.n
            for record in windows
            if record.valid and record.cohort == settled.cohort and record.block >= settled.block
        }
        windows = [
            flagged(record, UNSETTLED)
            if record.valid and record.n in later and (record.cohort, record.block) < begin
            else record
            for record in windows
        ]
    return windows


def _summary(
    path: Path,
    head: window.CohortHead,
    records: Iterable[window.Record],
    windows: Iterable[window.Window],
) -> CohortSummary:
    """Return a cohort as cohorts.json holds it: without its machine, with its first member only.

    Args:
        path: Its file.
        head: Its first record.
        records: All records of the file.
        windows: The file's windows, as `_flagged_windows` returns them.
    """
    own_records = [record for record in records if record.cohort == head.cohort]
    taken = [record for record in windows if record.cohort == head.cohort]
    valid = [record for record in taken if record.valid]
    readbacks = of_kind(own_records, window.Readbacks)
    shared_files: dict[str, int] = {}
    for readback in readbacks:
        shared_files |= readback.shared_files or {}
    return CohortSummary(
        **{name: getattr(head, name) for name in window.AskedCohort.__struct_fields__},
        file=str(path),
        machine=head.machine_hash,
        host=head.machine.hostname,
        end=last(own_records, window.CohortEnd),
        events=tuple(of_kind(own_records, window.CohortEvent)),
        windows_valid=len(valid),
        ns_valid=tuple(dict.fromkeys(record.n for record in valid)),
        windows_invalid=tuple(
            InvalidWindow(n=record.n, flags=tuple(record.flags))
            for record in taken
            if not record.valid and UNSETTLED not in record.flags
        ),
        steps=sum(member.steps for record in valid for member in record.members),
        settled=tuple(of_kind(own_records, window.Settled)),
        shared_files=shared_files,
        readback=_reported(readbacks),
    )


def _reported(readbacks: Iterable[window.Readbacks]) -> Reported | None:
    """Return the reports of a cohort's members, as cohorts.json holds them."""
    before = next((readback for readback in readbacks if readback.when != "after"), None)
    after = next((readback for readback in readbacks if readback.when == "after"), None)
    if before is None:
        return None
    members = sorted(before.members, key=lambda member: member.slot)
    reports = Reported(
        checks=before.checks,
        member=members[0] if members else None,
        intra_op=tuple(member.intra_op for member in members),
        start_s=tuple(member.start_s for member in members if member.start_s is not None),
    )
    if after is None:
        return reports
    return replace(
        reports,
        counted=tuple(
            convert(member.counted or None, Counting | None) for member in after.members[:1]
        ),
        once=any(member.once for member in after.members),
        compiled=tuple(
            convert({**member.compiled, "warm_up_s": member.warm_up_compile_s or 0.0}, Compiled)
            for member in after.members
            if member.compiled and member.compiled.get("times")
        ),
    )


def _refuse(record: window.Record, numbers: set[tuple[int, ...]]) -> None:
    """Raise if a record contradicts itself or those before it.

    Args:
        record: The record.
        numbers: Numbers of cohorts, and of cohort, window and attempt, so far; gets the record's.
    """
    if isinstance(record, window.CohortHead):
        if (record.cohort,) in numbers:
            raise RecordError(f"cohort {record.cohort} is in this file twice")
        numbers.add((record.cohort,))
    elif (record.cohort,) not in numbers:
        kind = record.__struct_config__.tag
        raise RecordError(f"{kind} of cohort {record.cohort}, which did not start")
    elif isinstance(record, window.Window):
        attempt = (record.cohort, record.window, record.attempt)
        if attempt in numbers:
            place = "cohort {}, window {}, attempt {}".format(*attempt)
            raise RecordError(f"{place} is in this file twice")
        numbers.add(attempt)
        refuse_contradictions(record)
        number = len(record.members)
        if record.valid and number < record.n and window.ONE_PROGRAM not in record.flags:
            raise RecordError(f"a valid window of n = {record.n} with {number} members")
        for member in record.members if record.valid else ():
            if not (any(member.step_us) and member.steps_active):
                raise RecordError(f"a valid window in which slot {member.slot} made no step")


def refuse_contradictions(taken: window.Taken, *, in_turns: bool = False) -> None:
    """Raise if a window's members contradict each other, or their own step times.

    Args:
        taken: The window.
        in_turns: Whether its n members may be any of those that were started.

    Raises:
        RecordError: Slots are impossible or repeated, or steps and step times differ in number.
    """
    slots = sorted(member.slot for member in taken.members)
    too_many = len(slots) > taken.n if in_turns else max(slots, default=0) >= taken.n
    if too_many or len({*slots}) < len(slots):
        raise RecordError(f"slots {slots} of {len(slots)} members, n is {taken.n}")
    for member in taken.members:
        if member.steps != len(member.step_us):
            raise RecordError(
                f"slot {member.slot} counted {member.steps} steps and has "
                f"{len(member.step_us)} step times"
            )


def member_rows(windows: Sequence[window.Taken], fields: Sequence[str]) -> pd.DataFrame:
    """Return what was counted in some windows, a row per member and window.

    Args:
        windows: Windows of one file.
        fields: Fields of a window that its rows repeat.

    Returns:
        These fields; `flags` as text; the fields of `WindowMachine` and `MemberWindow` as float64
        columns, in which null is NaN; and the columns that the table of windows derives from them,
        NaN if measured over no step. Also `at`, the window's index in `windows`; `step_us`, an
        array of the counted steps; and `life`, the window's place among all steps of its member
        (None for bursts and older files).
    """
    at = np.repeat(np.arange(len(windows)), [len(record.members) for record in windows])
    members = [member for record in windows for member in record.members]
    values = np.array([member_values(member) for member in members], dtype=np.float64)
    machines = machine_rows(windows).to_numpy()[at]
    step_us = [np.array(member.step_us, dtype=np.int64) for member in members]
    counts = dict(zip(MEMBER_FIELDS, values.reshape(-1, len(MEMBER_FIELDS)).T, strict=True))
    counts |= dict(zip(MACHINE_FIELDS, machines.T, strict=True))
    counts |= _step_times(step_us)
    counts |= accounts(counts, at)
    objects = {
        "step_us": step_us,
        "life": [
            None if None in life else window.Life(*life) for life in map(life_values, members)
        ],
    }
    of_window = window_rows(windows, fields).loc[at].reset_index(drop=True).assign(at=at)
    return of_window.join(pd.DataFrame(counts)).join(pd.DataFrame(objects, dtype=object))


def window_rows(windows: Sequence[window.Taken], fields: Sequence[str]) -> pd.DataFrame:
    """Return some fields of windows and their `flags`, a row per window."""
    rows = pd.DataFrame(map(attrgetter(*fields), windows), columns=[*fields])
    return rows.assign(flags=[";".join(record.flags) for record in windows])


def machine_rows(windows: Sequence[window.Taken]) -> pd.DataFrame:
    """Return the readings of the machine, a row per window; null is NaN."""
    machines = [record.machine for record in windows]
    return pd.DataFrame(
        map(attrgetter(*MACHINE_FIELDS), machines), columns=[*MACHINE_FIELDS], dtype=np.float64
    )


def _step_times(step_us: Sequence[Integers]) -> dict[str, Floats]:
    """Return the mean, the rate and the quantiles of the counted steps of each member."""
    steps = np.array([member_us.size for member_us in step_us], dtype=np.int64)
    counted_s = np.array([member_us.sum() for member_us in step_us]) / US_PER_S
    with np.errstate(divide="ignore", invalid="ignore"):
        columns = {"step_mean_s": counted_s / steps, "steps_per_s": steps / counted_s}
    # Each quantile is interpolated between two sorted steps: np.quantile per member takes longer.
    ordered = np.concatenate([*map(np.sort, step_us), [np.nan]])
    first, last = np.cumsum(steps) - steps, np.maximum(steps - 1, 0)
    for name, level in STEP_QUANTILES.items():
        place = level * last
        below = place.astype(np.int64)
        low, high = ordered[first + below], ordered[first + np.minimum(below + 1, last)]
        quantile = low + (place - below) * (high - low)
        columns[name] = np.where(steps > 0, quantile, np.nan) / US_PER_S
    return columns
