"""One record file as rows of members, their step times and its cohorts."""

import dataclasses
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from scaling_study.analysis import record_schema
from scaling_study.analysis.record_schema import RecordError
from scaling_study.stats.intervals import Integers

NOT_PROVEN = "not_proven"
"""Flag of a window whose cohort did not show that it got what its launch asks for."""

UNSETTLED = "unsettled"
"""Flag of a window in which the script had not settled; later ones count instead."""

_WINDOW_FIELDS = ("cohort", "window", "block", "n", "take", "window_s", "start_skew_s", "overlap")
_MACHINE_FIELDS = tuple(record_schema.WindowMachine.__annotations__)
LIFE_FIELDS = ("first_step", "settled_us", "inside", "after_us", "fresh")
"""Where a window stands among all steps of its member; of no row's columns."""

_MEMBER_FIELDS = tuple(
    name
    for name in record_schema.WindowMember.__annotations__
    if name not in {"step_us", *LIFE_FIELDS}
)
_window_values = itemgetter(*_WINDOW_FIELDS)


@dataclasses.dataclass(frozen=True, slots=True)
class FileRows:
    """What one record file holds.

    Attributes:
        rows: One per member and window, with the fields of the records as float64 columns, besides
            `valid` (bool) and `flags` (text); null, and what an older file lacks, is NaN.
        step_us: Counted steps of all rows, one after the other: `rows["steps"]` of each.
        lives: Of each row its `LIFE_FIELDS`, and `step_us`; None where the file is older.
        cohorts: Per cohort `head` (its first record), `attestation` (before its first window),
            `attestation_after` (its last), `end`, `events`, and of its
            windows `windows_valid` (count), `ns_valid` (their process counts), `windows_invalid`
            (n and flags of each) and `steps` (counted in valid ones); `settled`: its records of
            that kind; `shared_files`: how many members wrote each file that several wrote.
    """

    rows: pd.DataFrame
    step_us: Integers
    cohorts: tuple[dict[str, Any], ...]
    lives: tuple[dict[str, Any] | None, ...] = ()


@dataclasses.dataclass(slots=True)
class _Gathered:
    """Rows of one file while it is read; a window's values stand once, its members' in a row each.

    A list per kind of value and no object per row: a study has hundreds of thousands.
    """

    cohorts: dict[int, dict[str, Any]] = dataclasses.field(default_factory=dict)
    takes: set[tuple[int, int, int]] = dataclasses.field(default_factory=set)
    windows: list[tuple[Any, ...]] = dataclasses.field(default_factory=list)
    valid: list[bool] = dataclasses.field(default_factory=list)
    flags: list[str] = dataclasses.field(default_factory=list)
    sizes: list[int] = dataclasses.field(default_factory=list)
    members: list[tuple[Any, ...]] = dataclasses.field(default_factory=list)
    step_us: list[int] = dataclasses.field(default_factory=list)
    lives: list[dict[str, Any] | None] = dataclasses.field(default_factory=list)


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
    for line, record in record_schema.read(path):
        try:
            _add(gathered, record)
        except RecordError as error:
            raise RecordError(f"{path}:{line}: {error}; {record_schema.REMEDY}") from None
    if not gathered.cohorts:
        raise RecordError(f"{path}: no cohort in it; {record_schema.REMEDY}")
    sizes = np.array(gathered.sizes, dtype=np.int64)
    window = np.array(gathered.windows, dtype=np.float64).reshape(
        -1,
        len(_WINDOW_FIELDS) + len(_MACHINE_FIELDS),
    )
    member = np.array(gathered.members, dtype=np.float64).reshape(-1, len(_MEMBER_FIELDS))
    rows = pd.DataFrame(
        np.hstack([np.repeat(window, sizes, axis=0), member]),
        columns=[*_WINDOW_FIELDS, *_MACHINE_FIELDS, *_MEMBER_FIELDS],
    )
    rows["valid"] = np.repeat(np.array(gathered.valid, dtype=bool), sizes)
    rows["flags"] = np.repeat(np.array(gathered.flags, dtype=object), sizes)
    _leave_out_unsettled(gathered.cohorts, rows)
    for cohort in gathered.cohorts.values():
        if not _held(cohort):
            _refuse(cohort, rows)
    return FileRows(
        rows,
        np.array(gathered.step_us, dtype=np.int64),
        tuple(gathered.cohorts.values()),
        tuple(gathered.lives),
    )


def _add(gathered: _Gathered, record: record_schema.Record) -> None:
    """Take one record in."""
    if record["kind"] == "cohort":
        if record["cohort"] in gathered.cohorts:
            raise RecordError(f"cohort {record['cohort']} is in this file twice")
        gathered.cohorts[record["cohort"]] = {
            "head": record,
            "attestation": None,
            "attestation_after": None,
            "end": None,
            "events": [],
            "windows_valid": 0,
            "ns_valid": [],
            "windows_invalid": [],
            "steps": 0,
            "settled": [],
            "shared_files": {},
        }
        return
    cohort = gathered.cohorts.get(record["cohort"])
    if cohort is None:
        raise RecordError(f"{record['kind']} of cohort {record['cohort']}, which did not start")
    if record["kind"] == "attestation":
        cohort["shared_files"].update(record.get("shared_files", {}))
    if record["kind"] == "window":
        _add_window(gathered, cohort, record)
    elif record["kind"] == "event":
        cohort["events"].append(record)
    elif record["kind"] == "settled":
        cohort["settled"].append(record)
    elif record["kind"] == "attestation" and record.get("when") == "after":
        cohort["attestation_after"] = record
    else:
        cohort[record["kind"]] = record


def proven(cohort: dict[str, Any]) -> bool:
    """Whether a cohort showed that it got all that its launch asks for."""
    attestation = cohort["attestation"]
    return attestation is not None and all(check["ok"] for check in attestation["checks"])


def _held(cohort: dict[str, Any]) -> bool:
    """Whether a cohort still had all that its launch asks for after its last window."""
    after = cohort["attestation_after"]
    return after is None or all(check["ok"] for check in after["checks"])


def _refuse(cohort: dict[str, Any], rows: pd.DataFrame) -> None:
    """Take all windows of a cohort for unproven: since when it had something else is not known."""
    own = rows["cohort"] == cohort["head"]["cohort"]
    wrong = own & rows["valid"]
    rows.loc[wrong, "flags"] = [
        f"{each};{NOT_PROVEN}".strip(";") for each in rows.loc[wrong, "flags"]
    ]
    rows.loc[own, "valid"] = False
    for (_, n), flags in rows[wrong].groupby(["window", "n"])["flags"].first().items():
        cohort["windows_invalid"].append({"n": int(n), "flags": flags.split(";")})
    cohort.update(windows_valid=0, ns_valid=[], steps=0)


def _leave_out_unsettled(cohorts: dict[int, dict[str, Any]], rows: pd.DataFrame) -> None:
    """Take the windows in which a script had not settled out of those that count."""
    records = [one for cohort in cohorts.values() for one in cohort["settled"]]
    for record in records:
        own = rows["cohort"] == record["cohort"]
        late = own & (rows["block"] >= record["block"])
        again = rows["n"].isin(rows["n"][late & rows["valid"]])
        early = rows["valid"] & again & ((rows["cohort"] < record["cohort"]) | (own & ~late))
        flags = [f"{each};{UNSETTLED}".strip(";") for each in rows["flags"][early]]
        rows.loc[early, "flags"] = flags
        rows.loc[early, "valid"] = False
    for number, cohort in cohorts.items() if records else ():
        counted = rows[(rows["cohort"] == number) & rows["valid"]]
        cohort.update(
            windows_valid=len(counted[["window", "take"]].drop_duplicates()),
            ns_valid=[int(n) for n in counted["n"].unique()],
            steps=int(counted["steps"].sum()),
        )


def _add_window(
    gathered: _Gathered,
    cohort: dict[str, Any],
    record: record_schema.Window,
) -> None:
    _refuse_contradictions(gathered, record)
    members = record["members"]
    flags = [*record["flags"], *([] if proven(cohort) else [NOT_PROVEN])]
    valid = record["valid"] and NOT_PROVEN not in flags
    gathered.windows.append((*_window_values(record), *map(record["machine"].get, _MACHINE_FIELDS)))
    gathered.valid.append(valid)
    gathered.flags.append(";".join(flags))
    gathered.sizes.append(len(members))
    gathered.members.extend(tuple(map(member.get, _MEMBER_FIELDS)) for member in members)
    for member in members:
        gathered.step_us.extend(member["step_us"])
        life = {name: member.get(name) for name in ("step_us", *LIFE_FIELDS)}
        gathered.lives.append(None if None in life.values() else life)
    if valid:
        cohort["windows_valid"] += 1
        if record["n"] not in cohort["ns_valid"]:
            cohort["ns_valid"].append(record["n"])
        cohort["steps"] += sum(member["steps"] for member in members)
    else:
        cohort["windows_invalid"].append({"n": record["n"], "flags": flags})


def _refuse_contradictions(gathered: _Gathered, record: record_schema.Window) -> None:
    take = (record["cohort"], record["window"], record["take"])
    if take in gathered.takes:
        raise RecordError("cohort {}, window {}, take {} is in this file twice".format(*take))
    gathered.takes.add(take)
    members = record["members"]
    slots = {member["slot"] for member in members}
    if len(slots) < len(members) or not slots <= set(range(record["n"])):
        raise RecordError(f"slots {sorted(slots)} of {len(members)} members, n is {record['n']}")
    if record["valid"] and len(members) < record["n"]:
        raise RecordError(f"a valid window of n = {record['n']} with {len(members)} members")
    for member in members:
        if member["steps"] != len(member["step_us"]):
            raise RecordError(
                f"slot {member['slot']} counted {member['steps']} steps and has "
                f"{len(member['step_us'])} step times",
            )
        if record["valid"] and not (any(member["step_us"]) and member["steps_active"]):
            raise RecordError(f"a valid window in which slot {member['slot']} made no step")
