"""Six reports as a reader sees them: their visible text, their length, and what is on one screen.

After a change that is meant to be seen: ``python tests/golden.py`` writes the texts anew.
"""

import pytest

import browser
import golden

pytestmark = pytest.mark.skipif(
    browser.executable() is None, reason="Chromium is not installed: apt install chromium"
)

MOST_VISIBLE, MOST_WORDS = 1200, 6000
SCREENS = {"desk": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    found = {}

    def report(name):
        if name not in found:
            folder = tmp_path_factory.mktemp(name)
            found[name] = getattr(golden, name)(folder)
        return found[name]

    return report


@pytest.mark.parametrize("name", golden.STUDIES)
def test_the_visible_text_is_as_it_was(page, reports, name):
    expected = (golden.GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    assert golden.visible(page, reports(name)) == expected


@pytest.mark.parametrize("name", [*golden.STUDIES, "recorded"])
def test_the_report_is_short(page, reports, name, capsys):
    page.open(reports(name))
    words = "document.body.innerText.split(/\\s+/).length"
    visible = page.run(words)
    page.run("document.querySelectorAll('details').forEach(e => e.open = true)")
    everything = page.run(words)
    with capsys.disabled():
        print(f"\n{name}: {visible:,} words visible, {everything:,} in all")
    assert visible <= MOST_VISIBLE
    assert everything <= MOST_WORDS


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("name", sorted({*golden.STUDIES, "recorded"} - {"machines"}))
def test_answer_bars_command_and_why_are_on_the_first_screen(page, reports, name, screen):
    page.open(reports(name), **SCREENS[screen])
    height = SCREENS[screen]["height"]
    for part in ("verdict", "detail", "bars", "command", "because", "marks"):
        script = f"document.querySelector('.answer .{part}')?.getBoundingClientRect().bottom ?? 0"
        assert page.run(script) <= height, part
    assert page.run("document.documentElement.scrollWidth") <= SCREENS[screen]["width"]
