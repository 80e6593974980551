"""The section of the report that says what each single change does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from scaling_study.common.quantities import (
    format_count,
    format_ratio,
    format_seconds,
)
from scaling_study.report.headline_words import ONE_START
from scaling_study.report.report_rows import Cell, Row, number_cell

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
    """

    n: str
    rows: list[Row]
    steps: list[Row]
    epochs: bool = False


def view_changes(found: Json | None) -> ChangesView | None:
    """Make the view of one machine; None where nothing was changed alone.

    Args:
        found: its entry of analysis/single_changes.json; None in older studies.
    """
    if found is None or not found["changes"]:
        return None
    base, changes = found["baseline"], found["changes"]
    return ChangesView(
        format_count(found["n"], "process", "processes"),
        [_row(base, "baseline"), *(_row(one, f"{one['axis']} {one['value']}") for one in changes)],
        [_step_row(one) for one in found["steps"]],
        epochs=base.get("epoch_s") is not None,
    )


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
