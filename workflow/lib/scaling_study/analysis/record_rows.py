"""One record file as rows of members, their step times and its cohorts."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from scaling_study.records import codec
from scaling_study.records.codec import RecordError
from scaling_study.records.window import (
    DECODER,
    Cohort,
    End,
    Event,
    Life,
    Member,
    Readbacks,
    Record,
    Settled,
    Taken,
    Window,
    WindowMachine,
)

if TYPE_CHECKING:
    from pathlib import Path

    from scaling_study.stats.intervals import Integers

NOT_PROVEN = "not_proven"
"""Flag of a window whose cohort did not show that it got what its launch asks for."""

UNSETTLED = "unsettled"
"""Flag of a window in which the script had not settled; later ones count instead."""

WINDOW_FIELDS = ("cohort", "window", "block", "n", "attempt", "window_s", "start_skew_s", "overlap")
MACHINE_FIELDS = WindowMachine.__struct_fields__
LIFE_FIELDS = Life.__struct_fields__
MEMBER_FIELDS = tuple(
    name for name in Member.__struct_fields__ if name not in {"step_us", *LIFE_FIELDS}
)
window_values, machine_values = attrgetter(*WINDOW_FIELDS), attrgetter(*MACHINE_FIELDS)
member_values, life_values = attrgetter(*MEMBER_FIELDS), attrgetter(*LIFE_FIELDS)


@dataclass(slots=True)
class CohortRecords:
    """What a record file holds of one cohort.

    Attributes:
        head: Its first record.
        readback: Before its first window.
        readback_after: After its last one.
        end: Its last record; None where the job was cut off.
        events: What happened to its members.
        windows_valid: How many windows count.
        ns_valid: Their process counts.
        windows_invalid: Process count and flags of each of the others.
        steps: Counted in valid windows.
        settled: Where windows were taken anew.
        shared_files: How many members wrote each file that several wrote.
    """

    head: Cohort
    readback: Readbacks | None = None
    readback_after: Readbacks | None = None
    end: End | None = None
    events: list[Event] = field(default_factory=list)
    windows_valid: int = 0
    ns_valid: list[int] = field(default_factory=list)
    windows_invalid: list[tuple[int, list[str]]] = field(default_factory=list)
    steps: int = 0
    settled: list[Settled] = field(default_factory=list)
    shared_files: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FileRows:
    """What one record file holds.

    Attributes:
        rows: One per member and window, with the fields of the records as float64 columns, besides
            `valid` (bool) and `flags` (text); null, and what an older file lacks, is NaN.
        step_us: Counted steps of all rows, one after the other: `rows["steps"]` of each.
        cohorts: Its cohorts.
        lives: Where each row stands in its member's life; None where the file is older.
    """

    rows: pd.DataFrame
    step_us: Integers
    cohorts: tuple[CohortRecords, ...]
    lives: tuple[Life | None, ...] = ()


@dataclass(slots=True)
class _Gathered:
    """Rows of one file while it is read; a window's values stand once, its members' in a row each.

    A list per kind of value and no object per row: a study has hundreds of thousands.
    """

    cohorts: dict[int, CohortRecords] = field(default_factory=dict)
    attempts: set[tuple[int, int, int]] = field(default_factory=set)
    windows: list[tuple[float | None, ...]] = field(default_factory=list)
    valid: list[bool] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    members: list[tuple[float | None, ...]] = field(default_factory=list)
    step_us: list[int] = field(default_factory=list)
    lives: list[Life | None] = field(default_factory=list)


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
    gathered = _Gathered()
    for line, record in codec.read(path, DECODER):
        try:
            _add(gathered, record)
        except RecordError as error:
            raise RecordError(f"{path}:{line}: {error}; {codec.REMEDY}") from None
    if not gathered.cohorts:
        raise RecordError(f"{path}: no cohort in it; {codec.REMEDY}")
    sizes = np.array(gathered.sizes, dtype=np.int64)
    names = [*WINDOW_FIELDS, *MACHINE_FIELDS]
    window = np.array(gathered.windows, dtype=np.float64).reshape(-1, len(names))
    member = np.array(gathered.members, dtype=np.float64).reshape(-1, len(MEMBER_FIELDS))
    rows = pd.DataFrame(
        np.hstack([np.repeat(window, sizes, axis=0), member]),
        columns=[*names, *MEMBER_FIELDS],
    )
    rows["valid"] = np.repeat(np.array(gathered.valid, dtype=bool), sizes)
    rows["flags"] = np.repeat(np.array(gathered.flags, dtype=object), sizes)
    _leave_out_unsettled(gathered.cohorts, rows)
    for cohort in gathered.cohorts.values():
        if cohort.readback_after is not None and not proven(cohort.readback_after):
            _refuse(cohort, rows)
    return FileRows(
        rows,
        np.array(gathered.step_us, dtype=np.int64),
        tuple(gathered.cohorts.values()),
        tuple(gathered.lives),
    )


def _add(gathered: _Gathered, record: Record) -> None:
    """Take one record in."""
    if isinstance(record, Cohort):
        if record.cohort in gathered.cohorts:
            raise RecordError(f"cohort {record.cohort} is in this file twice")
        gathered.cohorts[record.cohort] = CohortRecords(record)
        return
    cohort = gathered.cohorts.get(record.cohort)
    if cohort is None:
        kind = record.__struct_config__.tag
        raise RecordError(f"{kind} of cohort {record.cohort}, which did not start")
    if isinstance(record, Window):
        _add_window(gathered, cohort, record)
    elif isinstance(record, Event):
        cohort.events.append(record)
    elif isinstance(record, Settled):
        cohort.settled.append(record)
    elif isinstance(record, End):
        cohort.end = record
    else:
        cohort.shared_files.update(record.shared_files or {})
        if record.when == "after":
            cohort.readback_after = record
        else:
            cohort.readback = record


def proven(readback: Readbacks | None) -> bool:
    """Whether members showed that they got all that their launch asks for."""
    return readback is not None and all(check.ok for check in readback.checks)


def _refuse(cohort: CohortRecords, rows: pd.DataFrame) -> None:
    """Take all windows of a cohort for unproven: since when it had something else is not known."""
    own = rows["cohort"] == cohort.head.cohort
    wrong = own & rows["valid"]
    rows.loc[wrong, "flags"] = [
        f"{each};{NOT_PROVEN}".strip(";") for each in rows.loc[wrong, "flags"]
    ]
    rows.loc[own, "valid"] = False
    for _, lost in rows[wrong].groupby(["window", "n"]):
        n, flags = lost[["n", "flags"]].iloc[0]
        cohort.windows_invalid.append((int(n), flags.split(";")))
    cohort.windows_valid, cohort.ns_valid, cohort.steps = 0, [], 0


def _leave_out_unsettled(cohorts: dict[int, CohortRecords], rows: pd.DataFrame) -> None:
    """Take the windows in which a script had not settled out of those that count."""
    records = [one for cohort in cohorts.values() for one in cohort.settled]
    for record in records:
        own = rows["cohort"] == record.cohort
        late = own & (rows["block"] >= record.block)
        again = rows["n"].isin(rows["n"][late & rows["valid"]])
        early = rows["valid"] & again & ((rows["cohort"] < record.cohort) | (own & ~late))
        flags = [f"{each};{UNSETTLED}".strip(";") for each in rows["flags"][early]]
        rows.loc[early, "flags"] = flags
        rows.loc[early, "valid"] = False
    for number, cohort in cohorts.items() if records else ():
        counted = rows[(rows["cohort"] == number) & rows["valid"]]
        cohort.windows_valid = len(counted[["window", "attempt"]].drop_duplicates())
        cohort.ns_valid = [int(n) for n in counted["n"].unique()]
        cohort.steps = int(counted["steps"].sum())


def _add_window(gathered: _Gathered, cohort: CohortRecords, record: Window) -> None:
    _refuse_contradictions(gathered, record)
    members = record.members
    flags = [*record.flags, *([] if proven(cohort.readback) else [NOT_PROVEN])]
    valid = record.valid and NOT_PROVEN not in flags
    gathered.windows.append((*window_values(record), *machine_values(record.machine)))
    gathered.valid.append(valid)
    gathered.flags.append(";".join(flags))
    gathered.sizes.append(len(members))
    gathered.members.extend(map(member_values, members))
    for member in members:
        gathered.step_us.extend(member.step_us)
        life = life_values(member)
        gathered.lives.append(None if None in life else Life(*life))
    if valid:
        cohort.windows_valid += 1
        if record.n not in cohort.ns_valid:
            cohort.ns_valid.append(record.n)
        cohort.steps += sum(member.steps for member in members)
    else:
        cohort.windows_invalid.append((record.n, flags))


def _refuse_contradictions(gathered: _Gathered, record: Window) -> None:
    attempt = (record.cohort, record.window, record.attempt)
    if attempt in gathered.attempts:
        raise RecordError("cohort {}, window {}, attempt {} is in this file twice".format(*attempt))
    gathered.attempts.add(attempt)
    refuse_contradictions(record)
    if max((member.slot for member in record.members), default=0) >= record.n:
        slots = sorted(member.slot for member in record.members)
        raise RecordError(f"slots {slots} of {len(slots)} members, n is {record.n}")
    if record.valid and len(record.members) < record.n:
        raise RecordError(f"a valid window of n = {record.n} with {len(record.members)} members")
    for member in record.members if record.valid else ():
        if not (any(member.step_us) and member.steps_active):
            raise RecordError(f"a valid window in which slot {member.slot} made no step")


def refuse_contradictions(window: Taken) -> None:
    """Raise if a window's members contradict each other, or their own step times.

    Raises:
        RecordError: They do.
    """
    slots = {member.slot for member in window.members}
    if len(slots) < len(window.members) or len(slots) > window.n:
        raise RecordError(
            f"slots {sorted(slots)} of {len(window.members)} members, n is {window.n}"
        )
    for member in window.members:
        if member.steps != len(member.step_us):
            raise RecordError(
                f"slot {member.slot} counted {member.steps} steps and has "
                f"{len(member.step_us)} step times"
            )
