"""What the first answer of a report is made of, and the words that its sentences share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scaling_study.analysis.recommend import of_objective
from scaling_study.common.objectives import OBJECTIVES
from scaling_study.common.quantities import (
    format_count,
    format_interval,
    format_number,
    format_ratio,
    format_time,
    known,
    time_unit,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Json = Mapping[str, Any]

UNITS = {"models_per_hour": "models/hour", "steps_per_s": "steps/s"}
NOUNS = {"models_per_hour": "models per hour", "steps_per_s": "steps per second"}
THINGS = {"models_per_hour": "one model", "steps_per_s": "one step"}
"""What the time is of, by the rate that it comes from."""
PLAIN_NAMES = {
    "default": "the default launch",
    "today": "today's launch",
    "intra_op 1": "one thread per process",
}
"""Labels that have a name in plain words."""
ONE_START = "one start"
"""Instead of an interval that would cover all that may be."""
WIDE = 4.0
"""From this ratio of an interval's ends on, only its lower end is claimed."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One throughput, or time of one model, of the headline.

    Attributes:
        role: ``recommended``, ``today``, ``default`` or ``same`` (the one that is compared, at the
            recommended count).
        text: which launch and how many processes.
        value: the throughput, or the time.
        unit: of the value.
        interval: its 95% interval and what else belongs in small print.
        share: of the largest value shown, 0 to 1.
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


def differs(ratio: Json | None, spread: float | None) -> bool:
    """Whether a ratio of two launches is a difference that this study can tell.

    Args:
        ratio: with ``value``, ``low`` and ``high``.
        spread: of the A/A check at the process counts in question; None without one.
    """
    if ratio is None or not known(ratio["low"]) or not known(ratio["high"]):
        return False
    beyond_noise = abs(ratio["value"] - 1) > (spread or 0.0)
    return beyond_noise and not ratio["low"] <= 1 <= ratio["high"]


def compared(recommendation: Json) -> Json | None:
    """The point that the recommended one is compared with: what the user launches today."""
    found: Json | None = recommendation.get("today") or recommendation["default"]
    return found


def at_best(entry: Json, *, short: bool = False) -> str:
    """What a bar calls today's launch or the default one."""
    name = "Today's launch" if entry["label"] == "today" else "Default launch"
    return name if short else f"{name}, at its best"


def name_launch(entry: Json) -> str:
    """A launch in a sentence."""
    return PLAIN_NAMES.get(entry["label"], str(entry["label"]))


def shortly(entry: Json) -> str:
    """A launch that another one is compared with, before its number of processes."""
    return "the default" if entry["label"] == "default" else name_launch(entry)


def open_with(entry: Json) -> str:
    """A launch at the beginning of a sentence; an axis keeps its spelling."""
    name = PLAIN_NAMES.get(entry["label"])
    return str(entry["label"]) if name is None else f"{name[0].upper()}{name[1:]}"


def processes(entry: Json) -> str:
    """How many processes a point has."""
    return format_count(entry["n"], "process", "processes")


def amount(
    value: float, objective: str, low: float | None = None, high: float | None = None
) -> str:
    """A throughput with its unit; a time with its interval, which stands nowhere else then."""
    asked = OBJECTIVES[objective]
    if asked.single:
        return f"{THINGS[asked.rate]} in {format_time(value, low, high)}"
    return f"{format_number(value)} {UNITS[objective]}"


def gives(entry: Json, objective: str) -> str:
    """What a point of a recommendation gives, or how soon."""
    value, low, high = of_objective(entry, objective)
    return amount(value or 0.0, objective, low, high)


def against(objective: str, launch: str) -> str:
    """The launch that a ratio compares with, as it follows the ratio."""
    return f"as fast as {launch}" if OBJECTIVES[objective].single else launch


def in_unit(values: Sequence[float], objective: str) -> tuple[float, str]:
    """The unit that values of an objective are shown in, in theirs, and its name."""
    asked = OBJECTIVES[objective]
    return time_unit(min(values)) if asked.single else (1.0, UNITS[objective])


def span(ratio: Json) -> str:
    """The interval of a ratio; empty without one."""
    if not known(ratio["low"]) or not known(ratio["high"]):
        return ""
    return f"{format_ratio(ratio['low'])} to {format_ratio(ratio['high'])}"


def sure(ratio: Json, replicates: int) -> str:
    """The interval of a ratio; that of one start would cover all that may be."""
    return ONE_START if replicates == 1 else span(ratio)


def times(ratio: Json, against: str) -> str:
    """A ratio with its interval; where that is wide, what is certain comes first."""
    interval = span(ratio)
    if not interval:
        return f"{format_ratio(ratio['value'])} {against}"
    if ratio["low"] > 1 and ratio["high"] >= WIDE * ratio["low"]:
        return (
            f"at least {format_ratio(ratio['low'])} {against} "
            f"({format_ratio(ratio['value'])}; {interval})"
        )
    return f"{format_ratio(ratio['value'])} {against} ({interval})"


def small_print(
    value: float | None, low: float | None, high: float | None, unit: float = 1.0
) -> str:
    """The interval of a throughput, or of a time in a unit (see `in_unit`)."""
    interval = format_interval(low, high, like=value, unit=unit)
    return f"95% interval {interval}" if interval else "no interval"
