"""Simulated machines for the search benchmark: true throughputs, and what starts there show.

Process counts and boundaries are those of captured machines (tests/data/topologies). All else
is drawn: how throughput grows with the processes, what each launch changes, how the machine drifts,
how lucky a start is, which launches fail, which starts lose members.
"""

from __future__ import annotations

import importlib
import itertools
import math
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from scaling_study.config import process_counts
from scaling_study.search.race import Entrant, RaceField, combination
from scaling_study.stats.throughputs import Start

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

    from scaling_study.common.topology import Topology
    from scaling_study.search.race import Changes, Task
    from scaling_study.stats.interval import Floats

MACHINES = (
    *("xeon-8260-8s-snc2", "epyc-9654-2s-nps1", "epyc-9654-2s-nps4", "xeon-max-9480-2s-snc4"),
    *("vm-hybrid", "emulated-two", "gh200"),
)
"""2 to 384 CPUs."""
SHAPES = ("saturating", "cliffs", "retrograde", "linear")
AXES = {
    "intra_op": 3,
    "wait_policy": 1,
    "inter_op": 1,
    "launcher": 2,
    "blas": 3,
    "isa": 1,
    "allocator": 4,
    "huge_pages": 1,
    "placement": 4,
    "membind": 1,
}
"""Values of each axis beside the baseline's, as the shipped full-size study has them."""
PAIRS = 6
"""Launches that change two axes."""
START_S, MEMBER_S = 8.0, 0.1
"""Of a cohort's start, and for each member."""
STEPS, SHORTEST_S = 50, 1.5
"""Windows, as the shipped full-size study has them."""
EDGE_S = 0.35
"""Settling, and counters at a window's edges."""
WINDOW_NOISE = 0.01
OWN_BIAS = 0.4
"""Share of a start's variance that each of its counts has for itself."""
FAILS = 0.05
"""Share of launches that cannot start."""
DIES = 0.02
"""Share of starts that lose members at some count."""
DRIFTS = (0.0, 0.03, 0.1)
"""Between the fastest and the slowest time of the machine."""
NOISES = (0.01, 0.02, 0.05)


def from_tests(module: str) -> ModuleType:
    """Return a module of the tests."""
    tests = str(Path(__file__).parent.parent / "tests/support")
    if tests not in sys.path:
        sys.path.append(tests)
    return importlib.import_module(module)


@cache
def topology(name: str) -> Topology:
    """Return a captured machine."""
    found: Topology = from_tests("machines").usable(name)
    return found


def _threads(axis: str, value: int) -> int:
    return (8, 2, 4)[value] if axis == "intra_op" else 1


class World:
    """A machine, launches, and a clock, drawn by a number.

    Attributes:
        seed: the number.
        machine: its name.
        shape: how throughput grows.
        noise: standard deviation of a start's luck.
        drift: between the machine's fastest and slowest time.
        additive: whether changes add up, but for chance; else a pair does what the better one does.
        field: the launches, as the search knows them.
        now_s: the time.
    """

    def __init__(self, seed: int) -> None:
        self.seed, self.now_s = seed, 0.0
        rng = self._rng = np.random.default_rng(seed)
        self.machine = MACHINES[int(rng.integers(len(MACHINES)))]
        self.shape = SHAPES[int(rng.integers(len(SHAPES)))]
        self.noise = NOISES[int(rng.integers(len(NOISES)))]
        self.drift = DRIFTS[int(rng.integers(len(DRIFTS)))]
        self.additive = bool(rng.integers(2))
        counts = process_counts.resolve("auto", topology(self.machine), None)
        named = process_counts.boundaries(topology(self.machine), None)
        self.step_s = float(np.exp(rng.uniform(math.log(0.004), math.log(0.05))))
        self._process_counts = np.array(counts, dtype=np.float64)
        self._base = self._curve(rng, list(named))
        default = Entrant("default", frozenset({("intra_op", "default")}), int(max(counts)))
        singles = [
            Entrant(f"{axis}={value}", frozenset({(axis, str(value))}), _threads(axis, value))
            for axis, values in AXES.items()
            for value in range(values)
        ]
        self._effects = {next(iter(one.changes)): self._effect(rng, one) for one in singles}
        self._rough = self._slow(rng)
        pairs = []
        for number in range(PAIRS):
            first, second = (
                singles[int(one)] for one in rng.choice(len(singles), 2, replace=False)
            )
            axes = {axis for axis, _ in first.changes | second.changes}
            if len(axes) == 2:
                pairs.append(replace(combination(first, second), launch=f"pair-{number}"))
        others = [*singles, *pairs]
        self._failing = {one.launch for one in others if rng.random() < FAILS}
        baseline = Entrant("baseline", frozenset())
        self.field = RaceField(default, baseline, tuple(others), tuple(counts), tuple(named))
        self._known = self.field.entrants
        self._interactions = {}
        for a, b in itertools.combinations(sorted(self._effects), 2):
            self._interactions[a, b] = float(rng.normal(0, 0.01))
        self._phase, self._period_s = rng.uniform(0, 2 * np.pi), rng.uniform(1200, 5400)

    # The truth

    def _curve(self, rng: np.random.Generator, bounds: Sequence[int]) -> Floats:
        """Log throughput of the baseline over the process counts."""
        n, top = self._process_counts, self._process_counts[-2]
        grow = np.log(n)
        if self.shape == "saturating":
            full, sharp = top * rng.uniform(0.1, 0.9), rng.uniform(1, 6)
            grow = grow - np.log1p((n / full) ** sharp) / sharp
        elif self.shape == "retrograde":
            a, b = 10 ** rng.uniform(-3, -1.5), 10 ** rng.uniform(-6, -4.5)
            grow = grow - np.log1p(a * (n - 1) + b * n * (n - 1))
        elif self.shape == "cliffs":
            for bound in bounds:
                grow = grow - rng.uniform(0.02, 0.3) * (n > bound)
            grow = grow - np.log1p(n / top / rng.uniform(1, 4))
        else:
            grow = grow - np.log1p(n / top / rng.uniform(2, 20))
        return np.asarray(grow - 0.25 * rng.uniform(0, 1) * (n > top))

    def _effect(self, rng: np.random.Generator, one: Entrant) -> Floats:
        """What a launch changes in log throughput over the process counts."""
        n, top = self._process_counts, self._process_counts[-2]
        kind = rng.random()
        size = (
            rng.normal(0, 0.003) if kind < 0.4 else
            rng.normal(0, 0.02) if kind < 0.8 else
            rng.normal(-0.02, 0.12)
        )  # fmt: skip
        steep = rng.normal(0, abs(size)) * (n / top) ** 2
        threads = float(one.threads)
        # t threads help a single process, and take the CPUs of others.
        help_ = math.log(min(threads, 8)) * rng.uniform(0.1, 0.6)
        crowd = np.log(np.maximum(1, threads * n / top)) * rng.uniform(0.9, 1.2)
        return np.asarray(size + steep + help_ - crowd)

    def _slow(self, rng: np.random.Generator) -> Floats:
        """The default launch: up to three times faster alone, twenty times slower beside many."""
        share = np.log(self._process_counts) / np.log(self._process_counts[-1])
        alone, beside = rng.uniform(0, math.log(3)), rng.uniform(0.1, 1) * math.log(20)
        return np.asarray(alone * (1 - share) - beside * share)

    def curve(self, changes: Changes) -> Floats:
        """Log throughput of a launch over the process counts."""
        if ("intra_op", "default") in changes:
            return np.asarray(self._base + self._rough)
        found = self._base.copy()
        parts = [self._effects[one] for one in sorted(changes)]
        if self.additive or len(parts) < 2:
            found = found + sum(parts)
        else:
            found = found + np.max(parts, axis=0) - 0.01 * (len(parts) - 1)
        for pair in itertools.combinations(sorted(changes), 2):
            found = found + (self._interactions[pair] if self.additive else 0)
        return np.asarray(found)

    def true(self, launch: str, n: int) -> float:
        """The throughput of a point."""
        at = self.field.process_counts.index(n)
        return float(np.exp(self.curve(self._known[launch].changes)[at]))

    def most(self, launch: str) -> float:
        """The throughput of a launch at its best count."""
        return max(self.true(launch, n) for n in self.field.process_counts)

    def best(self) -> float:
        """The best throughput of the launches that the config has, and of those let in since."""
        return max(
            float(np.exp(self.curve(one.changes).max()))
            for one in self._known.values()
            if not self._fails(one.launch)
        )

    def _fails(self, launch: str) -> bool:
        """Whether a launch, or a change that is part of it, cannot start."""
        changes = {f"{axis}={value}" for axis, value in self._known[launch].changes}
        return bool({launch, *changes} & self._failing)

    # Measuring

    def add(self, combined: Sequence[Entrant]) -> None:
        """Let launches in that a search has put together."""
        self._known |= {one.launch: one for one in combined}

    def _drift(self, at_s: float) -> float:
        return self.drift / 2 * math.sin(self._phase + 2 * math.pi * at_s / self._period_s)

    def window_s(self, launch: str, n: int, longest_s: float) -> float:
        """What a window takes; it has one step at least."""
        step_s = self.step_s * n / self.true(launch, n) * math.exp(float(self._base[0]))
        return max(SHORTEST_S, step_s, min(longest_s, STEPS * step_s)) + EDGE_S

    def measure(
        self, tasks: Sequence[Task], batch: int, windows: int, longest_s: float
    ) -> list[Start]:
        """Measure launches side by side.

        Args:
            tasks: a start of each.
            batch: number of the job.
            windows: of each count.
            longest_s: of a window.
        """
        plans: list[tuple[Task, tuple[int, ...], float, float]] = []
        for task in tasks:
            if self._fails(task.launch):
                plans.append((replace(task, counts=()), (), START_S, 0.0))
                continue
            counts = task.counts
            if self._rng.random() < DIES:
                alive = self._rng.integers(1, max(counts) + 1)
                counts = tuple(n for n in counts if n <= alive)
            each_s = math.fsum(self.window_s(task.launch, n, longest_s) * windows for n in counts)
            plans.append((task, counts, START_S + MEMBER_S * max(task.counts), each_s))
        self.now_s += sum(start_s for _, _, start_s, _ in plans)
        windows_s = sum(each_s for *_, each_s in plans)
        # Windows of all are spread over the batch: its drift is the mean over that time.
        drift = float(
            np.mean([self._drift(self.now_s + part * windows_s) for part in np.linspace(0, 1, 9)])
        )
        self.now_s += windows_s
        return [
            Start(
                task.launch, batch, self._rates(task.launch, counts, windows, drift),
                max(task.counts, default=1), start_s, each_s,
                tuple(n for n in task.counts if n not in counts),
            )
            for task, counts, start_s, each_s in plans
        ]  # fmt: skip

    def _rates(
        self, launch: str, counts: Sequence[int], windows: int, drift: float
    ) -> Mapping[int, float]:
        rng = self._rng
        luck = rng.normal(0, self.noise * math.sqrt(1 - OWN_BIAS))
        own = self.noise * math.sqrt(OWN_BIAS)
        return {
            n: self.true(launch, n)
            * math.exp(
                drift + luck + rng.normal(0, own) + rng.normal(0, WINDOW_NOISE / windows**0.5)
            )
            for n in counts
        }
