"""What calls cost, and what stacks of models save, by the module that a profile runs."""

import pytest

from scaling_study.member import stacked


def multiply(flops, calls=10, operator="aten::addmm"):
    return {"operator": operator, "calls": calls, "flops": flops}


@pytest.mark.parametrize(
    ("rows", "width"),
    [
        ([multiply(10 * 2 * 64 * 32 * 32)], 32),
        # A small one for each large one: half as many operations on average.
        ([multiply(10 * 2 * 64 * 32 * 32), multiply(0.001, operator="aten::mm")], 23),
        ([multiply(10 * 2 * 64 * 10**8)], stacked.WIDEST),
        ([multiply(None), multiply(10**9, operator="aten::add")], None),
        ([], None),
    ],
)
def test_a_width_whose_multiplies_have_as_many_operations(rows, width):
    assert stacked.typical_width(rows) == width


def test_a_stack_of_small_models_is_faster_and_calls_take_less_than_a_small_step():
    gains = stacked.gains(16)
    assert list(gains) == [8, 32]
    assert gains[32] > 1.2
    assert 1e-7 < stacked.call_s() < 1e-3
