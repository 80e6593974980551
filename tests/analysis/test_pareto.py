"""The points that no other one beats at both: how soon, and how many."""

import pytest

import synthetic
from scaling_study.analysis.collect import collect
from scaling_study.analysis.recommend import candidates, front, pareto
from scaling_study.records.analysis import FrontPoint, Pareto
from synthetic import typed

QUIET = synthetic.Noise(replicate=0.002, point=0.002, window=0.002, step=0.01)
LAUNCHES = (
    # Alone its threads make it the fastest; together they stand in each other's way.
    synthetic.Launch({}, "default", lambda n: 80.0 + n),
    synthetic.Launch({"intra_op": 1}, "baseline", synthetic.hard_saturation(50.0, 150.0)),
    synthetic.Launch({"intra_op": 1}, "repeat", synthetic.hard_saturation(90.0, 900.0)),
    synthetic.Launch({"intra_op": 2}, "grid", synthetic.hard_saturation(40.0, 100.0)),
    synthetic.Launch(
        {"intra_op": 1, "blas": "blis"},
        "grid",
        synthetic.hard_saturation(500.0, 900.0),
        check_ok=False,
    ),
)


def found(folder, *launches, change=lambda plan: None, **options):
    plan = synthetic.write_study(folder, launches=launches, noise=QUIET, **options)
    change(plan)
    collected = collect(folder, typed(plan))
    return pareto("m", candidates(collected.points, collected.cohorts.cohorts), typed(plan))


def points(*pairs):
    return [
        FrontPoint(label="a", n=at, time_s=time_s, rate=rate)
        for at, (time_s, rate) in enumerate(pairs)
    ]


@pytest.mark.parametrize(
    ("pairs", "ids"),
    [
        ([], []),
        ([(1, 5)], [0]),
        ([(2, 8), (1, 5)], [1, 0]),
        ([(1, 5), (2, 4)], [0]),
        ([(1, 5), (2, 4), (3, 9), (2.5, 9)], [0, 3]),
        ([(1, 4), (1, 5)], [1]),
        ([(1, 5), (2, 5)], [0]),
        ([(1, 5), (1, 5)], [0]),
    ],
    ids=["none", "one", "both", "beaten", "between", "as soon", "as many", "equal"],
)
def test_a_point_that_another_one_beats_is_not_on_the_front(pairs, ids):
    assert [point.n for point in front(points(*pairs))] == ids


def test_the_front_goes_from_one_model_soonest_to_most_an_hour(tmp_path):
    whole = found(tmp_path, *LAUNCHES)
    assert whole.rate == "models_per_hour"
    assert len(whole.points) == 3 * 6  # neither the repeat nor what was not proven
    ends = [(point.label, point.n) for point in (whole.front[0], whole.front[-1])]
    assert ends[0] == ("default", 1)
    assert ends[1][0] == "intra_op 1"
    assert ends[1][1] >= 3
    first = whole.front[0]
    assert first.time_s == pytest.approx(3600 / first.rate)
    assert first.time_s == pytest.approx(500 / 81.0, rel=0.02)
    times = [point.time_s for point in whole.front]
    assert times == sorted(times)


def test_a_step_stands_for_a_model_of_unknown_length(tmp_path):
    whole = found(tmp_path, *LAUNCHES, steps_per_model=None)
    assert whole.rate == "steps_per_s"
    assert whole.front[0].time_s == pytest.approx(1 / 81.0, rel=0.02)


def test_without_a_point_there_is_no_front(tmp_path):
    whole = found(tmp_path, synthetic.Launch({}, "default", ending="failed"))
    assert whole == Pareto(machine="m", rate="models_per_hour")
