"""The sentences of headline and why, as tables: what was found, and which row answers it."""

import dataclasses
import re
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert, structs

import synthetic_causes
from scaling_study.records.analysis import ArmResult, Confirmation, Failures, Noise, Recommendation
from scaling_study.records.verdict import Target
from scaling_study.report import words
from scaling_study.report.words import NO_GAIN, Answer
from scaling_study.stats.interval import Interval


def ratio(value, low=None, high=None):
    return Interval(value=value, low=low, high=high)


SURELY = ratio(1.5, 1.4, 1.6)
FOUND = Answer(
    best="intra_op 1",
    value="870 models/hour with 2 processes",
    n=2,
    probability=0.97,
    ratio=SURELY,
    spread=0.03,
)
HEADLINES = [
    ("nothing", {"ok": False}, "Nothing to recommend"),
    ("one launch", {"launches": 1}, "Only one launch could be measured: 870 models/hour with"),
    (
        "best already",
        {"same": True, "ratio": NO_GAIN},
        "The default launch is the best launch found",
    ),
    ("best already", {"same": True, "confirmed": True, "probability": 0.1}, "The default launch"),
    ("unbeaten", {"same": True, "probability": 0.5}, "No launch is measurably faster than the"),
    ("nothing to compare", {"ratio": NO_GAIN}, "One thread per process gives 870 models/hour"),
    ("one start", {"once": True}, "looks best, but not every launch was started twice"),
    ("one start", {"ratio": ratio(1.5)}, "looks best, but not every launch was started twice"),
    ("faster", {}, "One thread per process trains 1.50\N{MULTIPLICATION SIGN} as many models"),
    ("faster", {"ratio": ratio(3.0, 1.2, 9.0)}, "trains at least 1.20\N{MULTIPLICATION SIGN} as"),
    ("faster", {"ratio": ratio(1.02, 1.01, 1.03), "confirmed": True}, "trains 1.02"),
    (
        "faster with as many processes",
        {"ratio": ratio(1.0, 0.9, 1.1), "same_n": ratio(2.0, 1.9, 2.1)},
        "trains 2.00\N{MULTIPLICATION SIGN} as many models per hour as the default launch with 2",
    ),
    ("not confirmed", {"confirmed": True, "ratio": ratio(0.8, 0.7, 0.9)}, "does not hold"),
    ("slower", {"ratio": ratio(0.8, 0.7, 0.9)}, "The default launch is the fastest"),
    ("small", {"ratio": ratio(1.02, 1.01, 1.03)}, "gains little, if anything"),  # within noise
    ("small", {"ratio": ratio(1.02, 0.9, 1.2)}, "at most 1.20\N{MULTIPLICATION SIGN}"),
    ("uncertain", {"ratio": ratio(1.2, 0.8, 1.9)}, "may be faster than the default launch, but"),
]


@pytest.mark.parametrize(("row", "changes", "text"), HEADLINES)
def test_the_headline(row, changes, text):
    answer = dataclasses.replace(FOUND, **changes)
    name, verdict = words.choose(answer)
    assert name == row
    assert text in verdict


def confirmed(recommended, arms, default=None, **outcome):
    """The verdict on a launch that a confirmation has run, beside others or in another way."""
    best = candidate(recommended, 285.0, 2, (0.1, 0.1), 3) | {"probability_best": 0.9}
    found = {"status": "ok", "recommended": best, "default": default and best}
    ran = [
        structs.replace(arm(role, value, 2, (0.1, 0.1)), **changed) for role, value, changed in arms
    ]
    one = SimpleNamespace(
        recommendation=convert(found, Recommendation),
        confirmation=Confirmation(
            status="confirmed", objective="models_per_hour", arms=tuple(ran), **outcome
        ),
        noise=Noise(),
    )
    return words.choose(words.answer_of(one))[1]


def test_forked_starts_of_the_default_launch_are_a_gain():
    arms = [
        ("recommended", value, {"start": start, "label": "default"})
        for start, value in (("fresh", 200.0), ("forked", 285.0))
    ]
    gain = ratio(1.425, 1.3, 1.5)
    assert confirmed("default", arms, default=True, start="forked", ratio=gain) == (
        "The default launch with forked starts trains 1.43\N{MULTIPLICATION SIGN} as many models"
        " per hour as the default launch"
    )


def test_a_launch_that_only_the_confirmation_could_measure_is_compared():
    arms = [("recommended", 285.0, {}), ("today_same_n", 57.0, {"label": "today"})]
    assert confirmed("a", arms, against="today", ratio_same_n=ratio(5.0, 4.5, 5.5)) == (
        "a trains 5.00\N{MULTIPLICATION SIGN} as many models per hour as today's launch"
    )


def test_every_row_of_the_headline_is_reached():
    assert {row for row, _, _ in HEADLINES} == {name for name, _, _ in words.HEADLINE}


def target(**changes):
    return convert(synthetic_causes.target() | changes, Target)


SLOW = synthetic_causes.cause("blas", "A slow BLAS kernel", (0.34,))
MAYBE = synthetic_causes.cause("blas", "A slow BLAS kernel", (0.34, 0.32))
ALONE = {"scaling_loss": {}, "single_process_loss": {"named": [SLOW]}}
NOTHING = {"scaling_loss": {}, "single_process_loss": {}}
PERHAPS = {"scaling_loss": {}, "single_process_loss": {"inconclusive": [MAYBE]}}
NOISE = {"growth_ratio": {"value": 1.3, "low": 0.9, "high": 1.9}}
FLAT = {"growth_ratio": {"value": 1.01, "low": 0.99, "high": 1.03}}
WHY = [
    ("skipped", {"status": "skipped", "reason": "py-spy"}, "no experiments were made: py-spy"),
    ("failed", {"status": "failed"}, "the experiments failed"),
    (
        "scaling_loss",
        {},
        "94% of the time that 2 processes add to a step: OpenMP threads that spin",
    ),
    ("level, and growth that is open", ALONE, "is unexplained"),
    ("single_process_loss", ALONE | FLAT, "alone is slow: 34% of its step is a slow BLAS kernel"),
    ("unknown", NOTHING, "We do not know why"),
    ("noisy", NOTHING | NOISE, "differ too much"),
    ("one process", NOTHING | {"growth_ratio": None, "n": 1}, "Only one"),
    ("undecided", PERHAPS | FLAT, "why: full would tell whether 34% of its step is a slow BLAS"),
    ("scales", NOTHING | FLAT, "a step takes hardly longer with 2 processes"),
]


@pytest.mark.parametrize(("row", "changes", "text"), WHY)
def test_why(row, changes, text):
    found = target(**changes)
    assert next(name for name, holds, _ in words.WHY if holds(found)) == row
    assert text in words.why(found)


def test_what_slows_one_process_is_said_beside_what_more_add():
    found = words.why(target(single_process_loss={"named": [SLOW]}))
    assert found.endswith("wait. One process alone: 34% of its step is a slow BLAS kernel")


def test_every_row_of_why_is_reached():
    assert [row for row, _, _ in WHY] == [name for name, _, _ in words.WHY]


def test_what_is_left_is_never_hidden():
    assert words.unexplained(target()).value == pytest.approx(0.06)
    assert words.unexplained(target(scaling_loss={})).value == 1.0
    assert words.unexplained(target(scaling_loss={}, **FLAT)) is None


# No sentence disagrees with a number of the page.

rates = st.floats(20, 5000)
intervals = st.tuples(st.floats(0.01, 0.5), st.floats(0.01, 0.5))


def candidate(launch, rate, n, spread, replicates):
    """A launch that gives a rate, as a recommendation holds it."""
    low, high = rate * (1 - spread[0]), rate * (1 + spread[1])
    return {
        "launch": launch, "label": launch, "n": n, "replicates": replicates, "steps_per_s": rate,
        "low": low, "high": high, "models_per_hour": rate, "models_per_hour_low": low,
        "models_per_hour_high": high,
    }  # fmt: skip


def arm(role, value, n, spread):
    """A launch as it ran freely."""
    low, high = value * (1 - spread[0]), value * (1 + spread[1])
    label = "default" if role == "default" else "blas mkl"
    return ArmResult(role=role, launch=label, label=label, n=n, start="fresh", rounds=3,
               value=value, low=low, high=high)  # fmt: skip


@st.composite
def studies(draw):
    """A machine with what a headline is made of; ratios are those of its rates."""
    n, starts = draw(st.integers(1, 64)), draw(st.integers(1, 4))
    objective = draw(st.sampled_from(["models_per_hour", "steps_per_s"]))

    def pair():
        best, other, spread = draw(rates), draw(rates), draw(intervals)
        gain = best / other
        return best, other, ratio(gain, gain * (1 - spread[0]), gain * (1 + spread[1]))

    best, other, found = pair()
    entry = {
        "status": "ok",
        "objective": objective,
        "default": candidate("default", other, n, draw(intervals), starts),
        "recommended": candidate("blas mkl", best, n, draw(intervals), starts)
        | {"probability_best": draw(st.floats(0, 1))},
        "ratio": found,
        "ratio_same_n": found,
        "ranking": [candidate(one, 1.0, n, (0.1, 0.1), starts) for one in ("default", "blas mkl")],
    }
    confirmation = Confirmation()
    if draw(st.booleans()):
        best, other, found = pair()
        arms = (arm("default", other, n, draw(intervals)),
                arm("recommended", best, n, draw(intervals)))  # fmt: skip
        confirmation = Confirmation(
            status="confirmed", objective=objective, arms=arms, ratio=found, ratio_same_n=found
        )
    return SimpleNamespace(
        recommendation=convert(entry, Recommendation),
        confirmation=confirmation,
        noise=Noise(spread=draw(st.floats(0, 0.3))),
        failures=Failures(),
        provenance=SimpleNamespace(windows=0),
    )


def number(text):
    return float(text.replace(",", ""))


@given(studies())
def test_no_headline_disagrees_with_a_number_of_the_page(machine):
    found = words.headline(machine)
    row, _ = words.choose(words.answer_of(machine))
    default, best = (number(bar.value) for bar in found.bars)
    said = re.findall(r"([\d.,]+)\N{MULTIPLICATION SIGN}", f"{found.verdict} {found.detail}")
    confirmed = machine.confirmation.status == "confirmed"
    assert ("confirmed" if confirmed else "predicted") in found.detail
    once = machine.recommendation.recommended.once and not confirmed
    assert once == (row == "one start")
    if once:
        assert not said  # a figure of one start is never quoted
        assert all(bar.once for bar in found.bars)
        return
    gain = (machine.confirmation if confirmed else machine.recommendation).ratio
    if row == "faster":
        assert best > default
        if gain.high < words.WIDE * gain.low:
            assert number(said[0]) == pytest.approx(best / default, rel=0.02)
    if row in {"slower", "not confirmed"}:
        assert best < default
    before, _, _ = found.detail.partition("confirmed" if confirmed else "predicted")
    low, high = map(number, re.findall(r"([\d.,]+)\N{MULTIPLICATION SIGN}", before)[-2:])
    assert low <= best / default * 1.02
    assert high >= best / default * 0.98
    assert [bar.share for bar in found.bars] == pytest.approx(
        [default / max(best, default), best / max(best, default)], rel=0.02
    )
