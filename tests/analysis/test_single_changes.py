"""What single changes of the baseline do, in numbers and in the words of the report."""

import pytest

import synthetic
from made_records import kept
from scaling_study.analysis.points import joint
from scaling_study.analysis.single_changes import single_changes
from scaling_study.records.analysis import SingleChanges


def launch(role, rate, **values):
    return synthetic.Launch(values, role, synthetic.linear(rate))


STUDY = (
    launch("default", 15.0),
    launch("baseline", 20.0, intra_op=1),
    launch("repeat", 20.0, intra_op=1),
    launch("one_change", 22.0, intra_op=4),
    launch("one_change", 21.0, intra_op=2),
    launch("one_change", 40.0, intra_op=1, allocator="mimalloc"),
    launch("one_change", 30.0, intra_op=1, gc="frozen"),
    launch("combined", 55.0, intra_op=1, allocator="mimalloc", gc="frozen"),
)


def analysed(folder, launches=STUDY, **options):
    def change(plan):
        for one in plan["launches"]:
            one["axes"].setdefault("gc", "default")

    options = {"noise": synthetic.QUIET, "ns": (1, 2), **options}
    plan, found = synthetic.collected(folder, change, launches=launches, **options)
    drawn = joint(found.replicates, found.cohorts.cohorts, None, 1).steps_per_s
    return kept(single_changes("m", found.points, drawn, plan))


def test_single_changes_are_compared_alone_and_the_way_to_the_best_begins_with_most(tmp_path):
    found = analysed(tmp_path)
    assert (found.n, found.baseline.launch) == (1, STUDY[1].id)
    assert [(one.axis, one.value) for one in found.changes] == [
        ("intra_op", 2), ("intra_op", 4), ("intra_op", "default"), ("allocator", "mimalloc"),
        ("gc", "frozen"),
    ]  # fmt: skip
    gains = [one.gain.value for one in found.changes]
    assert gains == pytest.approx([1.05, 1.1, 0.75, 2.0, 1.5], rel=0.02)
    assert all(one.gain.low < one.gain.value for one in found.changes)
    assert found.changes[3].step_s == pytest.approx(1 / 40, rel=0.02)
    first, second = found.steps
    assert (first.axis, second.axis) == ("allocator", "gc")
    assert first.predicted == pytest.approx(2.0, rel=0.02)
    assert first.measured.value == pytest.approx(2.0, rel=0.02)
    # Both shorten every phase here: the stronger one counts, and not their product.
    assert second.predicted == pytest.approx(2.0, rel=0.02)
    assert second.measured.value == pytest.approx(2.75, rel=0.02)


def test_a_combination_on_the_way_that_was_not_measured_has_no_figure(tmp_path):
    three = launch("combined", 80.0, intra_op=2, allocator="mimalloc", gc="frozen")
    steps = analysed(tmp_path, (*STUDY[:7], three)).steps
    assert [one.measured is None for one in steps] == [False, True, False]


def test_without_a_baseline_nothing_is_compared(tmp_path):
    lost = synthetic.Launch({"intra_op": 1}, "baseline", ending="failed")
    found = analysed(tmp_path, (STUDY[0], lost))
    assert found == SingleChanges(machine="m")
