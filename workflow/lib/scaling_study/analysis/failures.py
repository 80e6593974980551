"""What was skipped, failed or lost: nothing leaves a study in silence."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Json = Mapping[str, Any]

AGAIN = "put right what its log says, and run the study again"
STOPPED: Json = {
    "status": "interrupted",
    "reason": "its records have no end: the measuring job was stopped",
    "remedy": "run the study again: it goes on where it stopped",
}


@dataclass(frozen=True, slots=True)
class LostLaunch:
    """A cohort that did not complete, or a file that is missing, and what to do; with its log."""

    launch: str
    label: str
    role: str
    replicate: int
    status: str
    reason: str | None
    remedy: str
    log: str | None


@dataclass(frozen=True, slots=True)
class InvalidWindows:
    """How many windows of a point have a flag that makes them invalid."""

    launch: str
    label: str
    n: int
    flag: str
    count: int


@dataclass(frozen=True, slots=True)
class LostPoint:
    """A process count that was asked for and has no valid window."""

    launch: str
    label: str
    n: int


@dataclass(frozen=True, slots=True)
class MemberEvent:
    """What happened to a member, with the reason and its log."""

    launch: str
    label: str
    role: str
    replicate: int
    slot: int
    what: str
    reason: str | None
    log: str | None


@dataclass(frozen=True, slots=True)
class Failures:
    """A machine's entry of failures.json, without the machine.

    `shared_files` has the most members of a cohort that wrote each file that several wrote.
    """

    launches: list[LostLaunch]
    windows: list[InvalidWindows]
    points: list[LostPoint]
    members: list[MemberEvent]
    shared_files: dict[str, int]


def list_failures(cohorts: Sequence[Json], missing: Sequence[Json]) -> Failures:
    """List all that is not a complete cohort of valid windows.

    Args:
        cohorts: One machine's cohorts, as cohorts.json holds them.
        missing: Launches and replicates of the plan without a record file.
    """
    writers: Counter[str] = Counter()
    for cohort in cohorts:
        writers |= Counter(cohort["shared_files"])  # the larger number of each
    lost = [_ending(cohort) for cohort in cohorts if _ended_badly(cohort, cohorts)]
    reason = "the plan has it, but there is no record file"
    remedy = "run the study again: it measures what is missing"
    lost += [LostLaunch(*_names(one), "missing", reason, remedy, None) for one in missing]
    events = [
        MemberEvent(*_names(cohort), *(event[key] for key in ("slot", "what", "reason", "log")))
        for cohort in cohorts
        for event in cohort["events"]
    ]
    return Failures(lost, _invalid_windows(cohorts), _lost_points(cohorts), events, dict(writers))


def _names(entry: Json) -> tuple[str, str, str, int]:
    return entry["launch"], entry["label"], entry["role"], entry["replicate"]


def _ended_badly(cohort: Json, cohorts: Sequence[Json]) -> bool:
    """Whether a cohort lost something; an interrupted one that a later one went on with did not."""
    if cohort["end"] is not None:
        return bool(cohort["end"]["status"] != "complete")
    return not any(
        other["file"] == cohort["file"]
        and other["machine"] == cohort["machine"]
        and other["cohort"] > cohort["cohort"]
        for other in cohorts
    )


def _ending(cohort: Json) -> LostLaunch:
    end = cohort["end"] or STOPPED
    log = cohort["events"][-1]["log"] if cohort["events"] else None
    return LostLaunch(*_names(cohort), end["status"], end["reason"], end["remedy"] or AGAIN, log)


def _invalid_windows(cohorts: Sequence[Json]) -> list[InvalidWindows]:
    counts = Counter(
        (cohort["launch"], cohort["label"], window["n"], flag)
        for cohort in cohorts
        for window in cohort["windows_invalid"]
        for flag in window["flags"]
    )
    return [InvalidWindows(*where, count) for where, count in sorted(counts.items())]


def _lost_points(cohorts: Sequence[Json]) -> list[LostPoint]:
    """Process counts without a valid window, of launches that took any window."""
    lost: dict[tuple[str, str], dict[int, None]] = {}
    for cohort in cohorts:
        if cohort["windows_valid"] or cohort["windows_invalid"]:
            process_counts = lost.setdefault((cohort["launch"], cohort["label"]), {})
            process_counts.update(dict.fromkeys(cohort["process_counts"]))
    for cohort in cohorts:
        for n in cohort["ns_valid"]:
            lost[cohort["launch"], cohort["label"]].pop(n, None)
    return [LostPoint(*names, n) for names, process_counts in lost.items() for n in process_counts]
