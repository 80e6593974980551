"""The report of several machines, in Chromium."""

from itertools import pairwise

import pytest

import browser
import synthetic_machines
from test_report import BROKEN_LINKS, DOUBLE_IDS, OUTLINE

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(browser.executable() is None, reason="chromium is not installed"),
]

HOSTILE = '"><script>hacked=1</script>'
COST = {"price": 2.0, "watts": 400.0}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    plan = synthetic_machines.measure(folder, "epyc", 2.0, "node1")
    for name, speed, host in (("xeon", 1.0, HOSTILE), ("arm", 1.5, "node3")):
        synthetic_machines.measure(folder, name, speed, host)
    synthetic_machines.compared(
        folder, plan, currency="<b>€", epyc=COST, xeon=COST, arm=COST, lost={}
    )
    return synthetic_machines.render(folder)


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_is_sound(page, report, width, dark):
    page.open(report, width=width, dark=dark)
    assert page.run("document.documentElement.scrollWidth") <= width
    assert page.run(DOUBLE_IDS) == []
    assert page.run(BROKEN_LINKS) == []
    levels = page.run(OUTLINE)
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert page.run("typeof hacked") == "undefined"


def test_the_comparison_comes_first(page, report):
    page.open(report)
    answer = page.run("document.querySelector('.answer').innerText")
    assert "How many models per hour does each machine give?" in answer
    assert "lost is missing: 0 of 9 cohorts are measured" in answer
    assert page.run("document.querySelector('.verdict').innerText").startswith("epyc: ")
    machines = page.run("[...document.querySelectorAll('.bars.machines a')].map(e => e.innerText)")
    assert machines == ["epyc", "xeon", "arm"]
    titles = page.run("[...document.querySelectorAll('h2.machine')].map(e => e.innerText)")
    assert titles == ["epyc", "xeon", "arm"]


def test_bars_are_as_long_as_what_they_show(page, report):
    page.open(report)
    widths = page.run(
        "[...document.querySelectorAll('.bars.machines .recommended span')]"
        ".map(e => e.getBoundingClientRect().width)"
    )
    assert widths[0] == max(widths)
    assert widths[1] / widths[0] == pytest.approx(0.5, rel=0.1)


def test_the_table_has_each_measure(page, report):
    page.open(report)
    units = page.run("[...document.querySelectorAll('.compared .unit')].map(e => e.innerText)")
    assert units == ["models/hour", "models/<b>€", "models/kWh"]
    rows = page.run(
        "[...document.querySelectorAll('.compared tbody tr')].map(e => e.children.length)"
    )
    assert rows == [10, 10, 10]
