"""Made-up studies, collected and analysed in this process, ready to be rendered."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import synthetic
from scaling_study.analysis.analyse import analyse
from scaling_study.analysis.collect import collect
from scaling_study.common.storage import read_json, write_json, write_table
from scaling_study.records.columns import BETWEEN, POINTS, REPLICATES, WINDOWS
from scaling_study.report import figures
from scaling_study.report.render import render_study

draw_scaling = figures.scaling
_drawn: dict[bytes, Any] = {}


def _draw_once(machine: Any, plan: Any, series: Any) -> Any:
    """Draw the figures of the same numbers once: they take most of a page's time."""
    key = pickle.dumps((machine.points, machine.members, machine.noise, series, machine.suffix))
    if key not in _drawn:
        _drawn[key] = draw_scaling(machine, plan, series)
    return _drawn[key]


def make_study(
    folder: Path, change: Callable[[dict[str, Any]], None] = lambda _: None, **options: Any
) -> Path:
    """Write, collect and analyse a study; return its folder.

    Args:
        folder: Of the study.
        change: What becomes of the plan, and of the records, before they are read.
        options: Of `synthetic.write_study`.
    """
    plan = synthetic.write_study(folder, **options)
    change(plan)
    write_json(folder / "plan.json", plan)
    plan = synthetic.typed(plan)
    collected = collect(folder, plan)
    for table, frame in (
        (WINDOWS, collected.windows),
        (REPLICATES, collected.replicates),
        (BETWEEN, collected.between),
        (POINTS, collected.points),
    ):
        write_table(folder / "tables", table, frame)
    write_json(folder / "tables/cohorts.json", collected.cohorts)
    analyses = analyse(
        collected.points, collected.replicates, collected.windows, collected.cohorts, plan
    )
    for name, content in analyses.items():
        write_json(folder / "analysis" / f"{name}.json", content)
    return folder


def render(folder: Path) -> Path:
    """Render a study; return its report."""
    path = folder / "report.html"
    with mock.patch.object(figures, "scaling", _draw_once):
        render_study(folder, path, plan=folder / "plan.json", builds=folder / "builds")
    return path


def machine_entry(folder: Path, name: str) -> Any:
    """Return the first machine's entry of an analysis file."""
    return read_json(folder / "analysis" / f"{name}.json")["machines"][0]
