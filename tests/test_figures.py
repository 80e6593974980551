import re

import numpy as np
import pandas as pd
import pytest

import synthetic
from scaling_study.records.columns import POINTS, WINDOWS
from scaling_study.report import figures, report_figures, svg
from scaling_study.report.figure_axes import Boundary, find_boundaries
from scaling_study.report.figure_panels import draw_fairness, draw_stacks
from scaling_study.report.figure_series import Series
from scaling_study.report.report_figures import Material, compare_members, draw_all

SERIES = (
    Series("a", "fast", ("recommended",), "series-1", "o"),
    Series("b", "default", ("default",), "series-2", "X"),
)
COLUMNS = {"load_s_per_step": "load", "forward_s_per_step": "forward"}


def points(launches=("a", "b"), counts=(1, 2, 4), low=0.95, high=1.05):
    rows = [
        {
            "launch": launch,
            "label": f"label of {launch}",
            "n": n,
            "steps_per_s": (10.0 + place) * n,
            "steps_per_s_low": (10.0 + place) * n * low,
            "steps_per_s_high": (10.0 + place) * n * high,
            "load_s_per_step": 0.01,
            "forward_s_per_step": 0.02 * n,
        }
        for place, launch in enumerate(launches)
        for n in counts
    ]
    return pd.DataFrame(rows)


def curves(frame, series=SERIES, counts=(1, 2, 4), **options):
    return figures.draw_curves(
        frame, series, name="f", column="steps_per_s", title="Throughput", alt="", counts=counts,
        **options,
    )  # fmt: skip


def texts(drawn):
    return re.findall(r"<text[^>]*>([^<]*)</text>", drawn)


def count_of(drawn, colour):
    return drawn.count(f"stroke: {svg._VARIABLE[svg.colour(colour)]}")


def test_each_launch_has_a_line_in_its_colour_and_a_name():
    drawn = curves(points())
    assert count_of(drawn, "series-1")
    assert count_of(drawn, "series-2")
    assert not count_of(drawn, "series-3")
    assert {"fast (recommended)", "default", "processes", "Throughput"} <= set(texts(drawn))


def test_launches_beyond_the_chosen_ones_are_grey_and_counted():
    drawn = curves(points([*"abcdef"]))
    assert "4 other launches" in texts(drawn)
    assert "1 other launch" in texts(curves(points([*"abc"])))


def lines_of(drawn, colour):
    """How many points each line inside the plot joins."""
    hue = re.escape(svg._VARIABLE[svg.colour(colour)])
    paths = re.findall(rf'<path d="([^"]*)" clip-path[^>]*stroke: {hue}[^>]*>', drawn)
    return sorted(1 + path.count("L") for path in paths)


def test_no_line_leads_through_a_count_that_was_not_measured():
    def drawn(counts, ladder, lost=()):
        frame = points(["a"], counts, low=np.nan, high=np.nan)
        frame.loc[frame["n"].isin(lost), "steps_per_s"] = np.nan
        return lines_of(curves(frame, counts=ladder), "series-1")

    assert drawn((1, 2, 4, 8), (1, 2, 4, 8)) == [4]
    assert drawn((1, 2, 8, 16), (1, 2, 4, 8, 16)) == [2, 2]
    assert drawn((1, 2, 16), (1, 2, 4, 8, 16)) == [1, 2]
    assert drawn((1, 2, 4, 8, 16), (1, 2, 4, 8, 16), lost=[4]) == [2, 2]
    assert drawn((1, 2, 3), (1, 2)) == [3]


def test_grey_launches_have_gaps_too_and_each_counts_once():
    drawn = curves(points([*"abc"], (1, 2, 8, 16)), counts=(1, 2, 4, 8, 16))
    assert "1 other launch" in texts(drawn)
    assert lines_of(drawn, "rest") == [2, 2]


def test_intervals_are_drawn_where_there_are_any():
    whole = curves(points())
    nothing = curves(points(low=np.nan, high=np.nan))
    assert whole.count("stroke-opacity: 0.35") == 6
    assert nothing.count("stroke-opacity: 0.35") == 0


def test_a_boundary_of_the_machine_is_named():
    marks = (Boundary(2, "L3"), Boundary(64, "CPUs"))
    assert "L3" in texts(curves(points(), marks=marks))
    assert "CPUs" not in texts(curves(points(), marks=marks))


def test_the_title_says_when_an_axis_is_logarithmic():
    assert "Throughput (logarithmic)" in texts(curves(points(counts=(1, 100))))
    assert "Throughput" in texts(curves(points(counts=(1, 100)), from_zero=True))


def test_the_ideal_line_does_not_stretch_the_axis():
    plain = [text for text in texts(curves(points())) if text.isdigit()]
    drawn = curves(points(), reference=lambda n: 1000 * n)
    assert [text for text in texts(drawn) if text.isdigit()] == plain
    assert "ideal: in proportion to n = 1" in texts(drawn)


def test_without_a_point_a_figure_says_so():
    empty = points().iloc[:0]
    assert "No valid window" in texts(curves(empty, ()))
    stacks = draw_stacks(empty, (), name="f", columns=COLUMNS, title="t", alt="")
    assert "No valid window" in texts(stacks)
    members = pd.DataFrame({"launch": [], "n": [], "slot": [], "relative": []})
    fair = draw_fairness(members, (), name="f", title="t", alt="")
    assert "No point with more than one process" in texts(fair)
    noise = figures.draw_noise([], name="f", title="t", alt="")
    assert "No repeat of the baseline was measured" in texts(noise)


def test_stacks_have_a_panel_per_launch_and_the_sum_on_each_bar():
    drawn = draw_stacks(points(), SERIES, name="f", columns=COLUMNS, title="t", alt="")
    assert {"fast (recommended)", "default", "load", "forward"} <= set(texts(drawn))
    assert texts(drawn).count("30.0") == 2
    assert texts(drawn).count("90.0") == 2


def test_many_bars_do_not_write_on_each_other():
    long = points(["a"], counts=range(1, 41))
    drawn = draw_stacks(long, SERIES[:1], name="f", columns=COLUMNS, title="t", alt="")
    assert "810" in texts(drawn)
    assert "790" not in texts(drawn)
    assert "40" in texts(drawn)
    assert "39" not in texts(drawn)


def test_the_repeat_is_drawn_as_a_difference():
    noise = [
        {"n": 1, "ratio": 1.01, "low": 0.99, "high": 1.03},
        {"n": 2, "ratio": 0.98, "low": None, "high": None},
    ]
    drawn = figures.draw_noise(noise, name="f", title="t", alt="")
    assert any(text.endswith("%") and text.startswith("+") for text in texts(drawn))
    assert drawn.count("stroke-opacity: 0.35") == 1


def test_members_are_compared_at_the_largest_count_of_valid_windows():
    windows = pd.DataFrame(
        [
            ("m", "a", 2, 0, True, 0.010),
            ("m", "a", 2, 1, True, 0.030),
            ("m", "a", 2, 0, True, 0.010),
            ("m", "a", 2, 1, True, 0.030),
            ("m", "a", 4, 0, False, 0.500),
            ("m", "a", 1, 0, True, 0.010),
            ("m", "b", 1, 0, True, 0.010),
        ],
        columns=report_figures.MEMBER_COLUMNS,
    )
    found = compare_members(windows)
    assert found[["launch", "n", "slot"]].to_numpy().tolist() == [["a", 2, 0], ["a", 2, 1]]
    assert found["relative"].tolist() == pytest.approx([-0.5, 0.5])


def test_two_launches_with_one_label_keep_their_own_dots():
    members = pd.DataFrame(
        {"launch": ["a", "b"], "n": [2, 2], "slot": [0, 0], "relative": [0.01, -0.01]}
    )
    same = tuple(Series(one.launch, "same", (), one.colour, "o") for one in SERIES)
    drawn = draw_fairness(members, same, name="f", title="t", alt="")
    assert texts(drawn).count("same, n = 2") == 2
    for colour in ("series-1", "series-2"):
        assert f"fill: {svg._VARIABLE[svg.colour(colour)]}" in drawn


@pytest.mark.parametrize("rows", [0, 1])
def test_all_figures_can_be_drawn_of_an_empty_table_and_of_one_point(rows):
    frame = POINTS.frame()
    if rows:
        blank = {name: [np.nan] for name in frame.columns}
        texts_of = {"machine": ["m"], "launch": ["a"], "label": ["x"], "arm": ["grid"]}
        whole = {"n": [1], "replicates": [1], "windows": [1], "windows_invalid": [0], "steps": [9]}
        found = {**blank, **texts_of, **whole, "oversubscribed": [False], "steps_per_s": [5.0]}
        frame = POINTS.frame(pd.DataFrame(found))
    material = Material(
        points=frame,
        members=compare_members(WINDOWS.frame()[report_figures.MEMBER_COLUMNS]),
        series=SERIES[:rows],
        noise={"points": [], "spread": None},
        counts=(1,),
        marks=find_boundaries(synthetic.machine()),
        suffix="-x",
    )
    drawn = draw_all(material)
    assert len({figure.name for figure in drawn}) == len(drawn)
    assert all(figure.name.endswith("-x") for figure in drawn)
    assert all(figure.caption and figure.title for figure in drawn)
