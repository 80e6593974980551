"""Record files as cohorts, and as rows of members."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd
from msgspec import json
from msgspec.structs import replace

from scaling_study.analysis.accounts import add_per_step
from scaling_study.records import codec, window
from scaling_study.records.codec import RecordError
from scaling_study.records.window import Life, Member, Taken, Window, WindowMachine

NOT_PROVEN = "not_proven"
"""Flag of a window whose cohort did not show that it got what its launch asks for."""

UNSETTLED = "unsettled"
"""Flag of a window in which the script had not settled; later ones count instead."""

US_PER_S = 1e6
STEP_QUANTILES = {"step_median_s": 0.5, "step_p95_s": 0.95, "step_p99_s": 0.99}
WINDOW = ("replicate", "cohort", "window", "attempt")
"""Columns that tell a window of a launch from its others."""

WINDOW_FIELDS = (
    *("cohort", "window", "block", "n", "attempt", "valid"),
    *("window_s", "start_skew_s", "overlap"),
)
MACHINE_FIELDS = WindowMachine.__struct_fields__
LIFE_FIELDS = Life.__struct_fields__
MEMBER_FIELDS = tuple(
    name for name in Member.__struct_fields__ if name not in {"step_us", *LIFE_FIELDS}
)
window_values, machine_values = attrgetter(*WINDOW_FIELDS), attrgetter(*MACHINE_FIELDS)
member_values, life_values = attrgetter(*MEMBER_FIELDS), attrgetter(*LIFE_FIELDS)

R = TypeVar("R")


@dataclass(slots=True)
class CohortRecords:
    """The records of one cohort.

    Attributes:
        head: Its first record.
        readback: Before its first window.
        readback_after: After its last one.
        end: Its last record; None where the job was cut off.
        events: Events of its members.
        windows_valid: How many windows count.
        ns_valid: Their process counts.
        windows_invalid: Process count and flags of each of the others, those taken anew left out.
        steps: Counted in valid windows.
        settled: Points at which windows were taken anew.
        shared_files: How many members wrote each file that several wrote.
    """

    head: window.Cohort
    readback: window.Readbacks | None = None
    readback_after: window.Readbacks | None = None
    end: window.End | None = None
    events: list[window.Event] = field(default_factory=list)
    windows_valid: int = 0
    ns_valid: tuple[int, ...] = ()
    windows_invalid: list[tuple[int, list[str]]] = field(default_factory=list)
    steps: int = 0
    settled: list[window.Settled] = field(default_factory=list)
    shared_files: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FileRows:
    """The content of one record file.

    Attributes:
        rows: `member_rows` of its windows, with their `WINDOW_FIELDS` and `flags`.
        cohorts: Its cohorts.
    """

    rows: pd.DataFrame
    cohorts: tuple[CohortRecords, ...]


def read_rows(path: Path) -> FileRows:
    """Read one record file.

    Args:
        path: measure/<launch>/<replicate>.jsonl.

    Returns:
        Its rows. Windows of a cohort that did not prove its launch are flagged `NOT_PROVEN` and
        are not valid.

    Raises:
        RecordError: A record cannot be read or contradicts the ones before it.
    """
    cohorts: dict[int, CohortRecords] = {}
    windows: list[Window] = []
    attempts: set[tuple[int, int, int]] = set()
    for record in read_each(path, window.DECODER, lambda one: _refuse(one, cohorts, attempts)):
        if isinstance(record, window.Cohort):
            cohorts[record.cohort] = CohortRecords(record)
        elif isinstance(record, Window):
            readback = cohorts[record.cohort].readback
            proven = readback is not None and readback.proven
            windows.append(record if proven else _flagged(record, NOT_PROVEN))
        else:
            _add(cohorts[record.cohort], record)
    if not cohorts:
        raise RecordError(f"{path}: no cohort in it; {codec.REMEDY}")
    windows = _only_settled(windows, [one for each in cohorts.values() for one in each.settled])
    for number, cohort in cohorts.items():
        if cohort.readback_after and not cohort.readback_after.proven:
            # Since when it had something else is not known.
            windows = [
                _flagged(one, NOT_PROVEN) if one.valid and one.cohort == number else one
                for one in windows
            ]
        _count(cohort, [one for one in windows if one.cohort == number])
    frame = pd.DataFrame(map(window_values, windows), columns=WINDOW_FIELDS)
    frame["flags"] = [";".join(one.flags) for one in windows]
    members = member_rows(windows)
    rows = frame.loc[members["at"]].reset_index(drop=True).join(members)
    return FileRows(rows, tuple(cohorts.values()))


def read_each(path: Path, decoder: json.Decoder[R], refuse: Callable[[R], None]) -> Iterator[R]:
    """Read the records of a file.

    Args:
        path: The file.
        decoder: Of its records.
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


def _add(
    cohort: CohortRecords, record: window.Readbacks | window.Event | window.Settled | window.End
) -> None:
    """Take in a record that is neither a head nor a window."""
    if isinstance(record, window.Event):
        cohort.events.append(record)
    elif isinstance(record, window.Settled):
        cohort.settled.append(record)
    elif isinstance(record, window.End):
        cohort.end = record
    else:
        cohort.shared_files.update(record.shared_files or {})
        if record.when == "after":
            cohort.readback_after = record
        else:
            cohort.readback = record


def _flagged(one: Window, flag: str) -> Window:
    """Return a window that does not count, for this reason too."""
    return replace(one, valid=False, flags=[*one.flags, flag])


def _only_settled(windows: Sequence[Window], settled: Iterable[window.Settled]) -> list[Window]:
    """Flag valid windows in which a script had not settled, where later ones count instead."""
    found = list(windows)
    for record in settled:
        begin = record.cohort, record.block
        later = {
            one.n
            for one in found
            if one.valid and one.cohort == record.cohort and one.block >= record.block
        }
        found = [
            _flagged(one, UNSETTLED)
            if one.valid and one.n in later and (one.cohort, one.block) < begin
            else one
            for one in found
        ]
    return found


def _count(cohort: CohortRecords, windows: Sequence[Window]) -> None:
    """Note which of a cohort's windows count."""
    valid = [one for one in windows if one.valid]
    cohort.windows_valid = len(valid)
    cohort.ns_valid = tuple(dict.fromkeys(one.n for one in valid))
    cohort.steps = sum(member.steps for one in valid for member in one.members)
    cohort.windows_invalid = [
        (one.n, one.flags) for one in windows if not one.valid and UNSETTLED not in one.flags
    ]


def member_rows(windows: Sequence[Taken]) -> pd.DataFrame:
    """Return what was counted in some windows, a row per member and window.

    Returns:
        The fields of `WindowMachine` and `Member` as float64 columns, in which null and what an
        older file lacks are NaN. Further `at`, the place of the window; `step_us`, an array of the
        counted steps; and `life`, where they stand in the member's life (None in older files).
    """
    at = np.repeat(np.arange(len(windows)), [len(one.members) for one in windows])
    members = [member for one in windows for member in one.members]
    values = np.array([member_values(one) for one in members], dtype=np.float64)
    values = np.hstack(
        [machine_rows(windows).to_numpy()[at], values.reshape(-1, len(MEMBER_FIELDS))]
    )
    rows = pd.DataFrame(values, columns=[*MACHINE_FIELDS, *MEMBER_FIELDS])
    lives = [life_values(one) for one in members]
    objects = {
        "step_us": [np.array(one.step_us, dtype=np.int64) for one in members],
        "life": [None if None in life else Life(*life) for life in lives],
    }
    return rows.assign(at=at).join(pd.DataFrame(objects, dtype=object))


def machine_rows(windows: Sequence[Taken]) -> pd.DataFrame:
    """Return the readings of the machine, a row per window; null is NaN."""
    values = np.array([machine_values(one.machine) for one in windows], dtype=np.float64)
    return pd.DataFrame(values.reshape(-1, len(MACHINE_FIELDS)), columns=[*MACHINE_FIELDS])


def window_rows(rows: pd.DataFrame, keys: Sequence[str] = WINDOW) -> pd.DataFrame:
    """Return rows of members with what the table of windows derives from them.

    Args:
        rows: Those of `member_rows`, at least one.
        keys: Columns that tell one window from all others.

    Returns:
        The same rows. What was measured over no step is NaN.
    """
    steps = rows["steps"].to_numpy(dtype=np.int64)
    row_of_step = np.repeat(np.arange(len(rows)), steps)
    step_us = np.concatenate(rows["step_us"].to_list())
    counted_s = np.bincount(row_of_step, weights=step_us, minlength=len(rows)) / US_PER_S
    with np.errstate(divide="ignore", invalid="ignore"):
        found = rows.assign(step_mean_s=counted_s / steps, steps_per_s=steps / counted_s)
    levels = np.array([*STEP_QUANTILES.values()])
    quantiles = pd.Series(step_us).groupby(row_of_step).quantile(levels)
    by_row = quantiles.unstack()  # noqa: PD010 (pivot_table costs five times as much)
    found[[*STEP_QUANTILES]] = by_row.reindex(range(len(rows))).to_numpy() / US_PER_S
    add_per_step(found, keys)
    return found


def _refuse(
    record: window.Record,
    cohorts: Mapping[int, CohortRecords],
    attempts: set[tuple[int, int, int]],
) -> None:
    """Raise if a record contradicts itself or those before it."""
    known = record.cohort in cohorts
    if isinstance(record, window.Cohort):
        if known:
            raise RecordError(f"cohort {record.cohort} is in this file twice")
    elif not known:
        kind = record.__struct_config__.tag
        raise RecordError(f"{kind} of cohort {record.cohort}, which did not start")
    elif isinstance(record, Window):
        attempt = (record.cohort, record.window, record.attempt)
        if attempt in attempts:
            place = "cohort {}, window {}, attempt {}".format(*attempt)
            raise RecordError(f"{place} is in this file twice")
        attempts.add(attempt)
        refuse_contradictions(record)
        if record.valid and len(record.members) < record.n:
            number = len(record.members)
            raise RecordError(f"a valid window of n = {record.n} with {number} members")
        for member in record.members if record.valid else ():
            if not (any(member.step_us) and member.steps_active):
                raise RecordError(f"a valid window in which slot {member.slot} made no step")


def refuse_contradictions(taken: Taken, *, in_turns: bool = False) -> None:
    """Raise if a window's members contradict each other, or their own step times.

    Args:
        taken: The window.
        in_turns: Whether its n members may be any of those that were started.

    Raises:
        RecordError: They do.
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
