import math

import pytest

from scaling_study.common import quantities

DASH, MINUS = quantities.MISSING, quantities.MINUS
WRITTEN = {
    "number": {
        (0,): "0", (0.012345,): "0.0123", (1.5,): "1.50", (99.96,): "100", (1234.4,): "1,234",
        (-3.2,): f"{MINUS}3.20", (None,): DASH, (math.nan,): DASH, (math.inf,): "∞",
    },
    "estimate": {
        (99.6, 98.04, 101.2): "99.6 (98.0 to 101.2)", (99.6, None, None): "99.6",
        (99.5, math.nan, math.nan): "99.5",
    },
    "time": {
        (0.0124,): "12.4 ms", (5.0,): "5.00 s", (144.0,): "2.40 minutes", (7200.0,): "2.00 hours",
    },
    "percent": {
        (0.0234,): "2.3%", (0.02,): "2%", (0.62,): "62%", (0,): "0%", (-0.015,): f"{MINUS}1.5%",
        (-0.0004,): "0.0%",
    },
    "probability": {
        (1.0,): "more than 99%", (0.97,): "97%", (0.0,): "less than 1%", (None,): DASH,
    },
    "seconds": {
        (0.0,): "0 s", (12e-6,): "12.0 µs", (0.0123,): "12.3 ms", (1.2,): "1.20 s",
        (200,): "3 min 20 s", (7265,): "2 h 1 min",
    },
    "cpus": {
        (1.9,): "1.9", (0.05,): "0.05", (2.0,): "2", (191.834,): "191.83", (1280.0,): "1,280",
        (-0.001,): "0", (math.nan,): DASH,
    },
    "bytes": {(24 * 2**30,): "24.0 GiB", (None,): DASH},
    "count": {(1, "process", "processes"): "1 process", (2, "window"): "2 windows"},
    "ratio": {(15.24,): "15.2\N{MULTIPLICATION SIGN}"},
}  # fmt: skip


def write(name, *values, **options):
    return getattr(quantities, f"format_{name}")(*values, **options)


@pytest.mark.parametrize(
    ("name", "values", "text"),
    [(name, values, text) for name, all_of in WRITTEN.items() for values, text in all_of.items()],
)
def test_what_is_written(name, values, text):
    assert write(name, *values) == text


@pytest.mark.parametrize("residue", [0.1 + 0.2 - 0.3 + 1.2e-15, -1e-17])
def test_what_rounding_leaves_of_a_difference_is_no_figure(residue):
    for name, zero in (("number", "0"), ("seconds", "0 s"), ("cpus", "0")):
        assert write(name, residue) == zero
    assert write("percent", residue) in {"0%", "0.0%"}
    assert write("number", 0.3, like=residue) == "0"


@pytest.mark.parametrize(
    ("value", "like", "text"), [(-0.001, 212.0, "0"), (-0.4, 1.5, f"{MINUS}0.40")]
)
def test_what_rounds_to_nothing_has_no_sign(value, like, text):
    assert write("number", value, like=like) == text
