"""analysis/confirmation.json, from rounds that are made up."""

import json
import math

import pandas as pd
import pytest
from msgspec.structs import replace

import confirm_jobs
from made_records import kept, made_plan
from scaling_study.confirm.confirmation import Length, summarise
from scaling_study.records.codec import RecordError, plain
from scaling_study.records.columns import WINDOWS
from scaling_study.records.confirmation import Arm, Head
from scaling_study.records.model_length import ModelLength
from timelines import PER_HOUR, queue, record

PLAN = made_plan({}, {}, baseline="1")
MACHINE = "abc"
MODEL_S, SLOW_S = 8.0, 16.0
MODEL, SLOW = (5.0, 500, 0.005, 0.5), (5.0, 500, 0.021, 0.5)
KEYS = ("recommended/fresh", "recommended/forked", "default/fresh",
        "default_same_n/fresh")  # fmt: skip
FORKED = "recommended/forked"
LENGTH = Length(500, {})
NO_WINDOWS = WINDOWS.frame()[["machine", "launch", "n", "valid", "frequency_mhz"]]
FOUND = confirm_jobs.recommendation(PLAN, 2, 1, MACHINE)


def predicted(**changed):
    """A recommendation with another prediction."""
    return replace(FOUND, recommended=replace(FOUND.recommended, **changed))


def head(keys=KEYS):
    arms = []
    for key in keys:
        role, way = key.split("/")
        launch = PLAN.by_id[PLAN.baseline if role == "recommended" else PLAN.default]
        arms.append(Arm(role, launch.id, launch.label, 1 if role == "default" else 2, way))
    return plain(
        Head(
            schema_version=5, study="s", machine_hash=MACHINE, arms=arms, seed=1, seconds=100.0,
            started="2026-01-01T00:00:00+00:00", measured_hash="m", harness_hash="h",
        )
    )  # fmt: skip


def a_round(key, turn, factor=1.0, **changed):
    """A round of whole models, of which each takes `factor` as long as usual."""
    slow = not key.startswith("recommended")
    usual = [each * factor for each in (SLOW if slow else MODEL)]
    usual[1] = 500
    way = key.split("/")[1]
    slots = 1 if key.startswith("default/") else 2
    runs = [one for slot in range(slots) for one in queue(slot, [tuple(usual)] * 9, 40.0, way=way)]
    usual = plain(record([runs], 40.0))
    return usual | {"turn": turn, "arm": key, **changed}


def machine(
    tmp_path, records, *, keys=KEYS, windows=NO_WINDOWS, recommendation=FOUND, length=LENGTH
):
    path = tmp_path / "rounds.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in [head(keys), *records]))
    (one,) = summarise([recommendation], path, windows, length)
    return kept(one)


def rounds(*factors):
    return [a_round(key, turn, factor) for turn, factor in enumerate(factors) for key in KEYS]


def test_every_arm_is_there_with_its_interval(tmp_path):
    one = machine(tmp_path, rounds(1.0, 1.05, 0.95))
    assert one.status == "confirmed"
    assert [f"{arm.role}/{arm.start}" for arm in one.arms] == list(KEYS)
    best = one.arms[0]
    assert best.value == pytest.approx(2 * PER_HOUR / MODEL_S, rel=0.02)
    assert best.low < best.value < best.high
    assert (best.rounds, best.cut) == (3, False)
    assert best.predicted == 1000.0
    assert (best.whole_models, one.left_out) == (2 * (5 + 4 + 5), ())
    alone = machine(tmp_path, rounds(1.0)).arms[0]
    assert (alone.low, alone.high) == (None, None)


def test_ratios_are_paired_by_turn(tmp_path):
    one = machine(tmp_path, rounds(1.0, 1.5, 0.8))
    for name, times in (("ratio", 2), ("ratio_same_n", 1)):
        ratio = getattr(one, name)
        assert ratio.value == pytest.approx(times * SLOW_S / MODEL_S, rel=0.02)
        # Turns differ by half; within a turn both go along.
        assert ratio.high / ratio.low < 1.2


@pytest.mark.parametrize(("factor", "start"), [(0.9, "forked"), (1.1, "fresh")])
def test_the_better_start_in_a_process_of_its_own_is_what_is_compared(tmp_path, factor, start):
    records = [
        a_round(FORKED, one["turn"], factor) if one["arm"] == FORKED else one
        for one in rounds(1.0, 1.0)
    ]
    one = machine(tmp_path, records)
    assert one.start == start
    assert one.arm("recommended") is one.arm("recommended", start)
    gain = 2 * SLOW_S / MODEL_S * max(1.0, 1 / factor)
    assert one.ratio.value == pytest.approx(gain, rel=0.02)
    assert one.difference.value < 1  # of what was predicted: a process for each model


@pytest.mark.parametrize(("others", "gain", "same_n"), [([], 1.25, None), (KEYS[3:], None, 2.5)])
def test_fresh_starts_are_compared_with_only_where_the_default_launch_is_best(
    tmp_path, others, gain, same_n
):
    """The default launch may have been confirmed with the recommended number of processes only."""
    keys = [*KEYS[:2], *others]
    rows = [a_round(key, turn, 0.8 if key == FORKED else 1) for turn in range(3) for key in keys]
    one = machine(tmp_path, rows, keys=keys)
    assert (one.start, one.against) == ("forked", "default")
    found = [ratio and round(ratio.value, 2) for ratio in (one.ratio, one.ratio_same_n)]
    assert found == [gain, same_n]


def factors(one):
    """The parts of a difference, whose product it is."""
    parts = {part.what: part.factor for part in one.difference.parts}
    product = math.prod(parts.values()) * one.difference.unexplained
    assert product == pytest.approx(one.difference.value)
    return parts


@pytest.mark.parametrize("model_s", [2.5, MODEL_S], ids=["without a start", "with its start"])
def test_what_was_not_predicted_of_a_start_and_an_end_is_a_part(tmp_path, model_s):
    recommendation = predicted(steps_per_s=2 / 0.005, models_per_hour=2 / model_s * PER_HOUR)
    one = machine(tmp_path, rounds(1.0, 1.0), recommendation=recommendation)
    parts = factors(one)
    assert one.difference.value == pytest.approx(model_s / MODEL_S, rel=0.01)
    assert parts["start"] == pytest.approx(model_s / MODEL_S, rel=0.01)
    assert parts["queue"] == 1
    assert one.difference.unexplained == pytest.approx(1, rel=0.01)


def test_what_lies_between_iterations_is_a_part(tmp_path):
    # The windows have seen a fifth of the time between iterations, the rounds nothing.
    recommendation = predicted(
        steps_per_s=2 / 0.005, non_step_share=0.2, models_per_hour=2 * PER_HOUR / MODEL_S
    )
    records = rounds(1.0, 1.0)
    for one in records:
        for run in one["runs"]:
            run["ordinary_s"] = 0.005
    parts = factors(machine(tmp_path, records, recommendation=recommendation))
    usual_s = MODEL_S - 2.5
    assert parts["between"] == pytest.approx((usual_s + 500 * 0.005 / 0.8) / MODEL_S, rel=0.01)


def test_the_clock_is_a_part_where_it_is_known(tmp_path):
    rows = [("1", True, 4000.0), ("1", False, 9000.0), ("0", True, 1000.0)]
    windows = pd.DataFrame(rows, columns=["launch", "valid", "frequency_mhz"])
    windows = windows.assign(machine=MACHINE, n=2)
    records = [{**one, "frequency_mhz": 3600.0} for one in rounds(1.0, 1.0)]
    assert factors(machine(tmp_path, records, windows=windows))["clock"] == pytest.approx(0.9)


def test_an_arm_that_failed_once_is_left_out_with_its_reason(tmp_path):
    records = rounds(1.0, 1.0)
    records[-1] |= {"status": "failed", "reason": "out of memory", "runs": []}
    once = [one for one in records if one["arm"] == "recommended/forked"]
    once[0] |= {"status": "failed", "reason": "no fork"}
    one = machine(tmp_path, records)
    assert [(left.arm, left.status, left.reason) for left in one.left_out] == [
        ("recommended/forked", "failed", "no fork"),
        ("default_same_n/fresh", "failed", "out of memory"),
    ]
    assert len(one.arms) == 2
    assert one.ratio_same_n is None
    assert one.ratio.value > 1


def test_rounds_tell_the_steps_of_a_model_where_windows_did_not(tmp_path):
    records, usual = rounds(1.0, 1.05), machine(tmp_path, rounds(1.0, 1.05))
    length = Length(None, {}, ModelLength())
    default = replace(FOUND.default, models_per_hour=None)
    of_steps = replace(predicted(models_per_hour=None), objective="steps_per_s", default=default)
    one = machine(tmp_path, records, recommendation=of_steps, length=length)
    assert one.objective == "models_per_hour"
    ended = sum(run["ended_s"] is not None for record in records for run in record["runs"])
    assert one.model_length == ModelLength(ended, 500, 500, 500)
    assert [arm.value for arm in one.arms] == [arm.value for arm in usual.arms]
    assert [arm.predicted for arm in one.arms] == [None] * 4
    assert one.difference is None


def test_one_models_time_is_compared_and_not_what_all_processes_give(tmp_path):
    recommendation = replace(FOUND, objective="model_s")
    usual = machine(tmp_path, rounds(1.0, 1.05, 0.95))
    one = machine(tmp_path, rounds(1.0, 1.05, 0.95), recommendation=recommendation)
    assert one.arms == usual.arms
    # Two recommended processes against one of the default.
    assert one.ratio.value == pytest.approx(usual.ratio.value / 2)
    assert one.ratio_same_n.value == pytest.approx(usual.ratio_same_n.value)


@pytest.mark.parametrize(
    "damage", [{"cut_s": "long"}, {"cut_s": -1.0}, {"status": "fine"}, {"runs": [{"slot": 0}]}]
)
def test_a_damaged_record_is_named(tmp_path, damage):
    with pytest.raises(RecordError, match=r"rounds.jsonl:2"):
        machine(tmp_path, [{**rounds(1.0)[0], **damage}])
