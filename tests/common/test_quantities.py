import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaling_study.common import quantities


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.012345, "0.0123"),
        (1.5, "1.50"),
        (99.96, "100"),
        (212.4, "212"),
        (1234.4, "1,234"),
        (-3.2, "\N{MINUS SIGN}3.20"),
        (None, "\N{EN DASH}"),
        (math.nan, "\N{EN DASH}"),
        (math.inf, "∞"),
        (-math.inf, "\N{MINUS SIGN}∞"),
    ],
)
def test_numbers_have_three_significant_digits(value, text):
    assert quantities.format_number(value) == text


@given(st.floats(1e-9, 1e12))
def test_a_number_is_read_back_within_its_rounding(value):
    text = quantities.format_number(value).replace(",", "")
    assert math.isclose(float(text), value, rel_tol=0.0051)


def test_an_interval_has_the_decimals_of_its_value():
    assert quantities.format_estimate(99.6, 98.04, 101.2) == "99.6 (98.0 to 101.2)"
    assert quantities.format_estimate(99.6, None, None) == "99.6"
    assert quantities.format_estimate(99.6, math.nan, math.nan) == "99.6"


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ((0.0124, 0.0121, 0.0126), "12.4 ms (12.1 to 12.6)"),
        ((5.0, None, None), "5.00 s"),
        ((144.0, 132.0, 156.0), "2.40 minutes (2.20 to 2.60)"),
        ((7200.0, 7100.0, 7300.0), "2.00 hours (1.97 to 2.03)"),
    ],
)
def test_a_time_and_its_interval_have_one_unit(ends, text):
    assert quantities.format_time(*ends) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0234, "2.3%"), (0.02, "2%"), (0.62, "62%"), (0, "0%"), (-0.015, "\N{MINUS SIGN}1.5%")],
)
def test_percentages(share, text):
    assert quantities.format_percent(share) == text


@pytest.mark.parametrize(
    ("probability", "text"),
    [(1.0, "more than 99%"), (0.97, "97%"), (0.0, "less than 1%"), (None, "\N{EN DASH}")],
)
def test_a_probability_from_resampling_is_never_certain(probability, text):
    assert quantities.format_probability(probability) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (12e-6, "12.0 µs"),
        (0.0123, "12.3 ms"),
        (1.2, "1.20 s"),
        (200, "3 min 20 s"),
        (7265, "2 h 1 min"),
    ],
)
def test_times_have_the_unit_that_suits_them(seconds, text):
    assert quantities.format_seconds(seconds) == text


def test_sizes_and_counts():
    assert quantities.format_bytes(24 * 2**30) == "24.0 GiB"
    assert quantities.format_bytes(None) == "\N{EN DASH}"
    assert quantities.format_count(1, "process", "processes") == "1 process"
    assert quantities.format_count(2, "process", "processes") == "2 processes"
    assert quantities.format_ratio(15.24) == "15.2\N{MULTIPLICATION SIGN}"


RESIDUE = 0.1 + 0.2 - 0.3 + 1.2e-15
MINUS_RESIDUE = -1e-17


def test_what_rounding_leaves_of_a_difference_is_no_figure():
    for residue in (RESIDUE, MINUS_RESIDUE):
        assert quantities.format_number(residue) == "0"
        assert quantities.format_seconds(residue) == "0 s"
        assert quantities.format_cpus(residue) == "0"
        assert quantities.format_percent(residue) in {"0%", "0.0%"}
    assert quantities.format_number(0.3, like=RESIDUE) == "0"


@pytest.mark.parametrize(
    ("value", "like", "text"), [(-0.001, 212.0, "0"), (-0.4, 1.5, "\N{MINUS SIGN}0.40")]
)
def test_what_rounds_to_nothing_has_no_sign(value, like, text):
    assert quantities.format_number(value, like=like) == text
    assert quantities.format_percent(-0.0004) == "0.0%"


@pytest.mark.parametrize(
    ("cpus", "text"),
    [(1.9, "1.9"), (0.05, "0.05"), (2.0, "2"), (191.834, "191.83"), (1280.0, "1,280"),
     (-0.001, "0"), (math.nan, "\N{EN DASH}")],
)  # fmt: skip
def test_cpus_are_known_to_a_hundredth(cpus, text):
    assert quantities.format_cpus(cpus) == text
