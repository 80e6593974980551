"""The first answer of a report: how much this machine gives, by default and with the best launch.

Everything here is wording. It claims a difference only where the interval of the ratio leaves 1 out
and the ratio is farther from 1 than the baseline's repeat was from the baseline.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scaling_study.common.quantities import (
    format_count,
    format_interval,
    format_number,
    format_percent,
    format_probability,
    format_ratio,
    known,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ENOUGH_REPLICATES = 3
"""From so many on an interval is useful: Student's t for two replicates is 12.7, for three 4.3."""
FEW_LOST = 3
"""So many launches are named; of more, the number."""
WORTH_SAYING = 1.5
"""So much larger than at each launch's own count, the ratio at the same count belongs on top."""
SURE = 0.8
"""Below this probability of being best, the report names the closest other launch."""

UNITS = {"models_per_hour": "models/hour", "steps_per_s": "steps/s"}
NOUNS = {"models_per_hour": "models per hour", "steps_per_s": "steps per second"}


@dataclass(frozen=True, slots=True)
class Bar:
    """One throughput of the headline.

    Attributes:
        role: ``recommended``, ``default`` or ``same`` (the default at the recommended count).
        text: which launch and how many processes.
        value: the throughput.
        unit: of the value.
        interval: its 95% interval and what else belongs in small print.
        share: of the largest throughput shown, 0 to 1.
    """

    role: str
    text: str
    value: str
    unit: str
    interval: str
    share: float


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence below the headline; a warning says what weakens it."""

    text: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Headline:
    """What stands at the top of a report."""

    question: str
    verdict: str
    bars: tuple[Bar, ...]
    notes: tuple[Note, ...]


def write_headline(
    recommendation: Mapping[str, Any],
    noise: Mapping[str, Any] | None,
    *,
    replicates: int,
    failures: Mapping[str, Any] | None = None,
) -> Headline:
    """Word the first answer.

    Args:
        recommendation: one machine's entry of analysis/recommendation.json.
        noise: its entry of analysis/noise.json; None without a repeat of the baseline.
        replicates: what the plan asks for.
        failures: its entry of analysis/failures.json.
    """
    objective = recommendation["objective"]
    question = f"How many {NOUNS[objective]} does this machine give?"
    if recommendation["status"] != "ok":
        return Headline(
            question, "Nothing to recommend", (), (Note(_sentence(recommendation["reason"]), True),)
        )
    spread = noise["spread"] if noise else None
    lost = _lost(recommendation, failures) if failures else []
    return Headline(
        question,
        _verdict(recommendation, spread),
        _bars(recommendation),
        (*_lost_note(lost), *_notes(recommendation, spread, replicates)),
    )


def _lost(recommendation: Mapping[str, Any], failures: Mapping[str, Any]) -> list[str]:
    """Launches that were started and gave nothing: the best of the others may not be the best."""
    compared = {entry["launch"] for entry in recommendation["ranking"]}
    points = [entry for entry in failures["points"] if entry["launch"] not in compared]
    return list(dict.fromkeys(entry["label"] for entry in points))


def _lost_note(lost: Sequence[str]) -> list[Note]:
    if not lost:
        return []
    few = lost if len(lost) <= FEW_LOST else [*lost[:FEW_LOST], f"{len(lost) - FEW_LOST} more"]
    count = format_count(len(lost), "launch", "launches")
    text = f"{count} gave no valid window and could not be compared: {'; '.join(few)}."
    return [Note(text, True)]


def differs(ratio: Mapping[str, Any] | None, spread: float | None) -> bool:
    """Whether a ratio of two launches is a difference that this study can tell.

    Args:
        ratio: with ``value``, ``low`` and ``high``.
        spread: of the A/A check; None without one.
    """
    if ratio is None or not known(ratio["low"]) or not known(ratio["high"]):
        return False
    beyond_noise = abs(ratio["value"] - 1) > (spread or 0.0)
    return beyond_noise and not ratio["low"] <= 1 <= ratio["high"]


def name_launch(entry: Mapping[str, Any]) -> str:
    """A launch in a sentence."""
    return "the default launch" if entry["label"] == "default" else str(entry["label"])


def _verdict(recommendation: Mapping[str, Any], spread: float | None) -> str:
    """The answer in a few words."""
    recommended, default = recommendation["recommended"], recommendation["default"]
    ratio, noun = recommendation["ratio"], NOUNS[recommendation["objective"]]
    value = recommended[recommendation["objective"]]
    if default is None or ratio is None:
        return f"{format_number(value)} {noun}"
    if len(recommendation["ranking"]) == 1:
        return "Only one launch could be measured"
    if recommended["launch"] == default["launch"]:
        return "The default launch is the best one found"
    sure = known(ratio["low"])
    if sure and not differs(ratio, spread):
        return "No launch is faster than the default by more than this study can tell"
    verdict = f"{format_ratio(ratio['value'])} the {noun} of the default launch"
    same = recommendation["ratio_same_n"]
    if same is not None and same["value"] > WORTH_SAYING * ratio["value"]:
        # The default launch is at its best with another number of processes.
        verdict += f", and {format_ratio(same['value'])} with {_processes(recommended)} each"
    return verdict if sure else f"{verdict} (no interval)"


def _bars(recommendation: Mapping[str, Any]) -> tuple[Bar, ...]:
    """Default, default at the recommended count, recommended: what differs of them."""
    recommended, default = recommendation["recommended"], recommendation["default"]
    objective = recommendation["objective"]
    shown: list[tuple[str, str, Mapping[str, Any]]] = []
    if default is not None and default["launch"] != recommended["launch"]:
        shown.append(("default", f"Default launch, at its best: {_processes(default)}", default))
        same = default["at_n"]
        if same is not None and same["n"] != default["n"]:
            shown.append(("same", f"Default launch with {_processes(same)} as well", same))
        best = f"Best launch found, {recommended['label']}: {_processes(recommended)}"
        shown.append(("recommended", best, recommended))
    else:
        label = recommended["label"]
        name = "Default launch" if label == "default" else f"Best launch found, {label}"
        text = f"{name}: {_processes(recommended)}"
        shown.append(("recommended", text, recommended))
    largest = max(entry[objective] for _, _, entry in shown)
    return tuple(
        Bar(
            role,
            text,
            format_number(entry[objective]),
            UNITS[objective],
            _interval(entry, objective),
            entry[objective] / largest,
        )
        for role, text, entry in shown
    )


def _interval(entry: Mapping[str, Any], objective: str) -> str:
    """The small print of a throughput."""
    value, low, high = rate(entry, objective)
    interval = format_interval(low, high, like=value)
    parts = [f"95% interval {interval}" if interval else "no interval"]
    if objective != "steps_per_s":
        parts.append(f"{format_number(entry['steps_per_s'])} steps/s")
    return "; ".join(parts)


def _notes(recommendation: Mapping[str, Any], spread: float | None, replicates: int) -> list[Note]:
    """What a careful reader wants to know next."""
    recommended, best = recommendation["recommended"], recommendation["best"]
    notes = [_ratio_note(recommendation)]
    if (best["launch"], best["n"]) != (recommended["launch"], recommended["n"]):
        value = best[recommendation["objective"]]
        notes.append(
            Note(
                f"The highest throughput, {format_number(value)} "
                f"{UNITS[recommendation['objective']]}, came with {_processes(best)} of "
                f"{name_launch(best)}; recommended is the smallest number of processes "
                f"within {format_percent(recommendation['tolerance'])} of it."
            )
        )
    if spread is None:
        notes.append(Note("The baseline was not repeated: this study has no A/A check.", True))
    else:
        notes.append(
            Note(
                f"The same launch measured twice differed by at most {format_percent(spread)} "
                "(A/A check): smaller differences mean nothing."
            )
        )
    default = recommendation["default"] or recommended
    valid = min(replicates, recommended["replicates"], default["replicates"])
    if valid < ENOUGH_REPLICATES:
        few = "One replicate gives no interval" if valid == 1 else "Two give wide intervals"
        asked = f"{few}; measure.replicates asks for {replicates}"
        notes.append(
            Note(f"{asked}, and not all were valid." if valid < replicates else f"{asked}.", True)
        )
    return [note for note in notes if note.text]


def _ratio_note(recommendation: Mapping[str, Any]) -> Note:
    """The ratio with its interval, at each launch's own count and at the same count."""
    recommended, default = recommendation["recommended"], recommendation["default"]
    if default is None:
        return Note("The default launch gave no valid window: nothing to compare with.", True)
    ratio, same = recommendation["ratio"], recommendation["ratio_same_n"]
    if recommended["launch"] == default["launch"] or ratio is None:
        return Note("")
    text = f"Ratio of the two: {format_ratio(ratio['value'])}{_bracket(ratio)}."
    if same is not None and recommended["n"] != default["n"]:
        text += (
            f" With {_processes(recommended)} each: {format_ratio(same['value'])}{_bracket(same)}."
        )
    return Note(text)


def _bracket(ratio: Mapping[str, Any]) -> str:
    interval = format_interval(ratio["low"], ratio["high"], like=ratio["value"])
    return f" (95% interval {interval})" if interval else ""


def _processes(entry: Mapping[str, Any]) -> str:
    return format_count(entry["n"], "process", "processes")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def rate(
    entry: Mapping[str, Any], objective: str
) -> tuple[float | None, float | None, float | None]:
    """A point's throughput in the unit of the objective, with its interval.

    Args:
        entry: a point of analysis/recommendation.json.
        objective: ``models_per_hour`` or ``steps_per_s``; its intervals are in steps/s.
    """
    if entry[objective] is None:
        return None, None, None
    factor = entry[objective] / entry["steps_per_s"]
    low, high = entry["low"], entry["high"]
    return (
        entry[objective],
        low * factor if known(low) else None,
        high * factor if known(high) else None,
    )


def describe_sureness(recommendation: Mapping[str, Any]) -> str:
    """How sure it is that the recommended launch is the best one, and what comes closest."""
    recommended = recommendation["recommended"]
    probability = recommended["probability_best"]
    if not known(probability):
        return "With one replicate there is no telling how sure this is."
    text = (
        f"Probability that no launch of this study is more than "
        f"{format_percent(recommendation['tolerance'])} faster: {format_probability(probability)}."
    )
    others = [row for row in recommendation["ranking"] if row["launch"] != recommended["launch"]]
    if known(probability) and probability < SURE and others:
        text += (
            f" The closest other is {name_launch(others[0])} with {_processes(others[0])}: "
            f"{format_number(others[0]['steps_per_s'])} against "
            f"{format_number(recommended['steps_per_s'])} steps/s."
        )
    return text
