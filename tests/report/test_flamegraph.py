"""Trees, the page and the files of flamegraphs; the page in a real browser."""

import itertools
import json
import random
import re
from collections import Counter

import pytest

import browser
import jobs
from scaling_study.profiling import stacks
from scaling_study.profiling.stacks import THREADS, TRAINER, Folded, Stack
from scaling_study.report import flame_tree, flamegraph
from scaling_study.report.page import TEMPLATES, render_page

needs_browser = pytest.mark.skipif(
    browser.executable() is None, reason="Chromium is not installed: apt install chromium"
)
HOSTILE = "</script><script>alert('x')</script><!-- & \" ]]> \x00 \u2028"


def page_of(*flames):
    return render_page("flames.html.j2", flames=True, graphs=flames)


def heat(a, b, pale):
    """As flame.js has it: how much a frame differs, from -1 (only in the first) to 1."""
    return (b - a) / (a + b + pale) if a + b else 0.0


def profile(times, *, label="one", root=TRAINER, sample_s=1e-4, native=True):
    """A profile from frames, joined by spaces, and milliseconds."""
    found = tuple(
        Stack(
            root, "" if root == TRAINER else "pool", "", "forward", tuple(frames.split()), ms / 1e3
        )
        for frames, ms in sorted(times.items())
    )
    whole = sum(stack.seconds for stack in found)
    samples = round(whole / sample_s)
    return Folded(found, 0.9 * whole, whole, samples, sample_s, label, native)


def find(root, name):
    return next((node for node in flame_tree.walk(root) if node.name == name), None)


def holds(root, wanted):
    return any(node is wanted for node in flame_tree.walk(root))


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


def test_two_profiles_are_one_tree_with_both_times():
    root, hidden = flame_tree.merge(ONE, OTHER)
    assert hidden == 0
    times = {node.name: (node.a, node.b) for node in flame_tree.walk(root)}
    expected = {
        "all": (10, 16), "trainer": (10, 16), "running": (10, 16), "phase: forward": (10, 16),
        "main": (10, 16), "f": (5, 9), "g": (4, 9), "h": (5, 5), "k": (0, 2),
    }  # fmt: skip
    assert times == {
        name: (pytest.approx(a / 1e3), pytest.approx(b / 1e3)) for name, (a, b) in expected.items()
    }


def test_the_tree_agrees_with_a_plain_sum_over_prefixes():
    chance = random.Random(3)  # noqa: S311 (made-up data)
    paths = {
        " ".join(chance.choices("abcd", k=chance.randint(1, 7))): chance.randint(1, 99)
        for _ in range(300)
    }
    sums = Counter()
    for path, ms in paths.items():
        frames = path.split()
        for depth in range(1, len(frames) + 1):
            sums[tuple(frames[:depth])] += ms / 1e3
    top = ("all", "trainer", "running", "phase: forward")
    found = decode(flamegraph.view("x", "x", profile(paths)))
    assert {path[4:]: a for path, (a, _) in found.items() if len(path) > 4} == {
        path: pytest.approx(seconds, rel=2e-3) for path, seconds in sums.items()
    }
    assert found[top][0] == pytest.approx(sum(paths.values()) / 1e3)


def test_what_cannot_be_seen_is_left_out_and_said():
    times = {"main wide": 1000.0} | {f"main narrow{place}": 0.01 for place in range(100)}
    root, hidden = flame_tree.merge(profile(times))
    assert find(root, "wide")
    assert not find(root, "narrow7")
    assert hidden == pytest.approx(1 / 1001, rel=1e-6)
    assert find(root, "main").a == pytest.approx(1.001)
    caption = flamegraph.view("x", "x", profile(times)).caption
    assert "0.1% of the time" in caption
    assert "left out" not in flamegraph.view("x", "x", ONE).caption


def test_the_widest_frames_are_kept_where_there_are_too_many(monkeypatch):
    monkeypatch.setattr(flame_tree, "MOST_NODES", 50)
    times = {f"main f{place:03}": 1 + place for place in range(200)}
    root, hidden = flame_tree.merge(profile(times))
    names = [node.name for node in flame_tree.walk(root)]
    assert len(names) <= 51
    assert "f199" in names
    assert "f100" not in names
    assert 0 < hidden < 1


def test_a_frame_that_only_one_profile_has_is_never_lost():
    root, _ = flame_tree.merge(profile({"main gone": 3}), profile({"main new": 5}, label="b"))
    assert (find(root, "gone").a, find(root, "gone").b) == (pytest.approx(0.003), 0)
    assert (find(root, "new").a, find(root, "new").b) == (0, pytest.approx(0.005))


def test_threads_stand_beside_the_trainer():
    both = profile({"main": 5})
    pool = profile({"work": 50}, root=THREADS)
    root, _ = flame_tree.merge(Folded(both.stacks + pool.stacks, 1, 1, 50, 1e-4, "x", native=True))
    assert [group.name for group in root.children] == ["trainer", "other threads"]
    assert root.children[0].a == pytest.approx(0.005)


def test_a_injected_slowdown_is_the_reddest_frame():
    common = {f"main forward op{place}": 2.0 for place in range(20)}
    before = profile(common | {"main forward injected sleep": 0.5}, label="n = 1")
    after = profile(
        {path: 1.1 * ms for path, ms in common.items()} | {"main forward injected sleep": 12},
        label="n = 2",
    )
    root, _ = flame_tree.merge(before, after)
    pale = flame_tree.pale_seconds(before, after)
    reddest = max(flame_tree.walk(root), key=lambda node: heat(node.a, node.b, pale))
    assert reddest.name in {"injected", "sleep"}
    rows = flamegraph.view("x", "x", before, after).rows
    assert rows[0].frame == "sleep"
    assert rows[0].difference == "+11.5 ms"
    assert rows[0].difference_s == pytest.approx(0.0115)


def test_chance_is_pale_and_a_real_difference_is_not():
    pale = flame_tree.pale_seconds(ONE, OTHER)
    assert abs(heat(0, ONE.sample_s, pale)) < 0.15
    assert heat(0, 500 * ONE.sample_s, pale) > 0.95
    assert heat(500 * ONE.sample_s, 0, pale) < -0.95
    assert heat(0, 0, pale) == 0
    assert heat(1, 1, pale) == 0


def test_the_caption_says_what_is_compared():
    caption = flamegraph.view("x", "x", ONE, OTHER).caption
    assert "one: 100 samples, a step 10.0 ms (9.00 ms unsampled)" in caption
    assert "libraries are missing" not in caption
    blind = profile({"main": 1}, native=False)
    assert "libraries are missing" in flamegraph.view("x", "x", blind).caption


def test_own_times_exclude_callees_and_other_threads():
    rows = flamegraph.own_times(ONE, None)
    assert [(row.frame, row.a) for row in rows] == [
        ("h", "5.00 ms"), ("g", "4.00 ms"), ("f", "1.00 ms")
    ]  # fmt: skip
    assert not flamegraph.own_times(profile({"work": 50}, root=THREADS), None)


def test_data_holds_nothing_that_could_end_it():
    hostile = Stack(TRAINER, "", "", "forward", (HOSTILE, "f"), 1.0)
    one = Folded((hostile,), 1.0, 1.0, 10, 0.1, HOSTILE, native=True)
    flame = flamegraph.view("x", HOSTILE, one, one)
    assert not re.search(r"[<>&\u2028]", flame.data)
    assert HOSTILE in json.loads(flame.data)["names"]
    html = page_of(flame)
    assert "<script>alert" not in html


def test_the_same_profiles_give_the_same_text():
    one, other = (flamegraph.view("x", "x", ONE, OTHER) for _ in range(2))
    assert one == other


@pytest.mark.parametrize("scheme", [0, 1])
def test_red_and_blue_differ_for_those_who_see_no_red(scheme):
    # Machado et al. 2009, severity 1, on linear light: protanopia and deuteranopia.
    views = (
        ((0.152, 1.053, -0.205), (0.115, 0.786, 0.099), (-0.004, -0.048, 1.052)),
        ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969)),
    )

    def seen(colour, view):
        rgb = [(int(colour[at : at + 2], 16) / 255) ** 2.2 for at in (1, 3, 5)]
        return [sum(k * c for k, c in zip(row, rgb, strict=True)) for row in view]

    css = (TEMPLATES / "style.css").read_text()
    names = ("more", "less", "even")
    colours = [re.findall(rf"--flame-{name}: (#\w+)", css)[scheme] for name in names]
    for view in views:
        for one, other in itertools.combinations(colours, 2):
            apart = sum(
                (x - y) ** 2 for x, y in zip(seen(one, view), seen(other, view), strict=True)
            )
            assert apart**0.5 > 0.15


CHAIN = " ".join(["main", *[f"d{place}" for place in range(220)], "end"])
DEEP = profile(
    {CHAIN: 40, "main step aten::mm": 10, "main step aten::mul": 5, "main load": 1}, label="n = 1"
)
DEEPER = profile(
    {CHAIN: 40, "main step aten::mm": 11, "main step aten::mul": 40, "main <b>&amp;": 2},
    label="n = 64",
)


@pytest.fixture(scope="module")
def tab():
    with browser.browse() as page:
        yield page


@pytest.fixture
def page(tab, tmp_path):
    path = tmp_path / "page.html"
    pool = profile({"work": 9}, root=THREADS)
    one = Folded(DEEP.stacks + pool.stacks, 1, 1, 460, 1e-4, "n = 1", native=True)
    flames = [
        flamegraph.view("one", "1 against 64", one, DEEPER),
        flamegraph.view("two", "n", DEEP),
    ]
    path.write_text(page_of(*flames), encoding="utf-8")
    tab.problems.clear()
    tab.open(path)
    tab.run(SETTLE)
    yield tab
    # Chromium's advice on how the test reads pixels is no problem of the page.
    assert [one for one in tab.problems if "willReadFrequently" not in one] == []


SETTLE = "new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"
FIRST = 'document.querySelector("[data-flame]")'


def status(page):
    page.run(SETTLE)
    return page.run(f'{FIRST}.querySelector(".flame-status").textContent')


def keys(page, *names):
    codes = {"ArrowDown": 40, "ArrowUp": 38, "ArrowLeft": 37, "ArrowRight": 39, "Enter": 13,
             "Escape": 27, "Home": 36, "Tab": 9}  # fmt: skip
    for name in names:
        page.press(name, codes[name], "\r" if name == "Enter" else "")


def focus(page):
    page.run(f'{FIRST}.querySelector(".flame-view").focus()')


def find_text(page, text):
    page.run(
        f'{{ const box = {FIRST}.querySelector("input[type=search]");'
        f' box.value = {json.dumps(text)}; box.dispatchEvent(new Event("input")); }}'
    )
    return page.run(f'{FIRST}.querySelector(".flame-found").textContent')


def pixel(page, x, row):
    """Colour of a pixel in a row of frames, x a share of the canvas's width."""
    return page.run(
        f"(() => {{ const c = {FIRST}.querySelector('canvas'); "
        f"const spot = [Math.floor(c.width * {x}), {row} * 20 + 3, 1, 1]; "
        "return [...c.getContext('2d').getImageData(...spot).data.slice(0, 3)]; })()"
    )


@needs_browser
def test_keys_move_zoom_and_come_back(page):
    focus(page)
    assert status(page).startswith("trainer")
    keys(page, "ArrowDown", "ArrowDown", "ArrowDown")
    assert status(page).startswith("main")
    keys(page, "ArrowDown", "ArrowRight")
    said = status(page)
    assert said.startswith("step ")
    assert "n = 1: 15 ms (26.8%); n = 64: 51 ms (54.8%); +36 ms a step, 3.4\u00d7" in said
    keys(page, "Enter", "ArrowDown")
    assert status(page).startswith("aten::mul")
    keys(page, "Escape")
    assert status(page).startswith("main")
    keys(page, "Home")
    assert status(page).startswith("trainer")


@needs_browser
def test_a_press_zooms_to_the_frame_and_its_callers_stay(page):
    before = pixel(page, 0.9, 3)
    box = page.run(
        f"(() => {{ const b = {FIRST}.querySelector('canvas').getBoundingClientRect(); "
        "return [b.left, b.top, b.width]; })()"
    )
    x, y = box[0] + 0.7 * box[2], box[1] + 4 * 20 + 10
    for kind in ("mousePressed", "mouseReleased"):
        page.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
    said = status(page)
    assert said.startswith("step")
    assert pixel(page, 0.02, 4) == pixel(page, 0.98, 4)
    assert pixel(page, 0.9, 3) == pytest.approx(before, abs=110)


@needs_browser
def test_search_counts_each_time_once_and_says_what_is_not_there(page):
    assert find_text(page, "ATEN::").startswith(
        "2 found. n = 1: 15 ms (26.8%); n = 64: 51 ms (54.8%); +36 ms"
    )
    assert find_text(page, "d1").startswith("111 found. n = 1: 40 ms (71.4%)")
    assert find_text(page, "nowhere") == "Nothing found"
    assert find_text(page, "<b>&amp;").startswith("1 found. n = 1: 0 µs")
    assert find_text(page, "") == ""


@needs_browser
def test_search_goes_to_the_next_frame_and_unfolds_chains(page):
    find_text(page, "d150")
    page.run(f'{FIRST}.querySelector("input[type=search]").focus()')
    keys(page, "Enter")
    assert status(page).startswith("d150")


@needs_browser
def test_reset_restores_everything(page):
    before = [pixel(page, x / 50, 4) for x in range(50)]
    focus(page)
    keys(page, "ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown", "Enter")
    find_text(page, "mm")
    assert [pixel(page, x / 50, 4) for x in range(50)] != before
    page.run(f'{FIRST}.querySelector("[data-reset]").click()')
    page.run(SETTLE)
    assert [pixel(page, x / 50, 4) for x in range(50)] == before
    assert status(page).startswith("Press a frame")
    assert find_text(page, "") == ""


@needs_browser
def test_more_is_red_and_less_is_blue(page):
    focus(page)
    # Row 4: the deep chain, which did not change, then "step" with 3.4 times the time.
    red, green, blue = pixel(page, 0.7, 4)
    assert red > blue + 30
    assert red > green + 30
    even = pixel(page, 0.2, 4)
    assert max(even) - min(even) < 25
    red, green, blue = pixel(page, 0.997, 4)
    assert red > blue or blue > red  # load or <b>, at the edge


@needs_browser
def test_a_stack_of_220_frames_folds_to_its_ends_and_unfolds(page):
    def height():
        return page.run(f'{FIRST}.querySelector(".flame-view").scrollHeight')

    folded = height()
    assert folded < 300
    page.run(f'{FIRST}.querySelector("input[type=checkbox]").click()')
    page.run(SETTLE)
    assert height() > 220 * 20
    assert page.run(f'{FIRST}.querySelector("canvas").height') <= 36 * 20
    focus(page)
    keys(page, *["ArrowDown"] * 100)
    assert status(page).startswith("d96")
    assert page.run(f'{FIRST}.querySelector(".flame-view").scrollTop') > 1000


@needs_browser
def test_other_threads_are_one_button_away(page):
    texts = page.run(
        f'[...{FIRST}.querySelectorAll(".flame-tabs button")].map((b) => b.textContent)'
    )
    assert texts == ["trainer 56 ms → 93 ms", "other threads 9 ms → 0 µs"]
    page.run(f'{FIRST}.querySelectorAll(".flame-tabs button")[1].click()')
    assert status(page).startswith("other threads")
    red, _, blue = pixel(page, 0.5, 0)
    assert blue > red + 30


@needs_browser
def test_the_theme_redraws_and_the_width_can_be_either(page):
    light = pixel(page, 0.2, 4)
    page.run('document.documentElement.dataset.theme = "dark"')
    page.run(SETTLE)
    assert sum(pixel(page, 0.2, 4)) < sum(light)
    page.run('document.documentElement.dataset.theme = "light"')
    page.run(SETTLE)
    # In n = 1 the chain takes 40 of 56 ms, in both together 80 of 149.
    assert pixel(page, 0.6, 4) != light
    page.run(
        f'{{ const box = {FIRST}.querySelector("select"); box.value = "a";'
        ' box.dispatchEvent(new Event("change")); }'
    )
    page.run(SETTLE)
    assert pixel(page, 0.6, 4) == light


@needs_browser
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_screen(page, tmp_path, width):
    page.open(tmp_path / "page.html", width=width)
    page.run(SETTLE)
    assert page.run("document.documentElement.scrollWidth") <= width
    assert page.run(f'{FIRST}.querySelector("canvas").width') > 0.7 * width


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sleep", "spin", "mul"])
def test_a_slowdown_injected_in_a_real_script_is_the_reddest_frame(tmp_path, kind):
    args = ["--kind", kind, "--folder", str(tmp_path / "members"), "--member", "{member}"]
    mapping = jobs.config(jobs.WORKLOADS / "injected.py", args=args)
    mapping["profile"] = {"samples": 120, "unprofiled_s": 0.5, "rate_hz": 20, "operators": False}
    points = jobs.profile(mapping, tmp_path).points
    few, many = (
        stacks.read_point(
            tmp_path / f"out/{point.n}",
            found,
            step_s=found.unprofiled_step_s,
            label=f"n = {point.n}",
        )
        for point in points
        for found in point.kinds
    )
    root, _ = flame_tree.merge(few, many)
    trainer = next(group for group in root.children if group.name == TRAINER)
    pale = flame_tree.pale_seconds(few, many)
    injected = find(trainer, f"injected_{kind} (workloads/injected.py)")
    inside = {id(node) for node in flame_tree.walk(injected)}
    red, callers, aside = [], [], []
    for node in flame_tree.walk(trainer):
        if not node.name.endswith((")", "]")):  # a phase
            continue
        group = red if id(node) in inside else callers if holds(node, injected) else aside
        group.append(heat(node.a, node.b, pale))
    # Callers that do nothing else are as red, or redder by a sample of their own.
    assert max(red) > 0.98 * max(callers)
    assert max(red) > max(aside)
    below = {node.name for node in flame_tree.walk(injected)}
    assert flamegraph.own_times(few, many)[0].frame in below
