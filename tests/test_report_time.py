"""The part about where the time goes, as a browser shows it."""

import pytest

import browser
import rendering
import synthetic
import synthetic_profiles
from scaling_study.analysis.inflation import compare_all
from scaling_study.common.storage import read_json, write_json, write_table
from scaling_study.profiling.profiles import profile_folders, read_profiles
from scaling_study.records.columns import OPERATORS
from scaling_study.report.report_time import profile_rows, view_time

pytestmark = pytest.mark.skipif(
    browser.executable() is None, reason="Chromium is not installed: apt install chromium"
)
HOSTILE = "<img src=x onerror='window.hacked = 1'></title>{{ 7 * 7 }}"


def gather(folder):
    manifests, operators = read_profiles(profile_folders(folder))
    write_table(folder / "tables", OPERATORS, operators)
    write_json(folder / "analysis" / "inflation.json", compare_all(manifests, operators))


def compared(folder):
    manifests, operators = read_profiles(profile_folders(folder))
    return compare_all(manifests, operators)["machines"][0]["comparisons"], manifests


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = rendering.make_study(
        tmp_path_factory.mktemp("study"), ns=(1, 2, 8), replicates=2, windows=1, steps=3
    )
    plain = rendering.render(folder).rename(folder / "plain.html")
    synthetic_profiles.write_study(folder)
    gather(folder)
    return plain, rendering.render(folder)


@pytest.fixture(scope="module")
def page():
    with browser.browse() as tab:
        yield tab


SECTION = "document.getElementById('m1-time').parentNode"
TABLE = "document.getElementById('m1-time-1-operators')"


def column(number):
    return f"[...{TABLE}.tBodies[0].rows].map(r => r.children[{number}].dataset.value)"


def test_a_study_without_profiles_says_how_to_get_them(page, study):
    page.open(study[0])
    text = page.run(f"{SECTION}.innerText")
    assert "No profile was taken" in text
    assert "profile:" in text
    assert page.run(f"{SECTION}.querySelectorAll('table, figure').length") == 0
    assert page.problems == []


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_the_part_opens_without_a_problem_and_fits(page, study, width, dark):
    page.open(study[1], width=width, dark=dark)
    assert page.problems == []
    assert [url for url in page.requests if not url.startswith(("file:", "data:"))] == []
    assert page.run("document.documentElement.scrollWidth") <= width


def test_first_comes_the_sentence_then_the_figure_then_the_table(page, study):
    page.open(study[1])
    kinds = page.run(
        f"[...{SECTION}.querySelectorAll('.lead, figure, #m1-time-1-operators')]"
        ".slice(0, 3).map(e => e.tagName)"
    )
    assert kinds == ["P", "FIGURE", "TABLE"]
    lead = page.run(f"{SECTION}.querySelector('.lead').innerText")
    assert lead.startswith("A step of default took")
    assert "aten::mul" in lead
    assert page.run(f"{SECTION}.querySelectorAll('figure').length") == 4


def test_the_table_sorts(page, study):
    page.open(study[1])
    added = [float(value) for value in page.run(column(3))]
    assert added == sorted(added, reverse=True)
    assert page.run(f"{TABLE}.rows[1].innerText").startswith("aten::mul")
    heads = f"{TABLE}.querySelectorAll('thead button')"
    page.run(f"{heads}[1].click()")
    before = [float(value) for value in page.run(column(1))]
    assert before == sorted(before, reverse=True)
    page.run(f"{heads}[0].click()")
    names = page.run(f"[...{TABLE}.tBodies[0].rows].map(r => r.children[0].textContent)")
    assert names == sorted(names, key=str.lower)


def test_what_profiling_cost_stands_beside_it(page, study):
    page.open(study[1])
    rows = page.run(
        "[...document.querySelectorAll('[aria-label=Profiles] tbody tr')].map(r => r.innerText)"
    )
    assert len(rows) == 12
    assert "+22%" in rows[0]
    assert "shifts the step" in rows[0]
    assert "skipped" in rows[1]
    assert "sudo sysctl kernel.yama.ptrace_scope=0" in rows[1]
    assert "shifts the step" not in rows[2]


def test_the_columns_of_the_table_are_explained_where_it_exists(study):
    assert "self_s_per_call" not in study[0].read_text()
    assert "self_s_per_call" in study[1].read_text()


def test_the_figures_are_files_too(study):
    names = {path.name for path in (study[1].parent / "figures").glob("inflation*")}
    assert names == {f"inflation{at}.svg" for at in ("", "-2", "-3", "-4")}


def test_nothing_of_a_profile_gets_out_of_its_place(page, tmp_path):
    folder = rendering.make_study(tmp_path, ns=(1, 8), replicates=1, windows=1, steps=3)
    place = synthetic_profiles.write_target(
        folder, synthetic.LAUNCHES[1], synthetic.machine(), label=HOSTILE
    )
    for n in (1, 8):
        content = synthetic_profiles.operators(n > 1)
        content["rows"][0] |= {"operator": HOSTILE, "phase": HOSTILE}
        write_json(place / str(n) / "operators.json", content)
    synthetic_profiles.write_manifest(
        folder / "profile" / "other", machine=synthetic.machine()["hash"], launch="x",
        label=HOSTILE, arm="grid", target="x", status="failed", reason=HOSTILE, remedy=HOSTILE,
    )  # fmt: skip
    gather(folder)
    page.open(rendering.render(folder))
    assert page.run("window.hacked") is None
    assert page.problems == []
    assert page.run(f"{SECTION}.innerText").count(HOSTILE) > 5


def test_each_machine_has_its_own_profiles(page, tmp_path):
    machines = [synthetic.machine(), synthetic.machine(name="b")]
    folder = rendering.make_study(
        tmp_path, machines=machines, launches=synthetic.LAUNCHES[:3], ns=(1, 8), replicates=1,
        windows=1, steps=3,
    )  # fmt: skip
    synthetic_profiles.write_target(folder, synthetic.LAUNCHES[0], machines[1])
    gather(folder)
    page.open(rendering.render(folder))
    assert "No profile was taken" in page.run(f"{SECTION}.innerText")
    other = page.run("document.getElementById('m2-time').parentNode.innerText")
    assert "aten::mul" in other
    assert (folder / f"figures/inflation-{machines[1]['hash']}.svg").exists()


def test_profiles_that_the_plan_no_longer_asks_for_are_left_out(page, tmp_path):
    folder = rendering.make_study(tmp_path, ns=(1, 8), replicates=1, windows=1, steps=3)
    synthetic_profiles.write_study(folder)
    plan = read_json(folder / "plan.json") | {"profiled": {"recommended": "recommended"}}
    write_json(folder / "plan.json", plan)
    page.open(rendering.render(folder))
    rows = "[...document.querySelectorAll('[aria-label=Profiles] tbody tr')].map(r => r.innerText)"
    labels = {row.split("\t")[0] for row in page.run(rows)}
    assert labels == {synthetic.LAUNCHES[4].label}


def test_one_point_alone_cannot_be_compared_and_the_page_says_so(page, tmp_path):
    folder = rendering.make_study(tmp_path, ns=(1, 8), replicates=1, windows=1, steps=3)
    synthetic_profiles.write_target(folder, synthetic.LAUNCHES[1], synthetic.machine(), counts=(8,))
    gather(folder)
    page.open(rendering.render(folder))
    text = page.run(f"{SECTION}.innerText")
    assert "Nothing can be compared" in text
    assert "+4.0%" in text


def test_a_launch_that_got_faster_shows_its_largest_saving_first(tmp_path):
    synthetic_profiles.write_study(tmp_path)
    comparisons, manifests = compared(tmp_path)
    view = view_time(comparisons, manifests)
    last = view.comparisons[-1]
    assert last.heads == ("default", "recommended")
    added = [float(row["difference"].value) for row in last.rows]
    assert added == sorted(added)
    assert added[0] < 0


def test_a_long_table_keeps_what_changed_most_in_either_direction():
    def row(name, difference_s):
        numbers = dict.fromkeys(
            ("self_a_s", "self_b_s", "share", "calls_a", "calls_b", "per_call_ratio"), 1.0
        )
        group = "matrix multiply"
        return {
            "operator": name,
            "phase": "",
            "group": group,
            "difference_s": difference_s,
            **numbers,
        }

    rows = [row(f"op{at}", 0.001 * at) for at in range(100)]
    comparison = {
        "kind": "counts", "title": "t", "text": "t", "groups": [],
        "a": {"n": 1, "step_s": 1.0}, "b": {"n": 4, "step_s": 2.0},
        "rows": [row("saved", -5.0), *rows],
    }  # fmt: skip
    (view,) = view_time([comparison]).comparisons
    assert view.rows[0]["operator"] == "op99"
    assert view.rows[-1]["operator"] == "saved"
    assert view.rows_left_out == 21


def test_without_profiles_there_is_no_view():
    assert view_time([]) is None


def test_a_profile_with_the_least_that_it_can_have_is_a_row():
    point = {"n": 1, "unprofiled_step_s": 0.01, "kinds": [{"kind": "calls", "status": "failed"}]}
    (row,) = profile_rows({"label": "L", "points": [point]})
    assert (row["marked"], row["tax"].text, row["how"]) == (False, "–", "")  # noqa: RUF001 (a dash)


def test_a_profile_says_how_it_was_taken():
    stacks = {
        "kind": "stacks", "status": "ok", "steps": 3, "rate_hz": 20, "native": False,
        "samples": 310, "members": 2,
        "native_failed": "py-spy: no unwinding", "tax": 1.2, "step_s": 0.012,
    }  # fmt: skip
    point = {"n": 1, "unprofiled_step_s": 0.01, "kinds": [stacks]}
    (row,) = profile_rows({"label": "L", "points": [point]})
    assert row["how"] == (
        "3 steps, 310 samples of 2 members in turn, 20.0 a second, Python frames only, "
        "py-spy: no unwinding"
    )
    assert (row["marked"], row["tax"].text) == (True, "+20%")
    assert (row["step"].text, row["step"].interval) == ("12.0 ms", "unprofiled 10.0 ms")


@pytest.mark.parametrize(
    ("tax", "marked"), [(0.12, True), (0.89, True), (0.91, False), (1.09, False), (1.11, True)]
)
def test_a_profile_that_shifts_the_step_either_way_is_marked(tax, marked):
    kind = {"kind": "operators", "status": "ok", "reason": None, "remedy": None, "steps": 5,
            "tax": tax, "step_s": 0.012}  # fmt: skip
    point = {"n": 2, "unprofiled_step_s": 0.01, "kinds": [kind]}
    (row,) = profile_rows({"label": "L", "points": [point]})
    assert row["marked"] is marked
