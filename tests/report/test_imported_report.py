"""The report of saved tables, in numbers and as a browser shows it."""

import pytest

import golden
from rendering import make_imported
from scaling_study.common.quantities import TIMES
from scaling_study.records.analysis import SavedTable
from scaling_study.report.imported import verdict

PHONE = {"width": 390, "height": 844}
HOSTILE = '<script>window.hacked=1</script>"><img src=x onerror="window.hacked=2"> & it\'s $x$'
TEXT = (
    "Name  Self CPU  CPU total  CPU time avg  # of Calls  Total FLOPs\n"
    "Optimizer.step#SGD.step  {0}.000ms  {0}0.000ms  {0}.000ms  10  --\n"
    "aten::mm  {0}.000ms  {0}.000ms  {0}00.000us  {1}  1000\n"
    "{2}  1.000ms  1.000ms  1.000ms  1  --\n"
    "Self CPU time total: {0}0.000ms\n"
)


def table(n, step_s):
    return SavedTable(
        n=n, path="x", steps=10, steps_from="x", step_s=step_s, step_from="x", self_s=1.0,
        rows_s=1.0, rows=1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        ({4: 0.02, 8: 0.05}, f"A step takes 2.50{TIMES} as long with 8 processes as with 4"),
        ({1: 0.02, 2: 0.0201}, "A step takes as long with 2 processes as with 1"),
        ({1: 0.02, 2: 0.01}, "A step takes 50% less with 2 processes than with 1"),
        ({1: 0.02}, "A step takes 20.0 ms with 1 process"),
    ],
)
def test_the_verdict(steps, text):
    assert verdict([table(n, step_s) for n, step_s in steps.items()]) == text


def test_the_example_in_a_browser(page, tmp_path):
    page.open(golden.imported(tmp_path), **PHONE)
    page.unfold()
    text = page.run("document.body.innerText")
    for value in ("28.8", "50.4", "105", "94.6 µs", "140 µs", "260 µs"):
        assert value in text, value
    assert "72% to 76% of all self time" in text
    first = "document.querySelector('#operator-times tbody tr').innerText"
    assert page.run(first).startswith("Optimizer.step#AdamW.step")


def test_names_from_a_table_are_text(page, tmp_path):
    texts = {n: TEXT.format(n, 100, HOSTILE) for n in (1, 2)}
    page.open(make_imported(tmp_path, texts, description=HOSTILE))
    page.unfold()
    assert page.run("document.body.innerText").count(HOSTILE) >= 3
    assert page.run("window.hacked") is None
