"""The next round is a function of what is known; replayed here on a machine without chance."""

from dataclasses import replace

import numpy as np
import pytest

from scaling_study.search.race import Entrant, Race, RaceField, Settings, dealt
from scaling_study.stats.throughputs import Start

LONG = Settings(budget_s=1e5)
COUNTS = (1, 2, 4, 7, 8, 9, 15, 16, 17)
BASELINE = Entrant("baseline", frozenset())
DEFAULT = Entrant("default", frozenset({("intra_op", "default")}), threads=16)


def single(axis, value="on"):
    return Entrant(axis, frozenset({(axis, value)}))


def field(*others):
    return RaceField(DEFAULT, BASELINE, others, COUNTS, boundaries=(8, 16))


def plateau(at, top=1.0):
    """Throughput that grows until `at` processes, and stays."""
    return lambda n: top * min(n, at)


class Machine:
    """Measures what is true, times a little luck of each start, and the speed of its node."""

    def __init__(self, truth, nodes=(1.0,)):
        self.nodes = nodes
        self.truth, self.rng = truth, np.random.default_rng(1)
        self.asked = []

    def measure(self, batch, number, node=0):
        self.asked += batch
        return [self.start(task, number, self.nodes[node]) for task in batch]

    def start(self, task, batch, speed):
        found = self.truth.get(task.launch)
        if found is None:
            return Start(task.launch, batch, {}, max(task.counts), 5.0, 0.0)
        factor = speed * np.exp(0.001 * self.rng.standard_normal())
        rates = {n: found(n) * factor for n in task.counts}
        return Start(task.launch, batch, rates, max(task.counts), 10.0, 6.0 * len(rates))


def run(machine, competing, settings=LONG):
    """Race to the end; return the last state, all rounds, and all starts."""
    starts, batches, history = [], len(machine.asked), []
    while True:
        race = Race(competing, settings, starts, len(history))
        found = race.next()
        history.append(found)
        if found.stage == "done":
            return race, history, starts
        competing = replace(competing, others=(*competing.others, *found.combined))
        for node, own in enumerate(dealt(found.batches, settings.nodes)):
            at = {"round": str(len(history)), "node": str(node)}
            for batch in own:
                starts += [replace(one, **at) for one in machine.measure(batch, batches, node)]
                batches += 1


def truth(**more):
    return {"baseline": plateau(8), "default": plateau(1), **more}


def many(count, nodes=1, budget_s=1e5):
    """A race of launches, of which one is better, on nodes that differ by more than that."""
    others = [single(f"axis{number}") for number in range(count)]
    tops = {one.launch: plateau(8) for one in others} | {"axis7": plateau(8, 1.1)}
    machine = Machine(truth(**tops), nodes=np.linspace(1.0, 0.8, nodes))
    return run(machine, field(*others), Settings(budget_s, nodes=nodes))


def test_every_launch_is_screened_before_any_has_a_second_start():
    _, history, _ = many(9)
    assert [found.stage for found in history].count("screen") == 1
    (screen,) = (found for found in history if found.stage == "screen")
    batches = [[task.launch for task in batch] for batch in screen.batches]
    assert {batch[0] for batch in batches} == {"baseline"}
    others = [launch for batch in batches for launch in batch[1:]]
    assert sorted(others) == [f"axis{number}" for number in range(9)]


@pytest.mark.parametrize(
    ("true", "point"),
    [
        ({"a": plateau(8, 1.2), "b": plateau(15, 0.9), "c": plateau(8, 0.7)}, ("b", 15)),
        # It is followed beyond the counts of the screening.
        ({"a": plateau(8, 1.2), "slow": lambda n: 0.8 * n}, ("slow", 17)),
        ({"a": plateau(8, 1.2), "b": plateau(8, 1.15), "a=on+b=on": plateau(8, 1.1)}, ("a", 8)),
        # A hundredth of a step is a tenth of what a choice that is ten times as fast leaves of it.
        (
            {"a": plateau(8, 10.0), "b": plateau(8, 1 / 0.99), "a=on+b=on": plateau(8, 1 / 0.09)},
            ("a=on+b=on", 8),
        ),
    ],
)
def test_the_best_launch_is_found_at_its_best_count(true, point):
    others = [single(name) for name in true if "+" not in name]
    race, *_ = run(Machine(truth(**true)), field(*others))
    assert (race.choice.launch, race.choice.n) == point
    assert race.choice.probability > 0.9


def test_boundaries_near_the_best_count_are_looked_at_before_it_is_called_best():
    machine = Machine(truth(a=plateau(15, 1.3)))
    _, _, starts = run(machine, field(single("a")))
    counts = {n for one in starts if one.launch == "a" for n in one.rates}
    assert {8, 15, 16} <= counts


def test_a_launch_that_failed_is_not_tried_again():
    machine = Machine(truth(a=plateau(8, 1.1)))
    run(machine, field(single("a"), single("broken")))
    assert [task.launch for task in machine.asked].count("broken") == 1


def test_a_count_at_which_members_end_is_not_asked_for_again_and_again():
    class Small(Machine):
        """Members end where more than 15 of them run."""

        def start(self, task, batch, speed):
            counts = tuple(n for n in task.counts if n <= 15)
            found = super().start(replace(task, counts=counts), batch, speed)
            return replace(found, lost=tuple(n for n in task.counts if n > 15))

    machine = Small(truth(a=plateau(15, 1.3)))
    _, history, *_ = run(machine, field(single("a")))
    assert history[-1].reason != "the budget is spent"
    assert sum(16 in task.counts for task in machine.asked if task.launch == "a") <= 3


def test_a_baseline_that_could_not_be_measured_is_tried_again():
    class Busy(Machine):
        """Another program runs during the first round."""

        def start(self, task, batch, speed):
            if batch == 0:
                return Start(task.launch, 0, {}, 1, 5.0, 20.0, lost=task.counts)
            return super().start(task, batch, speed)

    race, history, *_ = run(Busy(truth(a=plateau(8, 1.3))), field(single("a")))
    assert [found.stage for found in history[:3]] == ["first", "first", "screen"]
    assert race.choice.launch == "a"


def test_values_of_one_axis_are_never_put_together():
    x, y = Entrant("x", frozenset({("blas", "x")})), Entrant("y", frozenset({("blas", "y")}))
    machine = Machine(truth(x=plateau(8, 1.2), y=plateau(8, 1.15)))
    _, history, *_ = run(machine, field(x, y))
    assert not any(found.combined for found in history)


def few(n):
    """Throughput that is best with four processes."""
    return 4.0 / (1 + (np.log(n / 4)) ** 2)


def test_the_launch_that_the_choice_is_compared_with_is_searched_as_well():
    counts = (1, 2, 4, 8, 16, 32, 64)
    competing = RaceField(DEFAULT, BASELINE, (single("a"),), counts, (64,), today_counts=(32,))
    machine = Machine({"baseline": plateau(64), "a": plateau(64, 1.2), "default": few})
    race, history, starts = run(machine, competing)
    assert (race.choice.launch, race.choice.n) == ("a", 64)
    seen = {n for one in starts if one.launch == "default" for n in one.rates}
    assert {1, 2, 4, 8, 16, 32, 64} >= seen >= {2, 4, 8, 32, 64}
    assert [found.stage for found in history][:2] == ["first", "refine"]
    # A failing launch is not tried again and again.
    _, history, _ = run(Machine({"baseline": plateau(64), "a": plateau(64, 1.2)}), competing)
    assert "refine" not in [found.stage for found in history]


def test_what_refining_may_cost_is_limited():
    slow = Machine({"baseline": plateau(16), "default": few})
    measure = slow.start

    def start(task, batch, speed):
        found = measure(task, batch, speed)
        return (
            replace(found, windows_s=200.0 * len(found.rates))
            if task.launch == "default"
            else found
        )

    slow.start = start
    _, history, _ = run(slow, field(), Settings(budget_s=3000.0))
    refined = [one for found in history if found.stage == "refine" for one in found.batches[0]]
    assert sum(len(task.counts) for task in refined if task.launch == "default") <= 2


def test_nodes_measure_side_by_side_and_each_meets_the_launch_that_all_are_compared_with():
    race, history, starts = many(24, nodes=4)
    alone, *_ = many(24)
    assert race.choice.launch == alone.choice.launch == "axis7"
    assert race.spent_s < 0.85 * alone.spent_s  # the first rounds have one batch each
    for found in history[1:-1]:
        common = set.intersection(*({task.launch for task in batch} for batch in found.batches))
        assert common
    assert {one.node for one in starts} == {"0", "1", "2", "3"}


def test_a_round_is_over_when_its_last_node_is_through():
    starts = [
        Start("baseline", 0, {8: 1.0}, 8, 10.0, 20.0, round="0", node="0"),
        Start("baseline", 1, {8: 1.0}, 8, 10.0, 30.0, round="0", node="1"),
        Start("baseline", 2, {8: 1.0}, 8, 10.0, 5.0, round="1", node="1"),
    ]
    assert Race(field(), Settings(1e5, nodes=2), starts, 2).spent_s == 55.0


def test_no_round_begins_that_does_not_fit_into_the_budget():
    race, history, _ = many(9, budget_s=500)
    assert race.spent_s <= 500
    assert history[-1].reason == "the budget is spent"


def test_a_launch_of_several_threads_is_screened_at_fewer_processes():
    four = replace(single("threads", "4"), threads=4)
    machine = Machine(truth(threads=plateau(2, 3.0)))
    run(machine, field(four))
    (screened,) = [task for task in machine.asked if task.launch == "threads"][:1]
    assert min(screened.counts) <= 2


def test_what_changes_training_is_screened_and_never_chosen_nor_raced():
    machine = Machine(truth(a=plateau(8, 1.2), batch=plateau(8, 3.0)))
    batch = replace(single("batch"), aside=True)
    race, history, starts = run(machine, field(single("a"), batch))
    assert (race.choice.launch, race.choice.probability > 0.9) == ("a", True)
    assert sum(one.launch == "batch" for one in starts) == 1
    assert not any(one.combined for one in history)


@pytest.mark.parametrize(("local", "chosen"), [(1.2, "preferred"), (1.3, "local")])
def test_memory_that_may_kill_is_chosen_only_if_it_is_better_by_the_tolerance(local, chosen):
    others = [single("membind", "local"), single("membind", "preferred")]
    others = [
        replace(each, launch=value)
        for each, value in zip(others, ("local", "preferred"), strict=True)
    ]
    machine = Machine(truth(local=plateau(8, local), preferred=plateau(8, 1.2 / 1.015)))
    race, *_ = run(machine, field(*others))
    assert race.choice.launch == chosen
