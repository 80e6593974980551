"""Other ways to choose a launch and a process count, on the same simulated machines.

The grid takes the time it takes. Every other one gets the time that the race took, starts
included, and stops when its next start would end later. Each measures what a world shows, and
chooses the point with the best mean.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from scaling_study.search.race import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from search_worlds import World

    from scaling_study.stats.throughputs import Point

WINDOWS, LONGEST_S = 2, 3.0
"""Of each count, and of a window: as the race measures."""
GRID_REPLICATES, GRID_WINDOWS, GRID_LONGEST_S = 3, 12, 8.0
"""As the shipped full-size study measures all."""
RANDOM_COUNTS = 5
HALVING_COUNTS = 6
TRIAL_STARTS = 4
"""Of one point, at most, before Optuna's next trial."""


class Seen:
    """The starts that a method has measured in a world: log throughputs by point, and their time.

    Args:
        world: Where it measures.
        budget_s: The time for all starts.
    """

    def __init__(self, world: World, budget_s: float) -> None:
        self.world = world
        self.logs: dict[Point, list[float]] = defaultdict(list)
        self.spent_s = 0.0
        self.budget_s = budget_s

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return self.spent_s >= self.budget_s

    def measure(
        self,
        launch: str,
        counts: Sequence[int],
        windows: int = WINDOWS,
        longest_s: float = LONGEST_S,
    ) -> None:
        """Start a launch, unless the time is up, and measure it at some counts."""
        task = Task(launch, tuple(counts))
        for one in () if self.over else self.world.measure([task], 0, windows, longest_s):
            self.spent_s += one.wall_s
            for n, rate in one.rates.items():
                self.logs[one.launch, n].append(math.log(rate))

    def best(self, launch: str | None = None) -> tuple[float, Point]:
        """Return the best mean and its point, of all launches or of one."""
        means = {
            point: float(np.mean(logs))
            for point, logs in self.logs.items()
            if logs and launch in {None, point[0]}
        }
        point = max(means, key=lambda one: means[one], default=(launch or "baseline", 1))
        return means.get(point, -math.inf), point


def grid(seen: Seen) -> None:
    """Three replicates of every launch at every count, replicate by replicate in random order."""
    rng = np.random.default_rng(seen.world.seed)
    launches = [*seen.world.field.entrants]
    for _ in range(GRID_REPLICATES):
        for at in rng.permutation(len(launches)):
            counts = seen.world.field.process_counts
            seen.measure(launches[at], counts, GRID_WINDOWS, GRID_LONGEST_S)


def one_replicate(seen: Seen) -> None:
    """One start of as many launches as there is time for, at every count."""
    launches = [*seen.world.field.entrants]
    for at in np.random.default_rng(seen.world.seed).permutation(len(launches)):
        seen.measure(launches[at], seen.world.field.process_counts)


def random_search(seen: Seen) -> None:
    """Starts of random launches at random counts."""
    rng = np.random.default_rng(seen.world.seed)
    launches, process_counts = [*seen.world.field.entrants], seen.world.field.process_counts
    while not seen.over:
        counts = rng.choice(process_counts, min(RANDOM_COUNTS, len(process_counts)), replace=False)
        launch = launches[int(rng.integers(len(launches)))]
        seen.measure(launch, sorted(map(int, counts)))


def successive_halving(seen: Seen) -> None:
    """A start of each launch, then of the better half, and so on, until there is one."""
    left, process_counts = [*seen.world.field.entrants], seen.world.field.process_counts
    places = np.linspace(0, len(process_counts) - 1, HALVING_COUNTS).round().astype(int)
    counts = [process_counts[at] for at in places]
    while not seen.over:
        for launch in left:
            _, (_, best) = seen.best(launch)
            at = process_counts.index(best)
            near = process_counts[max(0, at - 1) : at + 2]
            seen.measure(launch, near if (launch, best) in seen.logs else counts)
        ranks = {launch: seen.best(launch)[0] for launch in left}
        left = sorted(left, key=lambda one: -ranks[one])[: max(1, len(left) // 2)]


def optuna_wilcoxon(seen: Seen) -> None:
    """Optuna's sampler (TPE), with its Wilcoxon pruner over repeated starts of one point."""
    import optuna  # noqa: PLC0415 (slow, and needed here only)

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    launches, process_counts = [*seen.world.field.entrants], seen.world.field.process_counts
    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=seen.world.seed),
        pruner=optuna.pruners.WilcoxonPruner(p_threshold=0.1),
    )
    while not seen.over:
        trial = study.ask()
        launch = trial.suggest_categorical("launch", launches)
        n = process_counts[trial.suggest_int("n", 0, len(process_counts) - 1)]
        before = len(seen.logs[launch, n])
        for step in range(TRIAL_STARTS):
            seen.measure(launch, (n,))
            values = seen.logs[launch, n][before:]
            if not values or seen.over:
                break
            trial.report(values[-1], step)
            if trial.should_prune():
                break
        if values:
            study.tell(trial, float(np.mean(values)))
        else:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)


RIVALS: dict[str, Callable[[Seen], None]] = {
    "one replicate of the grid": one_replicate,
    "random search": random_search,
    "successive halving": successive_halving,
    "Optuna, TPE with its Wilcoxon pruner": optuna_wilcoxon,
}
