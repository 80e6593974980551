"""The launch to use, and the points that no other one beats at both: how soon, and how many."""

import pytest

import synthetic
from recommendations import BASELINE, DEFAULT, measured, points, recommended
from scaling_study.analysis.recommend import front, pareto


def searched(launch, n):
    """What has become of a race that holds this point for the best."""
    choice = {"launch": launch, "n": n, "probability": 0.87}
    ended = {"rounds": [], "reason": "", "next": None, "not_screened": []}
    return {"choice": choice, "spent_s": 1.0, "budget_s": 1.0, **ended}


def test_the_smallest_n_within_two_percent_of_the_best_of_all_launches(tmp_path):
    # Still rises by a percent to n = 8, which is not worth five more processes.
    rise = lambda n: min(60.0 * n, 180.0) * (1 + 0.002 * n)  # noqa: E731
    slow_rise = synthetic.Launch({"intra_op": 1, "allocator": "jemalloc"}, "one_change", rise)
    found = recommended(tmp_path, DEFAULT, BASELINE, slow_rise)
    assert found.status == "ok"
    assert (found.recommended.launch, found.recommended.n) == (slow_rise.id, 3)
    assert (found.best.launch, found.best.n) == (slow_rise.id, 8)
    assert found.recommended.probability_best > 0.9
    assert found.objective == "models_per_hour"
    rate = found.recommended.steps_per_s * 3600 / 499  # the first step belongs to the start
    assert found.recommended.models_per_hour == pytest.approx(rate)


@pytest.mark.parametrize(("gain", "membind"), [(1.01, "preferred"), (1.1, "local")])
def test_memory_that_may_kill_is_recommended_only_beyond_the_tolerance(tmp_path, gain, membind):
    launches = [
        synthetic.Launch(
            {"intra_op": 1, "placement": "cores", "membind": value}, "grid",
            synthetic.hard_saturation(faster * 60.0, faster * 240.0),
        )
        for value, faster in (("local", gain), ("preferred", 1.0))
    ]  # fmt: skip
    found = recommended(tmp_path, DEFAULT, BASELINE, *launches)
    assert found.recommended.axes["membind"] == membind


def test_what_starts_the_recommended_members_comes_from_the_record(tmp_path):
    law = synthetic.hard_saturation(60.0, 240.0)
    bound = synthetic.Launch({"intra_op": 1, "placement": "compact"}, "grid", law)
    recommendation = recommended(tmp_path, DEFAULT, BASELINE, bound).recommended
    assert [slot.cpus for slot in recommendation.slots] == ["0", "1", "2", "3"]
    assert recommendation.requested_env == {"OMP_NUM_THREADS": "1"}
    assert recommendation.axes["placement"] == "compact"


def test_the_ratio_compares_each_at_its_own_point_and_both_at_the_same_n(tmp_path):
    found = recommended(tmp_path, DEFAULT, BASELINE)
    assert found.default.n == 2
    assert found.default.at_n.n == found.recommended.n == 3
    assert found.ratio.value == pytest.approx(150 / 60, rel=0.02)
    assert found.ratio.low < 2.5 < found.ratio.high
    same_n = found.recommended.steps_per_s / found.default.at_n.steps_per_s
    assert found.ratio_same_n.value == pytest.approx(same_n)


def test_the_most_processes_are_set_against_those_of_the_best_point(tmp_path):
    falling = synthetic.Launch({}, "default", lambda n: min(40.0 * n, 60.0) / max(1.0, n / 4))
    found = recommended(tmp_path, falling, BASELINE)
    most = found.default.most
    assert (found.default.n, most.n) == (2, 8)
    assert most.ratio.value == pytest.approx(0.5, rel=0.05)
    assert most.ratio.low < most.ratio.value < most.ratio.high < 1
    alone = recommended(tmp_path / "alone", synthetic.Launch({}, "default", synthetic.linear(50.0)))
    assert alone.recommended.most is None
    assert alone.recommended.launch == alone.default.launch
    assert alone.ratio.value == alone.ratio.low == alone.ratio.high == 1.0


def test_the_ranking_has_every_candidate_once_best_first(tmp_path):
    repeat = synthetic.Launch({"intra_op": 1}, "repeat", synthetic.hard_saturation(60.0, 200.0))
    other = synthetic.Launch({"intra_op": 2}, "grid", synthetic.hard_saturation(50.0, 100.0))
    found = recommended(tmp_path, DEFAULT, BASELINE, repeat, other)
    ranking = found.ranking
    rates = [row.steps_per_s for row in ranking]
    assert rates == sorted(rates, reverse=True)
    assert [row.role for row in ranking] == ["baseline", "grid", "default"]  # no repeat
    assert found.best.role == "baseline"
    assert ranking[-1].ratio_to_default == 1.0
    assert ranking[0].ratio_to_default == found.ratio.value
    assert ranking[0].probability_best == found.recommended.probability_best


@pytest.mark.parametrize(
    "spoiled",
    [{"ending": "failed"}, {"ending": "skipped"}, {"check_ok": False}],
    ids=lambda spoiled: next(iter(spoiled)),
)
def test_what_was_not_proven_or_not_measured_never_wins(tmp_path, spoiled):
    law = synthetic.hard_saturation(500.0, 1500.0)
    fast = synthetic.Launch({"intra_op": 1, "blas": "blis"}, "one_change", law, **spoiled)
    found = recommended(tmp_path, DEFAULT, BASELINE, fast)
    assert found.recommended.launch == BASELINE.id
    assert fast.id not in [row.launch for row in found.ranking]


def test_a_lost_default_leaves_no_ratio(tmp_path):
    lost = synthetic.Launch({}, "default", ending="failed")
    found = recommended(tmp_path, lost, BASELINE)
    assert found.status == "ok"
    assert found.default is found.ratio is found.ratio_same_n is None
    assert found.ranking[0].ratio_to_default is None


def test_nothing_measured_recommends_nothing_and_says_why(tmp_path):
    found = recommended(tmp_path, synthetic.Launch({}, "default", ending="failed"))
    assert found.status == "none"
    assert "no launch has a valid window" in found.reason
    assert found.recommended is None
    assert found.ranking == ()


def test_one_replicate_gives_values_without_interval_or_probability(tmp_path):
    found = recommended(tmp_path, DEFAULT, BASELINE, replicates=1, steps_per_model=None)
    assert found.objective == "steps_per_s"
    for entry in (found.recommended, found.default, found.best):
        assert entry.steps_per_s > 0
        assert entry.low is entry.high is entry.models_per_hour is None
    assert found.recommended.probability_best is None
    assert found.ratio.value > 2
    assert found.ratio.low is None


@pytest.mark.parametrize(("launch", "n"), [(BASELINE.id, 2), (DEFAULT.id, 1)])
def test_a_race_has_chosen_already_and_knows_how_surely(tmp_path, launch, n):
    def raced(plan):
        plan["searched"] = searched(launch, n)

    found = recommended(tmp_path, DEFAULT, BASELINE, change=raced)
    assert found.raced
    assert (found.recommended.launch, found.recommended.n) == (launch, n)
    assert found.recommended.probability_best == 0.87


@pytest.mark.parametrize("axis", ["batch", "autocast"])
def test_what_changes_training_is_named_beside_the_recommendation(tmp_path, axis):
    """The samples of a step, or coarser numbers: three times as fast, and not recommended."""

    def change(plan):
        for launch in plan["launches"]:
            launch["axes"] |= {"batch": 64, "autocast": "off"}
        other = next(one for one in plan["launches"] if one["axes"]["intra_op"] == 2)
        other["axes"][axis] = {"batch": 512, "autocast": "bf16"}[axis]
        plan["workload"] |= {
            "parameters": {"batch": 64},
            "args": ["{batch}"],
            "samples_per_step": "batch" if axis == "batch" else None,
        }

    launches = [
        synthetic.Launch({"intra_op": threads} if threads else {}, role, synthetic.linear(rate))
        for threads, role, rate in ((0, "default", 10), (1, "baseline", 20), (2, "grid", 60))
    ]
    found = recommended(tmp_path, *launches, change=change)
    assert found.recommended.label == "intra_op 1"
    changed = found.changed
    assert changed.label == "intra_op 2"
    assert changed.what == {axis: {"batch": 512, "autocast": "bf16"}[axis]}
    assert changed.ratio.value > 2
    assert {entry.label for entry in found.ranking} >= {"intra_op 1", "intra_op 2"}


# Two threads make one model sooner; one thread each gives most together.
SOONER = synthetic.Launch({"intra_op": 2}, "grid", synthetic.hard_saturation(80.0, 120.0))


def test_one_model_soonest_is_another_launch_than_most_models(tmp_path):
    most = recommended(tmp_path / "most", DEFAULT, BASELINE, SOONER)
    assert (most.recommended.launch, most.recommended.n) == (BASELINE.id, 3)
    found = recommended(tmp_path / "one", DEFAULT, BASELINE, SOONER, objective="one_model")
    assert found.objective == "model_s"
    assert (found.recommended.launch, found.recommended.n) == (SOONER.id, 1)
    assert found.recommended.probability_best > 0.9
    assert (found.throughput.launch, found.throughput.n >= 3) == (BASELINE.id, True)
    assert [row.launch for row in found.ranking] == [SOONER.id, BASELINE.id, DEFAULT.id]
    assert {row.n for row in found.ranking} == {1}


def test_one_model_is_compared_with_the_default_launchs_own_shortest_time(tmp_path):
    found = recommended(tmp_path, DEFAULT, BASELINE, SOONER, objective="one_model")
    assert found.default.n == 1  # where two give most
    assert found.ratio == found.ratio_same_n
    assert found.ratio.value == pytest.approx(80 / 40, rel=0.02)
    assert found.ratio.low < found.ratio.value < found.ratio.high
    time = found.recommended.gives("model_s")
    assert time.value == pytest.approx(500 / 80, rel=0.02)
    assert time.low < time.value < time.high


# ---- the front


LAUNCHES = (
    # Alone its threads make it the fastest; together they stand in each other's way.
    synthetic.Launch({}, "default", lambda n: 80.0 + n),
    synthetic.Launch({"intra_op": 1}, "baseline", synthetic.hard_saturation(50.0, 150.0)),
    synthetic.Launch({"intra_op": 1}, "repeat", synthetic.hard_saturation(90.0, 900.0)),
    synthetic.Launch({"intra_op": 2}, "grid", synthetic.hard_saturation(40.0, 100.0)),
    synthetic.Launch({"blas": "blis"}, "grid", synthetic.hard_saturation(500, 900), check_ok=False),
)


@pytest.mark.parametrize(
    ("pairs", "ids"),
    [
        ([], []),
        ([(2, 8), (1, 5)], [1, 0]),
        ([(1, 5), (2, 4), (3, 9), (2.5, 9)], [0, 3]),
        ([(1, 4), (1, 5)], [1]),
        ([(1, 5), (2, 5)], [0]),
        ([(1, 5), (1, 5)], [0]),
    ],
    ids=["none", "both", "between", "as soon", "as many", "equal"],
)
def test_a_point_that_another_one_beats_is_not_on_the_front(pairs, ids):
    assert [point.n for point in front(points(*pairs))] == ids


def test_the_front_goes_from_one_model_soonest_to_most_an_hour(tmp_path):
    found, _, plan = measured(tmp_path, *LAUNCHES)
    whole = pareto("m", found, plan)
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
