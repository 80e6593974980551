"""Which cohorts of an experiment start at the same time."""

from types import SimpleNamespace

import pytest

from machines import machine
from scaling_study.experiments import conditions
from scaling_study.experiments.conditions import Arm, Starter

FOUR_CPUS = machine("vm-no-l3")


def arm(name, members, **changed):
    resolved = SimpleNamespace(members=(None,) * members)
    return Arm(name, {"intra_op": 1, "blas": "bundled"}, changed, resolved)


@pytest.mark.parametrize(
    ("sizes", "together"),
    [
        ([4, 4, 1, 1], [[4], [4], [1, 1]]),  # as many members as CPUs, and reliefs of one alone
        ([1, 4, 1], [[1], [4], [1]]),  # in their order
        ([2, 1, 2, 2], [[2, 1], [2, 2]]),
        ([8, 1], [[8], [1]]),  # more members than CPUs start alone
        ([], []),
    ],
)
def test_members_start_together_while_each_has_a_cpu(sizes, together):
    conditions = [arm(str(at), size) for at, size in enumerate(sizes)]
    groups = Starter({}, FOUR_CPUS).groups(conditions)
    assert [[one.size for one in group] for group in groups] == together
    assert [one for group in groups for one in group] == conditions


def test_kernels_are_asked_for_where_they_may_be_others():
    assert arm("reference", 1).with_kernel
    assert arm("openblas", 1, blas="openblas").with_kernel
    assert not arm("one_thread", 1, intra_op=1).with_kernel
    assert arm("openblas", 1, blas="openblas").axes == {"intra_op": 1, "blas": "openblas"}


def test_a_change_that_cannot_be_made_is_no_failure():
    can = {"impossible": {}, "changes": {"whole_batches": True}}
    cannot = {"impossible": {"whole_batches": "single rows"}, "changes": {"whole_batches": False}}
    assert not conditions._impossible(["whole_batches"], [can])
    reason = conditions._impossible(["whole_batches"], [can, cannot])
    assert isinstance(reason, conditions.Impossible)
    assert reason == "single rows"
    assert not conditions._impossible([], [cannot])
