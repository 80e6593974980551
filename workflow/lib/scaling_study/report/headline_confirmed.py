"""The headline of a confirmed recommendation: what fresh processes gave, run as a user runs them.

The choice was made on the study's windows, the gain comes from the confirmation alone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from scaling_study.common.objectives import OBJECTIVES
from scaling_study.common.quantities import format_number, format_percent, format_ratio, known
from scaling_study.report.headline_words import (
    Bar,
    Note,
    against,
    amount,
    at_best,
    in_unit,
    name_launch,
    open_with,
    processes,
    shortly,
    small_print,
    span,
    times,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Json = Mapping[str, Any]

USERS_QUEUE = "process_per_model"
"""The queue that the headline counts: a loop in a shell does the same."""
QUEUES = {
    "process_per_model": "a process per model",
    "one_process": "processes that train one model after the other",
}
COMMANDS = {
    "process_per_model": "",
    "one_process": "; recommended.sh --queue --reuse trains a list of models so",
}
PARTS = {
    "start": "the start and the end of a process",
    "between": "work between steps",
    "queue": "the queue",
    "clock": "the clock under sustained load",
}
UNSEEN = "rate confirmed, end of a model not seen"
PREDICTED = "Predicted from windows of training, without the end of a process"
EXPLAIN_FROM = 0.05
"""A larger difference between confirmed and predicted is explained, or said to be unexplained."""
NOTICEABLE = 0.01
"""A factor that is nearer to 1 is not listed."""
WORTH_A_WORD = 1.1
"""Another queue that gives more by this factor is said to."""
ROLES = {
    "today": "today",
    "today_same_n": "same",
    "default": "default",
    "default_same_n": "same",
    "recommended": "recommended",
}


def arm(confirmation: Json, role: str, queue: str = USERS_QUEUE) -> Json | None:
    """An arm of a confirmation; None where it was not run."""
    arms = confirmation["arms"]
    return next((one for one in arms if (one["role"], one["queue"]) == (role, queue)), None)


def confirmed_verdict(confirmation: Json, recommended: Json) -> str:
    """Word what a confirmation showed.

    Args:
        confirmation: a machine's entry of analysis/confirmation.json, with status ``confirmed``.
        recommended: its arm of the recommended launch.
    """
    ratio, same = confirmation["ratio"], confirmation["ratio_same_n"]
    objective = confirmation["objective"]
    value = amount(objective=objective, **_shown(recommended, objective))
    how, most = _how_sure(recommended, objective)
    if ratio is None:
        what = f"{most}{value} with {processes(recommended)} of {name_launch(recommended)}"
        return f"{how[:1].upper()}{how[1:]}: {what}"
    other = {"label": confirmation.get("against", "default")}
    than = against(objective, name_launch(other))
    gives = f"{open_with(recommended)}: {most}{value}, {times(ratio, than)}"
    if not span(ratio):
        return f"{gives}, {how} without an interval"
    if ratio["low"] > 1:
        return f"{gives}, {how}"
    if ratio["high"] < 1:
        return f"{gives}, {how}; the prediction does not hold"
    if same is not None and known(same["low"]) and same["low"] > 1:
        than = against(objective, f"{shortly(other)} at {processes(recommended)}")
        return f"{open_with(recommended)}: {most}{value}, {times(same, than)}, {how}"
    return f"{gives}, {how}; a gain is not certain"


def _how_sure(one: Json, objective: str) -> tuple[str, str]:
    """Say what of an arm was seen, and what its value is then.

    Without the end of a model the time of one is too short, by all that comes after its steps.
    """
    if one["end_seen"] or OBJECTIVES[objective].rate != "models_per_hour":
        return "confirmed", ""
    return UNSEEN, "at least " if OBJECTIVES[objective].single else "at most "


def confirmed_bars(confirmation: Json) -> tuple[Bar, ...]:
    """Today's and default, at their own count and the recommended one, recommended: as run."""
    found = [one for role in ROLES if (one := arm(confirmation, role)) is not None]
    objective = confirmation["objective"]
    shown = [_shown(one, objective) for one in found]
    values = [each["value"] for each in shown]
    scale, unit = in_unit(values, objective)
    return tuple(
        Bar(
            ROLES[one["role"]],
            f"{_named(one)}: {processes(one)}",
            format_number(each["value"] / scale),
            unit,
            _print(one, each, objective, scale),
            each["value"] / max(values),
        )
        for one, each in zip(found, shown, strict=True)
    )


def _shown(one: Json, objective: str) -> dict[str, Any]:
    """Value and interval of an arm as the objective shows them: its rate, or a time (s)."""
    ends = OBJECTIVES[objective].shown(one["value"], one["low"], one["high"], one["n"])
    return dict(zip(("value", "low", "high"), ends, strict=True))


def _named(one: Json) -> str:
    if one["role"] == "recommended":
        default = one["label"] == "default"
        return "Default launch" if default else f"Best launch found, {one['label']}"
    return at_best(one, short=one["role"].endswith("_same_n"))


def _print(one: Json, shown: Json, objective: str, scale: float) -> str:
    interval = f"{_how_sure(one, objective)[0]}, {small_print(**shown, unit=scale)}"
    predicted, *_ = OBJECTIVES[objective].shown(one["predicted"], None, None, one["n"])
    if predicted is None or not known(predicted):
        return interval
    return f"{interval}; predicted {format_number(predicted / scale)}"


def confirmed_notes(confirmation: Json, recommended: Json, predicted: Json | None) -> list[Note]:
    """Gain against prediction, where a difference comes from, which queue and launcher ran.

    Args:
        confirmation: a machine's entry of analysis/confirmation.json.
        recommended: its arm of the recommended launch.
        predicted: the ratio that the study's windows gave; None without one.
    """
    notes = []
    if confirmation["ratio"] is not None and predicted is not None:
        gain, hoped = (
            f"{format_ratio(one['value'])}{f' ({interval})' if (interval := span(one)) else ''}"
            for one in (confirmation["ratio"], predicted)
        )
        other = name_launch({"label": confirmation.get("against", "default")})
        notes.append(Note(f"Gain over {other}: {gain} confirmed, {hoped} predicted."))
    return [
        *notes,
        *_difference(confirmation),
        *_how(confirmation, recommended),
    ]


def _difference(confirmation: Json) -> list[Note]:
    """Why the confirmed throughput is not the predicted one."""
    difference = confirmation["difference"]
    if difference is None or abs(difference["value"] - 1) <= EXPLAIN_FROM:
        return []
    change = difference["value"] - 1
    side = "less" if change < 0 else "more"
    opening = f"The machine gave {format_percent(abs(change))} {side} than predicted."
    parts = [
        f"{PARTS[part['what']]} ({format_ratio(part['factor'])})"
        for part in difference["parts"]
        if abs(part["factor"] - 1) >= NOTICEABLE
    ]
    left = difference["unexplained"]
    large = abs(left - 1) > EXPLAIN_FROM
    if not parts:
        return [Note(f"{opening} This is unexplained.", True)]
    rest = f" A factor of {format_number(left)} is unexplained." if large else ""
    return [Note(f"{opening} The factors are: {', '.join(parts)}.{rest}", large)]


def _how(confirmation: Json, recommended: Json) -> list[Note]:
    """What ran, and what was not seen to its end."""
    objective = confirmation["objective"]
    text = f"Confirmed with {QUEUES[recommended['queue']]}, started by {recommended['ran']}."
    others: Sequence[Json] = [
        one
        for one in confirmation["arms"]
        if one["role"] == "recommended" and one["queue"] != recommended["queue"]
    ]
    for one in others:
        value = amount(objective=objective, **_shown(one, objective))
        times_as_many = one["value"] / recommended["value"]
        kind = "as fast" if OBJECTIVES[objective].single else "as many"
        many = f", {format_ratio(times_as_many)} {kind}" if times_as_many > WORTH_A_WORD else ""
        text += (
            f" With {QUEUES[one['queue']]} ({one['ran']}): {value}{many}{COMMANDS[one['queue']]}."
        )
    notes = [Note(text)]
    if recommended["whole_models"] == 0 and OBJECTIVES[objective].rate == "models_per_hour":
        text = "No model ended: its time is the start plus all its iterations, without an end."
        if confirmation["seconds"] is not None:
            text += f" Set confirm.seconds to {math.ceil(confirmation['seconds'])} to see ends."
        if recommended["ended_after"] is not None:
            text = (
                f"The script ended after {recommended['ended_after']:,} iterations, which is not "
                "a model's number (workload.steps_per_model): a model's time is put together from "
                "start, iterations and end."
            )
        notes.append(Note(text, warning=not recommended["end_seen"]))
    if recommended["cut"]:
        notes.append(Note("A round was stopped at its time limit: its iterations give the rate."))
    return notes


def unconfirmed_note(confirmation: Json | None) -> Note:
    """Why a headline is a prediction."""
    if confirmation is None:
        return Note(f"{PREDICTED}; no free run has confirmed it.")
    if confirmation["status"] == "off":
        return Note(f"{PREDICTED}; the confirmation is off.")
    slow = "some process did not finish two iterations in the time that a round has at most"
    reason = confirmation["reason"] or slow
    if confirmation["status"] == "none":
        return Note(f"{PREDICTED}; nothing was confirmed: {reason}.", True)
    return Note(f"{PREDICTED}; the confirmation failed: {reason}.", True)
