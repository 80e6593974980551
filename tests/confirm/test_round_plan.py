"""Which arms are confirmed, and how the time is shared out."""

import pytest
from msgspec import convert

from scaling_study.config.launches import Launch
from scaling_study.confirm import round_plan
from scaling_study.records.analysis import Recommendation

DEFAULT = Launch("default-1", "default", "default", {})


def point(launch, n, **axes):
    return {"launch": launch, "label": launch, "n": n, "axes": axes}


def found(best, default):
    return convert({"status": "ok", "recommended": best, "default": default}, Recommendation)


def arms(best, default):
    return [
        (arm.key, arm.launch, arm.n)
        for arm in round_plan.choose_arms(found(best, default), DEFAULT)
    ]


STARTS = ("fresh", "forked")
ONE_BEST = [(f"recommended/{start}", "x", 4) for start in STARTS]


def test_the_default_is_confirmed_at_its_own_best_and_at_the_recommended_n():
    assert arms(point("x", 4), point("default-1", 1)) == [
        *ONE_BEST,
        ("default/fresh", "default-1", 1),
        ("default_same_n/fresh", "default-1", 4),
    ]


def test_a_short_confirmation_compares_at_the_best_numbers_only():
    whole = found(point("x", 4), point("default-1", 1))
    chosen = round_plan.choose_arms(whole, DEFAULT, seconds=90)
    assert [arm.key for arm in chosen] == [*(key for key, *_ in ONE_BEST), "default/fresh"]
    unseen = round_plan.choose_arms(found(point("x", 4), None), DEFAULT, seconds=90)
    assert unseen[-1].key == "default_same_n/fresh"


def test_a_group_of_ranks_trains_one_model():
    assert arms(point("x", 1, ranks=2), point("default-1", 1)) == [
        ("recommended/fresh", "x", 1),
        ("default/fresh", "default-1", 1),
    ]


def test_the_same_n_is_confirmed_once():
    assert arms(point("x", 4), point("default-1", 4)) == [
        *ONE_BEST,
        ("default/fresh", "default-1", 4),
    ]


def test_a_default_without_a_point_is_tried_at_the_recommended_n():
    assert arms(point("x", 4), None) == [
        *ONE_BEST,
        ("default_same_n/fresh", "default-1", 4),
    ]


def test_a_recommended_default_has_nothing_to_be_compared_with():
    assert [arm[0] for arm in arms(point("default-1", 4), point("default-1", 4))] == [
        f"recommended/{start}" for start in STARTS
    ]


def test_nothing_recommended_is_nothing_to_confirm():
    assert round_plan.choose_arms(Recommendation(status="none"), DEFAULT) == ()


@pytest.mark.parametrize(
    ("seconds", "turns", "round_s"),
    [(30, 3, 2.5), (120, 3, 10), (360, 3, 30), (600, 5, 30), (4800, 10, 120)],
)
def test_all_arms_take_turns_and_share_the_time(seconds, turns, round_s):
    chosen = round_plan.choose_arms(found(point("x", 4), point("default-1", 1)), DEFAULT)
    planned = round_plan.schedule(chosen, seconds, seed=3)
    assert planned.round_s == pytest.approx(round_s)
    assert len(planned.rounds) == turns * len(chosen)
    orders = [[one.arm.key for one in planned.rounds if one.turn == turn] for turn in range(turns)]
    assert all(order == orders[0] for order in orders)
    assert sorted(orders[0]) == sorted(arm.key for arm in chosen)
    assert planned == round_plan.schedule(chosen, seconds, seed=3)
    assert planned.most_s >= planned.round_s
