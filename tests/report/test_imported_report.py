"""The report of saved tables, in numbers and as a browser shows it."""

import contextlib
import re

import pandas as pd
import pytest

from configs import ROOT
from scaling_study.analysis import imported, imported_causes
from scaling_study.common.quantities import MISSING, TIMES
from scaling_study.common.storage import write_table
from scaling_study.records.analysis import Machines, SavedTable, SavedTables
from scaling_study.records.codec import write_file
from scaling_study.records.columns import OPERATORS
from scaling_study.report.imported import (
    operator_rows,
    render_imported,
    same_unit,
    verdict,
    work_notes,
)

PHONE = {"width": 390, "height": 844}
DECIDE = (ROOT / "config/decide.yaml").read_text(encoding="utf-8")
HOSTILE = '<script>window.hacked=1</script>"><img src=x onerror="window.hacked=2"> & it\'s $x$'
TEXT = (
    "Name  Self CPU  CPU total  CPU time avg  # of Calls  Total FLOPs\n"
    "Optimizer.step#SGD.step  {0}.000ms  {0}0.000ms  {0}.000ms  10  --\n"
    "aten::mm  {0}.000ms  {0}.000ms  {0}00.000us  {1}  1000\n"
    "{2}  1.000ms  1.000ms  1.000ms  1  --\n"
    "Self CPU time total: {0}0.000ms\n"
)


def make_study(folder, texts, description=""):
    """Import texts as the tables of 1, 2, … processes; return the study's folder and its report."""
    for n, text in texts.items():
        (folder / f"{n}.txt").write_text(text, encoding="utf-8")
    section = {"tables": {n: f"{n}.txt" for n in texts}}
    with contextlib.chdir(folder):
        mapping = {"study": "s", "description": description, "import": section}
        study = imported.load_import(mapping)
        tables = imported.read_tables(study)
    operators = imported.operator_frame(tables)
    write_table(folder / "tables", OPERATORS, operators)
    saved = tuple(table.saved for table in tables)
    findings = imported_causes.findings(saved, operators)
    content = SavedTables(config=study.to_dict(), tables=saved, findings=findings)
    write_file(folder / "analysis/tables.json", content)
    comparisons = imported.compare_tables(tables, operators)
    write_file(folder / "analysis/inflation.json", Machines((comparisons,)))
    render_imported(folder, folder / "report.html", DECIDE)
    return folder / "report.html"


def reference(n):
    return (ROOT / f"tests/data/profiler/tsmixerx-{n}.txt").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    texts = {n: reference(n) for n in (4, 32, 64)}
    return make_study(tmp_path_factory.mktemp("example"), texts)


def table(n, step_s, steps=10):
    return SavedTable(
        n=n, path="x", steps=steps, steps_from="x", step_s=step_s, step_from="x", self_s=1.0,
        rows_s=1.0, rows=1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ([0.0288, 0.1045], ("ms", ["28.8", "104.5"])),
        ([94.615e-6, 259.73e-6], ("µs", ["94.6", "259.7"])),
        ([2.0, float("nan")], ("s", ["2.00", MISSING])),
        ([5e-9, 1e-6], ("µs", ["0.00500", "1.00000"])),
        ([0.0, 0.0], ("s", ["0.00", "0.00"])),
    ],
)  # fmt: skip
def test_times_beside_each_other_have_one_unit(seconds, expected):
    assert same_unit(seconds) == expected


def test_the_verdict():
    assert verdict([table(4, 0.02), table(8, 0.05)]) == (
        f"A step takes 2.50{TIMES} as long with 8 processes as with 4"
    )
    assert verdict([table(1, 0.02), table(2, 0.0201)]) == (
        "A step takes as long with 2 processes as with 1"
    )
    assert verdict([table(1, 0.02), table(2, 0.01)]) == (
        "A step takes 50% less with 2 processes than with 1"
    )
    assert verdict([table(1, 0.02)]) == "A step takes 20.0 ms with 1 process"


def frame(*rows):
    columns = ["n", "operator", "calls_per_step", "flops_per_step"]
    return pd.DataFrame(rows, columns=columns)


def test_whether_the_work_was_the_same():
    same = work_notes(frame((1, "mm", 10.0, 1e6), (2, "mm", 10.1, 1.01e6)))
    assert [note.bad for note in same] == [False]
    calls = work_notes(frame((1, "mm", 10.0, None), (2, "mm", 15.0, None)))
    assert "mm: called a different number of times per step (up to 50%)" in calls[0].text
    sizes = work_notes(frame((1, "mm", 10.0, 1e7), (2, "mm", 10.0, 2e7), (2, "mul", 1.0, None)))
    assert [note.bad for note in sizes] == [False, True]
    assert "1.00 and 2.00 million floating-point operations with 1 and 2" in sizes[1].text
    assert work_notes(frame((1, "mm", 1.0, 1.0))) == []
    assert "share no operator" in work_notes(frame((1, "a", 1.0, 1.0), (2, "b", 1.0, 1.0)))[0].text


def test_operators_that_a_table_does_not_show_are_dashes():
    rows = pd.DataFrame(
        [(1, "mm", 1e-3, 2e-3), (2, "mm", 2e-3, 3e-3), (2, "mul", 1e-3, 9e-3)],
        columns=["n", "operator", "total_s_per_call", "self_s_per_step"],
    )
    found = operator_rows(rows, [1, 2])
    assert [name for name, _ in found] == ["mul", "mm"]
    assert [text for _, text, _ in found[0][1]] == [MISSING, "1.00 ms"]
    assert [step for _, _, step in found[0][1]] == ["", "9.00 ms per step"]
    assert [text for _, text, _ in found[1][1]] == ["1.00 ms", "2.00 ms"]


def test_the_file_is_small_and_names_no_address(example):
    text = example.read_text(encoding="utf-8")
    assert len(text) < 300_000
    assert set(re.findall(r"https?://[^\s\"'<)]+", text)) <= {
        "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink",
    }  # fmt: skip
    assert sorted(path.name for path in (example.parent / "figures").iterdir()) == [
        "inflation-2.svg", "inflation.svg",
    ]  # fmt: skip


def text_of(page):
    return page.run("document.body.innerText")


def test_the_example_in_a_browser(page, example):
    page.open(example, **PHONE)
    page.run("document.querySelectorAll('details').forEach(e => e.open = true)")
    assert page.run("document.documentElement.scrollWidth") <= PHONE["width"]
    text = text_of(page)
    for value in ("28.8", "50.4", "104.5", "94.6 µs", "139.9 µs", "259.7 µs"):
        assert value in text, value
    assert f"A step takes 3.63{TIMES} as long with 64 processes as with 4" in text
    assert "72% to 76% of all self time" in text
    assert "there is no flame graph" in text
    assert "64 processes do no more together than 32: 612 against 635 steps/s" in text
    assert "These tables name no cause" in text
    assert "Memory bandwidth, alone." in text
    assert "snakemake --cores all --configfile config/decide.yaml" in text
    config = "document.querySelector('[aria-label=\"Configuration of the experiments\"]')"
    assert page.run(f"{config}.textContent") == DECIDE
    ids = page.run("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    links = page.run("[...document.querySelectorAll('a[href^=\"#\"]')].map(e => e.hash.slice(1))")
    assert set(links) <= set(ids)


def test_the_operators_can_be_sorted(page, example):
    page.open(example)
    page.run("document.querySelectorAll('details').forEach(e => e.open = true)")
    first = "document.querySelector('#operator-times tbody tr').innerText"
    assert page.run(first).startswith("Optimizer.step#AdamW.step")
    page.run("document.querySelectorAll('#operator-times thead button')[1].click()")
    page.run("document.querySelectorAll('#operator-times thead button')[1].click()")
    assert page.run(first).startswith("aten::copy_")


def test_names_from_a_table_are_text(page, tmp_path):
    texts = {n: TEXT.format(n, 100, HOSTILE) for n in (1, 2)}
    page.open(make_study(tmp_path, texts, description=HOSTILE))
    page.run("document.querySelectorAll('details').forEach(e => e.open = true)")
    assert page.run("window.hacked") is None
    assert text_of(page).count(HOSTILE) >= 3


@pytest.mark.parametrize(
    "texts",
    [
        {1: TEXT.format(1, 100, "a")},
        {1: TEXT.format(2, 100, "a"), 2: TEXT.format(1, 50, "b")},
        {1: TEXT.format(1, 100, "a"), 2: TEXT.format(1, 100, "a")},
        {n: TEXT.format(n, 100, "a" * 200) for n in range(1, 10)},
        {1: "Name  Self CPU  # of Calls\nOptimizer.step#X.step  1.0ms  1\n",
         2: "Name  Self CPU  # of Calls\nOptimizer.step#Y.step  1.0ms  1\n"},
    ],
    ids=["one", "faster", "same", "many", "nothing-shared"],
)  # fmt: skip
def test_unusual_studies_are_sound(page, tmp_path, texts):
    page.open(make_study(tmp_path, texts), **PHONE)
    assert page.run("document.documentElement.scrollWidth") <= PHONE["width"]
    assert "nan" not in text_of(page).lower()
    assert "None" not in text_of(page)
