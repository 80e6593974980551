"""The report as a browser shows it: six golden reports, and studies that are odd in some way.

After a change that is meant to be seen: ``python tests/golden.py`` writes the golden texts anew.
"""

import dataclasses
import itertools
import re

import pytest

import golden
import rendering
import synthetic
from synthetic import LAUNCHES, Launch, hard_saturation, usl

HOSTILE = (
    '<script>window.hacked = 1</script>"><img src=x onerror="window.hacked = 2">'
    " </style></title>{{ 7 * 7 }} &amp; $x_1^2$ \u202eשלום\u202c 𝒳🚀 it's"  # noqa: RUF001 (letters of other scripts are the point)
)
DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
MOST_VISIBLE, MOST_WORDS = 1200, 6000

MANY = (
    Launch({}, "default", usl(40.0, 0.6, 0.02)),
    Launch({"intra_op": 1}, "baseline", hard_saturation(50.0, 150.0)),
    Launch({"intra_op": 1}, "repeat", hard_saturation(50.0, 150.0)),
    *(
        Launch(
            {"intra_op": 1 + at, "allocator": "jemalloc", "placement": "compact"},
            "grid",
            hard_saturation(30.0 + at, 500.0 + 9 * at),
        )
        for at in range(20)
    ),
)
FEW = LAUNCHES[:3]
STUDIES = {
    "whole": {},
    "least": {"launches": FEW, "replicates": 1, "ns": (1,)},
    "nothing": {"launches": [dataclasses.replace(each, ending="failed") for each in FEW]},
    "partial": {
        "launches": [
            dataclasses.replace(FEW[0], ending="partial"),
            *FEW[1:],
            Launch({"intra_op": 2}, "grid", never_valid=(3, 8)),
        ],
        "steps_per_model": None,
    },
    "unnamed machines": {
        "launches": FEW,
        "machines": [synthetic.machine(), synthetic.machine(name="b")],
        "ns": (1, 2),
        "replicates": 2,
    },
    "many": {
        "launches": MANY,
        "ns": (1, 2, 4, 16, 17),
        "machines": [synthetic.machine(cpus=16)],
        "windows": 1,
        "steps": 3,
        "replicates": 2,
    },
}


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Reports of studies by name, each rendered when it is first asked for."""
    rendered = {}

    def report(name):
        if name not in rendered:
            folder = tmp_path_factory.mktemp("study")
            if name in STUDIES:
                rendered[name] = rendering.render(rendering.make_study(folder, **STUDIES[name]))
            else:
                rendered[name] = getattr(golden, name)(folder)
        return rendered[name]

    return report


OUTLINE = "[...document.querySelectorAll('h1,h2,h3,h4,h5')].map(e => Number(e.tagName[1]))"
DOUBLE_IDS = """
(() => { const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
         return ids.filter((id, at) => ids.indexOf(id) !== at); })()
"""
BROKEN_LINKS = """
[...document.querySelectorAll('a[href^="#"],[aria-labelledby]')]
  .map(e => e.getAttribute('href')?.slice(1) ?? e.getAttribute('aria-labelledby'))
  .filter(id => !document.getElementById(id))
"""


@pytest.mark.parametrize("name", golden.STUDIES)
def test_the_visible_text_is_as_it_was(page, reports, name):
    expected = (golden.GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    assert golden.visible(page, reports(name)) == expected


@pytest.mark.parametrize("name", [*golden.STUDIES, "recorded"])
def test_the_report_is_short(page, reports, name):
    page.open(reports(name))
    words = "document.body.innerText.split(/\\s+/).length"
    assert page.run(words) <= MOST_VISIBLE
    page.unfold()
    assert page.run(words) <= MOST_WORDS


@pytest.mark.parametrize("screen", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("name", sorted({*golden.STUDIES, "recorded"} - {"machines"}))
def test_answer_bars_command_and_why_are_on_the_first_screen(page, reports, name, screen):
    page.open(reports(name), **screen)
    for part in ("verdict", "detail", "bars", "command", "because", "marks"):
        script = f"document.querySelector('.answer .{part}')?.getBoundingClientRect().bottom ?? 0"
        assert page.run(script) <= screen["height"], part
    assert page.run("document.documentElement.scrollWidth") <= screen["width"]


@pytest.mark.parametrize("name", [*STUDIES, "imported"])
def test_the_page_is_sound(page, reports, name):
    text = reports(name).read_text(encoding="utf-8")
    assert len(text.encode()) < 3e6
    figures = {path.stem for path in (reports(name).parent / "figures").iterdir()}
    promised = {"throughput", "step_time"} if name in STUDIES else {"inflation", "inflation-2"}
    assert promised <= figures
    addresses = set(re.findall(r"\bhttps?://[^\s\"'<]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    page.open(reports(name), **PHONE)
    assert page.run("document.documentElement.scrollWidth") <= PHONE["width"]
    levels = page.run(OUTLINE)
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert page.run(DOUBLE_IDS) == []
    assert page.run(BROKEN_LINKS) == []
    assert page.run("[...document.querySelectorAll('svg')].every(e => e.ariaLabel.length > 20)")


def test_every_planned_launch_and_every_lost_point_appears(page, reports):
    planned = [one.label for one in LAUNCHES if one.role != "repeat"]  # that is the baseline again
    for name, texts in (
        ("whole", (*planned, "pip install the-library", "overlap")),
        ("partial", ("n = 3, 8", "killed by signal 9")),
    ):
        page.open(reports(name))
        page.unfold()
        shown = page.run("document.body.innerText")
        assert [text for text in texts if text not in shown] == []


def test_nothing_hostile_runs_and_all_of_it_is_shown(page, tmp_path):
    @dataclasses.dataclass(frozen=True)
    class Hostile(Launch):
        label = HOSTILE

    launches = (*LAUNCHES[:3], Hostile({"intra_op": 3}, "grid", hard_saturation(90.0, 400.0)))
    where = {**synthetic.machine(), "cpu_model": HOSTILE, "hostname": HOSTILE, "commit": HOSTILE}
    folder = rendering.make_study(
        tmp_path, study=HOSTILE, launches=launches, machines=[where], ns=(1, 2), replicates=2
    )
    with rendering.edited(folder / "plan.json") as plan:
        plan["description"] = plan["workload"]["script"] = HOSTILE
        plan["dropped"] = [{"label": HOSTILE, "axes": {}, "reason": HOSTILE}]
    story = {"launch": launches[3].id, "label": HOSTILE, "replicate": 0, "reason": HOSTILE}
    with rendering.edited(folder / "analysis/failures.json") as failures:
        failures["machines"][0] |= {
            "launches": [{**story, "status": "failed", "remedy": HOSTILE, "log": HOSTILE}],
            "members": [{**story, "slot": 0, "what": HOSTILE, "log": HOSTILE}],
            "points": [{**story, "n": 2}],
        }
    page.open(rendering.render(folder))
    page.unfold()
    assert page.run("window.hacked ?? null") is None
    assert page.run("document.querySelectorAll('img').length") == 0
    assert page.run("document.scripts.length") == 1
    shown = page.run("document.body.textContent")
    assert shown.count(HOSTILE) > 15
    assert "&lt;" not in shown
    titles = page.run("[...document.querySelectorAll('svg text')].map(e => e.textContent).join()")
    assert "<script>window.hacked" in titles
    assert page.run("document.title") == f"{HOSTILE}: scaling study"


def test_the_page_follows_the_system_and_the_reader(page, reports):
    def dark():
        colour = page.run("getComputedStyle(document.body).backgroundColor")
        return sum(map(int, re.findall(r"\d+", colour)[:3])) < 200

    def figure():
        return page.run("getComputedStyle(document.querySelector('svg text')).fill")

    page.open(reports("whole"), dark=True)
    assert dark()
    ink = figure()
    page.run("document.getElementById('theme').click()")
    assert not dark()
    assert figure() != ink
    assert page.run("document.getElementById('theme').innerText") == "Dark theme"
    page.open(reports("whole"), dark=True)
    assert not dark()  # the choice was kept
    page.run("localStorage.clear()")


CONTRASTS = """
(() => {
  const parse = (text) => {
    const parts = text.match(/[\\d.]+/g).map(Number);
    if (text.startsWith('color(')) for (const at of [0, 1, 2]) parts[at] *= 255;
    return [parts[0], parts[1], parts[2], parts[3] ?? 1];
  };
  const over = (top, under) =>
    [0, 1, 2].map(at => top[3] * top[at] + (1 - top[3]) * under[at]).concat(1);
  const background = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement)
      layers.push(parse(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1]);
  };
  const light = (colour) => {
    const [r, g, b] = colour.slice(0, 3).map(v => v / 255)
      .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const low = [];
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || !element.checkVisibility() || element.closest('.skip')) continue;
    const style = getComputedStyle(element);
    const under = background(element);
    const text = over(parse(element.closest('svg') ? style.fill : style.color), under);
    const [a, b] = [light(text), light(under)].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) low.push(element.textContent.trim().slice(0, 40));
  }
  return low;
})()
"""


@pytest.mark.parametrize("dark", [False, True])
def test_all_text_has_contrast(page, reports, dark):
    page.open(reports("whole"), dark=dark)
    page.unfold()
    assert page.run(CONTRASTS) == []


def test_a_column_sorts_by_its_numbers(page, reports):
    page.open(reports("whole"))
    page.unfold()
    column = "document.querySelectorAll('#m1-ranking thead th')[1]"
    read = (
        "[...document.querySelectorAll('#m1-ranking tbody tr')].map(r => +r.children[1].innerText)"
    )
    page.run(f"{column}.querySelector('button').click()")
    first = page.run(read)
    assert first == sorted(first, reverse=True)
    assert page.run(f"{column}.ariaSort") == "descending"
    page.run(f"{column}.querySelector('button').click()")
    assert page.run(read) == sorted(first)
    assert page.run(f"{column}.ariaSort") == "ascending"


def test_the_keyboard_reaches_everything(page, reports):
    page.open(reports("whole"))
    focused = "(e => e.ariaLabel || e.innerText || e.id)(document.activeElement)"
    page.press("Tab", 9)
    assert page.run(focused) == "Skip to the answer"
    page.press("Enter", 13, "\r")
    assert page.run("location.hash") == "#answer"
    seen = []
    for _ in range(40):
        page.press("Tab", 9)
        seen.append(page.run(focused))
    assert any("Copy" in each for each in seen)
    assert any("A/A noise" in each for each in seen)  # what is behind a mark shows on focus
    assert any("All launches" in each for each in seen)  # folded sections open with Enter


def test_the_command_can_be_copied(page, reports):
    page.open(reports("whole"))
    page.run("document.querySelector('[data-copy]').click()")
    page.run("new Promise(done => setTimeout(done, 50))")
    assert page.run("document.querySelector('[data-copy]').innerText") != "Copy"
