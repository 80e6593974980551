"""The time that a model takes beside its steps, drawn for all launches of a machine together.

A launch is started only a few times, and starts of one launch differ by a tenth. If a model trains
in seconds, this difference decides which launch seems best. So launches that start processes alike
(the same launcher, threads, build, ranks and compilation) share information: the logarithms of one
launch's starts scatter around its mean, and the means of launches around a common one. Both spreads
and all means are drawn together by Gibbs sampling, as those of ``throughputs``. Compilation before
a member's first window is part of its start.

A cohort's members start all at once, which takes longer than the start of a process alone. A race's
first models (``FirstModels``), a fresh one and a forked one, show the latter, and the time from a
model's last step to its end. Between the two counts, each further process adds the same time.
Alone, all launches that start in the same environment take equally long: what they compute in their
first step is little.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from scaling_study.launch.axes import ranks
from scaling_study.records.cohorts import CohortSummary
from scaling_study.records.confirmation import FirstModels, Start
from scaling_study.stats.interval import Floats
from scaling_study.stats.throughputs import DRAWS

ALIKE = ("launcher", "intra_op", "build", "ranks", "compile")
"""Axes that decide how long a start takes."""
PLACE = tuple(name for name in ALIKE if name != "intra_op")
"""Those of them that decide how long it takes alone."""
SHORTEST_S = 1e-6
SPREAD, FREEDOM = 0.1, 2.0
"""Prior standard deviation of the logarithms of one launch's starts, and the degrees of freedom
that it is worth."""
BETWEEN, BETWEEN_FREEDOM = 0.03, 1.0
"""The same for the means of launches that start alike."""
BURN_IN = 100
SEED = 1
KINDS: tuple[Start, ...] = ("fresh", "forked")


@dataclass(frozen=True, slots=True)
class ModelTimes:
    """Draws of the time (s) of a model beside its steps, on one machine.

    Attributes:
        starts: Of the start of a process, to the end of its first step, by launch.
        members: Mean number of members that started at once, by launch.
        compiling_s: Mean time of compilation in a start, by launch, if its models may be forked.
        first: Of the start and the end of the first models, by kind: `fresh` or `forked`.
        growth: What each further process that starts adds to the time of a process alone, as a
            share of it, by launch.
        of_first: The same of the first models' launch.
    """

    starts: dict[str, Floats]
    members: dict[str, float]
    compiling_s: dict[str, float]
    first: dict[Start, tuple[Floats, Floats]]
    growth: dict[str, Floats]
    of_first: Floats

    def start_s(self, launch: str, n: int, *, forked: bool = False) -> Floats | None:
        """Return a start among n processes, to the end of its first step; None if not known.

        Args:
            launch: Its id.
            n: Number of processes.
            forked: Whether a model is forked from a process that has made its imports, where that
                was seen and takes less time.
        """
        fresh = self.starts.get(launch)
        if fresh is not None and launch in self.growth:
            growth, members = self.growth[launch], self.members[launch]
            fresh = fresh * (1 + growth * (n - 1)) / (1 + growth * (members - 1))
        compiling_s = self.compiling_s.get(launch)
        if fresh is None or not forked or "forked" not in self.first or compiling_s is None:
            return fresh
        forked_s = (self.first["forked"][0] + compiling_s) * (1 + self.of_first * (n - 1))
        return np.minimum(fresh, forked_s)

    def beside_s(self, launch: str, n: int, *, forked: bool = False) -> Floats | None:
        """Return the time beside a model's further steps; arguments as for `start_s`."""
        start_s = self.start_s(launch, n, forked=forked)
        forks = forked and "forked" in self.first and launch in self.compiling_s
        times = self.first.get("forked" if forks else "fresh")
        if start_s is None or times is None:
            return start_s
        return start_s + times[1] * (1 + self.of_first * (n - 1))


@dataclass(frozen=True, slots=True)
class _MeanStart:
    """The mean start of a cohort's members.

    Attributes:
        start_s: To the end of the first step, with the compilation after it.
        members: How many there are.
        compiling_s: Time of all compilation.
        anew: Whether some of it was not in a cache.
    """

    start_s: float
    members: int
    compiling_s: float
    anew: bool


def model_times(cohorts: Sequence[CohortSummary], first: FirstModels | None = None) -> ModelTimes:
    """Return the times of one machine.

    Args:
        cohorts: Its cohorts.
        first: The first models that it trained.
    """
    by_group: dict[tuple[str, ...], dict[str, list[_MeanStart]]] = {}
    axes = {cohort.launch: cohort.axes for cohort in cohorts}
    for cohort in cohorts:
        if cohort.readback is not None and cohort.readback.start_s:
            alike = tuple(str(cohort.axes.get(name)) for name in ALIKE)
            by_group.setdefault(alike, {}).setdefault(cohort.launch, []).append(_start(cohort))
    groups = [{key: _usual(starts) for key, starts in group.items()} for group in by_group.values()]
    launches = {launch: starts for group in groups for launch, starts in group.items()}
    members = {key: fmean(each.members for each in starts) for key, starts in launches.items()}
    parts = {} if first is None else _parts(first)
    of_first = first.launch if first is not None and "fresh" in parts else ""
    places = {launch: [axes[launch].get(name) for name in PLACE] for launch in launches}

    def growths(start_s: Mapping[str, Floats], alone_s: Floats) -> dict[str, Floats]:
        """Return the growth of each launch; one that starts in another place has that of first."""
        if of_first not in start_s:
            return {}
        by_launch = {}
        for launch in start_s:
            like = launch if places[launch] == places[of_first] else of_first
            more = np.maximum(0.0, start_s[like] / alone_s - 1)
            by_launch[launch] = np.asarray(more / max(1.0, members[like] - 1))
        return by_launch

    means = {
        launch: np.array(fmean(each.start_s for each in starts))
        for launch, starts in launches.items()
    }
    mean_growth = growths(means, np.asarray(parts["fresh"][0])) if of_first else {}

    def logs(launch: str, starts: Sequence[_MeanStart]) -> Floats:
        """Return the logarithms of starts as they are among the launch's mean number of members."""
        growth = float(mean_growth.get(launch, 0.0))
        usual = 1 + growth * (members[launch] - 1)
        times = [each.start_s * usual / (1 + growth * (each.members - 1)) for each in starts]
        return np.log(np.maximum(times, SHORTEST_S))

    logs_of = [[logs(launch, starts) for launch, starts in group.items()] for group in groups]
    logs_of += [[np.log([max(part_s, SHORTEST_S)])] for part in parts.values() for part_s in part]
    draws: Iterator[Floats] = iter(np.exp(drawn(logs_of)).T if logs_of else [])
    starts = {launch: next(draws) for launch in launches}
    first_times = {kind: (next(draws), next(draws)) for kind in parts}
    growth = growths(starts, first_times["fresh"][0]) if of_first else {}
    compiling_s = {
        launch: fmean(each.compiling_s for each in group)
        for launch, group in launches.items()
        if ranks.asked(axes[launch]) is None  # a group of ranks ends with its model
    }
    still = np.zeros(1)
    return ModelTimes(
        starts, members, compiling_s, first_times, growth, growth.get(of_first, still)
    )


def _start(cohort: CohortSummary) -> _MeanStart:
    """Return the start of a cohort whose members have told theirs."""
    readback = cohort.readback
    compiled = readback.compiled or () if readback else ()
    # start_s already includes compilation in the first step.
    later_s = fmean(each.warm_up_s for each in compiled) if compiled else 0.0
    return _MeanStart(
        fmean(readback.start_s if readback else []) + later_s,
        max(cohort.process_counts),
        fmean(each.seconds for each in compiled) if compiled else 0.0,
        any(each.anew for each in compiled),
    )


def _usual(starts: Sequence[_MeanStart]) -> list[_MeanStart]:
    """Return the starts that compiled nothing new, as most of many models do; else all."""
    return [each for each in starts if not each.anew] or [*starts]


def _parts(first: FirstModels) -> dict[Start, tuple[float, float]]:
    """Return the times (s) of the first models' start and end, by kind; those that have ended."""
    times: dict[Start, tuple[float, float]] = {}
    for kind, record in zip(KINDS, first.rounds, strict=False):
        for run in record.runs:
            if (
                run.ahead == (kind == "forked")
                and run.first_s is not None
                and run.latest_s is not None
                and run.ended_s is not None
            ):
                times[kind] = run.first_s - run.began_s, run.ended_s - run.latest_s
    return times


def drawn(groups: Sequence[Sequence[Floats]]) -> Floats:
    """Return draws (draws, launches) of the means of launches, in groups with a common mean."""
    rng = np.random.default_rng(SEED)
    logs = [starts for launches in groups for starts in launches]
    group = np.repeat(np.arange(len(groups)), [len(launches) for launches in groups])
    counts = np.array([len(starts) for starts in logs], dtype=np.float64)
    means = np.array([starts.mean() for starts in logs])
    squares = sum(float(((starts - starts.mean()) ** 2).sum()) for starts in logs)
    within, between = SPREAD**2, BETWEEN**2
    draws, centers = [], []
    for _ in range(BURN_IN + DRAWS):
        weights = 1 / (between + within / counts)
        sums = np.bincount(group, weights)
        center = np.bincount(group, weights * means) / sums
        common = center + rng.standard_normal(len(sums)) / np.sqrt(sums)
        precision = counts / within + 1 / between
        share = counts / within / precision  # of a launch's own starts in its mean
        levels = share * means + (1 - share) * common[group]
        levels += rng.standard_normal(len(means)) / np.sqrt(precision)
        draws.append(levels)
        centers.append(share * means + (1 - share) * center[group])
        left = squares + float((counts * (means - levels) ** 2).sum()) + FREEDOM * SPREAD**2
        within = left / (2 * rng.gamma((counts.sum() + FREEDOM) / 2))
        left = float(((levels - common[group]) ** 2).sum()) + BETWEEN_FREEDOM * BETWEEN**2
        between = left / (2 * rng.gamma((len(means) + BETWEEN_FREEDOM) / 2))
    samples = np.array(draws[BURN_IN:])
    return np.asarray(samples - samples.mean(axis=0) + np.mean(centers[BURN_IN:], axis=0))
