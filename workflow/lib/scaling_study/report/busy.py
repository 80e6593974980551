"""What is said of a machine on which others are at work: before a study, and after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scaling_study.common.quantities import format_count, format_cpus, format_percent
from scaling_study.report.headline_words import Note
from scaling_study.runner import foreign, windows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scaling_study.runner.foreign import Look

MANY_LOST = 0.1
"""Retakes make up for fewer windows than this share of all."""
BY_WHOM = {
    "foreign_cpu": "because other programs took CPU time meanwhile",
    "stolen_cpu": "because the hypervisor gave CPU time to others meanwhile",
}
"""What a flag of a lost window says."""


def warn_busy(seen: Look) -> str:
    """Say, before a study starts, that its machine is busy; empty where that costs no window."""
    if not (seen.taken or seen.stolen):
        return ""
    limit = format_cpus(windows.foreign_limit_cpus(seen.usable_cpus))
    return (
        f"  Warning: this machine is busy now: {foreign.describe(seen)}.\n"
        f"  Windows in which others take more than {limit} CPUs are not used. Stop these programs, "
        "or the study takes\n  longer and may lose results."
    )


def tell_lost_windows(failures: Mapping[str, Any], provenance: Mapping[str, Any]) -> list[Note]:
    """Say that many windows were lost to others, and to whom.

    Args:
        failures: a machine's entry of analysis/failures.json.
        provenance: its entry of analysis/provenance.json.
    """
    total = provenance["windows_invalid"] + provenance["windows_valid"]
    notes = []
    for flag, why in BY_WHOM.items():
        lost = sum(entry["count"] for entry in failures["windows"] if entry["flag"] == flag)
        if total and lost >= MANY_LOST * total:
            text = (
                f"{lost:,} of {format_count(total, 'window')} ({format_percent(lost / total)}) "
                f"were lost {why}. The logs name who; on a quieter machine the study is quicker "
                "and its intervals are narrower."
            )
            notes.append(Note(text, warning=True))
    return notes
