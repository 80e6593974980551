"""The section of the report on the data loader: waiting, training, and what gets in its way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scaling_study.common.quantities import (
    MISSING,
    format_bytes,
    format_count,
    format_estimate,
    format_number,
    format_percent,
    format_ratio,
    format_seconds,
)
from scaling_study.experimenting.loader_model import TITLES
from scaling_study.rendering.headline_causes import format_share
from scaling_study.rendering.report_rows import Row, number_cell

Json = Mapping[str, Any]

PARTS = {
    "waiting": "waiting for the loader",
    "training": "training itself",
    "interference": "what the loader's own work takes from training",
    "rest": "not accounted for",
}
LARGE_REST = 0.03
"""A larger part that is not accounted for is said."""
LITTLE = 0.05
"""A smaller part of a step is not worth a remedy."""


@dataclass(frozen=True, slots=True)
class FeedView:
    """What the template shows.

    Attributes:
        what: launch and process count.
        missing: why there is nothing; empty where there is.
        findings: sentences, the answer first.
        parts: rows: of a step, each part.
        variants: rows: what each variant takes.
        ways: rows: with other ways to load, predicted and measured.
        left_out: variants that were not measured, with the reason.
    """

    what: str
    missing: str
    findings: tuple[str, ...] = ()
    parts: tuple[Row, ...] = ()
    variants: tuple[Row, ...] = ()
    ways: tuple[Row, ...] = ()
    left_out: tuple[str, ...] = ()


def view_feed(found: Json | None, l3_bytes: int | None) -> FeedView | None:
    """Make the view of one machine; None where the study did not ask.

    Args:
        found: its entry of analysis/feed.json.
        l3_bytes: the size of a last-level cache.
    """
    if found is None:
        return None
    what = f"{found['label']}, {format_count(found['n'], 'process', 'processes')}"
    left = tuple(f"{one['title']}: {one['reason']}" for one in found["left_out"])
    if not found["variants"]:
        return FeedView(what, found["reason"] or "nothing was measured", left_out=left)
    return FeedView(
        what,
        "",
        findings=tuple(_findings(found, l3_bytes)),
        parts=tuple(
            {
                "label": PARTS[one["part"]],
                "time": number_cell(one["s"], text=format_seconds(one["s"])),
                "share": number_cell(one["share"]["value"], text=format_share(one["share"])),
            }
            for one in found["parts"]
        ),
        variants=tuple(_variant(one) for one in found["variants"]),
        ways=tuple(_way(one) for one in found["ways"]),
        left_out=left,
    )


def _variant(one: Json) -> Row:
    step_s = one["step_s"]["value"]
    return {
        "label": TITLES[one["variant"]],
        "step": number_cell(step_s, text=format_seconds(step_s)),
        "rate": number_cell(one["per_s"], text=format_number(one["per_s"])),
        "cpu": number_cell(one["cpu_s"], text=format_seconds(one["cpu_s"])),
    }


def _way(one: Json) -> Row:
    def time(name: str) -> Any:
        value = one[name]
        return number_cell(value, text=MISSING if value is None else format_seconds(value))

    return {
        "label": one["title"],
        **{name: time(f"{name}_s") for name in ("loader", "predicted", "measured")},
        "gain": number_cell(one["gain"] and one["gain"]["value"], text=_estimate(one["gain"])),
    }


def _estimate(one: Json | None) -> str:
    return format_estimate(one["value"], one["low"], one["high"]) if one else MISSING


def _findings(found: Json, l3_bytes: int | None) -> list[str]:
    parts = {one["part"]: one for one in found["parts"]}
    steps = {one["variant"]: one["step_s"]["value"] for one in found["variants"]}
    most = found["most"]
    said = []
    waiting = parts["waiting"]["share"]["value"]
    if "cached" in steps:
        gain = steps["as_is"] / steps["cached"]
        said.append(
            f"A step waits {format_percent(round(waiting, 2))} of its time for the loader. Without"
            f" any loader it would take {format_seconds(steps['cached'])} in place of"
            f" {format_seconds(steps['as_is'])}: no loader can make training more than"
            f" {format_ratio(gain)} as fast."
        )
    if "interference" in parts:
        share = parts["interference"]["share"]
        if share["low"] is not None and share["low"] > 0 and share["value"] >= LITTLE:
            said.append(
                f"The loader's own work takes {format_share(share)} of a step from training: it"
                " competes for CPUs, caches or the interpreter. More workers or threads make this"
                " larger, and the waiting shorter."
            )
        else:
            said.append(
                "The loader's own work takes nothing noticeable from training"
                f" ({format_share(share)} of a step)."
            )
    if {"loader", "training"} <= most.keys():
        slower = "the loader" if most["loader"] < most["training"] else "training"
        said.append(
            f"Alone, the loader gives {format_number(most['loader'])} batches a second, and"
            f" training takes {format_number(most['training'])}: {slower} is what limits the two."
        )
    if found["fetching"] and found["preparing"]:
        said.append(
            f"Of a step whose files are not in memory, {format_seconds(found['fetching']['value'])}"
            " fetch them from storage; with all of them in memory,"
            f" {format_seconds(found['preparing']['value'])} prepare what was read. A virtual"
            " machine's host may keep files in a cache of its own, which cannot be emptied from"
            " here."
        )
    said += _best(found["ways"])
    rest = parts.get("rest")
    if rest and abs(rest["share"]["value"]) > LARGE_REST:
        said.append(
            f"{format_share(rest['share'])} of a step is not accounted for: the parts are measured"
            " one by one, and need not add up."
        )
    cached = found["cached"] or {}
    size = cached.get("cached_bytes")
    if size and l3_bytes and size * found["n"] < l3_bytes:
        said.append(
            f"The batches in memory ({format_bytes(size)} in each process) fit into a last-level"
            " cache, which flatters training a little."
        )
    if cached.get("copied"):
        said.append(
            "The script changes its batches in place, so that each is copied before it is used"
            " again: that is in the time of training."
        )
    return said


def _best(ways: list[Json]) -> list[str]:
    """What the best other way to load gives, and how well that was predicted."""
    if not ways or ways[0]["name"]:  # nothing is known of the script as it is
        return []
    tried = [one for one in ways[1:] if one["measured_s"] is not None]
    if not tried:
        return ["Of the ways to load that were looked at, none should be faster than as it is."]
    best = min(tried, key=lambda one: one["predicted_s"])
    said = (
        f"With another way to load ({best['title']}) a step should take"
        f" {format_seconds(best['predicted_s'])}, and takes {format_seconds(best['measured_s'])}"
    )
    return [
        said + (f": {_estimate(best['gain'])} times as fast as it is." if best["gain"] else ".")
    ]
