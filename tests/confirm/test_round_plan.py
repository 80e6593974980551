"""Which arms are confirmed, and how the time is shared out."""

import pytest
from msgspec import convert, structs

from scaling_study.config.launches import Launch
from scaling_study.confirm import confirm
from scaling_study.records.analysis import Recommendation, ReferencePoint

DEFAULT = Launch("default-1", "default", "default", {})


def point(launch, n, **axes):
    return {"launch": launch, "label": launch, "n": n, "axes": axes}


def found(best, default):
    return convert({"status": "ok", "recommended": best, "default": default}, Recommendation)


X4, DEFAULT_1, DEFAULT_4 = point("x", 4), point("default-1", 1), point("default-1", 4)
BEST = [("recommended/fresh", "x", 4), ("recommended/forked", "x", 4)]
OWN_N, SAME_N = ("default/fresh", "default-1", 1), ("default_same_n/fresh", "default-1", 4)


@pytest.mark.parametrize(
    ("best", "default", "seconds", "chosen"),
    [
        (X4, DEFAULT_1, 120, [*BEST, OWN_N, SAME_N]),
        (X4, DEFAULT_1, 90, [*BEST, OWN_N]),  # a short confirmation
        (X4, DEFAULT_4, 120, [*BEST, ("default/fresh", "default-1", 4)]),
        (X4, None, 120, [*BEST, SAME_N]),
        (X4, None, 90, [*BEST, SAME_N]),
        # A group of ranks trains one model.
        (point("x", 1, ranks=2), DEFAULT_1, 120, [("recommended/fresh", "x", 1), OWN_N]),
        # Nothing to be compared with.
        (DEFAULT_4, DEFAULT_4, 120, [(key, "default-1", 4) for key, *_ in BEST]),
    ],
)
def test_the_default_is_confirmed_at_its_own_best_and_at_the_recommended_n(
    best, default, seconds, chosen
):
    arms = confirm.choose_arms(found(best, default), DEFAULT, seconds=seconds)
    assert [(arm.key, arm.launch, arm.n) for arm in arms] == chosen


def test_todays_launch_takes_the_defaults_place_at_the_same_n():
    whole = structs.replace(found(X4, DEFAULT_1), today=convert(point("today", 2), ReferencePoint))
    arms = confirm.choose_arms(whole, DEFAULT, Launch("today", "today", "today", {}))
    assert [(arm.key, arm.launch, arm.n) for arm in arms] == [
        *BEST,
        ("today/fresh", "today", 2),
        ("today_same_n/fresh", "today", 4),
        OWN_N,
    ]


@pytest.mark.parametrize(
    ("seconds", "turns", "round_s"),
    [(30, 3, 2.5), (120, 3, 10), (360, 3, 30), (600, 5, 30), (4800, 10, 120)],
)
def test_all_arms_take_turns_and_share_the_time(seconds, turns, round_s):
    chosen = confirm.choose_arms(found(X4, DEFAULT_1), DEFAULT)
    planned = confirm.schedule(chosen, seconds, seed=3)
    rounds, planned_s = planned
    assert planned_s == pytest.approx(round_s)
    assert len(rounds) == turns * len(chosen)
    orders = [[arm.key for turn, arm in rounds if turn == number] for number in range(turns)]
    assert all(order == orders[0] for order in orders)
    assert sorted(orders[0]) == sorted(arm.key for arm in chosen)
    assert planned == confirm.schedule(chosen, seconds, seed=3)
