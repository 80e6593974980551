"""The four primitives, and which figures a study has."""

import math
import re

import numpy as np
import pandas as pd

import rendering
import synthetic
from scaling_study.records.codec import read_file
from scaling_study.report import draw, figures
from scaling_study.report.draw import About, Curve, DotRow, WaterfallBar
from scaling_study.report.model import read_machines
from scaling_study.stats.interval import Interval
from synthetic import typed


def texts(drawn):
    return re.findall(r"<text[^>]*>([^<]*)</text>", drawn)


ABOUT = About("f", "Throughput", "How to read it.")


def lines(*curves, **options):
    return draw.lines({"": curves}, ABOUT, "processes", **options).svg


def curve(label="fast", values=((1, 10.0), (2, 18.0), (4, 30.0)), **style):
    return Curve(label, tuple((n, Interval(value)) for n, value in values), **style)


def test_a_curve_has_a_gap_where_a_count_was_not_measured():
    values = ((1, 10.0), (2, 18.0), (3, math.nan), (4, 30.0), (8, 40.0))
    path = re.search(r'd="([^"]*)"[^>]*var\(--series-1', lines(curve(values=values, marker="")))[1]
    assert path.count("M") == 2


def test_wide_ranges_are_logarithmic_and_say_so():
    drawn = lines(curve(values=((1, 1.0), (2, 20.0))))
    assert {"Throughput (logarithmic)", "1", "2", "5", "10", "20"} <= set(texts(drawn))
    assert "Throughput" in texts(lines(curve(values=((1, 1.0), (2, 20.0))), from_zero=True))


def test_the_ideal_does_not_stretch_the_axis():
    ideal = curve("ideal", ((1, 10.0), (4, 4000.0)), marker="", dashed=True)
    assert "Throughput" in texts(lines(curve(), ideal))


def test_boundaries_of_the_machine_are_named():
    drawn = lines(curve(), marks={2: ("cores", "L3"), 64: ("CPUs",)})
    assert "cores, L3" in texts(drawn)
    assert "CPUs" not in texts(drawn)  # beyond what was measured


def test_dots_beyond_the_axis_stand_at_its_edge():
    rows = [DotRow("near", (Interval(0.5, 0.4, 0.6),)), DotRow("far", (Interval(40.0),))]
    drawn = draw.dots(rows, ABOUT, ("of it",)).svg
    assert {"near", "far", "of it", "100%"} <= set(texts(drawn))
    assert "4000%" not in texts(drawn)


def test_stacks_have_their_sums_and_parts():
    heights = pd.DataFrame({"load": [0.010, 0.020], "forward": [0.005, 0.010]}, index=[1, 2])
    parts = [("load", "part-1"), ("forward", "part-2")]
    drawn = draw.stacks({"fast": heights}, parts, ABOUT).svg
    assert {"load", "forward", "15.0", "30.0", "fast"} <= set(texts(drawn))


def test_a_waterfall_has_steps_and_whole_bars():
    steps = [
        WaterfallBar("a", 0.004, "part-1"),
        WaterfallBar("b", -0.001, "part-2"),
        WaterfallBar("c", 0.003, whole=True),
    ]
    minus = "\N{MINUS SIGN}1.00 ms"
    assert {"a", "b", "+4.00 ms", minus, "+3.00 ms"} <= set(texts(draw.waterfall(steps, ABOUT).svg))
    whole = [
        WaterfallBar("before", 0.005, whole=True),
        steps[0],
        WaterfallBar("after", 0.009, whole=True),
    ]
    assert {"5.00 ms", "+4.00 ms", "9.00 ms"} <= set(texts(draw.waterfall(whole, ABOUT).svg))


def test_an_interval_of_one_start_is_not_drawn(tmp_path):
    options = {"ns": (1, 2), "launches": synthetic.LAUNCHES[:3]}
    folder = rendering.make_study(tmp_path, replicates=1, **options)
    plan = read_file(folder / "plan.json", object)
    (found,) = read_machines(folder, typed(plan))
    assert np.all(found.points["replicates"] == 1)
    drawn = figures.scaling(found, typed(plan), figures.choose_series(found, typed(plan)))
    assert "opacity: 0.35" not in drawn["throughput"].svg


def test_ids_of_two_figures_never_meet_and_every_reference_has_its_target():
    abouts = [About(name, "Throughput", "") for name in ("one", "two")]
    texts = [draw.lines({"": (curve(),)}, about, "processes").svg for about in abouts]
    ids = [set(re.findall(r'\bid="([^"]+)"', text)) for text in texts]
    assert ids[0]
    assert not ids[0] & ids[1]
    used = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', texts[0]))
    assert {one or other for one, other in used} == ids[0]
    assert texts[0] == draw.lines({"": (curve(),)}, abouts[0], "processes").svg
