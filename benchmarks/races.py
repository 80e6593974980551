"""Does a race find on this machine what a grid of the same launches finds? And for how much time?

    python benchmarks/races.py --project COPY               # some eight minutes for each workload
    python benchmarks/races.py --project COPY --table       # the table of what is measured already

For each workload two studies are made: a grid of eight launches in two replicates, and a race among
those of them that change one thing. Then five races are replayed on the grid's records: the real
planner asks for starts, and gets those that the grid has measured, in an order drawn by the race's
number. Two of the eight launches are combinations, which a race has to find by itself; one that the
grid does not have fails to start in a replay.

Regret is what the chosen point lacks of the best one, as all starts of both studies together say.
So it holds their noise, in the best one's favour. Nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import yaml
from launches import make_config_study
from launches_list import QUICK
from truth import stop_cleanly
from truth_list import ROOT

from scaling_study.analysis.collect import collect
from scaling_study.config.launches import launch_id
from scaling_study.config.plan import Plan, read_plan
from scaling_study.records.codec import read_file
from scaling_study.records.machine import Machine
from scaling_study.runner import supervisor
from scaling_study.search import rounds
from scaling_study.search.race import Race
from scaling_study.stats.throughputs import Start, Throughputs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scaling_study.search.race import Task

RACES = 5
"""That are replayed."""
REPLICATES = 2
"""Of the grid."""
BUDGET_MINUTES = 6.0
"""Of a race; it has ten minutes at most."""
FIELD = {
    "baseline": {"intra_op": 1},
    "one_change": {
        "allocator": ["glibc-large-thresholds", "mimalloc"],
        "blas": ["mkl", "openblas"],
    },
}
TOGETHER = [
    {"allocator": "glibc-large-thresholds", "blas": "openblas"},
    {"allocator": "mimalloc", "blas": "mkl"},
]
SEARCHES: dict[str, dict[str, Any]] = {
    "grid": {"search": "grid", "launches": {**FIELD, "include": TOGETHER}},
    "race": {"search": {"budget_minutes": BUDGET_MINUTES}, "launches": FIELD},
}
WORKLOADS: dict[str, tuple[Path, dict[str, Any]]] = {
    "TSMixerx": (QUICK, {}),
    "NCF": (ROOT / "config/ncf.yaml", {}),
    "plain loop": (
        QUICK,
        {
            "script": "benchmarks/launches_loop.py",
            "args": ["--steps", "3000", "--seed", "{member}"],
            "steps_per_model": 3000,
        },
    ),
}
"""A config whose workload is measured, and what is changed in it."""


class Result(NamedTuple):
    """The outcome of one way to choose.

    Attributes:
        label: The chosen launch.
        n: Processes.
        regret: Of its throughput, 0.01 for one percent.
        spent_s: What all starts took.
    """

    label: str
    n: int
    regret: float
    spent_s: float


class Measured(NamedTuple):
    """A study of the benchmark.

    Attributes:
        plan: With what a race has made of it.
        starts: All that were measured, the oldest first.
        machine: machine.json.
    """

    plan: Plan
    starts: Sequence[Start]
    machine: Machine

    @property
    def spent_s(self) -> float:
        """What all starts took."""
        return sum(one.wall_s for one in self.starts)

    @property
    def labels(self) -> dict[str, str]:
        """Text of each launch by its id."""
        return {launch.id: launch.label for launch in self.plan.launches}


def study_name(workload: str, how: str) -> str:
    """Return the name of a workload's study."""
    return f"races-{workload.lower().replace(' ', '-')}-{how}"


def config(workload: str, how: str) -> dict[str, Any]:
    """Return a study that only measures, by a grid or a race."""
    quick: dict[str, Any] = yaml.safe_load(QUICK.read_text(encoding="utf-8"))
    path, changes = WORKLOADS[workload]
    own = yaml.safe_load(path.read_text(encoding="utf-8"))["workload"]
    return {
        **quick,
        "study": study_name(workload, how),
        "description": f"For benchmarks/races.py: {workload}, {how}",
        "workload": {**own, **changes},
        "measure": {**quick["measure"], "replicates": REPLICATES},
        "confirm": "off",
        "why": "off",
        **SEARCHES[how],
    }


def read(folder: Path) -> Measured:
    """Read what a study has measured.

    Args:
        folder: results/<study>.
    """
    raced = folder / "searched.json"
    plan = read_plan(raced if raced.exists() else folder / "plan.json")
    collected = collect(folder, plan)
    machine = read_file(folder / "machine.json", Machine)
    cohorts = collected.cohorts.cohorts
    return Measured(plan, rounds.starts(cohorts, collected.replicates, plan), machine)


class Replay:
    """Races on the starts that a grid has measured.

    Args:
        grid: All that it measured.
        raced: All that a race of the same launches measured.
        plan: plan.json of that race, without what it has put together.
    """

    def __init__(self, grid: Measured, raced: Measured, plan: Plan) -> None:
        self._grid, self._plan = grid, plan
        # A batch of one study is none of the other's.
        others = [replace(one, batch=-1 - one.batch) for one in raced.starts]
        self.known = Throughputs([one for one in (*grid.starts, *others) if one.rates])

    def regret(self, launch: str, n: int) -> float:
        """Return what a point lacks of the best one."""
        best = max(map(self.known.mean, self.known.points))
        return 1 - math.exp(self.known.mean((launch, n)) - best)

    def race(self, seed: int) -> Result:
        """Race to the end, with an order of starts that the seed draws."""
        plan = self._plan.model_copy(update={"seed": seed})
        rng = np.random.default_rng(seed)
        machine = self._grid.machine
        field = rounds.competing(plan, machine.usable, machine.quota_cpus)
        base, defaults = plan.by_id[plan.baseline].axes, plan.by_id[plan.default].axes
        names = {launch.id: launch.id for launch in self._grid.plan.launches}
        order: dict[str, list[Start]] = {}
        for one in self._grid.starts:
            order.setdefault(one.launch, []).append(one)
        for own in order.values():
            rng.shuffle(own)
        starts: list[Start] = []
        batches = done = 0
        while True:
            state = Race(field, rounds.settings(plan, done), starts, done)
            found = state.next()
            if not found.batches:
                break
            for new in found.combined:
                changed = rounds.changed(base, new.changes)
                names[new.launch] = launch_id(changed, defaults)
            field = replace(field, others=(*field.others, *found.combined))
            for batch in found.batches:
                starts += [
                    _again(task, batches, order.get(names[task.launch], [])) for task in batch
                ]
                batches += 1
            done += 1
        if state.choice is None:
            raise RuntimeError("nothing was measured")
        launch, n = names[state.choice.launch], state.choice.n
        label = self._grid.labels[launch]
        return Result(label, n, self.regret(launch, n), state.spent_s)


def _again(task: Task, batch: int, measured: list[Start]) -> Start:
    """Return the next of a launch's measured starts, as if it were made for a task."""
    if not measured:
        return Start(task.launch, batch, {}, max(task.counts), lost=task.counts)
    one = measured.pop(0)
    measured.append(one)
    rates = {n: one.rates[n] for n in task.counts if n in one.rates}
    windows_s = one.windows_s * len(rates) / max(1, len(one.rates))
    lost = tuple(n for n in task.counts if n not in rates)
    return Start(task.launch, batch, rates, max(task.counts), one.start_s, windows_s, lost)


def real(raced: Measured, replay: Replay) -> Result:
    """Return what a real race has come to."""
    choice = raced.plan.searched.choice if raced.plan.searched else None
    if choice is None:
        raise RuntimeError("nothing was measured")
    launch, n = choice.launch, choice.n
    return Result(raced.labels[launch], n, replay.regret(launch, n), raced.spent_s)


def section(name: str, project: Path) -> Iterator[str]:
    """Write a workload's rows of the table."""
    folders = {how: project / "results" / study_name(name, how) for how in SEARCHES}
    grid, raced = (read(folder) for folder in folders.values())
    replay = Replay(grid, raced, read_plan(folders["race"] / "plan.json"))
    found = [replay.race(seed) for seed in range(1, RACES + 1)]
    once = real(raced, replay)
    known = Throughputs([one for one in grid.starts if one.rates])
    launch, n = max(known.points, key=known.mean)
    text = f"{replay.regret(launch, n):.1%}"
    yield _row(name, ("grid", f"{grid.labels[launch]}, n = {n}", text), grid.spent_s, grid.spent_s)
    chosen = "; ".join(sorted({f"{one.label}, n = {one.n}" for one in found}))
    regrets = [one.regret for one in found]
    text = f"{statistics.median(regrets):.1%}, at most {max(regrets):.1%}"
    spent_s = statistics.mean(one.spent_s for one in found)
    yield _row(name, (f"{RACES} replayed races", chosen, text), spent_s, grid.spent_s)
    best = f"{once.label}, n = {once.n}"
    yield _row(name, ("a real race", best, f"{once.regret:.1%}"), once.spent_s, grid.spent_s)


def _row(name: str, words: tuple[str, str, str], spent_s: float, grid_s: float) -> str:
    return f"| {name} | {' | '.join(words)} | {spent_s:.0f} s, {spent_s / grid_s:.0%} |"


def main() -> int:
    """Make the studies that are not there yet, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workload", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--project", type=Path, default=ROOT, help="studies are made here")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    options = parser.parse_args()
    stop_cleanly()
    supervisor.adopt()
    project = options.project.resolve()
    lines = ["| workload | how | chose | regret | time, of the grid's |", "| --- " * 5 + "|"]
    for name in options.workload:
        for how in () if options.table else SEARCHES:
            make_config_study(config(name, how), project)
        lines += section(name, project)
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
