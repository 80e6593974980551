"""From analyses to the rows of a report's tables: text, with the numbers to sort by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from scaling_study.analysis.recommend import of_objective
from scaling_study.common.objectives import OBJECTIVES
from scaling_study.common.quantities import (
    format_bytes,
    format_count,
    format_interval,
    format_number,
    format_probability,
    format_ratio,
    known,
    time_unit,
)
from scaling_study.common.topology import Topology
from scaling_study.host.probe import usable_topology
from scaling_study.report.headline_words import ONE_START

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pandas as pd

    from scaling_study.report.figure_series import Series

Facts = list[tuple[str, str]]
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cell:
    """A number in a table: what is shown, and what the table is sorted by."""

    text: str
    value: str
    interval: str = ""


def number_cell(
    value: float | None,
    low: float | None = None,
    high: float | None = None,
    *,
    text: str | None = None,
) -> Cell:
    """Make a cell of a number with its interval.

    Args:
        value: the number; missing ones sort last.
        low: of its interval.
        high: of its interval.
        text: what to show instead of the plain number.
    """
    return Cell(
        format_number(value) if text is None else text,
        f"{value:.9g}" if value is not None and known(value) else "",
        format_interval(low, high, like=value),
    )


def _of_starts(cell: Cell, replicates: int) -> Cell:
    """Say that a number is of one start, instead of an interval that covers all that may be."""
    return replace(cell, interval=ONE_START) if replicates == 1 and cell.interval else cell


def ranking_rows(recommendation: Mapping[str, Any]) -> list[Row]:
    """The launches by throughput."""
    recommended = recommendation["recommended"]["launch"] if recommendation["recommended"] else None
    rows = []
    for entry in recommendation["ranking"]:
        is_recommended = entry["launch"] == recommended
        arm = str(entry["arm"])
        tags = ["recommended"] if is_recommended else []
        tags += [arm.replace("_", " ")] if arm in {"default", "baseline", "repeat", "today"} else []
        tags += ["oversubscribed"] if entry["oversubscribed"] else []
        rows.append(
            {
                "label": entry["label"],
                "role": "recommended" if is_recommended else arm,
                "tags": [tag for tag in tags if tag != entry["label"]],
                "n": number_cell(entry["n"], text=str(entry["n"])),
                "time": _time_cell(entry, recommendation["objective"]),
                **{
                    name: _of_starts(number_cell(*of_objective(entry, name)), entry["replicates"])
                    for name in ("models_per_hour", "steps_per_s")
                },
                "ratio": _of_starts(
                    number_cell(
                        entry["ratio_to_default"],
                        *(
                            None if arm == "default" else entry[f"ratio_{end}"]
                            for end in ("low", "high")
                        ),
                        text=format_ratio(entry["ratio_to_default"]),
                    ),
                    entry["replicates"],
                ),
                "probability": number_cell(
                    entry["probability_best"],
                    text=format_probability(entry["probability_best"], short=True),
                ),
            }
        )
    return rows


def _time_cell(entry: Mapping[str, Any], objective: str) -> Cell:
    """The time of one model (or step), where the objective asks for it."""
    value, low, high = of_objective(entry, objective)
    if value is None or not OBJECTIVES[objective].single:
        return number_cell(None)
    unit_s, unit = time_unit(value)
    cell = number_cell(value, text=f"{format_number(value / unit_s)} {unit}")
    interval = format_interval(low, high, like=value, unit=unit_s)
    return _of_starts(replace(cell, interval=interval), entry["replicates"])


def _estimate(entry: Mapping[str, Any], name: str, scale: float = 1.0) -> Cell:
    values = (scale * entry[f"{name}{end}"] for end in ("", "_low", "_high"))
    return _of_starts(number_cell(*values), entry["replicates"])


def point_rows(points: pd.DataFrame, series: Sequence[Series]) -> list[Row]:
    """The points of the launches that figures draw in colour."""
    rows = []
    for one in series:
        own = points[points["launch"] == one.launch].sort_values("n")
        for record in own.to_dict("records"):
            point = {str(name): value for name, value in record.items()}
            cells = [
                number_cell(point["n"], text=str(point["n"])),
                _estimate(point, "steps_per_s"),
                _estimate(point, "step_s", 1e3),
                number_cell(1e3 * point["step_p95_s"]),
                _estimate(point, "efficiency"),
                number_cell(point["cpu_use"]),
                number_cell(point["rss_bytes"], text=format_bytes(point["rss_bytes"])),
                number_cell(
                    point["windows"],
                    text=f"{point['windows']} of {point['windows'] + point['windows_invalid']}",
                ),
            ]
            rows.append(
                {"label": one.label, "oversubscribed": point["oversubscribed"], "cells": cells}
            )
    return rows


def failure_rows(failures: Iterable[Mapping[str, Any]], labels: Mapping[str, str]) -> list[Row]:
    """Launches that were skipped or failed; replicates with the same story share a row."""
    found: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for entry in failures:
        key = (labels[entry["launch"]], entry["status"], entry["reason"], entry["remedy"])
        found.setdefault(key, []).append(entry)
    return [
        {
            "label": label,
            "status": status,
            "reason": reason or "",
            "remedy": remedy,
            "log": next((entry["log"] for entry in entries if entry["log"]), None),
            "replicates": _name_replicates(entry["replicate"] for entry in entries),
        }
        for (label, status, reason, remedy), entries in found.items()
    ]


def _name_replicates(replicates: Iterable[int]) -> str:
    numbers = sorted(set(replicates))
    return f"{'replicate' if len(numbers) == 1 else 'replicates'} {', '.join(map(str, numbers))}"


def attestation_groups(
    launches: Iterable[Mapping[str, Any]], first: Sequence[str]
) -> list[Mapping[str, Any]]:
    """What was requested and what took effect, by launch.

    Args:
        launches: of analysis/attestation.json.
        first: ids of the launches that come first, after those with something that did not hold.
    """
    order = {launch: place for place, launch in enumerate(first)}

    def place(entry: Mapping[str, Any]) -> tuple[bool, int]:
        return all(check["ok"] for check in entry["checks"]), order.get(entry["launch"], len(order))

    return sorted(launches, key=place)


def environment_facts(values: Mapping[str, str | None]) -> Facts:
    """The variables that a launch sets."""
    facts = [
        (name, "(not passed on)" if value is None else value)
        for name, value in sorted(values.items())
    ]
    return facts or [("none", "nothing is set")]


def binding_facts(slots: Sequence[Mapping[str, Any]]) -> Facts:
    """Where members run; neighbours with the same place share a row."""
    groups: list[tuple[list[int], str]] = []
    for slot in slots:
        cpus = "any CPU" if slot["cpus"] is None else f"CPU {slot['cpus']}"
        if "loader_cpus" in slot:
            cpus += f" (its loader: {slot['loader_cpus']})"
        memory = "" if slot["policy"] == "default" else f", memory {slot['policy']}"
        shared = ", shared with another member" if slot["oversubscribed"] else ""
        place = f"{cpus}{memory}{shared}"
        if groups and groups[-1][1] == place:
            groups[-1][0].append(slot["slot"])
        else:
            groups.append(([slot["slot"]], place))
    return [
        (f"member {who[0]}" if len(who) == 1 else f"members {who[0]} to {who[-1]}", place)
        for who, place in groups
    ]


def machine_facts(machine: Mapping[str, Any]) -> Facts:
    """The machine, as its probe saw it."""
    topology = Topology.from_dict(machine["topology"])
    quota, limit = machine["quota_cpus"], machine["memory_limit_bytes"]
    libraries = {name: path for name, path in machine["libraries"].items() if path}
    facts = {
        "host": machine["hostname"],
        "processor": machine["cpu_model"],
        "topology": topology.describe(),
        "usable CPUs": machine["allowed_cpus"],
        "CPU quota": "none" if quota is None else format_number(quota),
        "L2, L3": f"{format_bytes(machine['l2_bytes'])}, {format_bytes(machine['l3_bytes'])}",
        "instruction sets": ", ".join(machine["isa"]),
        "memory": format_bytes(machine["memory_bytes"]),
        "memory limit": "none" if limit is None else format_bytes(limit),
        "swap": format_bytes(machine["swap_bytes"]),
        "virtual": machine["virtual"] or "no",
        "kernel, C library": f"{machine['kernel']}, {machine['libc']}",
        "frequency governor": machine["governor"] or "not readable",
        "transparent huge pages": machine["thp"] or "not readable",
        "automatic NUMA balancing": _yes_no(machine["numa_balancing"]),
        "hardware counters": _yes_no(machine["perf_counters"]),
        "libraries found": ", ".join(f"{name} {path}" for name, path in libraries.items())
        or "none",
        "versions": ", ".join(f"{name} {text}" for name, text in machine["versions"].items()),
        "commit": machine["commit"] or "none",
        "machine hash": machine["hash"],
    }
    return list(facts.items())


def _yes_no(value: bool | None) -> str:
    return {True: "yes", False: "no", None: "not readable"}[value]


def describe_size(machine: Mapping[str, Any], *, named: bool = False) -> str:
    """A machine's size in a few words; its processor too, where the config gives it a name."""
    text = format_count(len(usable_topology(machine).cpus), "usable CPU")
    if named:
        text = f"{machine['cpu_model']}, {text}"
    if machine["quota_cpus"] is not None:
        text += f", a quota of {format_number(machine['quota_cpus'])}"
    return f"{text}, {format_bytes(machine['memory_bytes'])}"


def invalid_rows(windows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Invalid windows by reason and launch, the most frequent first."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for entry in windows:
        found.setdefault((entry["flag"], entry["label"]), []).append(entry)
    rows = [
        {
            "flag": flag.replace("_", " "),
            "label": label,
            "n": ", ".join(str(n) for n in sorted({entry["n"] for entry in entries})),
            "count": sum(entry["count"] for entry in entries),
        }
        for (flag, label), entries in found.items()
    ]
    return sorted(rows, key=lambda row: -int(row["count"]))


def lost_rows(points: Iterable[Mapping[str, Any]]) -> Facts:
    """Process counts without a valid window, by launch."""
    lost: dict[str, list[str]] = {}
    for point in points:
        lost.setdefault(point["label"], []).append(str(point["n"]))
    return [(label, f"n = {', '.join(counts)}") for label, counts in lost.items()]
