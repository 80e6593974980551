"""The machines of a study side by side: wording, bars and a table of analysis/machines.json."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scaling_study.common.quantities import (
    format_count,
    format_interval,
    format_number,
    format_ratio,
    known,
)
from scaling_study.report.headline_words import NOUNS, THINGS, UNITS, Note, differs, times
from scaling_study.report.report_rows import Cell, number_cell

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COUNTED = {"models_per_hour": "models", "steps_per_s": "steps"}
FEW_NODES = 4
"""So many nodes of a machine are named; of more, the number."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """What a launch gives on a machine: a bar with its text.

    Attributes:
        value: the throughput.
        unit: of the value.
        about: the launch where it has no name of its own, the number of processes, the interval.
        share: of the largest throughput shown, 0 to 1.
    """

    value: str
    unit: str
    about: str
    share: float


@dataclass(frozen=True, slots=True)
class MachineBars:
    """One machine: its name in the config, and the launches that are compared."""

    name: str
    recommended: Throughput | None
    default: Throughput | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The machines side by side.

    Attributes:
        question: what is answered.
        verdict: the answer in a few words.
        notes: what it means per price and energy, and what weakens it.
        machines: those that have been measured.
        missing: name and reason of the others.
        units: of the table's groups of columns.
        heads: of the columns in each group.
        rows: each machine's name and cells.
    """

    question: str
    verdict: str
    notes: tuple[Note, ...]
    machines: tuple[MachineBars, ...]
    missing: tuple[tuple[str, str], ...]
    units: tuple[str, ...]
    heads: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


def view_comparison(compared: Mapping[str, Any]) -> Comparison:
    """Word a comparison.

    Args:
        compared: analysis/machines.json, with at least one machine measured.
    """
    there = [entry for entry in compared["machines"] if entry["status"] == "measured"]
    return Comparison(
        question=_question(compared),
        verdict=write_verdict(compared),
        notes=tuple(write_notes(compared)),
        machines=_bars(there, compared["objective"]),
        missing=tuple(
            (entry["name"], entry["reason"])
            for entry in compared["machines"]
            if entry["status"] == "missing"
        ),
        **_table(there, compared),
    )


def _question(compared: Mapping[str, Any]) -> str:
    """What is compared; one process's rate is the inverse of the time of one model."""
    rate = compared["objective"]
    each = f", where {THINGS[rate]} is to be done soonest" if compared["single"] else ""
    return f"How many {NOUNS[rate]} does each machine give{each}?"


def per_unit(compared: Mapping[str, Any]) -> dict[str, str]:
    """The measures of `compare.MEASURES` that some machine has, with what they are per."""
    words = {"per_price": compared["currency"], "per_kwh": "kWh"}
    return {
        measure: unit
        for measure, unit in words.items()
        if any((entry.get("recommended") or {}).get(measure) for entry in compared["machines"])
    }


def write_verdict(compared: Mapping[str, Any]) -> str:
    """Say which machine gives most."""
    best = compared["best"]["rate"]
    if best is None:
        names = [entry["name"] for entry in compared["machines"] if entry["status"] == "measured"]
        return f"{names[0]} alone is measured" if len(names) == 1 else "Nothing to compare"
    # Machines are compared by their windows: the confirmation of each stands in its own part.
    return f"{_most(best, NOUNS[compared['objective']])}, predicted"


def _most(best: Mapping[str, Any], what: str) -> str:
    """Which machine gives most of something, where this study can tell."""
    first, second, ratio = best["first"], best["next"], best["ratio"]
    more = f"{first}: {times(ratio, f'the {what} of {second}')}"
    if not known(ratio["low"]):
        return f"{more} (no interval)"
    return more if differs(ratio, best["spread"]) else f"{more}; a difference is not certain"


def write_notes(compared: Mapping[str, Any]) -> list[Note]:
    """Say what a careful reader wants to know of a comparison."""
    things = COUNTED[compared["objective"]]
    notes = [
        Note(f"{entry['name']} is missing: {entry['reason']}.", True)
        for entry in compared["machines"]
        if entry["status"] == "missing"
    ]
    for measure, unit in {"rate": "hour", **per_unit(compared)}.items():
        best = compared["best"][measure]
        if best is None:
            continue
        what = f"{things} per {unit}"
        notes.append(Note(f"{_most(best, what)}."))
    notes += [
        Note(
            f"{_listed(names)} are the same machine by all that matters to its speed: one kind of"
            " node was measured under several names.",
            True,
        )
        for names in compared["same"]
    ]
    notes += [Note(_other(entry), True) for entry in compared["machines"] if entry.get("others")]
    for entry in compared["software"]:
        values = "; ".join(f"{name} {value}" for name, value in entry["machines"].items())
        notes.append(Note(f"The machines differ in {entry['what']} too: {values}.", True))
    return notes


def _other(entry: Mapping[str, Any]) -> str:
    """Nodes under a machine's name that are not the same machine."""
    own = _nodes(entry["hosts"])
    parts = []
    for other in entry["others"]:
        facts = "; ".join(
            f"{each['fact']} {each['there']}, not {each['here']}" for each in other["differences"]
        )
        cohorts = format_count(other["cohorts"], "cohort")
        parts.append(f"{_nodes(other['hosts'])} ({cohorts}) has {facts}")
    return (
        f"Not all nodes under the name {entry['name']} are the same machine as {own}:"
        f" {'; '.join(parts)}. They are not pooled: what is compared here is {own}."
    )


def _nodes(hosts: Sequence[str]) -> str:
    few = list(hosts[:FEW_NODES])
    rest = len(hosts) - len(few)
    return _listed([*few, format_count(rest, "other node")] if rest else few)


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _bars(there: Sequence[Mapping[str, Any]], objective: str) -> tuple[MachineBars, ...]:
    launches = [entry[role] for entry in there for role in ("recommended", "default")]
    largest = max((one["rate"]["value"] for one in launches if one), default=1.0)

    def bar(launch: Mapping[str, Any] | None, *, named: bool) -> Throughput | None:
        if launch is None:
            return None
        rate = launch["rate"]
        interval = format_interval(rate["low"], rate["high"], like=rate["value"])
        what = [launch["label"]] * named + [format_count(launch["n"], "process", "processes")]
        return Throughput(
            format_number(rate["value"]),
            UNITS[objective],
            "; ".join([", ".join(what), f"95% interval {interval}" if interval else "no interval"]),
            rate["value"] / largest,
        )

    return tuple(
        MachineBars(
            entry["name"], bar(entry["recommended"], named=True), bar(entry["default"], named=False)
        )
        for entry in there
    )


def _table(there: Sequence[Mapping[str, Any]], compared: Mapping[str, Any]) -> dict[str, Any]:
    """Units, heads and rows: each measure by default and at best, and the best to a reference."""
    objective, reference = compared["objective"], compared["reference"]
    units = {"rate": UNITS[objective]}
    units |= {
        measure: f"{COUNTED[objective]}/{unit}" for measure, unit in per_unit(compared).items()
    }
    several = len(there) > 1 and reference is not None
    heads = ("default", "best", *(f"to {reference}",) * several)
    rows = []
    for entry in there:
        cells: list[Cell] = []
        for measure in units:
            cells += [_cell(entry[role], measure) for role in ("default", "recommended")]
            if several:
                cells.append(_ratio(entry, measure, reference))
        rows.append((entry["name"], tuple(cells)))
    return {"units": tuple(units.values()), "heads": heads, "rows": tuple(rows)}


def _cell(launch: Mapping[str, Any] | None, measure: str) -> Cell:
    estimate = launch and launch[measure]
    if not estimate:
        return number_cell(None)
    return number_cell(estimate["value"], estimate["low"], estimate["high"])


def _ratio(entry: Mapping[str, Any], measure: str, reference: str | None) -> Cell:
    if entry["name"] == reference:
        has = entry["recommended"][measure] is not None
        return number_cell(1.0 if has else None, text="1" if has else None)
    ratio = entry["to_reference"][measure]
    if ratio is None:
        return number_cell(None)
    return number_cell(
        ratio["value"], ratio["low"], ratio["high"], text=format_ratio(ratio["value"])
    )
