"""What is looked for: a rate of all processes together, or the time of one model."""

import pytest

from made_records import made_plan
from scaling_study.records.analysis import shown
from scaling_study.stats.interval import Interval


@pytest.mark.parametrize(
    ("asked", "steps", "name"),
    [
        ("models_per_hour", 500, "models_per_hour"),
        ("models_per_hour", None, "steps_per_s"),
        ("one_model", 500, "model_s"),
        ("one_model", None, "iteration_s"),
    ],
)
def test_a_step_stands_for_a_model_whose_number_of_steps_is_not_known(asked, steps, name):
    plan = made_plan({}, objective=asked, workload={"steps_per_model": steps})
    assert plan.objective_name == name


def test_the_lowest_rate_is_the_longest_time():
    ends = Interval(60.0, 50.0, 72.0)
    assert shown(ends, "model_s", 1) == ends
    assert shown(Interval(60.0), "model_s", 2) == Interval(120.0)
    assert shown(ends, "models_per_hour", 2) == ends
