import math

import pytest

from scaling_study.common import quantities
from scaling_study.common.quantities import (
    format_bytes,
    format_count,
    format_cpus,
    format_estimate,
    format_number,
    format_percent,
    format_probability,
    format_ratio,
    format_seconds,
    format_time,
)

DASH, MINUS = quantities.MISSING, quantities.MINUS
WRITTEN = {
    format_number: {
        (0,): "0", (0.012345,): "0.0123", (1.5,): "1.50", (99.96,): "100", (1234.4,): "1,234",
        (-3.2,): f"{MINUS}3.20", (None,): DASH, (math.nan,): DASH, (math.inf,): "∞",
    },
    format_estimate: {
        (99.6, 98.04, 101.2): "99.6 (98.0 to 101.2)", (99.6, None, None): "99.6",
        (99.5, math.nan, math.nan): "99.5",
    },
    format_time: {
        (0.0124,): "12.4 ms", (5.0,): "5.00 s", (144.0,): "2.40 minutes", (7200.0,): "2.00 hours",
    },
    format_percent: {
        (0.0234,): "2.3%", (0.02,): "2%", (0.62,): "62%", (0,): "0%", (-0.015,): f"{MINUS}1.5%",
        (-0.0004,): "0.0%",
    },
    format_probability: {
        (1.0,): "more than 99%", (0.97,): "97%", (0.0,): "less than 1%", (None,): DASH,
    },
    format_seconds: {
        (0.0,): "0 s", (12e-6,): "12.0 µs", (0.0123,): "12.3 ms", (1.2,): "1.20 s",
        (200,): "3 min 20 s", (7265,): "2 h 1 min",
    },
    format_cpus: {
        (1.9,): "1.9", (0.05,): "0.05", (2.0,): "2", (191.834,): "191.83", (1280.0,): "1,280",
        (-0.001,): "0", (math.nan,): DASH,
    },
    format_bytes: {(24 * 2**30,): "24.0 GiB", (None,): DASH},
    format_count: {(1, "process", "processes"): "1 process", (2, "window"): "2 windows"},
    format_ratio: {(15.24,): "15.2\N{MULTIPLICATION SIGN}"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("write", "values", "text"),
    [(write, values, text) for write, all_of in WRITTEN.items() for values, text in all_of.items()],
)
def test_what_is_written(write, values, text):
    assert write(*values) == text


@pytest.mark.parametrize("residue", [0.1 + 0.2 - 0.3 + 1.2e-15, -1e-17])
def test_what_rounding_leaves_of_a_difference_is_no_figure(residue):
    for write, zero in ((format_number, "0"), (format_seconds, "0 s"), (format_cpus, "0")):
        assert write(residue) == zero
    assert format_percent(residue) in {"0%", "0.0%"}
    assert format_number(0.3, like=residue) == "0"


@pytest.mark.parametrize(
    ("value", "like", "text"), [(-0.001, 212.0, "0"), (-0.4, 1.5, f"{MINUS}0.40")]
)
def test_what_rounds_to_nothing_has_no_sign(value, like, text):
    assert format_number(value, like=like) == text
