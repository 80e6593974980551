"""The part about causes, as a browser shows it."""

import itertools
import json

import pytest

import browser
import rendering
import synthetic
import synthetic_causes as made
from scaling_study.common.storage import write_json
from scaling_study.report.report_causes import view_causes
from scaling_study.report.study import conclusion

pytestmark = pytest.mark.skipif(
    browser.executable() is None, reason="Chromium is not installed: apt install chromium"
)
HOSTILE = "<img src=x onerror='window.hacked = 1'></title>{{ 7 * 7 }}"
MACHINE = synthetic.machine()["hash"]
STUDIES = {
    "off": None,
    "main": [made.target(), made.level_only()],
    "same": [made.target(), made.same()],
    "large": [made.large()],
    "unknown": [made.unknown()],
    "nothing": [made.nothing(), made.ended()],
}
SECTION = "document.getElementById('m1-why').parentNode"


def put(folder, *targets):
    write_json(folder / "analysis/causes.json", made.causes(MACHINE, *targets))
    write_json(folder / "fingerprint.json", made.fingerprint(MACHINE))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return rendering.make_study(
        tmp_path_factory.mktemp("study"), ns=(1, 2, 8), replicates=2, windows=1, steps=3
    )


@pytest.fixture(scope="module")
def reports(folder):
    found = {}
    for name, targets in STUDIES.items():
        if targets is not None:
            put(folder, *targets)
        found[name] = rendering.render(folder).rename(folder / f"{name}.html")
    return found


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", STUDIES)
def test_the_page_fits_and_is_sound(page, reports, name, width, dark):
    page.open(reports[name], width=width, dark=dark)
    page.run("document.querySelectorAll('details').forEach(e => e.open = true)")
    assert page.run("document.documentElement.scrollWidth") <= width
    levels = page.run(
        "[...document.querySelectorAll('h1,h2,h3,h4,h5')].map(e => Number(e.tagName[1]))"
    )
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    ids = page.run("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    targets = page.run(
        "[...document.querySelectorAll('a[href^=\"#\"]')].map(e => e.getAttribute('href').slice(1))"
    )
    assert set(targets) <= set(ids)


@pytest.mark.parametrize("dark", [False, True])
def test_all_text_has_contrast(page, reports, dark):
    from test_report import CONTRASTS

    page.open(reports["main"], dark=dark)
    page.run("document.querySelectorAll('details').forEach(e => e.open = true)")
    assert page.run(CONTRASTS) == []


def test_without_experiments_the_page_says_how_to_get_them(page, reports):
    page.open(reports["off"])
    text = page.run(f"{SECTION}.innerText")
    assert "No experiments on causes were made" in text
    assert "why: quick" in text
    assert page.run(f"{SECTION}.querySelectorAll('figure').length") == 0
    assert page.run("document.querySelector('.because') === null")


def test_the_answer_on_top_names_each_launch_and_leads_to_the_part(page, reports):
    page.open(reports["main"])
    because = page.run("document.querySelector('.answer .because').innerText")
    assert "94% of the added time: OpenMP threads that spin while they wait" in because
    assert "34% of a step, with one process already: a slow BLAS kernel" in because
    assert page.run("document.querySelector('.because a').hash") == "#m1-why"


def test_the_part_leads_with_the_answer_then_shares_then_the_case(page, reports):
    page.open(reports["main"])
    text = page.run(f"{SECTION}.innerText")
    places = [
        text.index(part)
        for part in (
            "With 2 processes a step takes 19.9",
            "94% of the added time: OpenMP",
            "each step takes about twenty times as long",
            "Unexplained",
            "With passive waiting 94%",
            "What helps. Let waiting threads sleep",
            "wait_policy: [passive]",
            "OMP_WAIT_POLICY=PASSIVE python",
            "1 tested without a result",
        )
    ]
    assert places == sorted(places)
    assert page.run("document.querySelectorAll('.answer.why').length") == 2
    sides = page.run("[...document.querySelector('.case').querySelectorAll('.side')]"
                     ".map(e => e.innerText)")  # fmt: skip
    assert sides == ["for", "for", "for", "against"]


def test_a_bar_is_as_long_as_its_share(page, reports):
    page.open(reports["main"])
    widths = page.run(
        "[...document.querySelector('.shares').querySelectorAll('.track')].map(e =>"
        " e.querySelector('.fill').getBoundingClientRect().width / e.getBoundingClientRect().width)"
    )
    assert widths == pytest.approx([0.94, 0.06], abs=0.005)


def test_the_remedy_can_be_copied_as_config_and_as_command(page, reports):
    page.open(reports["main"])
    buttons = f"{SECTION}.querySelectorAll('.remedy button')"
    assert page.run(f"[...{buttons}].map(e => e.ariaLabel)") == [
        "Copy the config", "Copy the command", "Copy the code",
    ]  # fmt: skip
    code = page.run(f"{SECTION}.querySelector('#m1-why-2-level-1-code').innerText")
    assert code == "torch.backends.mkldnn.enabled = False"
    page.run(f"{buttons}[1].click()")
    page.run("new Promise(done => setTimeout(done, 50))")
    assert page.run(f"{buttons}[1].innerText") != "Copy"


def test_what_was_ruled_out_is_a_table_and_what_could_not_be_tested_is_told(page, reports):
    page.open(reports["main"])
    page.run("document.querySelectorAll('details').forEach(e => e.open = true)")
    rows = page.run(
        f"[...{SECTION}.querySelectorAll('[aria-label^=\"Causes that were ruled out\"]')[0]"
        ".querySelectorAll('tbody tr')].map(r => r.innerText)"
    )
    assert [row.split("\t")[0] for row in rows] == [
        "Memory bandwidth", "CPU quota of the cgroup", "Page faults by the allocator's settings",
    ]  # fmt: skip
    assert "1.02 times as long" in rows[0]
    text = page.run(f"{SECTION}.innerText")
    assert "this machine has one memory node" in text
    assert "failed: sgemm_ is still that of libtorch_cpu.so" in text


def test_the_measurements_are_there_for_each_launch_and_the_ladder_once(page, reports):
    page.open(reports["main"])
    alts = page.run(f"[...{SECTION}.querySelectorAll('svg')].map(e => e.ariaLabel)")
    assert len(alts) == 7
    assert sum("How many times slower each kernel" in alt for alt in alts) == 1
    assert "Waits" not in page.run(f"{SECTION}.innerHTML")
    page.open(reports["large"])
    assert "/data/cache.lock" in page.run(f"{SECTION}.innerText")


def test_the_figures_are_files_too(reports):
    names = {path.name for path in (reports["main"].parent / "figures").glob("causes*")}
    parts = {f"causes-{part}" for part in ("accounts", "reliefs", "doses")}
    assert names == {f"{part}{end}.svg" for part in parts for end in ("", "-2")}
    assert (reports["main"].parent / "figures/fingerprint.svg").exists()


def test_a_launch_that_two_targets_mean_is_shown_once(page, reports):
    page.open(reports["same"])
    assert page.run("document.querySelectorAll('.answer.why').length") == 1
    assert "default (recommended) is the same launch as default" in page.run(f"{SECTION}.innerText")


def test_the_columns_of_the_table_are_explained_where_it_exists(reports):
    assert "rate_share" not in reports["off"].read_text()
    assert "rate_share" in reports["main"].read_text()


def test_not_knowing_is_an_answer(page, reports):
    page.open(reports["unknown"])
    assert page.run("document.querySelector('.why .verdict').innerText") == "We do not know why"
    assert page.run("document.querySelectorAll('.shares li').length") == 1
    assert "Unexplained" in page.run("document.querySelector('.shares').innerText")


def test_experiments_that_failed_are_told(page, reports):
    page.open(reports["nothing"])
    text = page.run(f"{SECTION}.innerText")
    assert "Nothing to explain: it scales" in text
    assert "The experiments failed: a member was killed by signal 9." in text


def hostile(content):
    """Replace every text in decoded JSON but those that the program itself reads."""
    kept = {"target", "launch", "status", "units", "effort", "arm", "same_as", "confidence"}
    if isinstance(content, dict):
        return {key: each if key in kept else hostile(each) for key, each in content.items()}
    if isinstance(content, list):
        return [hostile(each) for each in content]
    return HOSTILE if isinstance(content, str) else content


def test_nothing_of_an_experiment_gets_out_of_its_place(page, folder):
    put(folder, hostile(made.target()), hostile(made.large()) | {"target": "other"})
    page.open(rendering.render(folder))
    assert page.run("window.hacked ?? null") is None
    assert page.run("document.querySelectorAll('img').length") == 0
    page.run("document.querySelectorAll('details').forEach(e => e.open = true)")
    assert page.run(f"{SECTION}.textContent").count(HOSTILE) > 40


def test_the_ladder_of_another_machine_is_not_shown(page, folder):
    put(folder, made.target())
    write_json(folder / "fingerprint.json", made.fingerprint("another"))
    page.open(rendering.render(folder))
    alts = page.run(f"[...{SECTION}.querySelectorAll('svg')].map(e => e.ariaLabel)")
    assert len(alts) == 3


def test_the_terminal_says_why_too(folder):
    put(folder, made.target(), made.same())
    text = conclusion(folder, folder / "plan.json", folder / "r.html")
    assert "why, default: 94% of the added time: OpenMP threads" in text
    assert "(6% unexplained)" in text
    assert "What helps: Let waiting threads sleep" in text
    put(folder, made.unknown())
    assert "why, default: We do not know why\n" in conclusion(
        folder, folder / "plan.json", folder / "r.html"
    )
    (folder / "analysis/causes.json").unlink()
    assert "why," not in conclusion(folder, folder / "plan.json", folder / "r.html")


def test_a_file_without_targets_is_as_no_file():
    assert view_causes([]) is None


def test_every_target_can_come_from_a_file():
    for targets in filter(None, STUDIES.values()):
        again = json.loads(json.dumps(made.causes(MACHINE, *targets)))
        assert view_causes(again["machines"][0]["targets"]) is not None
