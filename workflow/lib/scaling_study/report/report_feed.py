"""The section of the report on the data loader: waiting, training, and what gets in its way."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scaling_study.common.quantities import (
    MISSING,
    format_bytes,
    format_count,
    format_cpus,
    format_estimate,
    format_number,
    format_percent,
    format_ratio,
    format_seconds,
)
from scaling_study.experiments.loader_model import TITLES
from scaling_study.host.probe import usable_topology
from scaling_study.report.figure_multiples import describe_largest, draw_multiples
from scaling_study.report.figures import Figure
from scaling_study.report.headline_causes import format_share
from scaling_study.report.report_cause_figures import curve, dot
from scaling_study.report.report_ceilings import ceiling_rows, near_ceilings
from scaling_study.report.report_rows import Row, number_cell
from scaling_study.report.report_use import draw_use, rules_of_thumb

Json = Mapping[str, Any]

PARTS = {
    "waiting": "waiting for the loader",
    "training": "training itself",
    "interference": "what the loader's own work takes from training",
    "rest": "not accounted for",
}
LARGE_REST = 0.03
"""A larger part that is not accounted for is said."""
HURTS = 1.02
"""A step that is surely this much longer is hurt."""
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
        neighbours: the figure of what work beside training does to it; None where it was not
            measured.
        ceilings: rows: what the machine could give.
        use: what the machine was used for over time; None where it was not looked at.
        rules: rows: rules of thumb, answered.
        left_out: variants that were not measured, with the reason.
    """

    what: str
    missing: str
    findings: tuple[str, ...] = ()
    parts: tuple[Row, ...] = ()
    variants: tuple[Row, ...] = ()
    ways: tuple[Row, ...] = ()
    neighbours: Figure | None = None
    ceilings: tuple[Row, ...] = ()
    use: Figure | None = None
    rules: tuple[Row, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def figures(self) -> tuple[Figure, ...]:
        """Its figures."""
        return tuple(one for one in (self.neighbours, self.use) if one is not None)


def view_feed(
    found: Json | None, machine: Json, fingerprint: Json | None = None, suffix: str = ""
) -> FeedView | None:
    """Make the view of one machine; None where the study did not ask.

    Args:
        found: its entry of analysis/feed.json.
        machine: machine.json.
        fingerprint: fingerprint.json; None where it was not measured.
        suffix: of the figure's name.
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
        findings=(
            *_findings(found, machine.get("l3_bytes")),
            *near_ceilings(fingerprint, found["disk_bytes_per_s"]),
        ),
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
        neighbours=_neighbours(
            found["neighbours"], len(usable_topology(machine).cpus) / found["n"], suffix
        ),
        ceilings=tuple(ceiling_rows(fingerprint, found["disk_bytes_per_s"])),
        use=draw_use(found["use"], suffix),
        rules=tuple(rules_of_thumb(found["use"], machine.get("memory_bytes"))),
        left_out=left,
    )


def _neighbours(kinds: list[Json], cpus: float, suffix: str) -> Figure | None:
    """Draw a step beside work that does what loaders do, by the CPUs that this uses."""
    curves = [
        curve(
            one["title"],
            [
                (min(1.0, each["cpus"] / cpus), dot(each["ratio"]))
                for each in sorted(one["doses"], key=lambda each: each["cpus"])
            ],
        )
        for one in kinds
    ]
    if not curves:
        return None
    name, title = f"neighbours{suffix}", "Training beside what a loader does"
    drawn = draw_multiples(
        curves,
        None,
        name=name,
        title=title,
        alt="Step time of training from memory beside threads and processes that unpack data, "
        "against none. " + describe_largest(curves),
        counts=False,
        x_label="CPU use of the others",
    )
    caption = (
        "Training from memory beside work like a loader's (unpacking), and beside programs that "
        "compute in registers and take nothing but CPUs, at growing doses: step "
        "time against that beside none, by the part that it uses of the "
        f"{format_cpus(cpus)} CPUs of a process. Shaded: 95% intervals."
    )
    return Figure(name, title, caption, drawn)


def _hurting(kinds: list[Json]) -> list[str]:
    """From where on work beside training surely hurts it, and how irregular steps get."""
    said = []
    for one in kinds:
        dots = [each for each in one["doses"] if each["ratio"]]
        hurt = [
            *itertools.takewhile(lambda each: (each["ratio"]["low"] or 0.0) > HURTS, reversed(dots))
        ]
        if not hurt:
            said.append(f"{one['title']} up to {_cpus(dots[-1])}: no harm that is sure")
            continue
        first, last = hurt[-1], hurt[0]
        said.append(
            f"{one['title']} from {_cpus(first)} on ({format_ratio(first['ratio']['value'])} as"
            f" long; with {_cpus(last)} {format_ratio(last['ratio']['value'])}, where one step in"
            " twenty takes"
            f" {format_ratio(last['spread'])} the usual one)"
        )
    return [f"What slows training beside it: {'; '.join(said)}."] if said else []


def _cpus(dose: Json) -> str:
    """The CPUs that a dose used, in words."""
    text = format_cpus(dose["cpus"])
    return f"{text} CPU" if text == "1" else f"{text} CPUs"


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

    gain = one["gain"] if one["name"] else None  # as it is, it is as fast as it is
    return {
        "label": one["title"],
        **{name: time(f"{name}_s") for name in ("loader", "predicted", "measured")},
        "gain": number_cell(gain and gain["value"], text=_estimate(gain)),
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
        said.append(_storage(found["fetching"], found["preparing"]))
    elif "cold" in steps:
        said.append(
            "What fetching from storage takes is not known: the loader's files were not dropped"
            " from memory, or were back before a window ended."
        )
    said += _best(found["ways"])
    said += _hurting(found["neighbours"])
    rest = parts.get("rest")
    if rest and abs(rest["share"]["value"]) > LARGE_REST:
        said.append(
            f"{format_share(rest['share'])} of a step is not accounted for: training on a new batch"
            " may take longer than on one from memory, and the parts are measured one by one."
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


def _storage(fetching: Json, preparing: Json) -> str:
    """What a step takes to fetch files from storage, and to prepare what was read."""
    fetched = format_seconds(fetching["value"])
    if (fetching["low"] or 0.0) <= 0:
        fetched = "nothing noticeable"
    return (
        f"Of a step whose files are not in memory, fetching them from storage takes {fetched};"
        f" with all of them in memory, {format_seconds(preparing['value'])} prepare what was read."
        " A virtual machine's host may keep files in a cache of its own, which cannot be emptied"
        " from here."
    )


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
    said += f": {_estimate(best['gain'])} times as fast as it is." if best["gain"] else "."
    launch = ", ".join(f"{axis}: {value}" for axis, value in best["axes"].items())
    return [f"{said} A launch with {launch} loads so." if launch else said]
