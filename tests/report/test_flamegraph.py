"""Trees, files and pages of flamegraphs, and which of them a report has."""

import dataclasses
import json
import re

import pytest

import rendering
import synthetic
import synthetic_profiles
from scaling_study.profiling.profiles import profile_folders, read_manifests
from scaling_study.profiling.stacks import THREADS, TRAINER, Folded
from scaling_study.report import flamegraph
from scaling_study.report.flamegraph import Flames, PointError, view_points
from scaling_study.report.page import render_page

RUNNING = (TRAINER, "running", "phase: forward")
POOL = (THREADS, "thread: pool")
HOSTILE = "</script><script>alert('x')</script><!-- & \" ]]> \x00 \u2028"


def page_of(*flames):
    return render_page("flames.html.j2", graphs=flames)


def profile(times, *, label="one", owner=RUNNING, native=True):
    """A profile from frames, joined by spaces, and milliseconds; a sample is 0.1 ms."""
    found = {(*owner, *frames.split()): ms / 1e3 for frames, ms in sorted(times.items())}
    whole = sum(found.values())
    return Folded(found, 0.9 * whole, whole, round(1e4 * whole), 1e-4, label, native)


def decode(flame):
    """The tree in a page's data as frames' paths with both times in seconds."""
    data = json.loads(flame.data)
    path, found = [], {}
    for name, depth, a, b in zip(data["name"], data["depth"], data["a"], data["b"], strict=True):
        path[depth:] = [data["names"][name]]
        found[tuple(path)] = (a * data["unit"], b * data["unit"])
    return found


ONE = profile({"main f g": 4, "main f": 1, "main h": 5})
OTHER = profile({"main f g": 9, "main h": 5, "main k": 2}, label="other")


def test_a_frame_has_the_times_of_all_below_it_in_both_profiles():
    found = decode(flamegraph.Flame("x", "x", ONE, OTHER))
    assert {path[-1]: path for path in found}["g"] == ("all", *RUNNING, "main", "f", "g")
    assert {path[-1]: times for path, times in found.items()} == {
        **dict.fromkeys(("all", *RUNNING, "main"), pytest.approx((0.010, 0.016))),
        "f": pytest.approx((0.005, 0.009)),
        "g": pytest.approx((0.004, 0.009)),
        "h": pytest.approx((0.005, 0.005)),
        "k": pytest.approx((0.0, 0.002)),
    }


def test_what_cannot_be_seen_is_left_out():
    times = {"main wide": 1000.0} | {f"main narrow{place}": 0.01 for place in range(100)}
    found = decode(flamegraph.Flame("x", "x", profile(times)))
    assert found["all", *RUNNING, "main"][0] == pytest.approx(1.001)
    assert {path[-1] for path in found} == {"all", *RUNNING, "main", "wide"}


def test_the_caption_says_what_is_compared():
    caption = flamegraph.Flame("x", "x", ONE, OTHER).caption
    assert "one: 100 samples, a step 10.0 ms (9.00 ms unsampled)" in caption
    assert "libraries are missing" not in caption
    blind = profile({"main": 1}, native=False)
    assert "libraries are missing" in flamegraph.Flame("x", "x", blind).caption


def test_own_times_exclude_callees_and_other_threads():
    both = dataclasses.replace(ONE, stacks=ONE.stacks | {(*POOL, "work"): 0.05})
    rows = flamegraph.own_times([both])
    assert rows == [("h", 0.005, 0.0), ("g", 0.004, 0.0), ("f", 0.001, 0.0)]


def test_data_holds_nothing_that_could_end_it():
    one = Folded({(*RUNNING, HOSTILE, "f"): 1.0}, 1.0, 1.0, 10, 0.1, HOSTILE, native=True)
    flame = flamegraph.Flame("x", HOSTILE, one, one)
    assert not re.search(r"[<>&\u2028]", flame.data)
    assert HOSTILE in json.loads(flame.data)["names"]
    html = page_of(flame)
    assert "<script>alert" not in html


CHAIN = " ".join(["main", *[f"d{place}" for place in range(220)], "end"])
DEEP = profile(
    {CHAIN: 40, "main step aten::mm": 10, "main step aten::mul": 5, "main load": 1}, label="n = 1"
)
DEEPER = profile(
    {CHAIN: 40, "main step aten::mm": 11, "main step aten::mul": 40, "main <b>&amp;": 2},
    label="n = 64",
)


@pytest.fixture
def opened(page, tmp_path):
    path = tmp_path / "page.html"
    pool = profile({"work": 9}, owner=POOL)
    one = dataclasses.replace(DEEP, stacks=DEEP.stacks | pool.stacks)
    flames = [
        flamegraph.Flame("one", "1 against 64", one, DEEPER),
        flamegraph.Flame("two", "n", DEEP),
    ]
    path.write_text(page_of(*flames), encoding="utf-8")
    page.open(path)
    page.run(SETTLE)
    yield page
    # Chromium's advice on how the test reads pixels is no problem of the page.
    page.problems[:] = [one for one in page.problems if "willReadFrequently" not in one]


SETTLE = "new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"
FIRST = 'document.querySelector("[data-flame]")'


def act(page, script):
    """Do something in the page, and wait until it is drawn."""
    page.run(script)
    page.run(SETTLE)


def enter(page, selector, value, event):
    """Give an input of the first graph a value, as its user does."""
    act(
        page,
        f"{{ const box = {FIRST}.querySelector({json.dumps(selector)});"
        f" box.value = {json.dumps(value)}; box.dispatchEvent(new Event('{event}')); }}",
    )


def status(page):
    page.run(SETTLE)
    return page.run(f'{FIRST}.querySelector(".flame-status").textContent')


def keys(page, *names):
    codes = {"ArrowDown": 40, "ArrowRight": 39, "Enter": 13, "Escape": 27, "Home": 36}
    for name in names:
        page.press(name, codes[name], "\r" if name == "Enter" else "")


def focus(page):
    page.run(f'{FIRST}.querySelector(".flame-view").focus()')


def find_text(page, text):
    enter(page, "input[type=search]", text, "input")
    return page.run(f'{FIRST}.querySelector(".flame-found").textContent')


def pixel(page, x, row):
    """Colour of a pixel in a row of frames, x a share of the canvas's width."""
    return page.run(
        f"(() => {{ const c = {FIRST}.querySelector('canvas'); "
        f"const spot = [Math.floor(c.width * {x}), {row} * 20 + 3, 1, 1]; "
        "return [...c.getContext('2d').getImageData(...spot).data.slice(0, 3)]; })()"
    )


def test_keys_and_presses_zoom_and_come_back(opened):
    focus(opened)
    assert status(opened).startswith("trainer")
    keys(opened, "ArrowDown", "ArrowDown", "ArrowDown")
    assert status(opened).startswith("main")
    keys(opened, "ArrowDown", "ArrowRight")
    said = status(opened)
    assert said.startswith("step ")
    assert "n = 1: 15 ms (26.8%); n = 64: 51 ms (54.8%); +36 ms a step, 3.4\u00d7" in said
    keys(opened, "Enter", "ArrowDown")
    assert status(opened).startswith("aten::mul")
    keys(opened, "Escape")
    assert status(opened).startswith("main")
    keys(opened, "Home")
    assert status(opened).startswith("trainer")
    left, top, width = opened.run(
        f"(b => [b.left, b.top, b.width])({FIRST}.querySelector('canvas').getBoundingClientRect())"
    )
    at = {"x": left + 0.7 * width, "y": top + 4 * 20 + 10, "button": "left", "clickCount": 1}
    for kind in ("mousePressed", "mouseReleased"):
        opened.send("Input.dispatchMouseEvent", type=kind, **at)
    assert status(opened).startswith("step")
    assert pixel(opened, 0.02, 4) == pixel(opened, 0.98, 4)


def test_search_counts_each_time_once_and_says_what_is_not_there(opened):
    for text, found in (
        ("ATEN::", "2 found. n = 1: 15 ms (26.8%); n = 64: 51 ms (54.8%); +36 ms"),
        ("d1", "111 found. n = 1: 40 ms (71.4%)"),
        ("nowhere", "Nothing found"),
        ("<b>&amp;", "1 found. n = 1: 0 µs"),
    ):
        assert find_text(opened, text).startswith(found)


def test_search_unfolds_chains_and_reset_restores_everything(opened):
    before = [pixel(opened, x / 50, 4) for x in range(50)]
    find_text(opened, "d150")
    opened.run(f'{FIRST}.querySelector("input[type=search]").focus()')
    keys(opened, "Enter")
    assert status(opened).startswith("d150")
    assert [pixel(opened, x / 50, 4) for x in range(50)] != before
    act(opened, f'{FIRST}.querySelector("[data-reset]").click()')
    assert [pixel(opened, x / 50, 4) for x in range(50)] == before
    assert status(opened).startswith("Press a frame")


def test_more_is_red_less_is_blue_and_a_theme_or_another_width_redraws(opened):
    # Row 4: the deep chain, which did not change, then "step" with 3.4 times the time.
    red, green, blue = pixel(opened, 0.7, 4)
    assert red > max(blue, green) + 30
    even = pixel(opened, 0.2, 4)
    assert max(even) - min(even) < 25
    act(opened, 'document.documentElement.dataset.theme = "dark"')
    assert sum(pixel(opened, 0.2, 4)) < sum(even)
    act(opened, 'document.documentElement.dataset.theme = "light"')
    # In n = 1 the chain takes 40 of 56 ms, in both together 80 of 149.
    assert pixel(opened, 0.6, 4) != even
    enter(opened, "select", "a", "change")
    assert pixel(opened, 0.6, 4) == even
    tabs = f'{FIRST}.querySelectorAll(".flame-tabs button")'
    texts = opened.run(f"[...{tabs}].map((b) => b.textContent)")
    assert texts == ["trainer 56 ms → 93 ms", "other threads 9 ms → 0 µs"]
    opened.run(f"{tabs}[1].click()")
    assert status(opened).startswith("other threads")
    red, _, blue = pixel(opened, 0.5, 0)
    assert blue > red + 30


def test_a_stack_of_220_frames_folds_to_its_ends_and_unfolds(opened):
    height = f'{FIRST}.querySelector(".flame-view").scrollHeight'
    assert opened.run(height) < 300
    act(opened, f'{FIRST}.querySelector("input[type=checkbox]").click()')
    assert opened.run(height) > 220 * 20
    assert opened.run(f'{FIRST}.querySelector("canvas").height') <= 36 * 20
    focus(opened)
    keys(opened, *["ArrowDown"] * 100)
    assert status(opened).startswith("d96")
    assert opened.run(f'{FIRST}.querySelector(".flame-view").scrollTop') > 1000


DEFAULT, BEST = synthetic.LAUNCHES[0], synthetic.LAUNCHES[4]


def manifests(folder):
    return read_manifests(profile_folders(folder))


@pytest.fixture
def folder(tmp_path):
    machine = synthetic.machine()
    synthetic_profiles.add_stacks(synthetic_profiles.write_target(tmp_path, DEFAULT, machine))
    place = synthetic_profiles.write_target(tmp_path, BEST, machine, target="recommended")
    synthetic_profiles.add_stacks(place)
    return tmp_path


def test_comparisons_are_shown_and_every_point_is_a_file(folder):
    flames = Flames(manifests(folder))
    assert [flame.title for flame in flames.shown] == [
        "default: 1 against 8 processes",
        f"{BEST.label}: 1 against 8 processes",
        f"default against {BEST.label}, with 8 processes",
    ]
    assert len({flame.name for flame in flames.shown}) == 3
    assert len(flames.files) == 2 * 4
    for name, text in flames.files.items():
        if name.endswith(".folded"):
            stacks = dict(line.rsplit(" ", 1) for line in text.splitlines())
            scope = json.loads(flames.files[name.replace(".folded", ".speedscope.json")])
            (profile,) = scope["profiles"]
            names = [frame["name"] for frame in scope["shared"]["frames"]]
            for sample, seconds in zip(profile["samples"], profile["weights"], strict=True):
                path = ";".join(names[at].replace(";", ":") for at in sample)
                assert float(stacks[path]) == pytest.approx(1e6 * seconds, abs=1e-3)
    assert flames.notes == []


@pytest.mark.parametrize("lines", [[], ["no stack"]])
def test_stacks_that_cannot_be_read_are_a_note(tmp_path, lines):
    place = synthetic_profiles.write_target(tmp_path, DEFAULT, synthetic.machine())
    synthetic_profiles.add_stacks(place, lines=lines)
    flames = Flames(manifests(tmp_path))
    assert flames.shown == []
    assert len(flames.notes) == 2
    assert "No flamegraph of default, n = 1" in flames.notes[0]


def test_the_page_has_them(folder, page):
    study = rendering.make_study(folder, ns=(1, 8), replicates=1, windows=1, steps=3)
    page.open(rendering.render(study))
    names = {path.name for path in (study / "figures").glob("stacks-*")}
    assert names == set(Flames(manifests(folder)).files)
    page.unfold()
    page.run("new Promise(done => setTimeout(done, 200))")
    widths = page.run(
        "[...document.querySelectorAll('[data-flame] canvas')].map(e => e.clientWidth)"
    )
    assert len(widths) == 3
    assert min(widths) > 300  # they are drawn when the section is unfolded
    text = page.run("document.getElementById('m1-time').parentNode.innerText")
    assert "default: 150 samples, a step" in text


def test_a_point_that_was_not_profiled_is_an_error_that_names_those_that_were(folder):
    with pytest.raises(PointError, match=f"no stacks of default/8; .*{DEFAULT.id}/8"):
        view_points(manifests(folder), "default/8")
