"""Conditions of experiments: stopped cohorts, members that take turns, lost cohorts."""

from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

import made_records
from scaling_study.experiments import experiment
from scaling_study.experiments.conditions import Condition, Variant, irregular, key
from scaling_study.runner.blocks import LostError
from scaling_study.runner.cohort import WindowSettings
from scaling_study.runner.member_processes import FailedError, MemberEndedError
from scaling_study.runner.windows import WindowPlan

TIMING = WindowSettings(20, 1.0, 2.0, 0.1)


class Cohort:
    """Takes windows that are what they are said to be: valid, disturbed, or a member's end."""

    size = 4

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)
        self.alive = tuple(range(self.size))
        self.did = []

    def take(self, window, settings, first):
        self.did.append(("attempt", window.n, settings, first))
        outcome = self.outcomes.pop(0) if self.outcomes else "valid"
        if outcome == "ended":
            raise MemberEndedError([0])
        flags = [] if outcome == "valid" else [outcome]
        known = {"n": window.n, "block": window.block, "valid": not flags, "flags": flags}
        return made_records.taken([], **known)

    def tell(self, asked):
        self.did.append(("tell", asked))

    def freeze(self):
        self.did.append("freeze")

    def thaw(self):
        self.did.append("thaw")


WINDOW = WindowPlan(3, 2, 1)


def test_a_frozen_cohort_goes_on_for_its_windows_alone():
    cohort, seen = Cohort(), []

    @contextmanager
    def around():
        seen.extend(cohort.did)
        yield {"rate_share": 0.5}
        seen.append(cohort.did[-1])

    one = Condition("data_loader", Variant("a", asked=7), cohort, 1, frozen=True, around=around)
    record = one.attempt(WINDOW, 1, TIMING)
    told = ("tell", 7)
    assert cohort.did == [told, "thaw", ("attempt", 1, TIMING, 0), "freeze"]
    assert seen == [told, "freeze"]
    assert record.rate_share == 0.5
    assert record.attempt == 1
    assert key(record) == one.key(WINDOW.block)


def test_members_take_turns_where_not_all_train():
    cohort = Cohort()
    for rotates in (2, 0):
        turns = Condition("intervention", Variant("a"), cohort, 1, rotates=rotates)
        turns.attempt(WINDOW, 0, TIMING)
    assert [did[3] for did in cohort.did] == [4, 0]


def test_a_condition_with_a_timing_of_its_own_keeps_to_it():
    cohort, bursts = Cohort(), replace(TIMING, bursts=8)
    Condition("intervention", Variant("a", timing=bursts), cohort, 1).attempt(WINDOW, 0, TIMING)
    assert [did[2] for did in cohort.did] == [bursts]


class Job(experiment.Experiment):
    """An experiment of which only the windows are tried."""

    def __init__(self):
        self.records, self._effort = [], TIMING

    def _write(self, record):
        self.records.append(record)


def test_only_an_optional_cohort_may_end():
    job, ended = Job(), Cohort("ended", "ended", "valid")
    with pytest.raises(LostError):
        job._attempt(Condition("intervention", Variant("a"), ended, 1, optional=True), WINDOW, 0)
    with pytest.raises(MemberEndedError):
        job._attempt(Condition("reference", Variant("reference"), ended, 1), WINDOW, 0)
    assert job.records == []
    record = job._attempt(Condition("reference", Variant("reference"), ended, 1), WINDOW, 0)
    assert job.records == [record]


@pytest.mark.parametrize(
    ("step_us", "expected"),
    [
        ([], False),
        ([5000] * 40, False),
        ([5000] * 39 + [20_000], False),  # a hiccup
        ([5000] * 30 + [55_000], True),
        ([5000, 55_000], False),  # nobody knows which is the usual one
        ([5000] * 5 + [55_000] * 4, True),
    ],
)
def test_steps_are_irregular_where_few_long_ones_hold_much_of_the_time(step_us, expected):
    regular = made_records.member([5000] * 40)
    other = made_records.member(step_us)
    assert irregular(made_records.taken([regular, other])) is expected


FOUR_CPUS = 4


def report(impossible=None, **changes):
    return made_records.readback(slot=0, intra_op=1, impossible=impossible or {}, changes=changes)


CAN = report(whole_batches=True)
CANNOT = report({"whole_batches": "single rows"}, whole_batches=False)


@pytest.mark.parametrize(
    ("sizes", "together"),
    [
        ([4, 4, 1, 1], [[4], [4], [1, 1]]),
        ([2, 1, 2, 2], [[2, 1], [2, 2]]),  # in their order
        ([8, 1], [[8], [1]]),  # more members than CPUs start alone
        ([], []),
    ],
)
def test_members_start_together_while_each_has_a_cpu(sizes, together):
    cohorts = [
        experiment.CohortPlan(Variant(""), SimpleNamespace(members=(None,) * size))
        for size in sizes
    ]
    found = experiment.groups(cohorts, FOUR_CPUS)
    assert [[one.size for one in group] for group in found] == together
    assert [one for group in found for one in group] == cohorts


def test_changes_that_hold_are_no_reason():
    experiment.check_changes(["whole_batches"], [CAN])
    experiment.check_changes([], [CANNOT])


def test_a_change_that_cannot_be_made_is_no_failure():
    with pytest.raises(experiment.ImpossibleError, match=r"^single rows$"):
        experiment.check_changes(["whole_batches"], [CAN, CANNOT])
    with pytest.raises(FailedError, match=r"^one_element did not take effect$") as failed:
        experiment.check_changes(["one_element", "no_gc"], [report(one_element=False, no_gc=True)])
    assert not isinstance(failed.value, experiment.ImpossibleError)
