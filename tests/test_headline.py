import copy

import pytest

from scaling_study.rendering.headline import describe_sureness, write_headline

NOISE = {"spread": 0.02, "points": []}


def point(launch, label, n, rate, **more):
    return {
        "launch": launch, "label": label, "arm": "grid", "n": n, "replicates": 3,
        "steps_per_s": rate,
        "low": 0.98 * rate, "high": 1.02 * rate, "models_per_hour": 7.2 * rate, **more,
    }  # fmt: skip


def recommendation(**changes):
    default = point("d", "default", 1, 50.0, at_n=point("d", "default", 4, 10.0))
    best = point("b", "intra_op 1", 4, 200.0, probability_best=0.97)
    found = {
        "status": "ok",
        "reason": None,
        "objective": "models_per_hour",
        "tolerance": 0.02,
        "default": default,
        "best": best,
        "recommended": best,
        "ratio": {"value": 4.0, "low": 3.8, "high": 4.2},
        "ratio_same_n": {"value": 20.0, "low": 19.0, "high": 21.0},
        "ranking": [best, point("c", "intra_op 2", 3, 190.0), default],
    }
    return {**copy.deepcopy(found), **changes}


def written(found, noise=NOISE, replicates=3):
    return write_headline(found, noise, replicates=replicates)


def notes(headline):
    return " ".join(note.text for note in headline.notes)


def test_the_gain_is_said_with_its_numbers_and_intervals():
    headline = written(recommendation())
    assert headline.question == "How many models per hour does this machine give?"
    assert headline.verdict.startswith("4.00\N{MULTIPLICATION SIGN} the models per hour of the def")
    assert [bar.role for bar in headline.bars] == ["default", "same", "recommended"]
    assert [bar.value for bar in headline.bars] == ["360", "72.0", "1,440"]
    assert [bar.share for bar in headline.bars] == pytest.approx([0.25, 0.05, 1])
    assert headline.bars[0].interval == "95% interval 353 to 367; 50.0 steps/s"
    assert "4 processes" in headline.bars[2].text
    assert "3.80 to 4.20" in notes(headline)
    assert "2%" in notes(headline)
    assert not any(note.warning for note in headline.notes)


def test_a_far_larger_ratio_at_the_same_count_belongs_on_top():
    assert written(recommendation()).verdict.endswith(", and 20.0× with 4 processes each")  # noqa: RUF001
    near = recommendation(ratio_same_n={"value": 4.1, "low": 4.0, "high": 4.2})
    assert "each" not in written(near).verdict


def test_without_steps_per_model_it_counts_steps():
    headline = written(recommendation(objective="steps_per_s"))
    assert headline.question == "How many steps per second does this machine give?"
    assert [bar.unit for bar in headline.bars] == ["steps/s"] * 3
    assert headline.bars[2].value == "200"
    assert "; " not in headline.bars[2].interval


@pytest.mark.parametrize(
    ("ratio", "spread"),
    [
        ({"value": 1.05, "low": 0.97, "high": 1.13}, 0.01),
        ({"value": 1.05, "low": 1.03, "high": 1.07}, 0.06),
    ],
)
def test_a_difference_within_the_interval_or_the_noise_is_none(ratio, spread):
    headline = written(recommendation(ratio=ratio), {"spread": spread})
    assert headline.verdict.startswith("No launch is faster than the default")


def test_the_default_may_be_the_best():
    found = recommendation()
    found["recommended"] = {**found["default"], "probability_best": 0.9}
    headline = written(found)
    assert headline.verdict == "The default launch is the best one found"
    assert [bar.text for bar in headline.bars] == ["Default launch: 1 process"]
    assert "Ratio" not in notes(headline)


def test_a_default_without_windows_leaves_no_ratio():
    headline = written(recommendation(default=None, ratio=None, ratio_same_n=None))
    assert headline.verdict == "1,440 models per hour"
    assert [bar.role for bar in headline.bars] == ["recommended"]
    assert "The default launch gave no valid window" in notes(headline)


def test_one_replicate_claims_no_interval():
    found = recommendation(ratio={"value": 4.0, "low": None, "high": None}, ratio_same_n=None)
    for entry in (found["recommended"], found["default"]):
        entry.update(low=None, high=None)
    headline = written(found, replicates=1)
    assert "(no interval)" in headline.verdict
    assert headline.bars[0].interval.startswith("no interval")
    assert any(note.warning and "One replicate" in note.text for note in headline.notes)


def test_two_replicates_are_warned_of():
    assert "Two give wide intervals" in notes(written(recommendation(), replicates=2))


def test_what_counts_is_the_replicates_that_were_valid():
    found = recommendation()
    found["default"]["replicates"] = 1
    assert "asks for 3, and not all were valid" in notes(written(found))


@pytest.mark.parametrize("noise", [None, {"spread": None}])
def test_a_missing_repeat_is_warned_of(noise):
    assert any(note.warning for note in written(recommendation(), noise).notes)


def test_nothing_succeeded():
    headline = written({"status": "none", "reason": "no window", "objective": "steps_per_s"})
    assert headline.verdict == "Nothing to recommend"
    assert headline.bars == ()
    assert notes(headline) == "No window."


def test_a_higher_throughput_with_more_processes_is_told():
    best = point("b", "intra_op 1", 8, 202.0)
    assert "1,454 models/hour, came with 8 processes" in notes(written(recommendation(best=best)))


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
    headline = write_headline(recommendation(), NOISE, replicates=3, failures={"points": lost})
    assert headline.notes[0].warning
    assert headline.notes[0].text == (
        "4 launches gave no valid window and could not be compared:"
        " intra_op 7; intra_op 8; intra_op 9; 1 more."
    )


def test_nothing_is_the_best_of_one():
    found = recommendation()
    alone = found["default"] | {"at_n": None}
    one = recommendation(recommended=alone, best=alone, ranking=[alone])
    assert written(one).verdict == "Only one launch could be measured"
