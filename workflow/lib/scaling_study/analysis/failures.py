"""What was skipped, failed or lost: nothing leaves a study in silence."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

NAMES = ("launch", "label", "arm", "replicate")
AGAIN = "put right what its log says, and run the study again"


def list_failures(
    cohorts: Sequence[Mapping[str, Any]],
    missing: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """List all that is not a complete cohort of valid windows.

    Args:
        cohorts: One machine's cohorts, as cohorts.json holds them.
        missing: Launches and replicates of the plan without a record file.

    Returns:
        The machine's entry of failures.json, without the machine: `launches` (cohorts that did not
        complete, and missing files), `windows` (invalid ones by launch, n and flag), `points`
        (process counts of a ladder that have no valid window), `members` (events), `shared_files`
        (the most members of a cohort that wrote each file that several wrote).
    """
    writers: Counter[str] = Counter()
    for cohort in cohorts:
        writers |= Counter(cohort["shared_files"])  # the larger number of each
    return {
        "launches": [
            *(_ending(cohort) for cohort in cohorts if _ended_badly(cohort, cohorts)),
            *(_missing(entry) for entry in missing),
        ],
        "windows": _invalid_windows(cohorts),
        "points": _lost_points(cohorts),
        "members": [
            {
                **{name: cohort[name] for name in NAMES},
                **{name: event[name] for name in ("slot", "what", "reason", "log")},
            }
            for cohort in cohorts
            for event in cohort["events"]
        ],
        "shared_files": dict(writers),
    }


def _ended_badly(cohort: Mapping[str, Any], cohorts: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a cohort lost something; an interrupted one that a later one went on with did not."""
    if cohort["end"] is not None:
        return bool(cohort["end"]["status"] != "complete")
    return not any(
        other["file"] == cohort["file"]
        and other["machine"] == cohort["machine"]
        and other["cohort"] > cohort["cohort"]
        for other in cohorts
    )


def _ending(cohort: Mapping[str, Any]) -> dict[str, Any]:
    end = cohort["end"] or {
        "status": "interrupted",
        "reason": "its records have no end: the measuring job was stopped",
        "remedy": "run the study again: it goes on where it stopped",
    }
    return {
        **{name: cohort[name] for name in NAMES},
        **{name: end[name] for name in ("status", "reason")},
        "remedy": end["remedy"] or AGAIN,
        "log": cohort["events"][-1]["log"] if cohort["events"] else None,
    }


def _missing(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **entry,
        "status": "missing",
        "reason": "the plan has it, but there is no record file",
        "remedy": "run the study again: it measures what is missing",
        "log": None,
    }


def _invalid_windows(cohorts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    counts = Counter(
        (cohort["launch"], cohort["label"], window["n"], flag)
        for cohort in cohorts
        for window in cohort["windows_invalid"]
        for flag in window["flags"]
    )
    return [
        {"launch": launch, "label": label, "n": n, "flag": flag, "count": count}
        for (launch, label, n, flag), count in sorted(counts.items())
    ]


def _lost_points(cohorts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Process counts without a valid window, of launches that took any window."""
    lost: dict[tuple[str, str], dict[int, None]] = {}
    for cohort in cohorts:
        if cohort["windows_valid"] or cohort["windows_invalid"]:
            ladder = lost.setdefault((cohort["launch"], cohort["label"]), {})
            ladder.update(dict.fromkeys(cohort["ladder"]))
    for cohort in cohorts:
        for n in cohort["ns_valid"]:
            lost[cohort["launch"], cohort["label"]].pop(n, None)
    return [
        {"launch": launch, "label": label, "n": n}
        for (launch, label), ladder in lost.items()
        for n in ladder
    ]
