"""A forecast of a race, which is played on a simulated clock before anything is measured."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scaling_study.common.objectives import ONE_MODEL
from scaling_study.common.quantities import format_count
from scaling_study.common.topology import Topology
from scaling_study.config.plan import Plan
from scaling_study.search import rounds
from scaling_study.search.race import MEMBER_S, START_S, Race, Task, dealt, spent_s
from scaling_study.stats.throughputs import Start

SPREAD = 0.05
"""Standard deviation of the logarithm of a launch's speedup: some are faster, others slower."""
MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class Forecast:
    """How a race is expected to go.

    Attributes:
        screened: number of launches measured, without the default one and the baseline.
        others: number of such launches in the plan.
        screened_s: time until all of them are measured; None if the budget is too short.
        all_s: time until the end.
    """

    screened: int
    others: int
    screened_s: float | None
    all_s: float


def play(plan: Plan, topology: Topology, quota_cpus: float | None, window_s: float) -> Forecast:
    """Play a race on a simulated clock.

    Every process adds the same throughput until all CPUs are taken. The speedup of each launch is
    drawn at random.

    Args:
        plan: plan.json.
        topology: topology of the CPUs that may be used.
        quota_cpus: the cgroup's quota in CPUs, None without one.
        window_s: length of each window, without settling.
    """
    rng = np.random.default_rng(plan.seed)
    field = rounds.competing(plan, topology, quota_cpus)
    point_s = plan.measure.windows * rounds.window_s(plan, window_s)
    gains: dict[str, float] = {field.baseline.launch: 0.0}
    top = max(field.boundaries, default=max(field.process_counts))
    starts: list[Start] = []
    others = {entrant.launch for entrant in field.others}
    measured: set[str] = set()
    clock_s, screened_s, batches = 0.0, None, 0

    def start(task: Task) -> Start:
        gain = gains.setdefault(task.launch, float(rng.normal(0, SPREAD)))
        room = max(1.0, top / field.entrants[task.launch].threads)  # alone it has all CPUs
        rates = {n: min(n, room) * float(np.exp(gain)) for n in task.counts}
        members = max(task.counts)
        cohorts = field.entrants[task.launch].cohorts(task.counts)
        start_s = sum(START_S + MEMBER_S * members for members in cohorts)
        windows_s = point_s * len(rates)
        return Start(task.launch, batches, rates, members, start_s, windows_s, round=str(done))

    for done in range(rounds.most(MINUTE_S * (plan.search.budget_minutes or 0))):
        next_round = Race(field, rounds.settings(plan, done), starts, done).next()
        if not next_round.batches:
            break
        field = replace(field, others=(*field.others, *next_round.combined))
        for node, share in enumerate(dealt(next_round.batches, plan.search.nodes)):
            for batch in share:
                starts += [replace(start(task), node=str(node)) for task in batch]
                batches += 1
        measured = {past_start.launch for past_start in starts}
        clock_s = spent_s(starts) + (done + 1) * rounds.ROUND_S
        if screened_s is None and others <= measured:
            screened_s = clock_s
    return Forecast(len(others & measured), len(others), screened_s, clock_s)


def describe(plan: Plan, topology: Topology, quota_cpus: float | None) -> Sequence[str]:
    """Describe in a few lines what a race will do on a machine; empty without a race."""
    search, timing = plan.search, plan.measure
    if search.budget_minutes is None:
        return []
    short, long = (
        play(plan, topology, quota_cpus, window_s)
        for window_s in (timing.shortest_s, timing.longest_s)
    )
    budget = f"a race of {search.budget_minutes:g} minutes, the confirmation included"
    if plan.objective == ONE_MODEL:
        (n,) = rounds.competing(plan, topology, quota_cpus).process_counts
        budget += f", with {format_count(n, 'process', 'processes')} (objective: {ONE_MODEL})"
    again = f"those again that may be best by more than {search.tolerance:.0%}"
    return [f"  {budget}: each launch once, then {again};", f"  {_screened(short, long)}"]


def _screened(short: Forecast, long: Forecast) -> str:
    """Describe when all launches will have been measured, or how many will be."""
    if short.screened_s is not None and long.screened_s is not None:
        ends = (f"{seconds / MINUTE_S:.2g}" for seconds in (short.screened_s, long.screened_s))
        return f"each launch has been measured once after {_span(*ends)} minutes"
    met = _span(*map(str, sorted((short.screened, long.screened))))
    return f"there is time for {met} of {short.others} further launches; the report names the rest"


def _span(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"
