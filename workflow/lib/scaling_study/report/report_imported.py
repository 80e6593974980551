"""The report of a study of saved tables: what they show per step, and what they cannot show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from scaling_study.analysis.imported import NOT_IN_BOTH
from scaling_study.common import storage
from scaling_study.common.quantities import (
    decimals_for,
    format_count,
    format_number,
    format_percent,
    format_ratio,
    format_seconds,
    known,
)
from scaling_study.profiling.operator_groups import OTHER
from scaling_study.records.columns import OPERATORS
from scaling_study.report import svg
from scaling_study.report.report import render_page
from scaling_study.report.report_rows import Cell, Row, number_cell
from scaling_study.report.report_time import TimeView, view_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import pandas as pd

SAME_WORK = 0.02
"""Calls and operations that differ by less are the same work: tables have few digits."""
UNITS = (("s", 1.0), ("ms", 1e3), ("µs", 1e6))
CANNOT = tuple(
    """\
How much the profiler itself slowed the training: the tables have no step without it.
How many models per hour, or the best launch: each table is of one process, and nothing says what \
the others did meanwhile, or whether they ran at all.
How sure the times are: each number of processes was profiled once, so there is no interval and no \
A/A check.
Why an operator takes longer. Its CPU time is the wall time between its begin and its end: it may \
have computed, waited for memory or waited for a CPU. A study with experiments tells these apart.
Who called an operator, and in which phase: there are no stacks, so there is no flame graph.
Which launch it was: threads, BLAS, allocator and placement are not in a table.""".splitlines()
)


def render_imported(study_folder: Path, report: Path, decide: str) -> list[Path]:
    """Write figures/*.svg and the report of an imported study.

    Args:
        study_folder: results/<study>, with its tables and analyses.
        report: the HTML file to write.
        decide: the config whose experiments decide what tables cannot, as text.

    Returns:
        The files written.
    """
    study = storage.read_json(study_folder / "analysis/tables.json")
    operators = storage.read_table(study_folder / "tables", OPERATORS)
    (machine,) = storage.read_json(study_folder / "analysis/inflation.json")["machines"]
    comparisons = machine["comparisons"]
    time = _view_time(comparisons)
    texts = {report: _render(study, operators, time, decide)}
    for figure in time.figures if time else ():
        texts[study_folder / "figures" / f"{figure.name}.svg"] = svg.standalone(figure.svg)
    for path, text in texts.items():
        _write(path, text)
    return list(texts)


def _write(path: Path, text: str) -> None:
    storage.write_whole(path, lambda beside: beside.write_text(text, encoding="utf-8"))


def _render(
    study: Mapping[str, Any],
    operators: pd.DataFrame,
    time: TimeView | None,
    decide: str,
) -> str:
    tables = study["tables"]
    config = {name: study[name] for name in ("study", "description", "import")}
    return render_page(
        "imported.html.j2",
        flames=False,
        study=study["study"],
        description=study["description"],
        count=format_count(len(tables), "saved table"),
        verdict=verdict(tables),
        bars=step_bars(tables),
        notes=[*work_notes(operators), *rate_notes(tables)],
        tables=table_rows(tables),
        view={"anchor": "m1", "time": time},
        why=study["findings"],
        decide=decide,
        counts=[table["n"] for table in tables],
        operators=operator_rows(operators, [table["n"] for table in tables]),
        shown=shown_notes(tables),
        cannot=CANNOT,
        config_yaml=yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=88),
        columns=OPERATORS,
        h="h2",
        h2="h3",
    )


def _view_time(comparisons: Sequence[Mapping[str, Any]]) -> TimeView | None:
    """The comparisons' view, where other operators are also those that are not in both tables."""
    time = view_time(comparisons)
    for comparison in time.comparisons if time else ():
        for group in comparison.groups:
            if group["group"] == OTHER:
                group["reason"] = (
                    f"{NOT_IN_BOTH.strip('()').capitalize()}, so that nothing is known of them; or "
                    "no pattern of operator_groups.yaml matches their names."
                )
    return time


def verdict(tables: Sequence[Mapping[str, Any]]) -> str:
    """Say how the step changed from the fewest processes to the most."""
    first, last = tables[0], tables[-1]
    if first is last:
        return f"A step takes {format_seconds(first['step_s'])} with {_processes(first['n'])}"
    ratio = last["step_s"] / first["step_s"]
    if abs(ratio - 1) < SAME_WORK:
        return f"A step takes as long with {_processes(last['n'])} as with {first['n']}"
    if ratio < 1:
        share = format_percent(1 - ratio)
        return f"A step takes {share} less with {_processes(last['n'])} than with {first['n']}"
    return (
        f"A step takes {format_ratio(ratio)} as long with {_processes(last['n'])} as with "
        f"{first['n']}"
    )


def step_bars(tables: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The time of a step for each number of processes, all with the same unit and decimals."""
    unit, texts = same_unit([table["step_s"] for table in tables])
    longest_s = max(table["step_s"] for table in tables) or 1.0
    return [
        {
            "text": _processes(table["n"]),
            "value": text,
            "unit": f"{unit} per step",
            "share": table["step_s"] / longest_s,
            "note": f"{table['step_from']}, over {format_count(table['steps'], 'step')}",
        }
        for table, text in zip(tables, texts, strict=True)
    ]


def same_unit(seconds: Sequence[float]) -> tuple[str, list[str]]:
    """Write times with one unit and as many decimals as the smallest of them needs."""
    smallest = min((value for value in seconds if known(value) and value > 0), default=1.0)
    unit, scale = next((pair for pair in UNITS if smallest * pair[1] >= 1), UNITS[-1])
    decimals = decimals_for(smallest * scale)
    texts = [
        f"{value * scale:,.{decimals}f}" if known(value) else format_number(None)
        for value in seconds
    ]
    return unit, texts


def table_rows(tables: Sequence[Mapping[str, Any]]) -> list[Row]:
    """What is known of each table."""
    steps = _with_unit(table["step_s"] for table in tables)
    return [
        {
            "path": table["path"],
            "n": number_cell(table["n"], text=str(table["n"])),
            "steps": number_cell(table["steps"], text=f"{table['steps']:,}"),
            "steps_from": table["steps_from"],
            "step": number_cell(table["step_s"], text=step),
            "profiled": number_cell(table["self_s"], text=format_seconds(table["self_s"])),
            "rows": number_cell(table["rows"], text=str(table["rows"])),
            "covered": _share_cell(table),
        }
        for table, step in zip(tables, steps, strict=True)
    ]


def _share_cell(table: Mapping[str, Any]) -> Cell:
    """The share of the whole self time that the rows hold."""
    share = table["rows_s"] / table["self_s"] if table["self_s"] else None
    return number_cell(share, text=format_percent(share))


def work_notes(operators: pd.DataFrame) -> list[dict[str, Any]]:
    """Say whether the tables did the same work per step: as many calls, as many operations."""
    if len(set(operators["n"])) == 1:
        return []
    calls = _spread(operators, operators["calls_per_step"])
    flops = _spread(operators, operators["flops_per_step"] / operators["calls_per_step"])
    notes = []
    if not calls:
        text = "The tables share no operator: whether they did the same work is not known."
        return [{"text": text, "warning": True}]
    differing = [name for name, spread in calls.items() if spread > SAME_WORK]
    if differing:
        text = (
            f"{_names(differing)}: called a different number of times per step "
            f"(up to {format_percent(max(calls.values()))}), so the steps were not the same work."
        )
    else:
        number = format_count(len(calls), "operator")
        text = f"The same work per step: {number} in several tables, each called equally often."
    notes.append({"text": text, "warning": bool(differing)})
    heavier = [name for name, spread in flops.items() if spread > SAME_WORK]
    if heavier:
        notes.append({"text": _shapes_text(operators, heavier), "warning": True})
    return notes


def _shapes_text(operators: pd.DataFrame, names: Sequence[str]) -> str:
    """Say how many floating-point operations a call did, of the first operator of the tables."""
    rows = operators[(operators["operator"] == names[0]) & (operators["flops_per_step"] > 0)]
    each = rows["flops_per_step"] / rows["calls_per_step"] / 1e6
    others = f" Those of {_names(names[1:])} differ too." if len(names) > 1 else ""
    return (
        f"But their sizes differ: a call of {names[0]} did {_listed(map(format_number, each))} "
        f"million floating-point operations with {_listed(map(str, rows['n']))} processes, so its "
        f"times per call are not of the same work.{others}"
    )


def _listed(texts: Iterable[str]) -> str:
    *first, last = texts
    return f"{', '.join(first)} and {last}" if first else last


def _spread(operators: pd.DataFrame, values: pd.Series[float]) -> dict[str, float]:
    """How far a quantity of each operator differs between tables: largest over smallest, less 1."""
    groups = values[values > 0].groupby(operators["operator"], sort=False)
    several = groups.count() > 1
    spread = (groups.max() / groups.min() - 1)[several]
    return {str(name): float(value) for name, value in spread.items()}


def rate_notes(tables: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Say what all processes would do together, if they were like the profiled one."""
    if len(tables) == 1:
        return []
    rates = _listed(format_number(table["n"] / table["step_s"]) for table in tables)
    counts = _listed(str(table["n"]) for table in tables)
    text = (
        f"If all processes trained as fast as the profiled one, {counts} of them did {rates} "
        "steps/s together. The tables do not say whether they did."
    )
    return [{"text": text, "warning": False}]


def operator_rows(operators: pd.DataFrame, counts: Sequence[int]) -> list[Row]:
    """Each operator's time per call, and below it per step, for each number of processes."""
    found = []
    for name, rows in operators.groupby("operator", sort=False):
        by_n = rows.set_index("n").reindex(list(counts))
        per_call = _with_unit(by_n["total_s_per_call"])
        per_step = _with_unit(by_n["self_s_per_step"])
        cells = [
            Cell(call, number_cell(value).value, f"{step} per step" if step else "")
            if call
            else number_cell(None, text=f"{step} per step" if step else None)
            for value, call, step in zip(by_n["total_s_per_call"], per_call, per_step, strict=True)
        ]
        largest_s = float(rows["self_s_per_step"].max())
        found.append({"operator": name, "cells": cells, "largest_s": largest_s})
    return sorted(found, key=lambda row: -row["largest_s"])


def _with_unit(seconds: Iterable[float]) -> list[str]:
    """Times with one unit; an empty text where there is none."""
    values = list(seconds)
    unit, texts = same_unit(values)
    return [
        f"{text} {unit}" if known(value) else "" for value, text in zip(values, texts, strict=True)
    ]


def shown_notes(tables: Sequence[Mapping[str, Any]]) -> list[str]:
    """What of these tables is used, and what is not."""
    notes = [
        (
            "The time of a step and of each operator, per step and per call, for each number of "
            "processes; so also tables that cover different numbers of steps can be compared."
        ),
        "Which of the operators shown became slower, and how much of the added time they hold.",
    ]
    shares = [table["rows_s"] / table["self_s"] for table in tables if table["self_s"]]
    if shares and min(shares) < 1 - SAME_WORK:
        notes.append(
            f"Only the rows that were printed: they hold {_range(shares)} of all self time. The "
            "rest is in rows that the tables leave out (row_limit)."
        )
    unread = list(dict.fromkeys(name for table in tables for name in table["unread"]))
    if unread:
        notes.append(f"Columns that are not used: {', '.join(unread)}.")
    cut = list(dict.fromkeys(name for table in tables for name in table["cut"]))
    if cut:
        notes.append(
            f"Names that the tables have cut ({', '.join(cut)}): operators whose names begin alike "
            "cannot be told apart."
        )
    return notes


def _range(shares: Sequence[float]) -> str:
    low, high = format_percent(min(shares)), format_percent(max(shares))
    return low if low == high else f"{low} to {high}"


def _names(names: Sequence[str]) -> str:
    first = ", ".join(names[:3])
    return first if len(names) <= 3 else f"{first} and {len(names) - 3} more"  # noqa: PLR2004


def _processes(n: int) -> str:
    return format_count(n, "process", "processes")
