import math

import pytest

from scaling_study.profiling.profiles import operator_rows
from scaling_study.records.columns import OPERATORS

WHERE = {"machine": "m", "launch": "l", "label": "L", "role": "grid", "n": 4, "overhead": 1.05}


def row(**values):
    usual = {"operator": "aten::mm", "phase": "forward", "calls": 10, "self_s": 2.0,
             "total_s": 3.0, "flops": 50}  # fmt: skip
    return usual | values


def test_sums_become_times_per_step_and_per_call():
    frame = operator_rows({"steps": 5, "rows": [row()]}, **WHERE)
    assert frame.columns.tolist() == OPERATORS.names
    (found,) = frame.to_dict("records")
    assert found["group"] == "matrix multiply"
    assert found["calls_per_step"] == 2
    assert found["self_s_per_step"] == pytest.approx(0.4)
    assert found["total_s_per_step"] == pytest.approx(0.6)
    assert found["self_s_per_call"] == pytest.approx(0.2)
    assert found["total_s_per_call"] == pytest.approx(0.3)
    assert found["flops_per_step"] == 10
    assert (found["n"], found["steps"], found["overhead"]) == (4, 5, 1.05)


def test_rows_of_one_operator_and_phase_are_one():
    rows = [row(), row(calls=30), row(phase="backward")]
    frame = operator_rows({"steps": 10, "rows": rows}, **WHERE)
    assert frame["phase"].tolist() == ["forward", "backward"]
    assert frame["calls_per_step"].tolist() == [4, 1]
    assert frame["self_s_per_call"].tolist() == pytest.approx([0.1, 0.2])


def test_what_is_unknown_stays_unknown():
    content = {"steps": 1, "rows": [row(flops=None, calls=0), {"operator": "x", "phase": ""}]}
    frame = operator_rows(content, **(WHERE | {"overhead": None}))
    assert frame["flops_per_step"].isna().all()
    assert frame["self_s_per_call"].isna().all()
    assert math.isnan(frame["self_s_per_step"][1])
    assert frame["overhead"].isna().all()


def test_no_rows_make_an_empty_table():
    frame = operator_rows({"steps": 1, "rows": []}, **WHERE)
    assert frame.empty
    assert frame.columns.tolist() == OPERATORS.names


def test_a_profile_of_no_step_is_an_error():
    with pytest.raises(ValueError, match="no step"):
        operator_rows({"steps": 0, "rows": [row()]}, **WHERE)
