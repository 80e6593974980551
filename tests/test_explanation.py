import pandas as pd
import pytest

from scaling_study.analysis.laws import DOMAIN_SATURATION
from scaling_study.analysis.laws import LAWS as FITTED
from scaling_study.report.explanation import ACCOUNTS, LAWS, UserTime, explain

FOUR = ("user", "system", "runqueue", "blocked")
REFUSED = {"status": "refused", "reason": "too few", "best": None, "candidates": [], "knee": None}
FOUND = {
    "status": "fitted",
    "reason": None,
    "best": "hard_saturation",
    "text": "hard saturation, Akaike weight 0.97",
    "candidates": [{}, {}, {}],
    "knee": {"value": 3.14, "low": 2.9, "high": 3.4},
}


def points(counts, rates, accounts_ms):
    return pd.DataFrame(
        [
            {
                "launch": "a",
                "n": n,
                "steps_per_s": rate,
                "efficiency": rate / rates[0] / n,
                "cpu_use": 0.9 * n,
                **dict.fromkeys(ACCOUNTS, 0.0),
                **{
                    f"trainer_{name}_s_per_step": ms / 1e3
                    for name, ms in zip(FOUR, parts, strict=True)
                },
            }
            for n, rate, parts in zip(counts, rates, accounts_ms, strict=True)
        ]
    )


def said(frame, laws=REFUSED):
    (found,) = explain({"a": "the launch"}, frame, [{"launch": "a", "laws": laws}], 8)
    assert found.launch == "the launch"
    return " ".join(found.findings)


SATURATED = points([1, 2, 8], [50, 90, 80], [(8, 1, 0, 1), (9, 1, 1, 1), (10, 1, 7, 2)])


def test_the_added_time_is_divided_and_its_largest_part_comes_first():
    text = said(SATURATED)
    assert "10.0 ms with 1 process and 20.0 ms with 8" in text
    assert "70% waiting for a CPU (run queue), 20% CPU time in user mode, 10% blocked" in text
    assert "CPU time in the kernel" not in text


def test_growth_names_the_highest_point_and_the_busy_cpus():
    text = said(SATURATED)
    assert "factor of 1.60 (with 2, its highest, by 1.80)" in text
    assert "efficiency of 20%" in text
    assert "7.20 of 8 usable CPUs" in text


def test_what_still_scales_needs_no_explanation():
    text = said(points([1, 2], [50, 99], [(8, 1, 0, 1), (8, 1, 0.1, 1)]))
    assert "it still scales there" in text
    assert "added" not in text


def test_a_part_that_shrank_is_named():
    text = said(points([1, 2], [50, 60], [(8, 1, 0, 4), (18, 1, 0, 1)]))
    assert "blocked shrank" in text


def test_one_count_tells_nothing():
    assert "nothing is known about scaling" in said(points([4], [50], [(1, 1, 1, 1)]))


def test_missing_accounts_are_not_divided():
    frame = SATURATED.assign(trainer_runqueue_s_per_step=float("nan"))
    assert "added" not in said(frame)


def test_a_quota_that_nothing_counts_is_no_account_of_its_own():
    unknown = SATURATED.assign(trainer_throttled_s_per_step=float("nan"))
    assert said(unknown) == said(SATURATED)
    counted = SATURATED.assign(
        trainer_runqueue_s_per_step=[0, 0.001, 0.002],
        trainer_throttled_s_per_step=[0, 0, 0.005],
    )
    text = said(counted)
    assert "50% held back by a CPU quota, 20%" in text
    assert "20% waiting for a CPU" in text


def test_what_is_not_accounted_for_is_said():
    text = said(SATURATED.assign(trainer_residual_s_per_step=[0, 0, 0.010]))
    assert "10.0 ms with 1 process and 30.0 ms with 8" in text
    assert "50% not accounted for, 35% waiting for a CPU" in text


COUNTED = SATURATED.assign(
    user_s_per_step=[0.010, 0.015, 0.040],
    instructions_per_step=[2e7, 2e7, 4e7],
    cycles_per_step=[3e7, 4.5e7, 9e7],
)


def test_user_time_divides_into_work_stalls_and_clock():
    # Four times the time: twice the instructions, 1.5 times the cycles for each, 3 GHz to 2.25.
    text = said(COUNTED)
    assert "10.0 ms in user mode per step with 1 process and 40.0 ms with 8" in text
    assert "50% is more instructions, 29% more cycles for each of them (stalls)" in text
    assert "and 21% a lower clock" in text


def test_shares_of_user_time_add_up_whatever_the_counts():
    before, after = UserTime(0.01, 2e7, 3e7), UserTime(0.08, 1e7, 7e7)
    shares = after.growth_from(before)
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["work"] < 0 < shares["clock"] < shares["stalls"]


@pytest.mark.parametrize("column", ["cycles_per_step", "instructions_per_step"])
def test_without_counters_user_time_is_not_divided(column):
    assert "in user mode per step" not in said(SATURATED)
    assert "in user mode per step" not in said(COUNTED.assign(**{column: float("nan")}))


def test_user_time_that_does_not_grow_is_not_divided():
    assert "in user mode per step" not in said(COUNTED.assign(user_s_per_step=0.01))


def test_the_law_is_said_with_its_knee_or_why_there_is_none():
    text = said(SATURATED, FOUND)
    assert "Of 3 scaling laws, growth in proportion up to a hard ceiling fits best" in text
    assert "knee is at 3.14 processes (95% interval 2.90 to 3.40, if the law holds)" in text
    assert "knee" not in said(SATURATED, {**FOUND, "knee": None})
    assert "No scaling law was fitted: too few." in said(SATURATED)


@pytest.mark.parametrize("name", [*(law.name for law in FITTED), DOMAIN_SATURATION])
def test_every_law_has_words(name):
    assert name in LAWS


def test_a_launch_without_points_is_left_out():
    assert explain({"gone": "gone"}, SATURATED, [], 8) == ()
