import pandas as pd
import pytest
from msgspec import structs

import synthetic
import synthetic_profiles
from scaling_study.analysis import inflation
from scaling_study.analysis.inflation import compare, compare_all
from scaling_study.profiling.profiles import operator_rows, read_profiles
from scaling_study.records.analysis import Comparison, OperatorRow, Side
from scaling_study.records.columns import OPERATORS
from scaling_study.records.profile import Operators, OperatorSums


def frame(before, after):
    """Rows of launch l at 1 and 4 processes: (operator, phase, calls, self_s) each."""
    where = {"machine": "m", "launch": "l", "label": "L", "role": "grid", "overhead": None}
    names = ("operator", "phase", "calls", "self_s")
    frames = []
    for n, rows in ((1, before), (4, after)):
        sums = [OperatorSums(**dict(zip(names, row, strict=True))) for row in rows]
        frames.append(operator_rows(Operators(steps=1, rows=tuple(sums)), **where, n=n))
    return pd.concat(frames)


def sides(a_s, b_s):
    return (Side(launch="l", label="L", n=n, step_s=step_s) for n, step_s in ((1, a_s), (4, b_s)))


def counts(before, after, a_s, b_s):
    return compare(*sides(a_s, b_s), frame(before, after), kind="counts")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    (machine,) = compare_all(*read_profiles(synthetic_profiles.write_study(folder)))
    return machine.comparisons


def test_differences_add_up_to_the_steps_difference(study):
    for comparison in study:
        for rows in (comparison.rows, comparison.groups):
            added_s = sum(row.difference_s for row in rows)
            assert added_s == pytest.approx(comparison.added_s)
            assert sum(row.share for row in rows) == pytest.approx(1)


def test_each_launch_is_compared_with_itself_then_the_default_with_the_recommended(study):
    assert [one.kind for one in study] == ["counts"] * 3 + ["launches"]
    assert [(one.a.n, one.b.n) for one in study] == [(1, 8)] * 3 + [(8, 8)]
    default, best = synthetic.LAUNCHES[0], synthetic.LAUNCHES[4]
    assert (study[3].a.launch, study[3].b.launch) == (default.id, best.id)


def test_an_operator_that_one_side_lacks_takes_no_time_there():
    found = counts([("aten::mm", "", 1, 1.0)], [("aten::mul", "", 2, 3.0)], 1.0, 3.0)
    rows = {row.operator: row for row in found.rows}
    assert rows["aten::mul"].difference_s == pytest.approx(3.0)
    assert rows["aten::mul"].per_call_ratio is None
    assert rows["aten::mm"].difference_s == pytest.approx(-1.0)
    assert [row.difference_s for row in found.rows] == sorted(
        (row.difference_s for row in found.rows), reverse=True
    )


def test_phases_are_apart_where_both_sides_know_them():
    before = [("aten::mm", "forward", 1, 1.0), ("aten::mm", "backward", 1, 1.0)]
    after = [("aten::mm", "forward", 1, 1.0), ("aten::mm", "backward", 1, 4.0)]
    apart = counts(before, after, 2.0, 5.0)
    assert apart.rows[0].phase == "backward"
    mixed = counts(before, [("aten::mm", "", 2, 5.0)], 2.0, 5.0)
    (row, _) = mixed.rows
    assert (row.operator, row.phase, row.calls_a) == ("aten::mm", "", 2)
    assert row.per_call_ratio == pytest.approx(2.5)


def test_nothing_profiled_gives_nothing():
    assert compare_all([], OPERATORS.frame()) == []


def test_operators_are_summed_over_phases_the_largest_part_first():
    rows = tuple(
        OperatorRow(operator=name, phase=phase, group="g", difference_s=added)
        for name, phase, added in (("x", "f", 2.0), ("y", "f", 3.0), ("x", "b", 2.0))
    )
    a, b = sides(1.0, 8.0)
    comparison = Comparison(kind="counts", title="", a=a, b=b, rows=rows)
    found = inflation.sum_operators(comparison)
    assert [(row.operator, row.difference_s) for row in found] == [("x", 4.0), ("y", 3.0)]
    less = inflation.sum_operators(structs.replace(comparison, a=b, b=a))
    assert [row.operator for row in less] == ["y", "x"]
