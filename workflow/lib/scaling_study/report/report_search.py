"""What the report says of a race: what it measured, why it ended, and what nobody looked at."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from scaling_study.common.objectives import ONE_MODEL
from scaling_study.common.quantities import format_count, format_percent
from scaling_study.search import rounds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOST_LABELS = 6
"""Launches that a sentence names."""

STAGES = {
    "first": "the default launch, the baseline and its repeat",
    "screen": "every other launch once",
    "combine": "changes together that were better alone",
    "aside": "the choice with the best change of training of each axis",
    "race": "fresh starts of those that may be the best",
}
"""What each stage of a race measures."""


def view_search(
    plan: Mapping[str, Any], targets: Sequence[Mapping[str, Any]] = ()
) -> list[str] | None:
    """Return what is said of a plan's race, as sentences; None where all was measured.

    Args:
        plan: plan.json, or what a race has made of it.
        targets: of causes.json, of this machine.
    """
    if "searched" not in plan:
        return None
    found = plan["searched"]
    labels = {launch["id"]: launch["label"] for launch in plan["launches"]}
    measured = [launch for launch in plan["launches"] if launch["replicates"]]
    starts = sum(launch["replicates"] for launch in measured)
    made = [launch["label"] for launch in measured if launch["arm"] == "combined"]
    stages = Counter(one["stage"] for one in found["rounds"])
    done = "; ".join(
        f"{STAGES[stage]} ({format_count(count, 'round', 'rounds')})"
        for stage, count in stages.items()
    )
    minutes = f"{found['spent_s'] / 60:.0f} of {found['budget_s'] / 60:.0f} minutes"
    launches = format_count(len(measured), "launch", "launches")
    fresh = format_count(starts, "fresh start", "fresh starts")
    sentences = [
        f"Launches raced for {minutes}: {fresh} of {launches}.",
        f"What was measured: {done}.",
    ]
    if found["reason"]:
        sentences.append(f"The race ended because {found['reason']}.")
    else:
        sentences.append(f"The race is not over. {_tell_next(found['next'])}")
    if made:
        named = "; ".join(made)
        if len(made) > MOST_LABELS:
            named = (
                f"{format_count(len(made), 'launch', 'launches')}, each in the table of launches"
            )
        sentences.append(f"Put together by the race: {named}.")
    unseen = [labels[launch] for launch in found["not_screened"]]
    if unseen:
        sentences.append(f"Not measured, so nothing is known of them: {'; '.join(unseen)}.")
    helpful = [launch["label"] for launch in rounds.helpful(plan, targets)]
    if helpful:
        sentences.append(
            f"The experiments below showed what helps, and no launch had it yet: "
            f"{'; '.join(helpful)}. With a larger search.budget_minutes the same command races it."
        )
    choice = found["choice"]
    if choice is not None:
        sentences.append(
            f"It chose {labels[choice['launch']]} with "
            f"{format_count(choice['n'], 'process', 'processes')}: with a probability of "
            f"{format_percent(choice['probability'])} as good as the best point that was measured. "
            "The machine's drift between jobs is taken out."
        )
    if plan["objective"] == ONE_MODEL:
        sentences.append(
            "Launches raced at the smallest process count alone (objective: one_model), so little "
            "is known of larger ones. With search: grid each launch is measured at all counts."
        )
    else:
        sentences.append(
            "Of each launch only those process counts were measured that may be its best ones; the "
            "figures show which."
        )
    return sentences


def _tell_next(following: Mapping[str, Any]) -> str:
    """Say what the next round measures, after which this report is made anew."""
    labels = following["labels"]
    named = "; ".join(labels[:MOST_LABELS])
    more = f" and {len(labels) - MOST_LABELS} more" if len(labels) > MOST_LABELS else ""
    minutes = max(1, round(following["expected_s"] / 60))
    return (
        f"The next round takes {format_count(minutes, 'minute', 'minutes')} or so and makes this "
        f"report anew: {STAGES[following['stage']]} ({named}{more})."
    )
