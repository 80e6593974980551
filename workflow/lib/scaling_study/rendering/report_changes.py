"""The section of the report that says what each single change does, and why more does not help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from scaling_study.common.quantities import (
    format_count,
    format_percent,
    format_ratio,
    format_seconds,
)
from scaling_study.rendering.headline_words import ONE_START, sure
from scaling_study.rendering.report_rows import Cell, Row, number_cell

if TYPE_CHECKING:
    from collections.abc import Sequence

WORTH_SAYING = 0.05
"""A smaller part of a step, or difference of two steps, needs no sentence."""

REST = ("forward", "backward", "optimizer")

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChangesView:
    """What the templates show.

    Attributes:
        n: processes, in words.
        rows: the baseline and each single change.
        steps: the way to the best combination of them.
        epochs: whether rows have the time of an epoch.
        notes: why more threads, workers and ranks help no more than they do, and what it takes to
            compile.
    """

    n: str
    rows: list[Row]
    steps: list[Row]
    notes: list[str]
    epochs: bool = False


def view_changes(found: Json | None, cpus: int) -> ChangesView | None:
    """Make the view of one machine; None where nothing was changed alone.

    Args:
        found: its entry of analysis/single_changes.json; None in older studies.
        cpus: that may be used.
    """
    if found is None or not found["changes"]:
        return None
    base, changes = found["baseline"], found["changes"]
    threads = [one for one in changes if one["axis"] == "intra_op" and _is_count(one["value"])]
    workers = [one for one in changes if one["axis"] == "loader_workers"]
    ranks = [one for one in changes if one["axis"] == "ranks"]
    compiled = [one for one in changes if one["axis"] == "compile" and one.get("compiled")]
    notes = [
        *_threads(base, threads, cpus),
        *_workers(base, workers, cpus),
        *_ranks(ranks, cpus),
        *(_compilation(base, one) for one in compiled),
    ]
    return ChangesView(
        format_count(found["n"], "process", "processes"),
        [_row(base, "baseline"), *(_row(one, f"{one['axis']} {one['value']}") for one in changes)],
        [_step_row(one) for one in found["steps"]],
        notes,
        epochs=base.get("epoch_s") is not None,
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _row(one: Json, label: str) -> Row:
    gain, epoch_s = one.get("gain"), one.get("epoch_s")
    return {
        "label": label,
        "step": number_cell(one["step_s"], text=format_seconds(one["step_s"])),
        "gain": _gain_cell(gain, "", once=one["replicates"] == 1),
        **{
            name: number_cell(one[name], text=format_seconds(one[name])) for name in ("load", *REST)
        },
        "cpus": number_cell(one["cpu_use"]),
        "epoch": number_cell(epoch_s, text=format_seconds(epoch_s)) if epoch_s else None,
    }


def _step_row(one: Json) -> Row:
    return {
        "label": f"{one['axis']} {one['value']}",
        "alone": _gain_cell(one["alone"], ""),
        "predicted": number_cell(one["predicted"], text=format_ratio(one["predicted"])),
        "measured": _gain_cell(one["measured"], "not measured"),
    }


def _gain_cell(gain: Json | None, without: str, *, once: bool = False) -> Cell:
    if gain is None:
        return number_cell(None, text=without)
    cell = number_cell(gain["value"], gain["low"], gain["high"], text=format_ratio(gain["value"]))
    return replace(cell, interval=ONE_START) if once else cell


def _rest(one: Json) -> float | None:
    """Time of a step outside of the loader."""
    parts = [one[name] for name in REST]
    return None if None in parts else float(sum(parts))


def _measured(rows: Sequence[Json]) -> list[Json]:
    """Those whose gain and step are known."""
    return [one for one in rows if one["gain"]["value"] and one["step_s"]]


def _best(known: Sequence[Json]) -> Json:
    """The one that gains most."""
    return max(known, key=lambda one: float(one["gain"]["value"]))


def _crowding(known: Sequence[Json], cpus: int, noun: str) -> str:
    """What happens to more of them than CPUs, where there were more."""
    above = any(_is_count(one["value"]) and one["value"] > cpus for one in known)
    return f" More {noun} than the {cpus} CPUs take turns on them." if above else ""


def _threads(base: Json, rows: Sequence[Json], cpus: int) -> list[str]:
    """Why more threads shorten a step no more than they do."""
    known = _measured(rows)
    if not known or not base["step_s"]:
        return []
    best = _best(known)
    ratio = best["gain"]
    text = (
        f"Threads: the best of these, {best['value']}, makes training "
        f"{format_ratio(ratio['value'])} as fast ({sure(ratio, best['replicates'])})."
    )
    load, rest, rest_then = base["load"], _rest(base), _rest(best)
    if load is not None and load > WORTH_SAYING * base["step_s"]:
        most = base["step_s"] / load
        text += (
            f" {format_percent(load / base['step_s'])} of a step is time in the loader, which one "
            f"thread of the process does: threads can bring {format_ratio(most)} at most."
        )
    if rest and rest_then:
        text += (
            f" The rest of a step takes {format_seconds(rest)} with the baseline and "
            f"{format_seconds(rest_then)} then."
        )
    return [text + _crowding(known, cpus, "threads")]


def _workers(base: Json, rows: Sequence[Json], cpus: int) -> list[str]:
    """What loader workers take off the training process, and what they cost it."""
    known = [one for one in rows if one["gain"]["value"] and one["load"] is not None]
    if not known or base["load"] is None:
        return []
    best = _best(known)
    ratio, rest, rest_then = best["gain"], _rest(base), _rest(best)
    text = (
        f"Loader workers: with {best['value']} the training process spends "
        f"{format_seconds(best['load'])} of a step on the loader, and "
        f"{format_seconds(base['load'])} as the script is; training is "
        f"{format_ratio(ratio['value'])} as fast ({sure(ratio, best['replicates'])})."
    )
    if rest and rest_then and rest_then > (1 + WORTH_SAYING) * rest:
        text += (
            f" The rest of a step grows from {format_seconds(rest)} to {format_seconds(rest_then)}:"
            f" workers take CPU time and caches from training, on {format_count(cpus, 'CPU')}."
        )
    left = best["load"] / best["step_s"] if best["step_s"] else 0.0
    if left > WORTH_SAYING:
        text += (
            f" It still waits for {format_percent(left)} of the time: to make a batch takes longer "
            "than to train on it, or to hand it over takes that long."
        )
    return [text]


def _ranks(rows: Sequence[Json], cpus: int) -> list[str]:
    """What ranks gain, what they change, and for what they wait."""
    known = _measured(rows)
    if not known:
        return []
    best = _best(known)
    ratio = best["gain"]
    text = (
        f"Ranks: the best of these, {best['value']}, gets through the same samples "
        f"{format_ratio(ratio['value'])} as fast ({sure(ratio, best['replicates'])})."
    )
    if best.get("work", 1.0) > 1:
        text += (
            f" A step of theirs has {format_ratio(best['work'])} the samples, so there are fewer "
            "steps, and the model trains otherwise."
        )
    wait_s = best.get("ranks_wait")
    if wait_s is not None and wait_s > WORTH_SAYING * best["step_s"]:
        text += (
            f" Of {format_seconds(best['step_s'])} they wait {format_seconds(wait_s)} for the "
            "slowest of them."
        )
    text += (
        " What they exchange is told where causes are looked for in that launch (why: launches)."
    )
    return [text + _crowding(known, cpus, "ranks")]


def _compilation(base: Json, one: Json) -> str:
    """What it takes to compile, and after how many steps that is made up for."""
    times = [
        (one["compiled"]["anew_s"], "with an empty cache"),
        (one["compiled"]["cached_s"], "with what an earlier start has left in its cache"),
    ]
    seen = [(seconds, where) for seconds, where in times if seconds is not None]
    taken = " and ".join(f"{format_seconds(seconds)} {where}" for seconds, where in seen)
    text = f"{one['axis']} {one['value']}: compiling takes {taken}."
    saved_s = (base["step_s"] or 0.0) - (one["step_s"] or 0.0)
    if saved_s <= 0:
        return f"{text} A step is no faster then: nothing makes up for it."
    steps = " and ".join(format_count(round(seconds / saved_s), "step") for seconds, _ in seen)
    return f"{text} A step saves {format_seconds(saved_s)}: that is made up for after {steps}."
