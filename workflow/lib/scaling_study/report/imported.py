"""The report of a study of saved tables: what they show per step, and what they cannot show."""

from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path

import pandas as pd

from scaling_study.common.printable import printable_lines
from scaling_study.common.quantities import (
    format_count,
    format_number,
    format_percent,
    format_ratio,
    format_seconds,
)
from scaling_study.records.analysis import Inflation, Machines, SavedTable, SavedTables
from scaling_study.records.codec import read_file
from scaling_study.records.columns import OPERATORS
from scaling_study.records.tables import read_table
from scaling_study.report import figures, sections, svg
from scaling_study.report.page import render_page, write, yaml_text
from scaling_study.report.words import Mark, listed, processes

Cells = dict[Hashable, dict[Hashable, float]]

SAME_WORK = 0.02
"""Calls and operations that differ by less are the same work: tables have few digits."""


def render_imported(study_folder: Path, report: Path) -> list[Path]:
    """Write figures/*.svg and the report of an imported study.

    Args:
        study_folder: results/<study>, with its tables and analyses.
        report: the HTML file to write.

    Returns:
        The files written.
    """
    saved = read_file(study_folder / "analysis/tables.json", SavedTables)
    study, tables = saved.config, saved.tables
    operators = read_table(study_folder / "tables", OPERATORS)
    (machine,) = read_file(study_folder / "analysis/inflation.json", Machines[Inflation]).machines
    comparisons = machine.comparisons
    drawn = [
        figures.operators(comparison, figures.texts("inflation", at=at))
        for at, comparison in enumerate(comparisons)
    ]
    html = render_page(
        "imported.html.j2",
        title=f"{study['study']}: saved profiles",
        study=study,
        tables=tables,
        verdict=verdict(tables),
        notes=work_notes(operators),
        comparisons=list(zip(comparisons, drawn, strict=True)),
        why=saved.findings,
        operators=operator_rows(operators),
        heads=["operator", *(f"#n = {table.n}" for table in tables)],
        config_yaml=yaml_text({name: study[name] for name in ("study", "description", "import")}),
        h=2,
    )
    folder = study_folder / "figures"
    texts = {folder / f"{figure.name}.svg": svg.standalone(figure.svg) for figure in drawn}
    return write({report: html, **texts})


def conclusion(results: Path, report: Path) -> str:
    """Write the result of a study, and the place of its report."""
    tables = read_file(results / "analysis/tables.json", SavedTables).tables
    (machine,) = read_file(results / "analysis/inflation.json", Machines[Inflation]).machines
    texts = [sections.operators(comparison) for comparison in machine.comparisons[:1]]
    return printable_lines("\n".join([f"{verdict(tables)}.", *texts, f"Report: {report}"]))


def verdict(tables: Sequence[SavedTable]) -> str:
    """Say how the step changed from the fewest processes to the most."""
    first, last = tables[0], tables[-1]
    if first is last:
        return f"A step takes {format_seconds(first.step_s)} with {processes(first.n)}"
    ratio = last.step_s / first.step_s
    if abs(ratio - 1) < SAME_WORK:
        return f"A step takes as long with {processes(last.n)} as with {first.n}"
    if ratio < 1:
        less = format_percent(1 - ratio)
        return f"A step takes {less} less with {processes(last.n)} than with {first.n}"
    return f"A step takes {format_ratio(ratio)} as long with {processes(last.n)} as with {first.n}"


def work_notes(operators: pd.DataFrame) -> Iterator[Mark]:
    """Say whether the tables did the same work per step: as many calls, as many operations."""
    if len(set(operators["n"])) == 1:
        return
    calls = _spread(operators, operators["calls_per_step"])
    flops = _spread(operators, operators["flops_per_step"] / operators["calls_per_step"])
    if not calls:
        text = "The tables share no operator: whether they did the same work is not known."
        yield Mark(text, bad=True)
        return
    differing = [name for name, spread in calls.items() if spread > SAME_WORK]
    if differing:
        text = (
            f"{listed(differing)}: called a different number of times per step "
            f"(up to {format_percent(max(calls.values()))}), so the steps were not the same work."
        )
    else:
        count = format_count(len(calls), "operator")
        text = f"The same work per step: {count} in several tables, each called equally often."
    yield Mark(text, bad=bool(differing))
    heavier = [name for name, spread in flops.items() if spread > SAME_WORK]
    if heavier:
        rows = operators[(operators["operator"] == heavier[0]) & (operators["flops_per_step"] > 0)]
        each = rows["flops_per_step"] / rows["calls_per_step"] / 1e6
        others = f" Those of {listed(heavier[1:])} differ too." if heavier[1:] else ""
        amounts = listed(map(format_number, each), None)
        text = (
            f"But sizes differ: a call of {heavier[0]} did {amounts} million floating-point "
            f"operations with {listed(rows['n'], None)} processes.{others}"
        )
        yield Mark(text, bad=True)


def _spread(operators: pd.DataFrame, values: "pd.Series[float]") -> dict[str, float]:
    """Return, for each operator, the largest value of the tables over the smallest, less 1."""
    groups = values[values > 0].groupby(operators["operator"], sort=False)
    spread = (groups.max() / groups.min() - 1)[groups.count() > 1]
    return {str(name): float(value) for name, value in spread.items()}


def operator_rows(operators: pd.DataFrame) -> list[tuple[str, Cells]]:
    """Return each operator with its row of tables/operators for each process count."""
    groups = [(str(name), rows) for name, rows in operators.groupby("operator", sort=False)]
    groups.sort(key=lambda group: -group[1]["self_s_per_step"].max())
    return [(name, rows.set_index("n").to_dict("index")) for name, rows in groups]
