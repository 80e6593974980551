"""The one loop of all experiments: blocks, attempts, resumed files, stopped cohorts."""

import random
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

import made_records
from scaling_study.experiments.blocks import Blocks, Condition, irregular, key
from scaling_study.experiments.experiment import Impossible, Planned, groups, unchanged
from scaling_study.runner.cohort import WindowSettings
from scaling_study.runner.member_processes import MemberEndedError

TIMING = WindowSettings(20, 1.0, 2.0, 0.1)


class Cohort:
    """Takes windows that are what they are said to be: valid, disturbed, or a member's end."""

    def __init__(self, *outcomes, size=4):
        self.outcomes = list(outcomes)
        self.size = size
        self.alive = tuple(range(size))
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


def run(conditions, blocks=2, lost=None, **settings):
    records = []
    loop = Blocks(records.append, TIMING, **settings)
    loop.run(conditions, blocks, random.Random(3), lost)  # noqa: S311 (an order)
    return records


def test_every_condition_takes_one_window_in_each_block_in_an_order_of_its_own():
    conditions = [Condition("intervention", name, Cohort(), 2) for name in "abcdef"]
    records = run(conditions, blocks=4)
    orders = [tuple(one.name for one in records if one.block == at) for at in range(4)]
    assert all(sorted(order) == list("abcdef") for order in orders)
    assert len(set(orders)) > 1
    assert len({key(one) for one in records}) == len(records) == 24


def test_what_an_interrupted_run_has_taken_is_not_repeated():
    conditions = [Condition("intervention", name, Cohort(), 2) for name in "abc"]
    whole = run(conditions)
    assert run(conditions, done={key(one) for one in whole}) == []
    (missing,) = run(conditions, done={key(one) for one in whole[:-1]})
    assert key(missing) == key(whole[-1])


def test_a_disturbed_window_has_further_attempts_while_any_are_left():
    cohort = Cohort("foreign", "foreign")
    records = run([Condition("intervention", "a", cohort, 1)], blocks=1)
    assert [(one.attempt, one.valid) for one in records] == [(0, False), (1, False), (2, True)]
    disturbed = [Condition("intervention", name, Cohort(*["foreign"] * 9), 1) for name in "ab"]
    assert len(run(disturbed, blocks=1, attempts=3)) == 2 + 3
    assert len(run(disturbed, blocks=1, further=1)) == 2 * 2


def test_a_flag_that_every_attempt_would_have_ends_them():
    (record,) = run([Condition("intervention", "a", Cohort("throttled_burst"), 1)], blocks=1)
    assert not record.valid


def test_a_frozen_cohort_goes_on_for_its_windows_alone():
    cohort, seen = Cohort(), []

    @contextmanager
    def around():
        seen.extend(cohort.did)
        yield {"rate_share": 0.5}
        seen.append(cohort.did[-1])

    one = Condition("data_loader", "a", cohort, 4, asked=7, frozen=True, around=around)
    (record,) = run([one], blocks=1)
    told = ("tell", 7)
    assert cohort.did == [told, "thaw", ("attempt", 4, TIMING, 0), "freeze"]
    assert seen == [told, "freeze"]
    assert record.rate_share == 0.5


def test_members_take_turns_where_not_all_train():
    cohort = Cohort()
    run([Condition("intervention", "a", cohort, 1, rotates=True)], blocks=3)
    assert [did[3] for did in cohort.did] == [0, 1, 2]
    stays = Cohort()
    run([Condition("stressor", "a", stays, 1)], blocks=3)
    assert [did[3] for did in stays.did] == [0, 0, 0]


def test_conditions_of_a_lost_cohort_are_left_out_and_the_others_go_on():
    gone, lost = Cohort("ended"), []
    conditions = [
        Condition("intervention", "a", gone, 1, optional=True),
        Condition("intervention", "b", gone, 2, optional=True),
        Condition("reference", "reference", Cohort(), 1),
    ]
    records = run(conditions, blocks=3, lost=lost.append)
    assert [one.name for one in records] == ["reference"] * 3
    assert len(lost) == 1
    assert lost[0].cohort is gone


def test_a_member_of_the_reference_ends_all():
    lost = []
    conditions = [Condition("reference", "reference", Cohort("ended"), 1)]
    with pytest.raises(MemberEndedError):
        run(conditions, lost=lost.append)
    assert lost == []


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
    cohorts = [Planned(str(size), {}, SimpleNamespace(members=(None,) * size)) for size in sizes]
    found = groups(cohorts, FOUR_CPUS)
    assert [[one.size for one in group] for group in found] == together
    assert [one for group in found for one in group] == cohorts


@pytest.mark.parametrize(
    ("asked", "reports", "reason"),
    [
        (["whole_batches"], [CAN], ""),
        (["whole_batches"], [CAN, CANNOT], "single rows"),
        ([], [CANNOT], ""),
        (["one_element", "no_gc"], [report(one_element=False, no_gc=True)],
         "one_element did not take effect"),
    ],
)  # fmt: skip
def test_a_change_that_cannot_be_made_is_no_failure(asked, reports, reason):
    found = unchanged(asked, reports)
    assert found == reason
    assert isinstance(found, Impossible) == (reason == "single rows")
