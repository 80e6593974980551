"""The cohorts of an experiment: which start at the same time, and what they must show."""

from types import SimpleNamespace

import pytest

from made_records import readback
from scaling_study.experiments.experiment import Impossible, Planned, groups, unchanged

FOUR_CPUS = 4


def arm(name, members, **changed):
    resolved = SimpleNamespace(members=(None,) * members)
    return Planned(name, changed, resolved)


@pytest.mark.parametrize(
    ("sizes", "together"),
    [
        (
            [4, 4, 1, 1],
            [[4], [4], [1, 1]],
        ),  # as many members as CPUs, and interventions of one alone
        ([1, 4, 1], [[1], [4], [1]]),  # in their order
        ([2, 1, 2, 2], [[2, 1], [2, 2]]),
        ([8, 1], [[8], [1]]),  # more members than CPUs start alone
        ([], []),
    ],
)
def test_members_start_together_while_each_has_a_cpu(sizes, together):
    planned = [arm(str(at), size) for at, size in enumerate(sizes)]
    found = groups(planned, FOUR_CPUS)
    assert [[one.size for one in group] for group in found] == together
    assert [one for group in found for one in group] == planned


def test_kernels_are_asked_for_where_they_may_be_others():
    assert arm("reference", 1).with_kernel
    assert arm("openblas", 1, blas="openblas").with_kernel
    assert not arm("one_thread", 1, intra_op=1).with_kernel


def test_a_change_that_cannot_be_made_is_no_failure():
    can = readback(changes={"whole_batches": True})
    cannot = readback(impossible={"whole_batches": "single rows"}, changes={"whole_batches": False})
    assert not unchanged(["whole_batches"], [can])
    reason = unchanged(["whole_batches"], [can, cannot])
    assert isinstance(reason, Impossible)
    assert reason == "single rows"
    assert not unchanged([], [cannot])


def test_a_change_that_does_not_hold_is_a_failure():
    report = readback(changes={"one_element": False, "no_gc": True})
    reason = unchanged(["one_element", "no_gc"], [report])
    assert reason == "one_element did not take effect"
    assert not isinstance(reason, Impossible)
