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
from scaling_study.records.cohorts import CohortSummary, Compiled, Counted, InvalidWindow, Reported
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
WINDOW_FIELDS = (
    *("cohort", "window", "block", "n", "attempt", "valid"),
    *("window_s", "released_s", "start_skew_s", "overlap"),
)
US_PER_S = 1e6
STEP_QUANTILES = {"step_median_s": 0.5, "step_p95_s": 0.95, "step_p99_s": 0.99}
MACHINE_FIELDS = window.WindowMachine.__struct_fields__
LIFE_FIELDS = window.Life.__struct_fields__
MEMBER_FIELDS = tuple(
    name for name in window.Member.__struct_fields__ if name not in {"step_us", *LIFE_FIELDS}
)
member_values, life_values = attrgetter(*MEMBER_FIELDS), attrgetter(*LIFE_FIELDS)
R = TypeVar("R")
W = TypeVar("W", window.Window, experiment.Window)


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
    seen: set[tuple[int, ...]] = set()
    records = [*read_each(path, window.DECODER, lambda one: _refuse(one, seen))]
    heads = of_kind(records, window.Cohort)
    if not heads:
        raise RecordError(f"{path}: no cohort in it; {codec.REMEDY}")
    windows = _flagged_windows(records)
    rows = member_rows(windows, WINDOW_FIELDS)
    rows["machine"] = rows["cohort"].map({one.cohort: one.machine_hash for one in heads})
    after = [one for one in of_kind(records, window.Readbacks) if one.when == "after"]
    return FileRows(
        rows,
        tuple(_summary(path, head, records, windows) for head in heads),
        {one.machine_hash: one.machine for one in heads},
        tuple(member.ended for one in after for member in one.members if member.ended),
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
    return [one for one in records if isinstance(one, kind)]


def last(records: Iterable[object], kind: type[R]) -> R | None:
    """Return the last record of a kind; None without one."""
    return next(reversed(of_kind(records, kind)), None)


def flagged(one: W, flag: str) -> W:
    """Return a window as one that does not count, with this flag added."""
    return replace(one, valid=False, flags=[*one.flags, flag])


def _flagged_windows(records: Sequence[window.Record]) -> list[window.Window]:
    """Return the windows of a file; those that other records invalidate are flagged.

    If a cohort did not prove its launch before its first window or after its last one, or failed
    between them, none of its windows counts: it is not known when its settings changed.
    """
    readbacks = of_kind(records, window.Readbacks)
    proven = {one.cohort for one in readbacks if one.when != "after"}
    proven -= {one.cohort for one in readbacks if not one.proven}
    proven -= {one.cohort for one in of_kind(records, window.End) if one.status == "failed"}
    windows = [
        one if one.cohort in proven else flagged(one, NOT_PROVEN)
        for one in of_kind(records, window.Window)
    ]
    for settled in of_kind(records, window.Settled):
        begin = settled.cohort, settled.block
        later = {
            one.n
            for one in windows
            if one.valid and one.cohort == settled.cohort and one.block >= settled.block
        }
        windows = [
            flagged(one, UNSETTLED)
            if one.valid and one.n in later and (one.cohort, one.block) < begin
            else one
            for one in windows
        ]
    return windows


def _summary(
    path: Path,
    head: window.Cohort,
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
    own = [one for one in records if one.cohort == head.cohort]
    taken = [one for one in windows if one.cohort == head.cohort]
    valid = [one for one in taken if one.valid]
    readbacks = of_kind(own, window.Readbacks)
    shared_files: dict[str, int] = {}
    for one in readbacks:
        shared_files |= one.shared_files or {}
    return CohortSummary(
        **{name: getattr(head, name) for name in window.AskedCohort.__struct_fields__},
        file=str(path),
        machine=head.machine_hash,
        host=head.machine.hostname,
        end=last(own, window.End),
        events=tuple(of_kind(own, window.Event)),
        windows_valid=len(valid),
        ns_valid=tuple(dict.fromkeys(one.n for one in valid)),
        windows_invalid=tuple(
            InvalidWindow(n=one.n, flags=tuple(one.flags))
            for one in taken
            if not one.valid and UNSETTLED not in one.flags
        ),
        steps=sum(member.steps for one in valid for member in one.members),
        settled=tuple(of_kind(own, window.Settled)),
        shared_files=shared_files,
        readback=_reported(readbacks),
    )


def _reported(readbacks: Iterable[window.Readbacks]) -> Reported | None:
    """Return the reports of a cohort's members, as cohorts.json holds them."""
    before = next((one for one in readbacks if one.when != "after"), None)
    after = next((one for one in readbacks if one.when == "after"), None)
    if before is None:
        return None
    members = sorted(before.members, key=lambda member: member.slot)
    found = Reported(
        checks=before.checks,
        member=members[0] if members else None,
        intra_op=tuple(member.intra_op for member in members),
        start_s=tuple(member.start_s for member in members if member.start_s is not None),
    )
    if after is None:
        return found
    return replace(
        found,
        counted=tuple(convert(one.counted or None, Counted | None) for one in after.members[:1]),
        once=any(member.once for member in after.members),
        compiled=tuple(
            convert({**one.compiled, "warm_up_s": one.warm_up_compile_s or 0.0}, Compiled)
            for one in after.members
            if one.compiled and one.compiled.get("times")
        ),
    )


def _refuse(record: window.Record, seen: set[tuple[int, ...]]) -> None:
    """Raise if a record contradicts itself or those before it.

    Args:
        record: The record.
        seen: Numbers of cohorts, and of cohort, window and attempt, so far; gets the record's.
    """
    if isinstance(record, window.Cohort):
        if (record.cohort,) in seen:
            raise RecordError(f"cohort {record.cohort} is in this file twice")
        seen.add((record.cohort,))
    elif (record.cohort,) not in seen:
        kind = record.__struct_config__.tag
        raise RecordError(f"{kind} of cohort {record.cohort}, which did not start")
    elif isinstance(record, window.Window):
        attempt = (record.cohort, record.window, record.attempt)
        if attempt in seen:
            place = "cohort {}, window {}, attempt {}".format(*attempt)
            raise RecordError(f"{place} is in this file twice")
        seen.add(attempt)
        refuse_contradictions(record)
        if (
            record.valid
            and len(record.members) < record.n
            and window.ONE_PROGRAM not in record.flags
        ):
            number = len(record.members)
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
        These fields; `flags` as text; the fields of `WindowMachine` and `Member` as float64
        columns, in which null is NaN; and the columns that the table of windows derives from them,
        NaN if measured over no step. Also `at`, the window's index in `windows`; `step_us`, an
        array of the counted steps; and `life`, the window's place among all steps of its member
        (None for bursts and older files).
    """
    at = np.repeat(np.arange(len(windows)), [len(one.members) for one in windows])
    members = [member for one in windows for member in one.members]
    values = np.array([member_values(one) for one in members], dtype=np.float64)
    machines = machine_rows(windows).to_numpy()[at]
    lives = [life_values(one) for one in members]
    step_us = [np.array(one.step_us, dtype=np.int64) for one in members]
    counts = dict(zip(MEMBER_FIELDS, values.reshape(-1, len(MEMBER_FIELDS)).T, strict=True))
    counts |= dict(zip(MACHINE_FIELDS, machines.T, strict=True))
    counts |= _step_times(step_us)
    counts |= accounts(counts, at)
    objects = {
        "step_us": step_us,
        "life": [None if None in life else window.Life(*life) for life in lives],
    }
    of_window = window_rows(windows, fields).loc[at].reset_index(drop=True).assign(at=at)
    return of_window.join(pd.DataFrame(counts)).join(pd.DataFrame(objects, dtype=object))


def window_rows(windows: Sequence[window.Taken], fields: Sequence[str]) -> pd.DataFrame:
    """Return some fields of windows and their `flags`, a row per window."""
    rows = pd.DataFrame(map(attrgetter(*fields), windows), columns=[*fields])
    return rows.assign(flags=[";".join(one.flags) for one in windows])


def machine_rows(windows: Sequence[window.Taken]) -> pd.DataFrame:
    """Return the readings of the machine, a row per window; null is NaN."""
    machines = [one.machine for one in windows]
    return pd.DataFrame(
        map(attrgetter(*MACHINE_FIELDS), machines), columns=[*MACHINE_FIELDS], dtype=np.float64
    )


def _step_times(step_us: Sequence[Integers]) -> dict[str, Floats]:
    """Return the mean, the rate and the quantiles of the counted steps of each member."""
    steps = np.array([one.size for one in step_us], dtype=np.int64)
    counted_s = np.array([one.sum() for one in step_us]) / US_PER_S
    with np.errstate(divide="ignore", invalid="ignore"):
        found = {"step_mean_s": counted_s / steps, "steps_per_s": steps / counted_s}
    # Each quantile is interpolated between two sorted steps: np.quantile per member takes longer.
    ordered = np.concatenate([*map(np.sort, step_us), [np.nan]])
    first, last = np.cumsum(steps) - steps, np.maximum(steps - 1, 0)
    for name, level in STEP_QUANTILES.items():
        place = level * last
        below = place.astype(np.int64)
        low, high = ordered[first + below], ordered[first + np.minimum(below + 1, last)]
        quantile = low + (place - below) * (high - low)
        found[name] = np.where(steps > 0, quantile, np.nan) / US_PER_S
    return found
