"""What the report says of a race, in each of its states."""

import pytest

from scaling_study.launch.axes.axis_table import DEFAULTS
from scaling_study.report.report_search import view_search


def plan(**changes):
    launches = [("b", "one thread", "baseline", 3), ("c", "both", "combined", 2),
                ("u", "unseen", "one_change", 0)]  # fmt: skip
    return {
        "default": "b",
        "objective": "models_per_hour",
        "exclude": [],
        "launches": [
            {"id": one, "label": label, "arm": arm, "replicates": replicates, "axes": DEFAULTS}
            for one, label, arm, replicates in launches
        ],
        "searched": {
            "rounds": [{"stage": "first"}, {"stage": "screen"}, {"stage": "screen"}],
            "reason": "the choice is sure enough",
            "next": None,
            "spent_s": 600.0,
            "budget_s": 3000.0,
            "choice": {"launch": "c", "n": 8, "probability": 0.93},
            "not_screened": [],
            **changes,
        },
    }


def test_where_all_was_measured_nothing_is_said_of_a_race():
    assert view_search({"launches": []}) is None


def test_it_says_how_long_what_why_it_ended_and_what_it_chose():
    text = " ".join(view_search(plan()))
    assert "Launches raced for 10 of 50 minutes: 5 fresh starts of 2 launches." in text
    assert "every other launch once (2 rounds)" in text
    assert "The race ended because the choice is sure enough." in text
    assert "Put together by the race: both." in text
    assert "It chose both with 8 processes: with a probability of 93%" in text
    assert "Not measured" not in text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"reason": "", "next": {"stage": "race", "expected_s": 100.0, "labels": ["a", "b"]}},
            (
                "The race is not over. The next round takes 2 minutes or so and makes this report "
                "anew: fresh starts of those that may be the best (a; b)."
            ),
        ),
        (
            {"reason": "", "next": {"stage": "screen", "expected_s": 5.0, "labels": [*"abcdefgh"]}},
            (
                "takes 1 minute or so and makes this report anew: every other launch once "
                "(a; b; c; d; e; f and 2 more)."
            ),
        ),
        ({"not_screened": ["u"]}, "Not measured, so nothing is known of them: unseen."),
    ],
)
def test_what_is_not_known_is_said(changes, said):
    assert said in " ".join(view_search(plan(**changes)))


def test_what_the_experiments_showed_to_help_is_said():
    named = {"named": [{"remedy": {"axes": {"wait_policy": "passive"}}}]}
    targets = [{"launch": "c", "growth": named, "level": {"named": []}}]
    text = " ".join(view_search(plan(), targets))
    assert "no launch had it yet: wait_policy passive. With a larger search.budget_minutes" in text


def test_before_anything_was_measured_nothing_was_chosen():
    assert "It chose" not in " ".join(view_search(plan(choice=None)))


def test_a_race_for_one_model_says_that_it_knows_little_of_more_processes():
    text = " ".join(view_search({**plan(), "objective": "one_model"}))
    assert "at the smallest process count alone" in text
    assert "may be its best ones" not in text
