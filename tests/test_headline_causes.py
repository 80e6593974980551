import pytest

import synthetic_causes as made
from scaling_study.report import headline_causes
from scaling_study.report.headline_causes import (
    NOISY,
    UNKNOWN,
    explain_target,
    grows,
    name_target,
    summarise,
)


def notes(because):
    return " ".join(note.text for note in because.notes)


def test_the_cause_is_said_with_its_share_and_what_is_left():
    because = explain_target(made.target())
    assert because.verdict == "94% of the added time: OpenMP threads that spin while they wait"
    assert because.question.startswith("With 2 processes a step takes 19.9")
    assert [(share.kind, share.value) for share in because.growth] == [
        ("growth", "94%"), ("unexplained", "6%"),
    ]  # fmt: skip
    assert because.growth[0].interval == "89% to 99%"
    assert because.growth[0].width == pytest.approx(0.94)
    assert because.remedy.startswith("Let waiting threads sleep")


def test_what_was_ruled_out_and_what_is_open_is_said():
    text = notes(explain_target(made.target()))
    assert "ruled out: memory bandwidth; CPU quota of the cgroup." in text
    assert "not decided: page faults by the allocator's settings." in text


def test_when_nothing_is_proven_it_says_so_and_all_is_unexplained():
    because = explain_target(made.unknown())
    assert because.verdict == UNKNOWN
    assert [(share.kind, share.value) for share in because.growth] == [("unexplained", "100%")]
    assert because.remedy == ""


def test_without_a_share_of_the_rest_all_is_unexplained():
    target = made.unknown()
    target["growth"]["unexplained_share"] = None
    (share,) = explain_target(target).growth
    assert (share.value, share.interval) == ("100%", "")


def test_inconclusive_growth_is_no_scaling():
    target = made.unknown()
    target["growth_ratio"] = {"value": 1.3, "low": 0.9, "high": 1.7}
    assert explain_target(target).verdict == UNKNOWN


def test_a_slow_single_process_is_kept_apart_from_growth():
    because = explain_target(made.level_only())
    assert because.verdict == "34% of a step, with one process already: a slow BLAS kernel"
    assert because.growth == ()
    assert [share.kind for share in because.level] == ["level"]
    both = made.target()
    both["level"]["named"] = [made.OLD_BLAS]
    because = explain_target(both)
    assert because.verdict.startswith("94% of the added time")
    assert "Slow with one process already: a slow BLAS kernel, 34% of a step." in notes(because)


def test_growth_that_nobody_explains_is_not_hidden_by_a_slow_single_process():
    target = made.unknown()
    target["status"] = "explained"
    target["level"]["named"] = [made.OLD_BLAS]
    assert explain_target(target).verdict == UNKNOWN


def test_nothing_to_explain():
    because = explain_target(made.nothing())
    assert because.verdict == "Nothing to explain: it scales"
    assert because.growth == ()
    assert "ruled out" not in notes(because)


@pytest.mark.parametrize(("status", "word"), [("failed", "failed"), ("skipped", "were not made")])
def test_experiments_without_a_result_are_a_warning(status, word):
    because = explain_target(made.ended(status))
    assert because.verdict == "Not known"
    assert because.notes[0].warning
    assert word in because.notes[0].text
    assert "killed by signal 9" in because.notes[0].text


def test_of_several_causes_the_first_are_named_and_doubt_is_a_word():
    because = explain_target(made.large())
    assert because.verdict == (
        "All of the added time: memory bandwidth (58%), "
        "probably last-level cache shared by 8 cores (31%), and 2 more"
    )
    assert "can exceed the whole" in notes(because)
    assert "3 fresh starts" in notes(because)
    lost = because.growth[-1]
    assert (lost.kind, lost.value, lost.width) == ("unexplained", "−5%", 0.0)  # noqa: RUF001 (a minus sign)
    assert because.growth[3].value == "–"  # noqa: RUF001 (a dash)


def test_a_cause_without_a_share_claims_none():
    target = made.target()
    target["growth"]["named"][0]["share"] = None
    assert explain_target(target).verdict.startswith("An unknown share of the added time: OpenMP")


def test_bars_stay_on_their_track():
    for because in summarise([made.target(), made.large(), made.unknown()]):
        for share in because.growth:
            ends = [share.width, share.low or 0.0, share.high or 0.0]
            assert all(0 <= end <= 1 for end in ends)


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        ({"value": 1.3, "low": 1.2, "high": 1.4}, True),
        ({"value": 1.3, "low": 1.04, "high": 1.6}, False),
        ({"value": 1.08, "low": 1.07, "high": 1.09}, False),
        ({"value": 1.3, "low": None, "high": None}, False),  # nothing is known of it
        ({"value": float("nan"), "low": None, "high": None}, False),
        (None, False),
    ],
)
def test_growth_is_more_than_noise(ratio, expected):
    assert grows({"growth_ratio": ratio}) is expected


def test_noise_is_neither_growth_nor_scaling():
    noisy = {"value": 3.1, "low": -11.9, "high": 18.1}
    because = explain_target(made.nothing() | {"growth_ratio": noisy})
    assert because.verdict == NOISY
    assert "to 18.1" in because.question
    assert "−" not in because.question  # noqa: RUF001 (a minus sign)
    level = explain_target(made.level_only() | {"growth_ratio": noisy})
    assert level.verdict.startswith("34% of a step")
    assert NOISY in notes(level)
    assert NOISY not in notes(explain_target(made.level_only()))


def test_a_share_that_rounds_to_nothing_has_no_sign():
    share = {"value": -0.001, "low": -0.004, "high": 0.002}
    assert headline_causes.format_share(share) == "0% (0% to 0%)"


def test_one_process_alone_does_not_grow():
    target = made.nothing()
    target["n"] = 1
    assert explain_target(target).question == "Only one process was tried"


def test_one_launch_is_answered_once():
    assert len(summarise([made.target(), made.same()])) == 1
    assert name_target(made.level_only()) == "intra_op 1 (recommended)"
    assert name_target(made.target()) == "default"
    assert name_target(made.target(label="intra_op 4")) == "intra_op 4 (default)"


def test_what_the_intervals_are_over_is_said():
    said = notes(explain_target(made.target()))
    assert "5 blocks of windows of one start; they allow for starts that differ by 3.4%" in said
    assert "starts that differ" not in notes(explain_target(made.large()))
    assert "Intervals" not in notes(explain_target(made.target(unit_count=None)))
