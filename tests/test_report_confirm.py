"""The report's section on the confirmation."""

import re

import pytest

import rendering
from scaling_study.common.quantities import MISSING
from scaling_study.common.storage import read_json, write_json
from scaling_study.report.report_confirm import view_confirmation
from test_confirmation import KEYS, found, machine, rounds


@pytest.fixture
def confirmed(tmp_path):
    return machine(tmp_path, rounds(1.0, 1.05, 0.95))


def test_each_arm_is_a_row_with_confirmed_beside_predicted(confirmed):
    view = view_confirmation(confirmed)
    assert view.unit == "models/hour"
    assert [(row.label, row.tag, row.queue) for row in view.rows] == [
        ("intra_op 1", "recommended", "a process per model"),
        ("intra_op 1", "recommended", "models one after the other"),
        ("default", "default", "a process per model"),
        ("default", "default", "a process per model"),
    ]
    best = view.rows[0]
    n, value, predicted, start, iteration, end, whole = best.numbers
    assert n.text == "2"
    assert float(value.value) == pytest.approx(900, rel=0.02)
    assert " to " in value.interval
    assert predicted.text == "1,000"
    assert (start.text, iteration.text, end.text) == ("5.00 s", "5.00 ms", "500 ms")
    assert whole.text == "28"
    assert best.how == "whole models"
    assert "3 rounds of 40.0 s each" in view.notes[0]
    assert len(view.notes) == 1


def test_one_model_is_shown_as_a_time(confirmed):
    view = view_confirmation(confirmed | {"objective": "model_s"})
    assert view.unit == "time of one model, s"
    _, value, predicted, *_ = view.rows[0].numbers
    assert float(value.value) == pytest.approx(3600 * 2 / 900, rel=0.02)
    assert " to " in value.interval
    assert predicted.text == "7.20"
    busy = [{**arm, "foreign_cpus": 1.0} for arm in confirmed["arms"]]
    view = view_confirmation(confirmed | {"objective": "model_s", "arms": busy})
    assert "these times are too long" in " ".join(view.notes)


def test_a_difference_names_its_parts_and_the_rest(tmp_path):
    recommendation = found()
    point = recommendation["machines"][0]["recommended"]
    point |= {"steps_per_s": 400.0, "models_per_hour": 2880.0}
    difference = view_confirmation(
        machine(tmp_path, rounds(1.0, 1.0), recommendation=recommendation)
    ).difference
    assert difference[0].startswith("Confirmed is 69% below the recommended launch's prediction.")
    assert difference[1] == "Start and end of a process: 69% less throughput."
    assert difference[-1].startswith("Unexplained: ")
    assert len(difference) == 3


@pytest.mark.parametrize(
    ("factor", "words"), [(1.0, "the same as"), (1.04, "4% above"), (0.97, "3% below")]
)
def test_a_small_difference_is_one_sentence(confirmed, factor, words):
    difference = {"value": factor, "parts": [], "unexplained": factor}
    (line,) = view_confirmation({**confirmed, "difference": difference}).difference
    assert line == f"Confirmed is {words} the recommended launch's prediction."


def with_arm(confirmed, number, **changed):
    arms = [dict(arm) for arm in confirmed["arms"]]
    arms[number] |= changed
    return {**confirmed, "arms": arms}


@pytest.mark.parametrize(
    ("number", "changed", "words"),
    [
        (2, {"longest_s": 180.0}, "up to 3 min 0 s"),
        (0, {"foreign_cpus": 0.7}, "Other programs took up to 0.700 CPUs"),
        (3, {"rounds": 2, "rounds_unseen": 1}, "1 round gave no figure"),
        (1, {"later_starts": False}, "no process began its second model in every round"),
    ],
)
def test_what_weakens_a_confirmation_is_said(confirmed, number, changed, words):
    notes = view_confirmation(with_arm(confirmed, number, **changed)).notes
    assert len(notes) == 2
    assert words in notes[1]


def test_without_an_end_or_a_prediction_a_dash_stands_there(confirmed):
    changed = with_arm(confirmed, 0, end_s=None, predicted=None, low=None, high=None, cut=True)
    row = view_confirmation(changed).rows[0]
    assert [row.numbers[at].text for at in (2, 5)] == [MISSING, MISSING]
    assert row.numbers[1].interval == ""
    assert row.how == "start, iterations and end, put together"


def test_an_arm_without_a_figure_is_named_with_the_scripts_words(tmp_path):
    records = rounds(1.0, 1.0)
    records[1] |= {"status": "once", "reason": "RuntimeError: <cannot>"}
    assert records[1]["arm"] == KEYS[1]
    view = view_confirmation(machine(tmp_path, records))
    ((which, words),) = view.left_out
    assert which == (
        "intra_op 1, 2 processes, models one after the other: the script does not run a second"
        " time in one process"
    )
    assert words == "RuntimeError: <cannot>"


@pytest.mark.parametrize(
    ("status", "reason", "note"),
    [
        ("off", None, "The config says confirm: off. All numbers of this report are predicted."),
        ("none", "no valid window", "Nothing was confirmed: no valid window."),
        (
            "failed",
            "bad",
            "The recommended launch gave no figure when it ran as you would run it: bad.",
        ),
    ],
)
def test_why_nothing_was_confirmed_is_said(status, reason, note):
    view = view_confirmation({"status": status, "reason": reason, "left_out": []})
    assert view.notes == (note,)
    assert view.rows == ()


def test_a_study_from_before_says_so():
    assert view_confirmation(None).notes == ("Nothing was confirmed.",)


def test_the_section_stands_in_the_report_and_escapes(tmp_path, confirmed):
    folder = rendering.make_study(tmp_path / "study")
    provenance = read_json(folder / "analysis/provenance.json")
    own = with_arm(confirmed, 0, label="<b>x</b>")
    own["left_out"] = [
        {**own["arms"][3], "status": "failed", "reason": "<script>alert(1)</script>"}
    ]
    own["machine"] = provenance["machines"][0]["machine"]
    write_json(folder / "analysis/confirmation.json", {"machines": [own]})
    html = rendering.render(folder).read_text()
    section = re.search(r'id="m1-confirmed">Confirmed.*?</section>', html, re.DOTALL)[0]
    assert section.count("<tr") == 1 + len(KEYS)
    assert "&lt;b&gt;x&lt;/b&gt;" in section
    assert "<b>x" not in section
    assert "&lt;script&gt;alert" in section
    assert "confirmed models/hour" in section
