"""Other ways to choose a launch and a process count, on the same simulated machines.

The grid takes the time it takes. Every other one gets the time that the race took, starts
included, and stops when its next start would end later. Each measures what a world shows, and
chooses the point with the best mean.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scaling_study.search.race import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from search_worlds import World

    from scaling_study.stats.throughputs import Point, Start

WINDOWS, LONGEST_S = 2, 3.0
"""Of each count, and of a window: as the race measures."""
GRID_REPLICATES, GRID_WINDOWS, GRID_LONGEST_S = 3, 12, 8.0
"""As the shipped full-size study measures all."""
RANDOM_COUNTS = 5
HALVING_COUNTS = 6
TRIAL_STARTS = 4
"""Of one point, at most, before Optuna's next trial."""


@dataclass(frozen=True, slots=True)
class Found:
    """The point that a method chose, and the time it took (s)."""

    point: Point
    spent_s: float


class Seen:
    """Log throughputs of all starts by point."""

    def __init__(self) -> None:
        self.logs: dict[Point, list[float]] = defaultdict(list)
        self.spent_s = 0.0

    def add(self, starts: Iterable[Start]) -> None:
        """Take in what starts show."""
        for one in starts:
            self.spent_s += one.wall_s
            for n, rate in one.rates.items():
                self.logs[one.launch, n].append(math.log(rate))

    def best(self, launch: str | None = None) -> tuple[float, Point]:
        """The point with the best mean, of all launches or of one."""
        means = {
            point: float(np.mean(logs))
            for point, logs in self.logs.items()
            if launch in {None, point[0]}
        }
        if not means:
            return -math.inf, (launch or "baseline", 1)
        point = max(means, key=lambda one: means[one])
        return means[point], point


def _start(world: World, task: Task, seen: Seen) -> None:
    seen.add(world.measure([task], 0, WINDOWS, LONGEST_S))


def grid(world: World, _budget_s: float) -> Found:
    """Three replicates of every launch at every count, replicate by replicate in random order."""
    seen, rng = Seen(), np.random.default_rng(world.seed)
    launches = [*world.field.entrants]
    for _ in range(GRID_REPLICATES):
        for at in rng.permutation(len(launches)):
            task = Task(launches[at], world.field.process_counts)
            seen.add(world.measure([task], 0, GRID_WINDOWS, GRID_LONGEST_S))
    return Found(seen.best()[1], seen.spent_s)


def one_replicate(world: World, budget_s: float) -> Found:
    """One start of as many launches as there is time for, at every count."""
    seen, rng = Seen(), np.random.default_rng(world.seed)
    launches = [*world.field.entrants]
    for at in rng.permutation(len(launches)):
        if seen.spent_s >= budget_s:
            break
        _start(world, Task(launches[at], world.field.process_counts), seen)
    return Found(seen.best()[1], seen.spent_s)


def random_search(world: World, budget_s: float) -> Found:
    """Starts of random launches at random counts."""
    seen, rng = Seen(), np.random.default_rng(world.seed)
    launches, process_counts = [*world.field.entrants], world.field.process_counts
    while seen.spent_s < budget_s:
        counts = rng.choice(process_counts, min(RANDOM_COUNTS, len(process_counts)), replace=False)
        launch = launches[int(rng.integers(len(launches)))]
        _start(world, Task(launch, tuple(sorted(map(int, counts)))), seen)
    return Found(seen.best()[1], seen.spent_s)


def successive_halving(world: World, budget_s: float) -> Found:
    """A start of each launch, then of the better half, and so on, until there is one."""
    seen, left = Seen(), [*world.field.entrants]
    process_counts = world.field.process_counts
    places = np.linspace(0, len(process_counts) - 1, HALVING_COUNTS).round().astype(int)
    counts = tuple(process_counts[at] for at in places)
    while left and seen.spent_s < budget_s:
        for launch in left:
            if seen.spent_s >= budget_s:
                break
            _, (_, best) = seen.best(launch)
            at = process_counts.index(best)
            near = (
                process_counts[max(0, at - 1) : at + 2] if (launch, best) in seen.logs else counts
            )
            _start(world, Task(launch, tuple(near)), seen)
        ranks = {launch: seen.best(launch)[0] for launch in left}
        left = sorted(left, key=lambda one: -ranks[one])[: max(1, len(left) // 2)]
    return Found(seen.best()[1], seen.spent_s)


def optuna_wilcoxon(world: World, budget_s: float) -> Found:
    """Optuna's sampler (TPE), with its Wilcoxon pruner over repeated starts of one point."""
    import optuna  # noqa: PLC0415 (slow, and needed here only)

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    seen, launches = Seen(), [*world.field.entrants]
    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=world.seed),
        pruner=optuna.pruners.WilcoxonPruner(p_threshold=0.1),
    )
    while seen.spent_s < budget_s:
        trial = study.ask()
        launch = trial.suggest_categorical("launch", launches)
        n = world.field.process_counts[
            trial.suggest_int("n", 0, len(world.field.process_counts) - 1)
        ]
        values: list[float] = []
        for step in range(TRIAL_STARTS):
            if seen.spent_s >= budget_s:
                break
            before = len(seen.logs[launch, n])
            _start(world, Task(launch, (n,)), seen)
            values += seen.logs[launch, n][before:]
            if not values:
                break
            trial.report(values[-1], step)
            if trial.should_prune():
                break
        if values:
            study.tell(trial, float(np.mean(values)))
        else:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
    known = {point: logs for point, logs in seen.logs.items() if logs}
    seen.logs = defaultdict(list, known)
    return Found(seen.best()[1], seen.spent_s)


RIVALS: dict[str, Callable[[World, float], Found]] = {
    "one replicate of the grid": one_replicate,
    "random search": random_search,
    "successive halving": successive_halving,
    "Optuna, TPE with its Wilcoxon pruner": optuna_wilcoxon,
}
