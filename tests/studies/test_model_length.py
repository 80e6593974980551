"""How many steps a model has: learnt from starts of the script that end, and said."""

import pytest

from made_records import made_plan
from scaling_study.config.work import model_length, with_learnt
from scaling_study.records.model_length import ModelLength, is_model, pool


def seen(*lengths):
    """What a member reports of starts of its script that have ended."""
    return ModelLength(len(lengths), sum(lengths) / len(lengths), min(lengths), max(lengths))


@pytest.mark.parametrize(
    ("default", "other", "work", "found"),
    [
        pytest.param([seen(300, 300), seen(300)], [], 1, ModelLength(3, 300, 300, 300), id="alike"),
        pytest.param([seen(290, 310)], [seen(600)], 1, ModelLength(3, 300, 290, 600),
                     id="the default launch's own starts come first"),
        pytest.param([], [seen(75)], 4, ModelLength(1, 300, 300, 300),
                     id="a step of four times as many samples"),
        pytest.param([], [], 1, ModelLength(), id="no start has ended"),
    ],
)  # fmt: skip
def test_starts_that_ended_tell_the_steps_of_a_model(default, other, work, found):
    assert model_length({"d": default, "b": other}, {"d": 1.0, "b": work}, "d") == found
    assert found.differs == (found.shortest != found.longest)


def test_a_script_that_has_not_ended_adds_nothing():
    assert pool([ModelLength(), seen(7)]) == seen(7)


@pytest.mark.parametrize(
    ("steps", "of_model", "whole"),
    [(1000, 1010, True), (1000, 1011, False), (3, 4, True), (3, 5, False)],
)
def test_lengths_differ_by_more_than_a_rounded_epoch(steps, of_model, whole):
    assert is_model(steps, of_model) is whole
    assert seen(steps, of_model).differs is not whole


@pytest.mark.parametrize(
    ("asked", "known"),
    [("auto", 300), (500, 500), (None, None)],
)
def test_only_auto_goes_by_what_was_learnt(asked, known):
    plan = made_plan({}, workload={"steps_per_model": asked})
    learnt = with_learnt(plan, {"0": 2.0}, seen(300))
    assert learnt.steps_per_model == known
    assert (learnt.model_length is not None) == (asked == "auto")
    assert learnt.samples == {"0": 2.0}
    if asked == "auto":
        assert with_learnt(plan, {}).steps_per_model is None
