import re

import pytest
from matplotlib.figure import Figure

from scaling_study.report import svg
from scaling_study.report.draw import drawing


def draw(name="one", text="plain", alt="what it shows"):
    with drawing():
        figure = Figure(figsize=(4, 3))
        axes = figure.subplots()
        axes.plot([1, 2], [3, 4], color=svg.colour("series-1"), marker="o")
        axes.set_title(text)
        return svg.themed(figure, name=name, alt=alt)


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [0, 1])
def test_the_theme_is_legible_in_light_and_dark(scheme):
    surface = svg.THEME["surface"][scheme]
    for name, pair in svg.THEME.items():
        if name in {"ink", "muted"}:
            assert contrast(pair[scheme], surface) >= 4.5, name
        elif name.startswith("series"):
            assert contrast(pair[scheme], surface) >= 3, name


def test_every_colour_to_draw_with_can_be_told_from_the_others():
    drawn = [light for light, _ in svg.THEME.values()]
    assert len(set(drawn)) == len(drawn)


def test_colours_become_variables_of_the_theme():
    text = draw()
    assert f"var(--series-1, {svg.colour('series-1')})" in text
    assert "var(--ink, " in text
    assert not re.search(r"(?<!, )#[0-9a-f]{6}", re.sub(r'(href|id)="[^"]*"', "", text))


def test_ids_of_two_figures_never_meet_and_every_reference_has_its_target():
    texts = [draw(name) for name in ("one", "two")]
    ids = [set(re.findall(r'\bid="([^"]+)"', text)) for text in texts]
    assert ids[0]
    assert not ids[0] & ids[1]
    used = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', texts[0]))
    assert {one or other for one, other in used} == ids[0]
    assert texts[0] == draw("one")
