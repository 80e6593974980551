"""A slowdown that is injected in one known place is what the comparison of few and many shows."""

from collections import defaultdict

import pytest

from jobs import WORKLOADS, config, profile
from scaling_study.analysis.inflation import compare_all, sum_operators
from scaling_study.profiling import stacks
from scaling_study.profiling.profiles import read_profiles


@pytest.mark.long
def test_the_injected_operator_and_its_caller_are_the_largest_changes(tmp_path):
    args = ["--folder", tmp_path / "members", "--member", "{member}"]
    mapping = config(WORKLOADS / "injected.py", args=map(str, args))
    found = profile(mapping | {"profile": "full"}, tmp_path)
    assert found.status == "complete", found
    added = defaultdict(float)  # seconds per step, by the innermost function of the script
    for point, sign in zip(found.points, (-1, 1), strict=True):
        kind = point.profile("stacks")
        folder = tmp_path / "out" / str(point.n)
        folded = stacks.read_point(folder, kind.turns, step_s=kind.unprofiled_step_s)
        for stack, seconds in folded.stacks.items():
            if stack[0] == stacks.TRAINER:
                own = [frame for frame in stack if "injected.py" in frame]
                added[own[-1].split(" ")[0] if own else ""] += sign * seconds
    assert max(added, key=added.get) == "injected_mul", added
    assert added["injected_mul"] > 0.5 * sum(own for own in added.values() if own > 0)
    (entry,) = compare_all(*read_profiles([tmp_path / "out"]))
    rows = entry.comparisons[0]
    assert rows.rows[0] == max(rows.rows, key=lambda row: row.difference_s)
    # The memory of `ones` is touched where it is filled, the result's where mul writes it.
    assert {row.operator for row in sum_operators(rows)[:2]} == {"aten::mul", "aten::fill_"}
    assert rows.rows[0].calls_a == rows.rows[0].calls_b
