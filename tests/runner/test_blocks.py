"""The one loop of everything that is measured: blocks, attempts, resumed files, lost conditions."""

import random
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

import made_records
from scaling_study.runner.blocks import Blocks, LostError


@dataclass(frozen=True)
class Condition:
    """A condition, whose group is the first letter of its name."""

    name: str
    n: int = 2

    @property
    def group(self):
        return self.name[0]

    def key(self, block):
        return self.name, block


class Attempts:
    """Takes windows that are what they are said to be: valid, disturbed, or lost."""

    def __init__(self, *outcomes):
        self.outcomes, self.taken = list(outcomes), []

    def __call__(self, condition, window, attempt):
        outcome = self.outcomes.pop(0) if self.outcomes else "valid"
        if outcome == "lost":
            raise LostError(f"{condition.name} ended")
        self.taken.append((condition, window, attempt))
        flags = [] if outcome == "valid" else [outcome]
        return made_records.taken([], n=window.n, valid=not flags, flags=flags)


def run(conditions, *outcomes, blocks=2, retries=10, **settings):
    attempts = Attempts(*outcomes)
    loop = Blocks(attempts, retries, **settings)
    loop.run(conditions, blocks, random.Random(3))  # noqa: S311 (an order)
    return attempts.taken, loop


def test_every_condition_takes_one_window_in_each_block_in_an_order_of_its_own():
    conditions = [Condition(name) for name in "abcdef"]
    taken, _ = run(conditions, blocks=4)
    orders = [[one.name for one, window, _ in taken if window.block == at] for at in range(4)]
    assert all(sorted(order) == list("abcdef") for order in orders)
    assert len(set(map(tuple, orders))) > 1
    assert [window.window for _, window, _ in taken] == list(range(24))


@given(
    st.lists(st.integers(1, 400), min_size=1, max_size=12, unique=True),
    st.integers(1, 6),
    st.integers(0, 2**32),
)
def test_a_schedule_is_blocks_of_permutations_of_the_counts(process_counts, blocks, seed):
    attempts = Attempts()
    conditions = [Condition(str(n), n) for n in process_counts]
    Blocks(attempts, 0).run(conditions, blocks, random.Random(seed))  # noqa: S311 (an order)
    schedule = [window for _, window, _ in attempts.taken]
    assert [one.window for one in schedule] == list(range(blocks * len(process_counts)))
    for block in range(blocks):
        taken = [one.n for one in schedule if one.block == block]
        assert sorted(taken) == sorted(process_counts)
    assert [one.block for one in schedule] == sorted(one.block for one in schedule)


def test_what_an_interrupted_run_has_taken_is_not_repeated():
    conditions = [Condition(name) for name in "abc"]
    whole, _ = run(conditions)
    keys = [one.key(window.block) for one, window, _ in whole]
    assert run(conditions, done=keys)[0] == []
    (missing,), _ = run(conditions, done=keys[:-1])
    assert missing == whole[-1]  # with the number that it would have had


def test_a_disturbed_window_has_further_attempts_while_any_are_left():
    one = [Condition("a")]
    taken, _ = run(one, "foreign_cpu", "foreign_cpu", blocks=1)
    assert [attempt for _, _, attempt in taken] == [0, 1, 2]
    disturbed = ["foreign_cpu"] * 18
    assert len(run(one * 2, *disturbed, blocks=1, retries_left=3)[0]) == 2 + 3
    assert len(run(one * 2, *disturbed, blocks=1, retries=1)[0]) == 2 * 2


def test_a_flag_that_every_attempt_would_have_ends_them():
    assert len(run([Condition("a")], "throttled_burst", blocks=1)[0]) == 1


def test_conditions_of_a_lost_group_are_left_out_and_the_others_go_on():
    taken, loop = run([Condition("a1"), Condition("a2")], "lost", blocks=3)
    assert taken == []
    assert list(loop.lost) == ["a"]
    assert loop.lost["a"].endswith("ended")
    loop.run([Condition("a1"), Condition("b")], 3, random.Random(3))  # noqa: S311 (an order)
    assert [one.name for one, _, _ in loop.attempt.taken] == ["b"] * 3


def test_the_first_block_can_begin_with_few():
    attempts = Attempts()
    loop = Blocks(attempts, 0)
    conditions = [Condition(str(n), n) for n in (8, 2, 4, 1)]
    loop.add(conditions, 3, random.Random(3))  # noqa: S311 (an order)
    loop.begin_with_few()
    while loop.take_next():
        pass
    orders = [[window.n for _, window, _ in attempts.taken[at : at + 4]] for at in (0, 4, 8)]
    assert orders[0] == [1, 2, 4, 8]
    assert orders[1:] != [orders[0]] * 2
    assert [window.block for _, window, _ in attempts.taken] == [0] * 4 + [1] * 4 + [2] * 4
