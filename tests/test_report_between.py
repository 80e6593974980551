"""What the report says of iterations: what lies between them, and whether their pace changed."""

from types import SimpleNamespace

import pytest

from scaling_study.records.columns import BETWEEN
from scaling_study.report.report_between import view_between

SERIES = [SimpleNamespace(launch="b", title="intra_op 1", roles=("recommended",))]


def notes(pace, settling=None):
    attested = [
        {"launch": launch, "label": launch, "member": None, "checks": [], "pace": pace,
         "settling": settling}
        for launch in ("b", "other")
    ]  # fmt: skip
    mark, *others = view_between(BETWEEN.frame(), attested, SERIES, {"isa": []}, "mark").notes
    assert mark == "An iteration is one call of scaling_study.mark()."
    return others


def test_a_pace_that_changes_is_said_once():
    (note,) = notes({"value": 1.16, "low": 1.11, "high": 1.21})
    assert note.startswith("intra_op 1: a step took 16% longer in the last windows")
    assert "11% to 21%" in note
    (note,) = notes({"value": 0.9, "low": 0.85, "high": 0.95})
    assert "10.0% less" in note
    assert "5.0% to 15%" in note


@pytest.mark.parametrize(
    "pace",
    [
        None,
        {"value": 1.2, "low": None, "high": None},
        {"value": 1.2, "low": 0.9, "high": 1.6},
        {"value": 1.01, "low": 1.005, "high": 1.015},
    ],
    ids=["unknown", "no interval", "not certain", "small"],
)
def test_a_pace_that_may_be_chance_or_is_small_is_not_said(pace):
    assert notes(pace) == []


def test_windows_that_were_taken_anew_are_said():
    settling = {"cohorts": 2, "of": 3, "least": 0.05, "most": 0.14, "left": 0}
    (note,) = notes(None, settling)
    assert note.startswith("intra_op 1: in 2 of 3 cohorts the first windows do not count.")
    assert "up to 14% slower:" in note
    assert "still changing" not in note
    (note,) = notes(None, settling | {"least": -0.2, "left": 1})
    assert "up to 20% slower or faster:" in note
    assert "In 1 of these it was still changing" in note


@pytest.mark.parametrize(
    ("isa", "env", "said"),
    [
        ("default", {}, ""),
        ("default", {"ONEDNN_MAX_CPU_ISA": "ALL"}, ""),
        ("default", {"ONEDNN_MAX_CPU_ISA": "AVX2"}, "sets ONEDNN_MAX_CPU_ISA to AVX2"),
        ("avx2", {"ONEDNN_MAX_CPU_ISA": "AVX2"}, ""),
    ],
)
def test_a_script_that_limits_a_librarys_instructions_is_told(isa, env, said):
    entry = {
        "launch": "b",
        "label": "intra_op 1",
        "member": {"isa": "AVX2", "env": env},
        "checks": [{"axis": "isa", "requested": isa}],
    }
    _, *others = view_between(BETWEEN.frame(), [entry], SERIES, {"isa": []}, "mark").notes
    assert [said in note for note in others] == ([True] if said else [])
