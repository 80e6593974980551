"""A slowdown that is injected in one known place is what the comparison of few and many shows."""

from collections import defaultdict

import pytest

from jobs import WORKLOADS, config, profile
from scaling_study.analysis.inflation import compare_all, sum_operators
from scaling_study.profiling import stacks
from scaling_study.profiling.profiles import read_profiles

pytestmark = pytest.mark.long

PROFILE = {"steps": 5, "rate_hz": 20, "samples": 100, "unprofiled_s": 0.5}


@pytest.fixture(scope="module")
def injected(tmp_path_factory):
    """Profiles the injected workload, each kind once; returns the folder of profiles."""
    done = {}

    def get(kind):
        if kind not in done:
            folder = tmp_path_factory.mktemp(kind)
            args = ["--kind", kind, "--folder", folder / "members", "--member", "{member}"]
            mapping = config(WORKLOADS / "injected.py", args=map(str, args))
            found = profile(mapping | {"profile": PROFILE}, folder)
            assert found.status == "complete", found
            done[kind] = folder / "out", found
        return done[kind]

    return get


def added_by_function(folder, found):
    """Seconds per step that n = 2 adds to n = 1, by the innermost function of the script."""
    added = defaultdict(float)
    for point, sign in zip(found.points, (-1, 1), strict=True):
        kind = point.profile("stacks")
        folded = stacks.read_point(folder / str(point.n), kind.turns, step_s=kind.unprofiled_step_s)
        for stack, seconds in folded.stacks.items():
            if stack[0] == stacks.TRAINER:
                own = [frame for frame in stack if "injected.py" in frame]
                added[own[-1].split(" ")[0] if own else ""] += sign * seconds
    return added


@pytest.mark.parametrize("kind", ["sleep", "spin", "mul"])
def test_the_injected_function_is_the_reddest(injected, kind):
    added = added_by_function(*injected(kind))
    worst = max(added, key=added.get)
    assert worst == f"injected_{kind}", added
    assert added[worst] > 0.5 * sum(seconds for seconds in added.values() if seconds > 0)


def comparison(injected, kind):
    folder, _ = injected(kind)
    manifests, operators = read_profiles([folder])
    (entry,) = compare_all(manifests, operators)
    return entry.comparisons[0]


def test_the_injected_operator_is_the_top_row(injected):
    found = comparison(injected, "mul")
    assert found.rows[0] == max(found.rows, key=lambda row: row.difference_s)
    # The memory of `ones` is touched where it is filled, the result's where mul writes it.
    assert {row.operator for row in sum_operators(found)[:2]} == {"aten::mul", "aten::fill_"}
    assert found.rows[0].calls_a == found.rows[0].calls_b
