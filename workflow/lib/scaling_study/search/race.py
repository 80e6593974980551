"""The next round of a race, as a pure function of all starts so far.

first
    Two starts each of the baseline, the default launch and today's. The baseline's second start is
    its repeat (the A/A check). The baseline runs at few counts from the lowest to the highest,
    including each boundary of the machine; the others run at three of these.
refine
    The default launch and today's, which the choice is compared with, between the counts next to
    their best one: they may be fastest with few processes. Once the race knows its choice, today's
    launch also runs with as many processes as the choice does.
screen
    Every other launch once, at the baseline's best count and those around it. A launch that changes
    training itself is neither chosen nor raced.
combine
    The best launch's changes with one more that was better, on another axis, best first. A
    combination enters the race like any other launch, and the next one builds on it only if it is
    measured to be better.
race
    Fresh starts of the best launch and of those with the highest expected improvement (Jones,
    Schonlau and Welch, Journal of Global Optimization 13, 1998), at the counts that may be their
    best ones and at the counts next to these.

A race ends when the choice is within the tolerance of the best point with enough probability, when
nothing else is expected to be better, or when no round fits into the budget. Looking again after
every round finds a lucky moment sooner or later, so each look may spend only a part of the allowed
probability of error (Lan and DeMets, Biometrika 70, 1983).
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from scaling_study.common.axis_values import Value
from scaling_study.config.plan import Choice
from scaling_study.stats.interval import Floats
from scaling_study.stats.throughputs import Point, Start, Throughputs, fit

Changes = frozenset[tuple[str, Value]]
Dealt = TypeVar("Dealt")

FIRST_COUNTS = 8
"""Process counts in the first round, beside the boundaries of the machine."""
DEFAULT_COUNTS = 3
"""Counts of the default launch and today's in it: these may be twenty times slower."""
REFINED = 0.1
"""Largest share of the budget for a round that refines the best count of these two launches."""
MOST_REFINED = 4
"""Number of starts from which on such a launch is no longer refined."""
COMPARED, SLOWER = 0.05, 1.5
"""Largest share of the budget that is reserved for comparing today's launch with the choice at
equal counts. It may take this multiple of the expected time: omitted counts are often slow."""
BATCH = 5
"""Launches that are measured side by side, including the one that all batches share."""
FEWEST = 2
"""Fewest launches side by side: a single launch has no comparison. Also the fewest counts that show
growth."""
MOST_TRIES = 4
"""Number of failed starts of the baseline after which the race ends."""
MOST_BATCHES = 3
"""Most fresh starts of the same launches in a round, before the race chooses again."""
ROUND_S = 420.0
"""Rough length of a round (s). The race chooses again after each."""
MOST_STARTS = 10
"""Most starts of one launch: further ones cost more than they show."""
WORTH = 0.05
"""Fraction of the tolerance: a launch expected to improve by less gets no further start."""
HARDLY = 0.5
"""Fraction of the tolerance: of launches that differ by less, the simplest one is chosen."""
LIKELY = 0.1
"""Probability of being a launch's best count, below which a count is not measured again."""
WIDEST = 4
"""Most axes that a combination changes."""
INTERACTION = 0.03
"""Standard deviation of the interaction of two changes: of the logarithm of their common gain over
the product of their single gains."""
ADDITIVE, ADDITIVE_SPREAD = 0.8, 0.4
"""Share of a change's own gain that remains beside another change: prior mean and deviation."""
FAR = math.log(2)
"""A gain over the baseline (as logarithm) above which changes no longer add up, because little
remains of the step in which they were measured."""
LEAST_LEFT = 0.3
"""Smallest part of a step's time that may remain if a change saves as much as it does alone."""
SWEEPS = 100
"""Sweeps of the sampler at each decision."""
START_S, MEMBER_S = 8.0, 0.1
"""Assumed time of a cohort's start, and for each member, until one is measured."""


@dataclass(frozen=True, slots=True)
class Entrant:
    """A launch in the race.

    Attributes:
        launch: its id.
        changes: what differs from the baseline, as axis and value.
        threads: CPUs that a member uses: its best count is smaller by that factor.
        alone: whether each process count has a cohort of its own.
        aside: whether it changes training itself, so it may not be chosen.
    """

    launch: str
    changes: Changes
    threads: int = 1
    alone: bool = False
    aside: bool = False

    def cohorts(self, counts: Sequence[int]) -> list[int]:
        """Return the size of each cohort that is started for some counts."""
        return list(counts) if self.alone else [max(counts)]


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A rule that no combination may match.

    Attributes:
        changes: the changes that a launch must have to match, all of them.
        unchanged: the axes that it must have as the baseline has them.
    """

    changes: Changes
    unchanged: frozenset[str] = frozenset()

    def holds(self, changes: Changes) -> bool:
        """Return whether a launch with these changes is excluded."""
        return self.changes <= changes and self.unchanged.isdisjoint(axis for axis, _ in changes)


@dataclass(frozen=True, slots=True)
class RaceField:
    """All that may be measured on a machine.

    Attributes:
        default: the launch of a user who sets nothing.
        baseline: the launch that changes start from; it may be the default one.
        others: all further launches: those of the config, and combinations so far.
        process_counts: process counts, ascending.
        boundaries: process counts at which something of the machine runs out.
        exclusions: rules for combinations.
        today: the launch that the user's shell makes; None if that is the default one.
        today_counts: process counts that the user runs today.
    """

    default: Entrant
    baseline: Entrant
    others: tuple[Entrant, ...]
    process_counts: tuple[int, ...]
    boundaries: tuple[int, ...]
    exclusions: tuple[Exclusion, ...] = ()
    today: Entrant | None = None
    today_counts: tuple[int, ...] = ()

    @property
    def fixed(self) -> tuple[Entrant, ...]:
        """The launches that are always measured, before others; one of them may be there twice."""
        return (self.baseline, self.default, *([self.today] if self.today else []))

    @property
    def entrants(self) -> dict[str, Entrant]:
        """All launches by id."""
        return {entrant.launch: entrant for entrant in (*self.fixed, *self.others)}


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a race, from the config.

    Attributes:
        budget_s: time for all rounds together.
        tolerance: differences in throughput below this share count as ties.
        confidence: probability of being within the tolerance that the choice needs.
        window_s: a window's length.
        windows: windows of each count in a start.
        round_s: rough length of a round of fresh starts, if enough of them are worth it.
        nodes: number of equal nodes that measure batches side by side.
        seed: seed of the draws behind probabilities.
        again: launches without a result in an earlier run: they start whatever time is left.
        first_counts: most counts of the first round, boundaries included; None for
            ``FIRST_COUNTS`` and all boundaries.
    """

    budget_s: float
    tolerance: float = 0.02
    confidence: float = 0.9
    window_s: float = 2.0
    windows: int = 2
    round_s: float = 0.0
    nodes: int = 1
    seed: int = 1
    again: frozenset[str] = frozenset()
    first_counts: int | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """A start to make: its launch, its process counts and the number of its record file."""

    launch: str
    counts: tuple[int, ...]
    replicate: int = 0


@dataclass(frozen=True, slots=True)
class RaceRound:
    """The next round of a race.

    Attributes:
        stage: first, refine, screen, combine or race; done if the race is over.
        batches: each a job, whose launches are measured side by side.
        combined: new combinations in them.
        reason: why the race is over; empty otherwise.
    """

    stage: str
    batches: tuple[tuple[Task, ...], ...] = ()
    combined: tuple[Entrant, ...] = ()
    reason: str = ""


class Race:
    """A race in its current state.

    Args:
        field: what may be measured.
        settings: the race's settings.
        starts: all starts so far, in their order.
        rounds: number of rounds in which they were made.
        convert: turns draws of the starts' rates into those that launches are compared by.
    """

    def __init__(
        self,
        field: RaceField,
        settings: Settings,
        starts: Sequence[Start],
        rounds: int,
        convert: Callable[[Throughputs], Throughputs] = lambda known: known,
    ) -> None:
        self._field, self._settings, self._rounds = field, settings, rounds
        self._entrants = field.entrants
        self._starts = starts
        self._made = Counter(start.launch for start in starts)
        self.spent_s, self._reserved_s = spent_s(starts), 0.0
        self._measured = [start for start in starts if start.rates]
        counts: dict[str, set[int]] = defaultdict(set)
        for start in self._measured:
            counts[start.launch].update(start.rates)
        self._counts = {name: sorted(counts[name]) for name in self._entrants if name in counts}
        self.rates = fit(self._measured, settings.seed, SWEEPS)
        self._known = convert(self.rates)
        self.choice = self._choice() if self._measured else None

    def next(self) -> RaceRound:
        """Return the next round."""
        if first := self._first():
            return first
        if self.choice is None or self._field.baseline.launch not in self._counts:
            return RaceRound("done", reason="the baseline could not be measured")
        compared = self._compared(self.choice)
        self._reserved_s = SLOWER * self.expected_s(compared)  # as its counts may be its slow ones
        next_round = self._refine() or self._screen() or self._race(self.choice)
        if next_round.stage == "done" and compared:
            return RaceRound("refine", (compared,))
        return next_round

    # Stages

    def _first(self) -> RaceRound | None:
        baseline = self._field.baseline.launch
        wanted = Counter([*dict.fromkeys(entrant.launch for entrant in self._field.fixed)] * 2)
        if 0 < self._made[baseline] < MOST_TRIES and baseline not in self._counts:
            wanted[baseline] = self._made[baseline] + 1
        coarse = self._coarse()
        tasks = [
            Task(launch, coarse if launch == baseline else _thinned(coarse, DEFAULT_COUNTS))
            for launch in (wanted - self._made).elements()
        ]
        return self._round("first", [tasks], always=True) if tasks else None

    def _refine(self) -> RaceRound | None:
        """Return a round of the launches that the choice is compared with, where they lack counts.

        They may take twenty times as long as others, so their time is limited.
        """
        most_s = REFINED * self._settings.budget_s
        tasks = []
        for launch in dict.fromkeys(entrant.launch for entrant in self._field.fixed[1:]):
            lacking = self._lacking(launch)
            each_s = self._windows_s(Task(launch, (1,)))
            counts = _thinned(lacking, int(most_s / max(each_s, self._settings.window_s)))
            if counts:
                tasks.append(Task(launch, counts))
        if not tasks:
            return None
        next_round = self._round("refine", [[self._screened(self._field.baseline), *tasks]])
        return next_round if next_round.batches else None

    def _lacking(self, launch: str) -> list[int]:
        """Return the counts between a launch's best one and those measured next to it."""
        tried = self._tried(launch)
        if not tried or self._made[launch] >= MOST_REFINED:
            return []
        best = self._best(launch)
        low = max((n for n in tried if n < best), default=0)
        high = min((n for n in tried if n > best), default=math.inf)
        return [n for n in self._field.process_counts if low < n < high and n != best]

    def _tried(self, launch: str) -> set[int]:
        """Return the counts that were seen or lost; none if a start of the launch has failed."""
        starts = [start for start in self._starts if start.launch == launch]
        if not all(start.rates for start in starts):
            return set()
        return {n for start in starts for n in (*start.rates, *start.lost)}

    def _compared(self, choice: Choice) -> tuple[Task, ...]:
        """Return the batch that compares the choice with today's launch at equal counts, if any."""
        against = self._field.fixed[-1].launch
        tried = self._tried(against)
        lacking = tuple(sorted({choice.n, *self._field.today_counts} - tried))
        batch = Task(choice.launch, (choice.n,)), Task(against, lacking)
        if against == choice.launch or not lacking or not tried:
            return ()
        return batch if self.expected_s(batch) <= COMPARED * self._settings.budget_s else ()

    def _screen(self) -> RaceRound | None:
        lame = {start.launch for start in self._starts if start.lost}
        left = [
            entrant
            for entrant in self._field.others
            if self._made[entrant.launch] < (2 if entrant.launch in lame else 1)
        ]
        if not left:
            return None
        again = [entrant for entrant in left if entrant.launch in self._settings.again]
        left = again or left
        common = self._screened(self._field.baseline)
        batches = [
            [common, *map(self._screened, left[at : at + BATCH - 1])]
            for at in range(0, len(left), BATCH - 1)
        ]
        return self._round("screen", batches, unbounded=bool(again))

    def _race(self, choice: Choice) -> RaceRound:
        combined = self._combinations(choice)
        gains = self._gains(choice)
        hopeful = [
            launch
            for launch in sorted(gains, key=lambda rival: -gains[rival])
            if gains[launch] > WORTH * self._settings.tolerance and self._made[launch] < MOST_STARTS
        ]
        counts = self._asked(choice.launch)
        if not combined and set(counts) <= set(self._counts[choice.launch]):
            if not hopeful:
                return RaceRound("done", reason="nothing else is expected to be better")
            if choice.probability >= self._needed() and self._made[choice.launch] > 1:
                return RaceRound("done", reason="the choice is sure enough")
        rivals = [
            *(Task(entrant.launch, self._asked(choice.launch)) for entrant in combined),
            *(Task(launch, self._asked(launch)) for launch in hopeful if launch != choice.launch),
        ]
        others = [launch for launch in gains if launch != choice.launch]
        if not rivals and others:  # alone a launch shows nothing of others
            beside = max(others, key=lambda launch: gains[launch])
            rivals = [Task(beside, self._asked(beside))]
        batch = [Task(choice.launch, counts), *rivals[: BATCH - 1]]
        # A round of few seconds is not worth a decision. New launches start once first.
        often = 1 if combined else self._settings.round_s / self.expected_s(batch)
        often = max(1, min(MOST_BATCHES, int(often)))
        batches = [batch] * (often if combined else often * self._settings.nodes)
        return self._round("combine" if combined else "race", batches, combined)

    # Counts

    def _coarse(self) -> tuple[int, ...]:
        """Return few counts from the lowest to the highest, and all boundaries."""
        process_counts, most = self._field.process_counts, self._settings.first_counts
        near = {
            _nearest(process_counts, place)
            for place in np.geomspace(1, max(process_counts), FIRST_COUNTS)
        }
        counts = sorted(near | set(self._field.boundaries))
        return _thinned(counts, most or len(counts))

    def _screened(self, entrant: Entrant) -> Task:
        """Return a start around the baseline's best count, at lower ones with several threads."""
        base = self._counts[self._field.baseline.launch]
        best = self._best(self._field.baseline.launch)
        at = base.index(best)
        threads = entrant.threads
        wanted: Sequence[float] = base[max(0, at - 1) : at + 2]
        if threads > 1:  # members may leave each other room, or take turns
            wanted = [best / threads, best / math.sqrt(threads), best]
        counts = sorted({_nearest(self._field.process_counts, n) for n in wanted})
        return Task(entrant.launch, tuple(counts))

    def _asked(self, launch: str) -> tuple[int, ...]:
        """Return counts that may be a launch's best one, and unmeasured ones next to them."""
        process_counts, counts = self._field.process_counts, self._counts[launch]
        best = self._best(launch)
        draws = self._draws(launch)
        winners = np.bincount(draws.argmax(axis=1), minlength=len(counts))
        shares = winners / len(draws)
        likely = {n for n, share in zip(counts, shares, strict=True) if share > LIKELY}
        at = process_counts.index(best)
        beside = set(process_counts[max(0, at - 1) : at + 2])
        further = self._further(launch)
        near = {n for n in self._field.boundaries if best / 2 <= n <= best * 2}
        lost = {n for start in self._starts if start.launch == launch for n in start.lost}
        unseen = (beside | near | {n for n, _ in further}) - set(counts) - lost
        return tuple(sorted(likely | {best} | unseen))

    # What is known

    def _choice(self) -> Choice:
        """Return the simplest of the best points, and how surely it is within the tolerance."""
        best, known = self._simplest(), self._known
        rivals = [at for point, at in known.column.items() if self._eligible(point[0])]
        enough = known.logs[:, rivals].max(axis=1) + math.log1p(-self._settings.tolerance)
        return Choice(*best, float((known.of(best) >= enough).mean()))

    def _draws(self, launch: str) -> Floats:
        """Return the draws of a launch, with a column for each of its counts."""
        columns = [self._known.column[launch, n] for n in self._counts[launch]]
        return np.asarray(self._known.logs[:, columns])

    def _simplest(self) -> Point:
        """Return the best point; among near-ties, the one with the fewest changes and processes.

        Local memory alone kills a process once its node is full: it must be better than any other
        launch by the whole tolerance.
        """
        tolerance = self._settings.tolerance
        means = {
            point: self._known.mean(point) - (1 - HARDLY) * tolerance * self._kills(point[0])
            for point in self._known.column
            if self._eligible(point[0])
        }
        enough = max(means.values()) - HARDLY * tolerance
        close = [point for point, mean in means.items() if mean >= enough]

        def order(point: Point) -> tuple[bool, int, int, float]:
            changes = len(self._entrants[point[0]].changes)
            return self._kills(point[0]), changes, point[1], -means[point]

        return min(close, key=order)

    def _kills(self, launch: str) -> bool:
        return ("membind", "local") in self._entrants[launch].changes

    def _eligible(self, launch: str) -> bool:
        """Return whether a launch may be chosen; all may, if none that may has a result."""
        return not self._entrants[launch].aside or all(
            self._entrants[other].aside for other in self._counts
        )

    def _best(self, launch: str) -> int:
        """Return the count with the highest mean."""
        return max(self._counts[launch], key=lambda n: (self._known.mean((launch, n)), -n))

    def _further(self, launch: str) -> list[tuple[int, float]]:
        """Return the next count to try if throughput still grew at the highest one seen.

        Returns:
            The count and the logarithm of the growth that is expected there; empty if throughput
            did not grow, or there is no higher count.
        """
        process_counts, counts = self._field.process_counts, self._counts[launch]
        larger = [n for n in process_counts if n > counts[-1]]
        if len(counts) < FEWEST or self._best(launch) != counts[-1] or not larger:
            return []
        last, before = (self._known.mean((launch, n)) for n in (counts[-1], counts[-2]))
        steep = min(1.0, max(0.0, (last - before) / math.log(counts[-1] / counts[-2])))
        n = max(_nearest(process_counts, 2 * counts[-1]), larger[0])
        return [(n, steep * math.log(n / counts[-1]))]

    def _gains(self, choice: Choice) -> dict[str, float]:
        """Return the expected improvement of each eligible launch over the choice, as logarithm."""
        ours = self._known.of((choice.launch, choice.n))
        gains = {}
        for launch in filter(self._eligible, self._counts):
            draws = self._draws(launch).max(axis=1)
            draws += sum(growth for _, growth in self._further(launch))
            gains[launch] = float(np.maximum(draws - ours, 0).mean())
        return gains

    def _needed(self) -> float:
        """Return the probability that ends the race after this round."""
        return 1 - (1 - self._settings.confidence) * self._rounds / (self._rounds + 1)

    def _effect(self, launch: str) -> Floats:
        """Return draws of a launch's gain at its best count over the baseline at its own."""
        base = self._field.baseline.launch
        ours = self._known.of((launch, self._best(launch)))
        return np.asarray(ours - self._known.of((base, self._best(base))))

    def _combinations(self, choice: Choice) -> tuple[Entrant, ...]:
        """Return combinations that are new and worth a start, best first."""
        best = self._entrants[choice.launch]
        if best is self._field.default or not best.changes or len(best.changes) >= WIDEST:
            return ()
        ours = self._effect(choice.launch)
        far = float(ours.mean()) > FAR
        share = ADDITIVE if far else self._additive()
        rng = np.random.default_rng(self._settings.seed)
        chance = rng.standard_normal(len(ours)) * INTERACTION
        known = {entrant.changes for entrant in self._entrants.values()}
        rules = self._field.exclusions
        candidates = []
        for single in self._singles():
            new = combination(best, single)
            twice = len(dict(new.changes)) < len(new.changes)  # two values of an axis
            if twice or new.changes in known or any(rule.holds(new.changes) for rule in rules):
                continue
            alone = self._effect(single.launch)
            effect = _beside(alone, ours) if far else alone
            gain = float(np.maximum(share * effect + chance, 0).mean())
            # Chance alone gives a gain too; the change gets no credit for that part.
            worth = gain - INTERACTION / math.sqrt(2 * math.pi)
            if worth > WORTH * self._settings.tolerance and alone.mean() > 0:
                # Beside a large gain, take the best change of each axis: gains on one axis show
                # nothing of the others.
                ((axis, value),) = single.changes
                candidates.append((worth, axis if far else (axis, value), new))
        kinds: dict[object, Entrant] = {}
        for _, kind, new in sorted(candidates, key=lambda candidate: -candidate[0]):
            kinds.setdefault(kind, new)
        return tuple(kinds.values())[: BATCH - 2]

    def _singles(self) -> list[Entrant]:
        """Return measured launches that change one thing of the baseline and may be chosen."""
        default = self._field.default.launch
        return [
            entrant
            for entrant in map(self._entrants.__getitem__, self._counts)
            if len(entrant.changes) == 1
            and entrant.launch != default
            and self._eligible(entrant.launch)
        ]

    def _additive(self) -> float:
        """Return the share of further changes' own gains that remains together with others.

        It is learnt from measured combinations, by least squares with a weak prior.
        """
        alone = {
            next(iter(single.changes)): float(self._effect(single.launch).mean())
            for single in self._singles()
        }
        over, under = ADDITIVE / ADDITIVE_SPREAD**2, 1 / ADDITIVE_SPREAD**2
        for launch in self._counts:
            changes = self._entrants[launch].changes
            if len(changes) > 1 and changes <= set(alone):
                parts = sorted(alone[change] for change in changes)
                further = sum(parts[:-1])
                over += further * (float(self._effect(launch).mean()) - parts[-1]) / INTERACTION**2
                under += further**2 / INTERACTION**2
        return max(0.0, min(1.0, over / under))

    # Time

    def round_s(self, batches: Sequence[Sequence[Task]]) -> float:
        """Return the expected time of a round."""
        return max(
            sum(map(self.expected_s, share)) for share in dealt(batches, self._settings.nodes)
        )

    def expected_s(self, batch: Iterable[Task]) -> float:
        """Return the expected time of a batch."""
        return sum(
            sum(map(self._cohort_s, self._entrants[task.launch].cohorts(task.counts)))
            + self._windows_s(task)
            for task in batch
        )

    def _cohort_s(self, members: int) -> float:
        alone = {launch for launch, entrant in self._entrants.items() if entrant.alone}
        known = [start for start in self._starts if start.start_s and start.launch not in alone]
        if not known:
            return START_S + MEMBER_S * members
        # Part of a start's time is fixed, part of it grows with the members.
        near = min(known, key=lambda start: abs(math.log(start.members / members)))
        return near.start_s * (1 + max(0.0, members / near.members - 1) / 2)

    def _windows_s(self, task: Task) -> float:
        starts = self._measured
        alike = [start for start in starts if start.launch == task.launch] or starts
        each = [start.windows_s / len(start.rates) for start in alike]
        one_s = float(np.mean(each)) if each else self._settings.windows * self._settings.window_s
        return len(task.counts) * one_s

    def _round(
        self,
        stage: str,
        batches: Sequence[Sequence[Task]],
        combined: tuple[Entrant, ...] = (),
        *,
        always: bool = False,
        unbounded: bool = False,
    ) -> RaceRound:
        """Return a round of as many batches as fit into it and into the rest of the budget."""
        self._entrants |= {entrant.launch: entrant for entrant in combined}
        left_s = self._settings.budget_s - self.spent_s - self._reserved_s
        left_s = math.inf if unbounded else left_s
        nodes_s = [0.0] * self._settings.nodes
        fitting: list[tuple[Task, ...]] = []
        for batch in batches:
            node = len(fitting) % len(nodes_s)
            tasks = list(batch)
            # A smaller batch is better than none; the launch that all share shows nothing alone.
            while len(tasks) > FEWEST and nodes_s[node] + self.expected_s(tasks) > left_s:
                tasks.pop()
            needed_s = self.expected_s(tasks)
            if not always and nodes_s[node] + needed_s > left_s:
                break
            if nodes_s[node] and nodes_s[node] + needed_s > ROUND_S:
                break
            fitting.append(tuple(tasks))
            nodes_s[node] += needed_s
        if not fitting:
            return RaceRound("done", reason="the budget is spent")
        names = {task.launch for batch in fitting for task in batch}
        return RaceRound(
            stage, tuple(fitting), tuple(entrant for entrant in combined if entrant.launch in names)
        )


def spent_s(starts: Iterable[Start]) -> float:
    """Return the time of all rounds: each is over when its last node has finished."""
    rounds_s: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for start in starts:
        rounds_s[start.round][start.node] += start.wall_s
    return sum(max(nodes_s.values()) for nodes_s in rounds_s.values())


def _beside(alone: Floats, ours: Floats) -> Floats:
    """Return draws of the gain that a change may bring beside the choice.

    It is the change's own ratio, or that of the time it saves if that is larger: once the choice
    has removed most of a step, the same time is a larger part of the rest.

    Args:
        alone: the change's gain over the baseline, as logarithm.
        ours: the choice's gain over it.
    """
    saved = -np.expm1(-np.maximum(alone, 0)) * np.exp(np.maximum(ours, 0))
    return np.asarray(np.maximum(alone, -np.log(np.maximum(1 - saved, LEAST_LEFT))))


def combination(first: Entrant, second: Entrant) -> Entrant:
    """Return the launch with the changes of both."""
    changes = first.changes | second.changes
    return Entrant(
        "+".join(sorted(f"{axis}={value}" for axis, value in changes)),
        changes,
        max(first.threads, second.threads),
        first.alone or second.alone,
        first.aside or second.aside,
    )


def dealt(batches: Sequence[Dealt], nodes: int) -> list[Sequence[Dealt]]:
    """Return the batches of each node, in their order."""
    return [batches[node::nodes] for node in range(nodes)]


def _nearest(process_counts: Sequence[int], place: float) -> int:
    return min(process_counts, key=lambda n: abs(math.log(n / max(place, 0.5))))


def _thinned(counts: Sequence[int], most: int) -> tuple[int, ...]:
    """Return the first count, the last, and some between them, at equal distances.

    Args:
        counts: ascending.
        most: how many; a single one is the middle.
    """
    if most == 1:
        return tuple(counts[len(counts) // 2 :][:1])
    places = np.linspace(0, len(counts) - 1, min(most, len(counts))).round().astype(int)
    return tuple(counts[at] for at in places)
