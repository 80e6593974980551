"""Made-up studies, collected and analysed in this process, ready to be rendered."""

import contextlib
import pickle
import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import synthetic
from configs import ROOT
from scaling_study.analysis import imported
from scaling_study.config.plan import read_plan
from scaling_study.records.analysis import Machines
from scaling_study.records.codec import read_file, write_file
from scaling_study.report import figures
from scaling_study.report.imported import render_imported
from scaling_study.report.page import render_study
from scaling_study.study import stages

draw_scaling = figures.scaling
_drawn: dict[bytes, Any] = {}


def _draw_once(machine: Any, plan: Any, series: Any) -> Any:
    """Draw the figures of the same numbers once: they take most of a page's time."""
    key = pickle.dumps((machine.points, machine.noise, series, machine.suffix))
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
    write_file(folder / "plan.json", plan)
    plan = synthetic.typed(plan)
    stages.analyse(folder, plan)
    return folder


def render(folder: Path, plan: str = "plan.json", **more: Path) -> Path:
    """Render a study, with further files of `render_study`; return its report."""
    path = folder / "report.html"
    with mock.patch.object(figures, "scaling", _draw_once):
        render_study(folder, path, plan=folder / plan, builds=folder / "builds", **more)
    return path


def unpack_recorded(base: Path) -> Path:
    """Unpack the recorded study; return its folder."""
    with tarfile.open(ROOT / "tests/data/recorded.tar.xz") as packed:
        packed.extractall(base, filter="data")
    return base / "recorded"


def remake_recorded(base: Path) -> tuple[Path, Path]:
    """Unpack the recorded study; return its folder, and another with tables and analyses anew."""
    before, now = unpack_recorded(base), base / "now"
    shutil.copytree(before, now)
    for made in ("tables", "analysis"):
        shutil.rmtree(now / made)
    plan = read_plan(now / "searched.json")
    stages.analyse(now, plan)
    stages.judge(now, plan)
    return before, now


@contextlib.contextmanager
def edited(path: Path) -> Iterator[Any]:
    """Give the content of a file that is one record, and write what has become of it."""
    content = read_file(path, object)
    yield content
    write_file(path, content)


def machine_entry(folder: Path, name: str) -> Any:
    """Return the first machine's entry of an analysis file, as JSON holds it."""
    return read_file(folder / "analysis" / f"{name}.json", object)["machines"][0]


def entry(folder: Path, name: str, kind: Any) -> Any:
    """Return the first machine's entry of an analysis file."""
    return read_file(folder / "analysis" / f"{name}.json", Machines[kind]).machines[0]


def make_imported(folder: Path, texts: dict[int, str], description: str = "") -> Path:
    """Import texts as the tables of so many processes; return the study's report."""
    for n, text in texts.items():
        (folder / f"{n}.txt").write_text(text, encoding="utf-8")
    section = {"tables": {n: f"{n}.txt" for n in texts}}
    with contextlib.chdir(folder):
        mapping = {"study": "s", "description": description, "import": section}
        stages.import_tables(imported.load_import(mapping), folder)
    render_imported(folder, folder / "report.html")
    return folder / "report.html"
