"""The report's section on the confirmation: what was run, what it gave, and what was predicted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scaling_study.common.objectives import OBJECTIVES
from scaling_study.common.quantities import (
    format_count,
    format_number,
    format_percent,
    format_seconds,
    time_unit,
)
from scaling_study.report.headline_words import THINGS
from scaling_study.report.report_rows import Cell, number_cell

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scaling_study.common.objectives import Objective

    Json = Mapping[str, Any]

UNITS = {"models_per_hour": "models/hour", "steps_per_s": "iterations/s"}
QUEUES = {"process_per_model": "a process per model", "one_process": "models one after the other"}

WORTH_EXPLAINING = 0.05
"""A smaller difference between confirmed and predicted needs no list of parts."""

DISTURBED = 0.05
"""Other programs that took more CPUs than this are said: a window with 0.05 would not count."""

LONG_ROUND = 1.6
"""A round lasts longer until each slot has ended a model, or has trained enough (`running`)."""

PARTS = {
    "start": "Start and end of a process",
    "between": "What lies between iterations",
    "queue": "Time between two processes of a slot",
    "clock": "CPU clock",
}
LEFT_OUT = {
    "once": "The script does not run a second time in one process",
    "failed": "The script failed",
    "slow": "Some process did not finish two iterations before the round's last limit",
    "unavailable": "This machine cannot run it",
}
NOT_CONFIRMED = {
    "off": "The config says confirm: off. All numbers of this report are predicted",
    "none": "Nothing was confirmed",
    "failed": "The recommended launch gave no figure when it ran as you would run it",
}
WHOLE = "whole models"
TOGETHER = "start, iterations and end, put together"


@dataclass(frozen=True, slots=True)
class ConfirmedRow:
    """One arm of the table; `numbers` in the order of its columns."""

    label: str
    tag: str
    queue: str
    numbers: tuple[Cell, ...]
    how: str


@dataclass(frozen=True, slots=True)
class ConfirmView:
    """What the template shows.

    Attributes:
        notes: sentences; the first says what was done or why nothing was.
        unit: of the values.
        rows: of the table.
        difference: sentences on confirmed against predicted.
        left_out: arms without a figure, each a sentence and the script's words.
    """

    notes: tuple[str, ...]
    unit: str
    rows: tuple[ConfirmedRow, ...]
    difference: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]


def view_confirmation(confirmation: Json | None) -> ConfirmView:
    """Return the section of one machine.

    Args:
        confirmation: its entry of analysis/confirmation.json; None in a study from before there
            was one.
    """
    if confirmation is None:
        return ConfirmView(("Nothing was confirmed.",), "", (), (), ())
    status, reason = confirmation["status"], confirmation["reason"]
    left_out = tuple(_left_out(one) for one in confirmation["left_out"])
    if status != "confirmed":
        text = NOT_CONFIRMED[status]
        note = f"{text}: {reason}." if reason and not left_out else f"{text}."
        return ConfirmView((note,), "", (), (), left_out)
    arms, objective = confirmation["arms"], OBJECTIVES[confirmation["objective"]]
    scale, unit = 1.0, UNITS[objective.rate]
    if objective.single:
        scale, name = time_unit(_shown(arms[0], objective)[0])
        unit = f"time of {THINGS[objective.rate]}, {name}"
    return ConfirmView(
        notes=_notes(arms, objective),
        unit=unit,
        rows=tuple(_row(arm, objective, scale) for arm in arms),
        difference=_difference(confirmation["difference"]),
        left_out=left_out,
    )


def _notes(arms: Sequence[Json], objective: Objective) -> tuple[str, ...]:
    """What was run, and what weakens it."""
    rounds = max(arm["rounds"] + arm["rounds_unseen"] for arm in arms)
    round_s = format_seconds(max(arm["round_s"] for arm in arms))
    ran = (
        "Each launch ran as launch/recommended.sh starts it: plain processes, from their start, "
        "without gates, in a queue that keeps every slot busy. The launches took turns, "
        f"{format_count(rounds, 'round')} of {round_s} each, and intervals are over rounds."
    )
    notes = [ran]
    longest_s = max(arm["longest_s"] for arm in arms)
    if longest_s > LONG_ROUND * max(arm["round_s"] for arm in arms):
        notes.append(
            "Some rounds went on until every slot had ended a model, up to "
            f"{format_seconds(longest_s)}: a model took longer than a round."
        )
    busy = max(arm["foreign_cpus"] for arm in arms)
    if busy > DISTURBED:
        wrong = "times are too long" if objective.single else "numbers are too low"
        notes.append(
            f"Other programs took up to {format_number(busy)} CPUs meanwhile. Confirm again on a "
            f"quiet machine: these {wrong}."
        )
    unseen = sum(arm["rounds_unseen"] for arm in arms)
    if unseen:
        notes.append(
            f"{format_count(unseen, 'round')} gave no figure: some process did not finish two "
            "iterations. The launch is slower than its figure says."
        )
    if any(arm["queue"] == "one_process" and not arm["later_starts"] for arm in arms):
        notes.append(
            "With models one after the other, no process began its second model in every round. "
            "The start in that row is a process's first one, and a later one may be shorter."
        )
    return tuple(notes)


def _shown(arm: Json, objective: Objective) -> tuple[float, float | None, float | None]:
    """Value and interval of an arm: its rate, or the time of one model (s)."""
    value, low, high = objective.shown(arm["value"], arm["low"], arm["high"], arm["n"])
    return value or 0.0, low, high


def _row(arm: Json, objective: Objective, scale: float) -> ConfirmedRow:
    predicted, *_ = objective.shown(arm["predicted"], None, None, arm["n"])
    ends = (*_shown(arm, objective), predicted)
    value, low, high, said = (None if end is None else end / scale for end in ends)
    return ConfirmedRow(
        label=arm["label"],
        tag=arm["role"].removesuffix("_same_n"),
        queue=QUEUES[arm["queue"]],
        numbers=(
            number_cell(arm["n"], text=str(arm["n"])),
            number_cell(value, low, high),
            number_cell(said),
            *(
                number_cell(arm[name], text=format_seconds(arm[name]))
                for name in ("start_s", "iteration_s", "end_s")
            ),
            number_cell(arm["whole_models"], text=str(arm["whole_models"])),
        ),
        how=TOGETHER if arm["cut"] else WHOLE,
    )


def _difference(difference: Json | None) -> tuple[str, ...]:
    """What the difference from the prediction is made of."""
    if difference is None:
        return ()
    away = difference["value"] - 1
    first = f"Confirmed is {_away(difference['value'])} the recommended launch's prediction"
    if abs(away) <= WORTH_EXPLAINING:
        return (f"{first}.",)
    parts = [
        f"{PARTS[part['what']]}: {_change(part['factor'])}."
        for part in difference["parts"]
        if abs(part["factor"] - 1) > WORTH_EXPLAINING / 5
    ]
    rest = f"Unexplained: {_change(difference['unexplained'])}."
    return (f"{first}. Its parts, which multiply:", *parts, rest)


def _away(factor: float) -> str:
    if abs(factor - 1) <= WORTH_EXPLAINING / 5:
        return "the same as"
    side = "above" if factor > 1 else "below"
    return f"{_percent(factor)} {side}"


def _change(factor: float) -> str:
    return f"{_percent(factor)} {'more' if factor > 1 else 'less'} throughput"


def _percent(factor: float) -> str:
    """How far a factor is from 1, to a tenth of a percent."""
    return format_percent(abs(round(factor - 1, 3)))


def _left_out(one: Json) -> tuple[str, str]:
    """An arm without a figure: which and why, and the script's own words."""
    count = format_count(one["n"], "process", "processes")
    what = f"{one['label']}, {count}, {QUEUES[one['queue']]}"
    return f"{what}: {LEFT_OUT[one['status']].lower()}", one["reason"] or ""
