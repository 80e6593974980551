import math

import pandas as pd
import pytest
from matplotlib.figure import Figure

import synthetic
from scaling_study.report import figure_axes
from scaling_study.report.figure_axes import Boundary


@pytest.fixture
def axes():
    return Figure().subplots()


def texts(axes):
    return [label.get_text() for label in axes.get_xticklabels()]


def test_a_short_ladder_is_linear_and_a_long_one_logarithmic(axes):
    figure_axes.scale_processes(axes, [1, 2, 3, 4])
    assert axes.get_xscale() == "linear"
    assert texts(axes) == ["4", "3", "2", "1"]
    figure_axes.scale_processes(axes, [1, 2, 4, 8, 16, 32])
    assert axes.get_xscale() == "log"


def test_one_count_has_an_axis_too(axes):
    figure_axes.scale_processes(axes, [3])
    low, high = axes.get_xlim()
    assert low < 3 < high


def test_crowded_counts_leave_out_labels_but_not_the_largest():
    counts = [1, 2, 4, 8, 16, 32, 64, 95, 96, 97, 128, 191, 192, 193]
    labelled = figure_axes.choose_labelled(counts, math.log2)
    assert labelled[0] == 193
    assert 192 not in labelled
    assert 1 in labelled


def test_values_begin_at_zero_unless_they_differ_widely(axes):
    assert not figure_axes.scale_values(axes, pd.Series([10.0, 60.0]), from_zero=False)
    assert axes.get_ylim()[0] == 0
    assert axes.get_ylim()[1] > 60
    assert not figure_axes.scale_values(axes, pd.Series([1.0, 60.0]), from_zero=True)
    assert figure_axes.scale_values(axes, pd.Series([1.0, 60.0]), from_zero=False)
    assert axes.get_yscale() == "log"


@pytest.mark.parametrize(
    ("low", "high"), [(0.3, 2.5), (1, 8), (2.1, 17), (0.02, 5000), (37, 1900), (9.9, 1e6)]
)
def test_a_logarithmic_axis_has_a_few_labels(low, high):
    inside = [tick for tick in figure_axes.choose_powers(low, high) if low <= tick <= high]
    assert 2 <= len(inside) <= 11


def test_an_interval_over_decades_does_not_flatten_the_values(axes):
    axes.vlines([1], [1e-6], [1e9])
    figure_axes.scale_values(axes, pd.Series([10.0, 20.0]), from_zero=False)
    assert axes.get_ylim()[1] < 30


def test_boundaries_come_from_the_usable_cpus():
    machine = synthetic.machine(cpus=16, cpus_per_l3=4, cpus_per_node=8)
    assert [mark.n for mark in figure_axes.find_boundaries(machine)] == [4, 8, 16]
    machine["allowed_cpus"] = "0-7"
    assert [mark.n for mark in figure_axes.find_boundaries(machine)] == [4, 8]


def test_names_of_near_boundaries_do_not_run_into_each_other(axes):
    figure_axes.scale_processes(axes, list(range(1, 9)))
    far = (Boundary(1, "L3"), Boundary(8, "CPUs"))
    near = (Boundary(4, "NUMA node"), Boundary(5, "physical cores"))
    assert figure_axes.draw_boundaries(axes, far, 8) == 1
    assert figure_axes.draw_boundaries(axes, near, 8) == 2
    assert figure_axes.draw_boundaries(axes, (Boundary(9, "above"),), 8) == 0


def test_labels_of_differences_have_a_sign():
    assert figure_axes.label_difference(2.5) == "+2.5%"
    assert figure_axes.label_difference(-2.5) == "\N{MINUS SIGN}2.5%"
    assert figure_axes.label_difference(1e-12) == "0"
