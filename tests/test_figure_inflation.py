import re

import pytest

from scaling_study.profiling import operator_groups
from scaling_study.report import svg
from scaling_study.report.figure_inflation import (
    LARGEST,
    Bar,
    choose_bars,
    draw_inflation,
    format_added,
    group_colour,
)


def operator(name, added_s, group="matrix multiply"):
    return {"operator": name, "group": group, "difference_s": added_s}


def draw(bars, groups=("matrix multiply",)):
    return draw_inflation(bars, groups, name="f", title="t", alt="what it shows")


def texts(drawn):
    return re.findall(r"<text[^>]*>([^<]*)</text>", drawn)


def test_the_bars_add_up_whatever_is_left_out():
    many = [operator(f"op{at}", 1.0 / (at + 1)) for at in range(40)]
    bars = choose_bars(many)
    assert len(bars) == LARGEST + 1
    assert bars[-1].name == f"{40 - LARGEST} smaller changes"
    assert sum(bar.added_s for bar in bars) == pytest.approx(
        sum(row["difference_s"] for row in many)
    )


def test_one_operator_too_many_has_its_own_bar():
    bars = choose_bars([operator(f"op{at}", 1.0) for at in range(LARGEST + 1)])
    assert len(bars) == LARGEST + 1
    assert not any("smaller" in bar.name for bar in bars)


def test_a_large_saving_has_a_bar_too():
    many = [operator(f"op{at}", 0.1) for at in range(20)]
    bars = choose_bars([*many, operator("saved", -5.0)])
    assert "saved" in {bar.name for bar in bars}


def test_every_group_has_a_colour_of_its_own():
    colours = [group_colour(name) for name in operator_groups.names()]
    assert len(set(colours)) == len(colours)
    assert set(colours) <= set(svg.THEME)


def test_the_figure_names_each_bar_with_its_number_and_the_whole():
    drawn = draw([Bar("aten::mm", 0.008, "series-1"), Bar("aten::mul", -0.002, "series-2")])
    assert {"aten::mm", "+8.00 ms", "aten::mul", "−2.00 ms", "whole step", "+6.00 ms"} <= set(  # noqa: RUF001 (a minus sign)
        texts(drawn)
    )
    assert "matrix multiply" in texts(drawn)
    assert 'aria-label="what it shows"' in drawn


def test_the_figure_of_nothing_can_be_drawn():
    assert "whole step" in texts(draw([], groups=()))


def test_a_name_cannot_break_out_of_the_figure():
    drawn = draw([Bar("<script>x</script>$_1^2$", 1.0, "rest")])
    assert "<script" not in drawn
    assert "$_1^2$" in drawn


def test_added_times_have_a_sign():
    assert format_added(0.0082) == "+8.20 ms"
    assert format_added(-1.5) == "−1.50 s"  # noqa: RUF001 (a minus sign)
    assert format_added(0.0) == "0 s"
    assert format_added(None) == "–"  # noqa: RUF001 (a dash)
