import copy

import pytest

from scaling_study.report.headline import describe_sureness, write_headline

NOISE = {"spread": 0.02, "points": [{"n": 1, "ratio": 0.995}, {"n": 4, "ratio": 1.02}]}
X = "\N{MULTIPLICATION SIGN}"


def point(launch, label, n, rate, **more):
    return {
        "launch": launch, "label": label, "arm": "grid", "n": n, "replicates": 3,
        "steps_per_s": rate,
        "low": 0.98 * rate, "high": 1.02 * rate, "models_per_hour": 7.2 * rate,
        "models_per_hour_low": 7.056 * rate, "models_per_hour_high": 7.344 * rate, **more,
    }  # fmt: skip


def ratio(value, low=None, high=None):
    return {"value": value, "low": low, "high": high}


def recommendation(**changes):
    default = point("d", "default", 1, 50.0, at_n=point("d", "default", 4, 10.0), most=None)
    best = point("b", "intra_op 1", 4, 200.0, probability_best=0.97, most=None)
    found = {
        "status": "ok",
        "reason": None,
        "objective": "models_per_hour",
        "raced": False,
        "tolerance": 0.02,
        "default": default,
        "best": best,
        "recommended": best,
        "ratio": ratio(4.0, 3.8, 4.2),
        "ratio_same_n": ratio(20.0, 19.0, 21.0),
        "ranking": [best, point("c", "intra_op 2", 3, 190.0), default],
    }
    return {**copy.deepcopy(found), **changes}


def arm(role, launch, label, n, value, **changes):
    return {
        "role": role, "launch": launch, "label": label, "n": n, "queue": "process_per_model",
        "ran": "exec", "rounds": 4, "value": value, "low": 0.95 * value, "high": 1.05 * value,
        "predicted": None, "start_s": 4.0, "iteration_s": 0.01, "end_s": 0.1, "whole_models": 8,
        "ended_after": None, "cut": False, "end_seen": True, **changes,
    }  # fmt: skip


def confirmation(**changes):
    found = {
        "machine": "m",
        "cpu_model": "Example CPU",
        "status": "confirmed",
        "reason": None,
        "objective": "models_per_hour",
        "raced": False,
        "seconds": None,
        "arms": [
            arm("recommended", "b", "intra_op 1", 4, 911.0, predicted=1440.0),
            arm("recommended", "b", "intra_op 1", 4, 1100.0, queue="one_process", ran="fork"),
            arm("default", "d", "default", 1, 450.0, predicted=360.0),
            arm("default_same_n", "d", "default", 4, 80.0, predicted=72.0),
        ],
        "ratio": ratio(2.02, 1.9, 2.15),
        "ratio_same_n": ratio(11.4, 10.1, 12.9),
        "difference": {
            "value": 0.633,
            "parts": [{"what": "start", "factor": 0.66}, {"what": "clock", "factor": 0.999}],
            "unexplained": 0.96,
        },
    }
    return {**copy.deepcopy(found), **changes}


def written(found, noise=NOISE, replicates=3, **more):
    return write_headline(found, noise, replicates=replicates, **more)


def notes(headline):
    return " ".join(note.text for note in headline.notes)


def one_start():
    found = recommendation(ratio=ratio(4.0), ratio_same_n=None)
    for entry in (found["recommended"], found["default"]):
        entry.update(low=None, high=None, replicates=1)
        entry.update(models_per_hour_low=None, models_per_hour_high=None)
    return found


def default_best(probability):
    found = recommendation(ratio=ratio(1.0, 1.0, 1.0))
    found["recommended"] = {**found["default"], "probability_best": probability}
    return found


def alone():
    found = recommendation()
    one = found["default"] | {"at_n": None}
    return recommendation(recommended=one, best=one, ranking=[one])


FURTHER = point("d", "default", 8, 203.0, at_n=point("d", "default", 4, 190.0), most=None)
NARROW = {"ratio_same_n": ratio(1.05, 0.97, 1.13)}
VERDICTS = {
    "faster": (
        recommendation(ratio_same_n=ratio(4.1, 4.0, 4.2)),
        f"One thread per process: 4.00{X} the default launch (3.80{X} to 4.20{X}), predicted",
    ),
    "faster, and far more at the same count": (
        recommendation(),
        (
            f"One thread per process: 4.00{X} the default launch (3.80{X} to 4.20{X}), predicted; "
            f"20.0{X} with 4 processes each"
        ),
    ),
    "faster, known badly": (
        recommendation(ratio=ratio(6.5, 1.6, 26.0), ratio_same_n=None),
        (
            f"One thread per process: at least 1.60{X} the default launch "
            f"(6.50{X}; 1.60{X} to 26.0{X}), predicted"
        ),
    ),
    "certain at the same count only": (
        recommendation(ratio=ratio(1.82, 0.42, 7.84), ratio_same_n=ratio(6.5, 3.3, 12.9)),
        (
            f"One thread per process: 6.50{X} the default at 4 processes (3.30{X} to 12.9{X}), "
            "predicted"
        ),
    ),
    "not certain": (
        recommendation(ratio=ratio(1.82, 0.42, 7.84), ratio_same_n=None),
        (
            f"One thread per process: 1.82{X} the default launch (0.420{X} to 7.84{X}), predicted; "
            "a gain is not certain"
        ),
    ),
    "no large gain": (
        recommendation(ratio=ratio(1.05, 0.97, 1.13), **NARROW),
        (
            f"One thread per process: at most 1.13{X} the default launch "
            f"(1.05{X}; 0.970{X} to 1.13{X}), predicted"
        ),
    ),
    "as fast with fewer processes": (
        recommendation(ratio=ratio(0.985, 0.975, 0.995), ratio_same_n=None, default=FURTHER),
        (
            f"The default launch is the fastest; one thread per process gives 0.985{X} "
            f"(0.975{X} to 0.995{X}) with 4 processes instead of 8, predicted; "
            "the same launch measured twice differed by 2.0%"
        ),
    ),
    "within the A/A check": (
        recommendation(ratio=ratio(1.015, 1.01, 1.02), ratio_same_n=None),
        (
            f"One thread per process: at most 1.02{X} the default launch "
            f"(1.01{X}; 1.01{X} to 1.02{X}), predicted; "
            "the same launch measured twice differed by 2.0%"
        ),
    ),
    "one start each": (
        one_start(),
        f"One thread per process: 4.00{X} the default launch, predicted without an interval",
    ),
    "the default is best": (
        default_best(0.9),
        "The default launch is the best one found: 360 models/hour predicted with 1 process",
    ),
    "the default may be best": (
        default_best(0.5),
        "No launch measured faster than the default: 360 models/hour predicted with 1 process",
    ),
    "the default failed": (
        recommendation(default=None, ratio=None, ratio_same_n=None),
        (
            "1,440 models/hour predicted with 4 processes of one thread per process; "
            "the default launch gave nothing to compare with"
        ),
    ),
    "one launch": (
        alone(),
        "Only one launch could be measured: 360 models/hour predicted with 1 process",
    ),
}


@pytest.mark.parametrize(("found", "verdict"), VERDICTS.values(), ids=VERDICTS)
def test_the_verdict_of_each_state_of_knowledge(found, verdict):
    assert written(found).verdict == verdict


@pytest.mark.parametrize("found", [found for found, _ in VERDICTS.values()], ids=VERDICTS)
def test_only_a_confirmed_number_is_not_called_predicted(found):
    for given in (None, confirmation(status="off", arms=[])):
        headline = written(found, confirmation=given)
        assert "predicted" in headline.verdict
        assert all("predicted" in bar.interval for bar in headline.bars)
        assert "Predicted from windows of training" in notes(headline)


CONFIRMED = {
    "confirmed": (
        {},
        (
            f"One thread per process: 911 models/hour, 2.02{X} the default launch "
            f"(1.90{X} to 2.15{X}), confirmed"
        ),
    ),
    "known badly": (
        {"ratio": ratio(6.5, 1.6, 26.0)},
        (
            f"One thread per process: 911 models/hour, at least 1.60{X} the default launch "
            f"(6.50{X}; 1.60{X} to 26.0{X}), confirmed"
        ),
    ),
    "certain at the same count only": (
        {"ratio": ratio(1.02, 0.9, 1.15)},
        (
            f"One thread per process: 911 models/hour, 11.4{X} the default at 4 processes "
            f"(10.1{X} to 12.9{X}), confirmed"
        ),
    ),
    "not certain": (
        {"ratio": ratio(1.02, 0.9, 1.15), "ratio_same_n": None},
        (
            f"One thread per process: 911 models/hour, 1.02{X} the default launch "
            f"(0.900{X} to 1.15{X}), confirmed; a gain is not certain"
        ),
    ),
    "the prediction is contradicted": (
        {"ratio": ratio(0.8, 0.7, 0.9)},
        (
            f"One thread per process: 911 models/hour, 0.800{X} the default launch "
            f"(0.700{X} to 0.900{X}), confirmed; the prediction does not hold"
        ),
    ),
    "one round": (
        {"ratio": ratio(2.02)},
        (
            f"One thread per process: 911 models/hour, 2.02{X} the default launch, "
            "confirmed without an interval"
        ),
    ),
    "nothing to compare with": (
        {"ratio": None, "ratio_same_n": None, "arms": confirmation()["arms"][:1]},
        "Confirmed: 911 models/hour with 4 processes of one thread per process",
    ),
}


@pytest.mark.parametrize(("changes", "verdict"), CONFIRMED.values(), ids=CONFIRMED)
def test_the_verdict_of_a_confirmation(changes, verdict):
    assert written(recommendation(), confirmation=confirmation(**changes)).verdict == verdict


def test_a_confirmation_stands_beside_what_was_predicted():
    headline = written(recommendation(), confirmation=confirmation())
    assert [bar.role for bar in headline.bars] == ["default", "same", "recommended"]
    assert [bar.value for bar in headline.bars] == ["450", "80.0", "911"]
    assert headline.bars[2].interval == "confirmed, 95% interval 865 to 957; predicted 1,440"
    assert headline.bars[2].share == 1.0
    said = notes(headline)
    assert (
        f"Gain over the default launch: 2.02{X} (1.90{X} to 2.15{X}) confirmed, "
        f"4.00{X} (3.80{X} to 4.20{X}) predicted."
    ) in said
    assert (
        "Confirmed with a process per model, started by exec. "
        "With processes that train one model after the other (fork): 1,100 models/hour, "
        f"1.21{X} as many; recommended.sh --queue --reuse trains a list of models so."
    ) in said
    assert "Predicted from windows" not in said


def test_a_difference_from_the_prediction_is_explained_or_said_to_be_unexplained():
    (explained,) = [
        note
        for note in written(recommendation(), confirmation=confirmation()).notes
        if "than predicted" in note.text
    ]
    assert explained.text == (
        "The machine gave 37% less than predicted. "
        f"The factors are: the start and the end of a process (0.660{X})."
    )
    assert not explained.warning
    rest = {"value": 1.2, "parts": [{"what": "queue", "factor": 1.05}], "unexplained": 1.14}
    said = notes(written(recommendation(), confirmation=confirmation(difference=rest)))
    assert f"20% more than predicted. The factors are: the queue (1.05{X})." in said
    assert "A factor of 1.14 is unexplained." in said
    nothing = {"value": 0.8, "parts": [], "unexplained": 0.8}
    headline = written(recommendation(), confirmation=confirmation(difference=nothing))
    assert "This is unexplained." in notes(headline)
    assert any(note.warning for note in headline.notes)
    near = {"value": 0.97, "parts": [], "unexplained": 0.97}
    assert "than predicted" not in notes(
        written(recommendation(), confirmation=confirmation(difference=near))
    )


def test_models_that_were_not_trained_to_their_end_and_rounds_cut_short_are_told():
    cut = arm("recommended", "b", "intra_op 1", 4, 911.0, whole_models=0, cut=True, end_seen=False)
    found = written(recommendation(), confirmation=confirmation(arms=[cut], seconds=119.2))
    said = notes(found)
    assert "No model ended: its time is the start plus all its iterations, without an end." in said
    assert "Set confirm.seconds to 120 to see ends." in said
    assert "at most 911 models/hour" in found.verdict
    assert "rate confirmed, end of a model not seen" in found.verdict.lower()
    assert "stopped at its time limit" in said
    other = cut | {"ended_after": 490}
    said = notes(written(recommendation(), confirmation=confirmation(arms=[other])))
    assert "The script ended after 490 iterations, which is not a model's number" in said


UNKNOWN = {"starts": 0, "steps": None, "shortest": None, "longest": None}
ALIKE = {"starts": 14, "steps": 500.0, "shortest": 500, "longest": 501}
APART = {"starts": 14, "steps": 450.4, "shortest": 300, "longest": 1600}
LENGTHS = [
    (UNKNOWN, "set workload.steps_per_model: N", True),
    (ALIKE, "One model is 500 steps, after which the script ended (14 starts seen", False),
    (APART, "the script ended after 300 to 1,600 steps (14 starts seen to the end)", True),
]


@pytest.mark.parametrize(("length", "text", "warning"), LENGTHS)
def test_where_the_steps_of_a_model_come_from_is_said(length, text, warning):
    found = written(recommendation(model_length=length))
    (note,) = [note for note in found.notes if text in note.text]
    assert note.warning is warning


def test_a_number_in_the_config_needs_no_word():
    for found in (recommendation(), recommendation(model_length=None)):
        assert "seen to the end" not in notes(written(found))


def test_rounds_in_which_a_model_ended_give_models_per_hour_where_windows_gave_steps():
    unknown = recommendation(objective="steps_per_s", model_length=UNKNOWN)
    headline = written(unknown, confirmation=confirmation(model_length=ALIKE, difference=None))
    assert headline.question == "How many models per hour does this machine give?"
    assert {bar.unit for bar in headline.bars} == {"models/hour"}
    assert "launches were chosen by steps/s" in notes(headline)
    assert "confirmed, " not in notes(headline)  # no gain in models beside one in steps


def test_what_was_not_confirmed_is_no_failure():
    reason = "this machine has not been confirmed"
    missing = confirmation(status="none", reason=reason, arms=[])
    note = written(recommendation(), confirmation=missing).notes[0]
    assert note.text.endswith(f"nothing was confirmed: {reason}.")
    slow = confirmation(status="failed", reason=None, arms=[])
    note = written(recommendation(), confirmation=slow).notes[0]
    assert "did not finish two iterations" in note.text


def test_a_failed_confirmation_says_why():
    failed = confirmation(status="failed", reason="the script ended with 1", arms=[])
    headline = written(recommendation(), confirmation=failed)
    assert headline.notes[0].text.endswith("the confirmation failed: the script ended with 1.")
    assert headline.notes[0].warning
    assert "predicted" in headline.verdict


def test_the_gain_is_said_with_its_numbers_and_intervals():
    headline = written(recommendation())
    assert headline.question == "How many models per hour does this machine give?"
    assert [bar.role for bar in headline.bars] == ["default", "same", "recommended"]
    assert [bar.value for bar in headline.bars] == ["360", "72.0", "1,440"]
    assert [bar.share for bar in headline.bars] == pytest.approx([0.25, 0.05, 1])
    assert headline.bars[0].interval == "predicted, 95% interval 353 to 367; 50.0 steps/s"
    assert "4 processes" in headline.bars[2].text
    assert f"(4 against 1 process): 4.00{X} (95% interval 3.80{X} to 4.20{X})" in notes(headline)
    assert not any(note.warning for note in headline.notes)


def test_the_threshold_is_that_of_the_counts_in_question():
    found = recommendation(ratio=ratio(1.03, 1.02, 1.04), ratio_same_n=None)
    assert written(found).verdict.startswith(f"One thread per process: 1.03{X}")
    elsewhere = {"spread": 0.3, "points": [*NOISE["points"], {"n": 8, "ratio": 1.3}]}
    assert written(found, elsewhere).verdict.startswith(f"One thread per process: 1.03{X}")
    assert "differed by 2.0% with 1 and 4 processes" in notes(written(found, elsewhere))
    here = {"spread": 0.3, "points": [{"n": 4, "ratio": 1.3}, {"n": 1, "ratio": 1.0}]}
    assert written(found, here).verdict.startswith(f"One thread per process: at most 1.04{X}")
    unknown = {"spread": 0.3, "points": [{"n": 8, "ratio": 1.3}]}
    assert written(found, unknown).verdict.startswith(f"One thread per process: at most 1.04{X}")


def test_without_steps_per_model_it_counts_steps():
    headline = written(recommendation(objective="steps_per_s"))
    assert headline.question == "How many steps per second does this machine give?"
    assert [bar.unit for bar in headline.bars] == ["steps/s"] * 3
    assert headline.bars[2].value == "200"
    assert "; " not in headline.bars[2].interval


def test_more_processes_that_give_less_are_told():
    found = recommendation()
    found["default"]["most"] = point("d", "default", 4, 10.0) | {"ratio": ratio(0.2, 0.1, 0.4)}
    assert (
        f"More processes give less: the default launch with 4 processes gives 0.200{X} what it "
        f"gives with 1 (0.100{X} to 0.400{X})."
    ) in notes(written(found))
    found["default"]["most"]["ratio"] = ratio(0.8, 0.6, 1.1)
    assert "More processes give less" not in notes(written(found))


def test_the_default_as_the_best_has_one_bar_and_no_ratio():
    headline = written(default_best(0.9))
    assert [bar.text for bar in headline.bars] == ["Default launch: 1 process"]
    assert "over the default launch" not in notes(headline)


def test_a_default_without_windows_leaves_no_ratio():
    headline = written(recommendation(default=None, ratio=None, ratio_same_n=None))
    assert [bar.role for bar in headline.bars] == ["recommended"]
    assert "The default launch gave no valid window" in notes(headline)


def test_one_replicate_claims_no_interval():
    headline = written(one_start(), replicates=1)
    assert headline.bars[0].interval.startswith("predicted, no interval")
    assert any(note.warning and "One start" in note.text for note in headline.notes)


def test_two_replicates_say_where_their_interval_comes_from():
    found = recommendation()
    found["default"]["replicates"] = found["recommended"]["replicates"] = 2
    assert "Each launch was started twice." in notes(written(found, replicates=2))


def test_what_counts_is_the_replicates_that_were_valid():
    found = recommendation()
    found["default"]["replicates"] = 1
    assert "Only 1 of 3 replicates were valid, so the intervals are wider." in notes(written(found))


@pytest.mark.parametrize("noise", [None, {"spread": None, "points": []}])
def test_a_missing_repeat_is_warned_of(noise):
    assert any(note.warning for note in written(recommendation(), noise).notes)


def test_nothing_succeeded():
    headline = written({"status": "none", "reason": "no window", "objective": "steps_per_s"})
    assert headline.verdict == "Nothing to recommend"
    assert headline.bars == ()
    assert notes(headline) == "No window."


def test_a_higher_throughput_with_more_processes_is_told():
    best = point("b", "intra_op 1", 8, 202.0)
    said = notes(written(recommendation(best=best)))
    assert "1,454 models/hour, came with 8 processes of one thread per process." in said


def test_sureness_names_the_closest_other_launch_when_in_doubt():
    assert "97%" in describe_sureness(recommendation())
    assert "intra_op 2" not in describe_sureness(recommendation())
    found = recommendation()
    found["recommended"]["probability_best"] = 0.6
    assert "The closest other is intra_op 2 with 3 processes" in describe_sureness(found)
    found["recommended"]["probability_best"] = None
    assert "no telling" in describe_sureness(found)


def test_launches_without_a_valid_window_are_a_warning_on_top():
    labels = ["intra_op 7", "intra_op 8", "intra_op 8", "intra_op 9", "intra_op 10"]
    lost = [{"launch": label, "label": label, "n": n} for n, label in enumerate(labels, 1)]
    lost.append({"launch": "c", "label": "intra_op 2", "n": 5})  # it has other points
    headline = written(recommendation(), failures={"points": lost})
    assert headline.notes[0].warning
    assert headline.notes[0].text == (
        "4 launches gave no valid window and could not be compared:"
        " intra_op 7; intra_op 8; intra_op 9; 1 more."
    )


def test_a_race_says_what_it_goes_by_and_how_few_starts_there_were():
    best = point("b", "intra_op 1", 5, 201.0, probability_best=0.97, most=None)
    raced = recommendation(raced=True, best=best)
    assert "Recommended is what the race chose" in notes(written(raced))
    few = recommendation(raced=True)
    for entry in (few["recommended"], few["default"]):
        entry["replicates"] = 2
    assert "was started twice only" in notes(written(few, replicates=None))
    few["default"]["replicates"] = 1
    assert "was started once only" in notes(written(few, replicates=None))


def one_model(**changes):
    """Two threads alone are 2.5 times as fast as the default; four processes give most."""
    default = point("d", "default", 1, 20.0, at_n=point("d", "default", 1, 20.0), most=None)
    best = point("b", "intra_op 2", 1, 50.0, probability_best=0.97, most=None)
    most = point("c", "intra_op 1", 4, 200.0)
    return recommendation(
        objective="model_s", default=default, recommended=best, best=best, throughput=most,
        ratio=ratio(2.5, 2.4, 2.6), ratio_same_n=ratio(2.5, 2.4, 2.6),
        ranking=[best, point("c", "intra_op 1", 1, 40.0), default], **changes,
    )  # fmt: skip


def confirmed_alone(**changes):
    return confirmation(
        objective="model_s",
        arms=[
            arm("recommended", "b", "intra_op 2", 1, 25.0, predicted=360.0),
            arm("recommended", "b", "intra_op 2", 1, 30.0, queue="one_process", ran="fork"),
            arm("default", "d", "default", 1, 10.0, predicted=144.0),
        ],
        ratio=ratio(2.5, 2.4, 2.6), ratio_same_n=None, difference=None, **changes,
    )  # fmt: skip


def test_one_model_is_a_time_first_and_sooner_than_the_default():
    headline = written(one_model())
    assert headline.question == "How soon is one model done on this machine?"
    assert headline.verdict == (
        f"intra_op 2: one model in 10.0 s (9.8 to 10.2), 2.50{X} as fast as the default launch "
        f"(2.40{X} to 2.60{X}), predicted"
    )
    assert [(bar.role, bar.value, bar.unit) for bar in headline.bars] == [
        ("default", "25.0", "s"), ("recommended", "10.0", "s"),
    ]  # fmt: skip
    assert headline.bars[0].share == 1.0
    assert headline.bars[1].interval == "predicted, 95% interval 9.8 to 10.2; 360 models/hour"
    assert (
        "Most models per hour of all points measured: 1,440 models/hour with 4 processes of "
        "one thread per process (one model takes 10.0 s), predicted."
    ) in notes(headline)
    assert "More processes give less" not in notes(headline)


def test_one_model_is_confirmed_as_a_time():
    headline = written(one_model(), confirmation=confirmed_alone())
    assert headline.verdict == (
        "intra_op 2: one model in 2.40 minutes (2.29 to 2.53), "
        f"2.50{X} as fast as the default launch (2.40{X} to 2.60{X}), confirmed"
    )
    assert [(bar.value, bar.unit) for bar in headline.bars] == [
        ("6.00", "minutes"), ("2.40", "minutes"),
    ]  # fmt: skip
    assert headline.bars[1].interval == ("confirmed, 95% interval 2.29 to 2.53; predicted 0.167")
    assert f"one model in 2.00 minutes (1.90 to 2.11), 1.20{X} as fast" in notes(headline)


def test_a_launch_that_is_slower_than_the_default_is_not_called_sooner():
    found = one_model() | {"ratio": ratio(0.8, 0.7, 0.9), "ratio_same_n": None}
    assert written(found).verdict == (
        "The default launch is the fastest; intra_op 2: one model in 10.0 s (9.8 to 10.2), "
        f"0.800{X} as fast as the default launch (0.700{X} to 0.900{X}), predicted"
    )


def test_a_step_stands_for_a_model_of_unknown_length_and_this_is_said():
    headline = written(one_model() | {"objective": "iteration_s"})
    assert headline.question == "How soon is one step done on this machine?"
    assert "one step in 20.0 ms (19.6 to 20.4)" in headline.verdict
    assert "compared by the time of one step" in notes(headline)
    assert "Most steps per second of all points measured: 200 steps/s" in notes(headline)


def test_the_closest_other_launch_is_compared_by_time():
    found = one_model()
    found["recommended"]["probability_best"] = 0.5
    assert describe_sureness(found).endswith(
        "The closest other is one thread per process with 1 process: "
        "one model in 12.5 s (12.3 to 12.8) against one model in 10.0 s (9.8 to 10.2)."
    )
