"""The report of a study of saved tables: what they show per step, and what they cannot show."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from scaling_study.records.analysis import Inflation, Machines, SavedTables
from scaling_study.records.codec import read_file
from scaling_study.records.columns import OPERATORS
from scaling_study.report import figures, svg, words
from scaling_study.report.page import render_page, yaml_text
from scaling_study.report.render import write

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    import pandas as pd

    from scaling_study.records.analysis import SavedTable

SAME_WORK = 0.02
"""Calls and operations that differ by less are the same work: tables have few digits."""
UNITS = (("s", 1.0), ("ms", 1e3), ("µs", 1e6))


def render_imported(study_folder: Path, report: Path, decide: str) -> list[Path]:
    """Write figures/*.svg and the report of an imported study.

    Args:
        study_folder: results/<study>, with its tables and analyses.
        report: the HTML file to write.
        decide: the config whose experiments decide what tables cannot, as text.

    Returns:
        The files written.
    """
    saved = read_file(study_folder / "analysis/tables.json", SavedTables)
    study, tables = saved.config, saved.tables
    operators = storage.read_table(study_folder / "tables", OPERATORS)
    path = study_folder / "analysis/inflation.json"
    (machine,) = read_file(path, Machines[Inflation]).machines
    comparisons = machine.comparisons
    drawn = [
        figures.operators(one, f"inflation{f'-{at + 1}' if at else ''}")
        for at, one in enumerate(comparisons)
    ]
    unit, steps = same_unit([table.step_s for table in tables])
    html = render_page(
        "imported.html.j2",
        flames=False,
        title=f"{study['study']}: saved profiles",
        study=study,
        tables=tables,
        steps=[f"{step} {unit}" for step in steps],
        verdict=verdict(tables),
        notes=[*work_notes(operators), *rate_notes(tables)],
        comparisons=list(zip(comparisons, drawn, strict=True)),
        why=saved.findings,
        decide=decide,
        operators=operator_rows(operators, [table.n for table in tables]),
        heads=["operator", *(f"#n = {table.n}" for table in tables)],
        shown=shown_notes(tables),
        config_yaml=yaml_text({name: study[name] for name in ("study", "description", "import")}),
        h=2,
    )
    texts = {report: html}
    for figure in drawn:
        texts[study_folder / "figures" / f"{figure.name}.svg"] = svg.standalone(figure.svg)
    write(texts)
    return list(texts)


def verdict(tables: Sequence[SavedTable]) -> str:
    """Say how the step changed from the fewest processes to the most."""
    first, last = tables[0], tables[-1]
    if first is last:
        return f"A step takes {format_seconds(first.step_s)} with {words.processes(first.n)}"
    ratio = last.step_s / first.step_s
    if abs(ratio - 1) < SAME_WORK:
        return f"A step takes as long with {words.processes(last.n)} as with {first.n}"
    if ratio < 1:
        less = format_percent(1 - ratio)
        return f"A step takes {less} less with {words.processes(last.n)} than with {first.n}"
    long = format_ratio(ratio)
    return f"A step takes {long} as long with {words.processes(last.n)} as with {first.n}"


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


def work_notes(operators: pd.DataFrame) -> list[words.Mark]:
    """Say whether the tables did the same work per step: as many calls, as many operations."""
    if len(set(operators["n"])) == 1:
        return []
    calls = _spread(operators, operators["calls_per_step"])
    flops = _spread(operators, operators["flops_per_step"] / operators["calls_per_step"])
    if not calls:
        text = "The tables share no operator: whether they did the same work is not known."
        return [words.Mark(text, "", bad=True)]
    differing = [name for name, spread in calls.items() if spread > SAME_WORK]
    if differing:
        text = (
            f"{words.listed(differing)}: called a different number of times per step "
            f"(up to {format_percent(max(calls.values()))}), so the steps were not the same work."
        )
    else:
        count = format_count(len(calls), "operator")
        text = f"The same work per step: {count} in several tables, each called equally often."
    notes = [words.Mark(text, "", bad=bool(differing))]
    heavier = [name for name, spread in flops.items() if spread > SAME_WORK]
    if heavier:
        rows = operators[(operators["operator"] == heavier[0]) & (operators["flops_per_step"] > 0)]
        each = rows["flops_per_step"] / rows["calls_per_step"] / 1e6
        others = f" Those of {words.listed(heavier[1:])} differ too." if heavier[1:] else ""
        text = (
            f"But sizes differ: a call of {heavier[0]} did {_all(map(format_number, each))} "
            f"million floating-point operations with {_all(map(str, rows['n']))} processes.{others}"
        )
        notes.append(words.Mark(text, "", bad=True))
    return notes


def _all(texts: Iterable[str]) -> str:
    shown = list(texts)
    return words.listed(shown, len(shown))


def _spread(operators: pd.DataFrame, values: pd.Series[float]) -> dict[str, float]:
    """How far a quantity of each operator differs between tables: largest over smallest, less 1."""
    groups = values[values > 0].groupby(operators["operator"], sort=False)
    spread = (groups.max() / groups.min() - 1)[groups.count() > 1]
    return {str(name): float(value) for name, value in spread.items()}


def rate_notes(tables: Sequence[SavedTable]) -> list[words.Mark]:
    """Say what all processes would do together, if they were like the profiled one."""
    if len(tables) == 1:
        return []
    rates = _all(format_number(table.n / table.step_s) for table in tables)
    text = (
        f"If all processes trained as fast as the profiled one, {_all(str(t.n) for t in tables)} "
        f"of them did {rates} steps/s together. The tables do not say whether they did."
    )
    return [words.Mark(text, "")]


def operator_rows(
    operators: pd.DataFrame, counts: Sequence[int]
) -> list[tuple[str, list[tuple[float, str, str]]]]:
    """Each operator's time per call and self time per step, as texts, for each process count."""
    found = []
    for name, rows in operators.groupby("operator", sort=False):
        by_n = rows.set_index("n").reindex(list(counts))
        (call_unit, calls), (step_unit, steps) = (
            same_unit(list(by_n[column])) for column in ("total_s_per_call", "self_s_per_step")
        )
        cells = [
            (value, f"{call} {call_unit}" if known(value) else call,
             f"{step} {step_unit} per step" if known(own) else "")
            for value, call, step, own in zip(
                by_n["total_s_per_call"], calls, steps, by_n["self_s_per_step"], strict=True
            )
        ]  # fmt: skip
        found.append((float(rows["self_s_per_step"].max()), str(name), cells))
    return [(name, cells) for _, name, cells in sorted(found, key=lambda row: -row[0])]


def shown_notes(tables: Sequence[SavedTable]) -> list[str]:
    """What of these tables is used, and what is not."""
    notes = []
    shares = [table.covered for table in tables if table.covered is not None]
    if shares and min(shares) < 1 - SAME_WORK:
        ends = dict.fromkeys(format_percent(end) for end in (min(shares), max(shares)))
        notes.append(
            f"Only the rows that were printed are used: they hold {' to '.join(ends)} of all self "
            "time. The rest is in rows that the tables leave out (row_limit)."
        )
    unread = list(dict.fromkeys(name for table in tables for name in table.unread))
    if unread:
        notes.append(f"Columns that are not used: {', '.join(unread)}.")
    cut = list(dict.fromkeys(name for table in tables for name in table.cut))
    if cut:
        notes.append(
            f"Names that the tables have cut ({', '.join(cut)}): operators whose names begin alike "
            "cannot be told apart."
        )
    return notes
