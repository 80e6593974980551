"""A race of a study: from its plan, machine and records to the next round."""

import dataclasses
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from msgspec import Struct

from scaling_study.analysis.model_times import ModelTimes
from scaling_study.analysis.points import of_starts
from scaling_study.analysis.unequal_work import Finding
from scaling_study.common import storage
from scaling_study.common.axis_values import Axes
from scaling_study.common.objectives import ONE_MODEL
from scaling_study.common.quantities import format_count, format_number
from scaling_study.common.topology import Topology
from scaling_study.config import process_counts
from scaling_study.config.launches import Launch, differing, named
from scaling_study.config.plan import Choice, Plan, RoundSummary, Searched
from scaling_study.config.work import changed_training
from scaling_study.launch.axes import placement, ranks
from scaling_study.launch.axes.axis_table import DEFAULTS
from scaling_study.records import codec, confirmation
from scaling_study.records.cohorts import CohortSummary
from scaling_study.records.machine import Machine
from scaling_study.records.verdict import Target
from scaling_study.records.window import DECODER, CohortHead
from scaling_study.runner import jobs, journal, measure
from scaling_study.search import race
from scaling_study.stats.throughputs import Start, Throughputs

OF_SEVERAL_THREADS = ("openmp", "openmp_affinity")
"""Axes that matter only if an operator has several threads."""

FEWEST_ROUNDS, MOST_ROUNDS, SHORTEST_ROUND_S = 4, 16, 60.0
"""Bounds on the number of rounds of a race: one for each shortest round that its budget holds. Even
an idle round takes some seconds."""
UNEQUAL = "steps differ too much in work to compare launches"
"""The reason of a race that ends because no start would show more."""
BESIDE_OTHERS = 1.5
"""Time of a whole run beside others over that of a run alone, in the mean over counts."""
FIRST_SHARE = 0.5
"""Largest part of the budget for the first round of whole runs."""
MODEL_PARTS: dict[confirmation.Start, tuple[float, float]] = {
    "fresh": (1.0, 1.0),
    "forked": (3.5, 3.0),
}
"""Time of the first models, in starts, and in models without their starts. A forked model comes
after a fresh one, another model that shows the imports, and a trial of these imports."""
MODELS_SHARE = 0.2
"""First models are trained if they take at most this part of the budget. If they take longer,
starts are a small part of a model."""
ROUND_S = 8.0
"""Time of a round beside measuring: its jobs start, and the next round is decided."""


class Wanted(Struct, frozen=True):
    """The models that a round trains before it measures.

    Attributes:
        launch: The baseline's id.
        start: `forked` if one is forked after a fresh one.
        expected_s: Expected time.
    """

    launch: str
    start: confirmation.Start
    expected_s: float


class SoFar(Struct, frozen=True):
    """The rate of a point, as known before a round.

    Attributes:
        label: Of the launch.
        rate: With fresh starts: models/hour, or steps/s if the length of a model is not known.
    """

    label: str
    n: int
    rate: float


class Decided(Struct, frozen=True):
    """A round: its measurements, and the knowledge before it (rounds/<number>.json).

    Attributes:
        decided: Time of the decision, which names the batches.
        reason: Why the race is over; empty while it goes on.
        batches: Starts that are measured side by side; none if the race is over.
        launches: Launches that are measured, including combinations that the config lacks.
        expected_s: Expected length of the round.
        not_screened: Launches that have not been measured yet.
        models: First models to train; None if there are some, or no time for any.
        so_far: Today's launch, or the default one, and the choice, at their best counts.
        per_hour: Whether these rates are models/hour.
    """

    schema_version: Literal[2]
    decided: str
    stage: str
    reason: str
    batches: list[list[race.Task]]
    launches: list[Launch]
    expected_s: float
    spent_s: float
    budget_s: float
    choice: Choice | None
    not_screened: list[str]
    models: Wanted | None = None
    so_far: tuple[SoFar, ...] = ()
    per_hour: bool = False


def read(path: Path) -> Decided:
    """Read a round's file."""
    return codec.read_file(path, Decided)


def decided(study_folder: Path) -> list[Decided]:
    """Return all rounds of a race that are decided, in order."""
    paths = (study_folder / "rounds").glob("[0-9]*.json")
    return [read(path) for path in sorted(paths, key=lambda path: int(path.stem))]


def most(budget_s: float) -> int:
    """Return the most rounds that a race may have; those after its end have nothing to do."""
    return min(MOST_ROUNDS, max(FEWEST_ROUNDS, math.ceil(budget_s / SHORTEST_ROUND_S)))


def grown(plan: Plan, study_folder: Path) -> Plan:
    """Return a plan with the combinations and starts of a race that have records.

    Combinations are launches like others. A launch without any record file stays, since it may
    still be screened.

    Args:
        plan: The plan.
        study_folder: results/<study>.
    """
    files = sorted((study_folder / "measure").glob("*/*.jsonl"))
    launches = plan.by_id
    for path in files:
        if path.parent.name not in launches:
            _, head = next(codec.read(path, DECODER))
            if isinstance(head, CohortHead) and head.role == "combined":
                launches[head.launch] = Launch(head.launch, head.label, "combined", head.axes)
    made = dict(Counter(path.parent.name for path in files))
    return plan.model_copy(update={"launches": tuple(launches.values()), "made": made})


def without_result(study_folder: Path) -> list[Path]:
    """Return the record files of launches without a result, which the next run races again."""
    folders = sorted((study_folder / "measure").glob("*/"))
    files = [list(folder.glob("*.jsonl")) for folder in folders]
    marked = [paths for paths in files if all(journal.mark_of(path).exists() for path in paths)]
    return [path for paths in marked for path in paths]


def left(study_folder: Path) -> set[str]:
    """Return the launches that had no result in an earlier run."""
    marks = (study_folder / "measure").glob(f"*/*{journal.MARK}")
    return {mark.parent.name for mark in marks if not any(mark.parent.glob("*.jsonl"))}


def set_aside(study_folder: Path, job: str, now: str) -> Path | None:
    """Move away records that were measured in another way, so that the race starts again.

    Args:
        study_folder: results/<study>.
        job: what all measurements depend on (`jobs.job_text`, without a launch).
        now: the time, which names the folder that the records move to.

    Returns:
        That folder; None if nothing has changed.
    """
    note, records = study_folder / "rounds/job.json", study_folder / "measure"
    before = note.read_text(encoding="utf-8") if note.exists() else None
    moved = None
    if records.exists() and before != job and (before is not None or _differ(records, job)):
        moved = study_folder / "superseded" / now.replace(":", "")
        moved.parent.mkdir(exist_ok=True)
        records.rename(moved)
    if before != job:
        storage.write_whole(note, lambda beside: beside.write_text(job, encoding="utf-8"))
    return moved


def _differ(records: Path, job: str) -> bool:
    """Return whether records that no race has made were measured in another way than ``job``."""
    measuring, harness = json.loads(job)["measure"], jobs.harness_digest()
    for path in records.glob("*/*.jsonl"):
        with path.open(encoding="utf-8") as lines:
            head = json.loads(next(lines))  # of whatever version
        if head["measure"] != measuring or head["harness_hash"] != harness:
            return True
    return False


def measure_part(
    decision: Decided, base: jobs.Job, folder: Path, builds: Path, part: tuple[int, int]
) -> None:
    """Measure the starts of a round that have no records yet, batch by batch.

    Args:
        decision: the round.
        base: what all measurements share.
        folder: folder of the record files.
        builds: folder of built environments.
        part: index of this node, and the number of nodes.
    """
    launches = {launch.id: launch for launch in decision.launches}
    node, nodes = part
    for number, batch in race.dealt(list(enumerate(decision.batches)), nodes)[node]:
        runs = []
        # The study's first start decides whether there is anything to measure.
        batch.sort(key=lambda start: not measure.is_first(launches[start.launch], start.replicate))
        for task in batch:
            path = folder / task.launch / f"{task.replicate}.jsonl"
            if path.exists():  # measured before the run was killed
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            job = dataclasses.replace(base, launch=launches[task.launch], replicate=task.replicate)
            name = batch_name(decision.decided, number, node)
            runs.append(measure.Measurement(job, path, builds, task.counts, name))
        measure.in_turns(runs)


def searched(plan: Plan, decisions: Sequence[Decided]) -> Plan:
    """Return a plan with the outcome of its race.

    Args:
        plan: as `grown` makes it.
        decisions: all rounds, in their order.
    """
    last = decisions[-1]
    stages = (
        RoundSummary(stage=decision.stage, expected_s=decision.expected_s)
        for decision in decisions
        if decision.batches
    )
    became = Searched(
        rounds=tuple(stages),
        reason=last.reason or "it had no further round",
        spent_s=last.spent_s,
        budget_s=last.budget_s,
        choice=last.choice,
        not_screened=tuple(last.not_screened),
    )
    return plan.model_copy(update={"searched": became})


def describe(decision: Decided) -> str:
    """Describe in a line what a round measures, and the best point before it."""
    choice, best = decision.choice, ""
    if choice is not None:
        unit = "models/hour" if decision.per_hour else "steps/s"
        points = [
            f"{point.label} {format_number(point.rate)} {unit} with"
            f" {format_count(point.n, 'process', 'processes')}"
            for point in decision.so_far
        ]
        sure = f"{choice.probability:.0%} sure to be within the tolerance of the best"
        best = f"; so far: {'; '.join(points)} ({sure})"
    if not decision.batches:
        return f"the race is over: {decision.reason}{best}"
    starts = format_count(sum(map(len, decision.batches)), "start", "starts")
    left = len(decision.not_screened)
    unseen = f"; not measured yet: {format_count(left, 'launch', 'launches')}" if left else ""
    minutes = f"about {max(1.0, decision.expected_s / 60):.0f} min"
    return f"{decision.stage}: {starts}, {minutes}{best}{unseen}"


def competing(plan: Plan, topology: Topology, quota_cpus: float | None) -> race.RaceField:
    """Return the field of a race on a machine; the A/A repeat is the baseline by another name.

    If the objective is to have one model soonest, launches race at the smallest count only.

    Args:
        plan: plan.json, with the combinations that were measured among its launches.
        topology: topology of the CPUs that may be used.
        quota_cpus: the cgroup's quota in CPUs, None without one.
    """
    known = plan.by_id
    base = known[plan.baseline].axes
    cpus = len(topology.cpus)
    training = changed_training(plan)

    def entrant(launch: str) -> race.Entrant:
        axes = known[launch].axes
        return race.Entrant(
            launch,
            frozenset(differing(axes, base).items()),
            placement.threads(axes) or cpus,
            measure.each_alone(plan.measure, axes),
            bool(training[launch]),
        )

    today = plan.today
    fixed = {plan.default, plan.baseline, plan.repeat, today}
    counts = [*process_counts.resolve(plan.processes, topology, quota_cpus)]
    said = [n for n in [plan.today_processes] if n and n <= max(counts)]
    counts = sorted({*counts, *said})
    boundaries = [
        n
        for n in process_counts.boundaries(topology, quota_cpus)
        if plan.processes == "auto" or n in plan.processes
    ]
    if plan.objective == ONE_MODEL:  # more processes make no model sooner
        counts, boundaries, said = counts[:1], [], []
    return race.RaceField(
        entrant(plan.default),
        entrant(plan.baseline),
        tuple(entrant(launch) for launch in known if launch not in fixed),
        tuple(counts),
        tuple(boundaries),
        tuple(
            race.Exclusion(
                frozenset(differing(item, base).items()),
                frozenset(axis for axis, value in item.items() if base[axis] == value),
            )
            for item in (*plan.exclude, *_idle(plan.launches, base))
        ),
        entrant(today) if today else None,
        tuple(said),
    )


def _idle(launches: Sequence[Launch], base: Axes) -> list[Axes]:
    """Return axis values that change nothing with one thread, so that no combination has both."""
    used = {(axis, launch.axes[axis]) for launch in launches for axis in OF_SEVERAL_THREADS}
    return [
        {"intra_op": 1, axis: value}
        for axis, value in sorted(used, key=str)
        if value not in {base[axis], DEFAULTS[axis]}
    ]


def window_s(plan: Plan, length_s: float) -> float:
    """Return the time (s) that a window takes, with settling or the start of a pool's program.

    Args:
        plan: plan.json.
        length_s: the window's length, if steps are measured.
    """
    if plan.workload.runs:
        return BESIDE_OTHERS * (plan.run_s or race.START_S)
    return length_s + (race.START_S if plan.workload.pool else plan.measure.settle_s)


def settings(plan: Plan, done: int) -> race.Settings:
    """Return the settings of a plan's race; the budget excludes confirmation and decisions.

    Args:
        plan: plan.json.
        done: number of rounds that were measured.
    """
    search, timing = plan.search, plan.measure
    one_s = window_s(plan, (timing.shortest_s + timing.longest_s) / 2)
    budget_s = 60 * (search.budget_minutes or 0.0)
    whole_s = budget_s - (plan.confirm.seconds or 0.0)
    # Two starts of the baseline, and as much time for the default launch and today's.
    first_counts = max(race.FEWEST, int(FIRST_SHARE * whole_s / (4 * timing.windows * one_s)))
    return race.Settings(
        budget_s=whole_s - ROUND_S * (done + 1),
        tolerance=search.tolerance,
        confidence=search.confidence,
        window_s=one_s,
        windows=timing.windows,
        round_s=budget_s / MOST_ROUNDS,
        nodes=search.nodes,
        seed=plan.seed,
        first_counts=first_counts if plan.workload.runs else None,
    )


def starts(cohorts: Sequence[CohortSummary], rates: pd.DataFrame, plan: Plan) -> list[Start]:
    """Return all fresh starts that were measured, the oldest first.

    Args:
        cohorts: cohorts of one machine.
        rates: its rows of the table of replicates.
        plan: plan.json.
    """
    by_start = of_starts(rates)  # the race finds the drift itself
    files: dict[tuple[str, int], list[CohortSummary]] = {}
    for cohort in sorted(cohorts, key=lambda summary: summary.started):
        files.setdefault((cohort.launch, cohort.replicate), []).append(cohort)
    fresh_starts = []
    for (launch, replicate), summaries in files.items():
        counts = sorted({n for summary in summaries for n in summary.process_counts})
        by_count = by_start.get((launch, replicate), {})
        tried = any(summary.measured for summary in summaries)
        decided, node = _parts(summaries[0].batch)
        ends = [summary.end for summary in summaries if summary.end]
        start_s = sum(end.start_s or 0.0 for end in ends)
        fresh_starts.append(
            Start(
                plan.baseline if launch == plan.repeat else launch,
                summaries[0].batch or f"{launch} {replicate}",
                by_count,
                max(counts),
                start_s,
                sum(end.wall_s for end in ends) - start_s,
                tuple(n for n in counts if tried and n not in by_count),
                decided,
                node,
            )
        )
    return fresh_starts


def done(cohorts: Sequence[CohortSummary]) -> int:
    """Return the number of rounds in which cohorts were measured."""
    return len({_parts(cohort.batch)[0] for cohort in cohorts})


def batch_name(decided: str, number: int, node: int) -> str:
    """Return the name of a batch in records, which identifies its round and node."""
    return f"{decided} {number} {node}"


def _parts(batch: str | None) -> tuple[str, str]:
    """Return the time when a batch was decided, and its node; both are empty without a batch."""
    decided, _, node, *_ = [*(batch or "").split(" "), "", ""]
    return decided, node


def next_round(
    plan: Plan,
    machine: Machine,
    measured: Sequence[Start],
    done: int,
    decided: str,
    *,
    unequal: Sequence[Finding] = (),
    again: Iterable[str] = (),
    times: ModelTimes | None = None,
    first: confirmation.FirstModels | None = None,
) -> Decided:
    """Return the next round: its measurements, and the knowledge before it.

    Args:
        plan: as `grown` makes it.
        machine: machine.json.
        measured: all starts so far.
        done: number of rounds in which they were measured.
        decided: the time, which names the batches.
        unequal: signs that steps differ in work (`unequal_work`). With any but a `repeat`, which a
            large gain outweighs, no launch can be chosen, and the race is over.
        again: launches that had no result in an earlier run.
        times: of models beside their steps.
        first: the first models, once they were trained.
    """
    field = competing(plan, machine.usable, machine.quota_cpus)
    measured = _within(measured, field.process_counts)
    models = _models(plan, field, measured) if first is None else None
    models_s = first.wall_s if first else models.expected_s if models else 0.0
    asks = settings(plan, done)
    asks = dataclasses.replace(asks, again=frozenset(again), budget_s=asks.budget_s - models_s)
    steps = plan.steps_per_model

    def by_objective(known: Throughputs) -> Throughputs:
        """Return models/hour with the starts that will be recommended."""
        if not steps or times is None:
            return known
        return known.models_per_hour(steps, partial(times.beside_s, forked=True))

    state = race.Race(field, asks, measured, done, by_objective)
    race_round, choice = state.next(), state.choice
    if any(finding.test != "repeat" for finding in unequal):
        race_round, choice = race.RaceRound("done", reason=UNEQUAL), None
    known = plan.by_id
    base = known[plan.baseline].axes
    combined = {
        entrant.launch: _combined(plan, {**base, **dict(entrant.changes)})
        for entrant in race_round.combined
    }
    known |= {launch.id: launch for launch in combined.values()}
    names = {name: launch.id for name, launch in combined.items()}
    batches = _batches(race_round, names, plan)
    models = models if batches else None
    launches = dict.fromkeys(task.launch for batch in batches for task in batch)
    launches |= dict.fromkeys([models.launch] if models else [])
    screened = {start.launch for start in measured}
    return Decided(
        schema_version=2,
        decided=decided,
        stage=race_round.stage,
        reason=race_round.reason,
        batches=batches,
        launches=[known[launch] for launch in launches],
        expected_s=state.round_s(race_round.batches) + (models.expected_s if models else 0.0),
        spent_s=state.spent_s,
        budget_s=asks.budget_s,
        choice=choice,
        not_screened=[entrant.launch for entrant in field.others if entrant.launch not in screened],
        models=models,
        so_far=tuple(_so_far(state, field, plan, times)) if choice else (),
        per_hour=steps is not None,
    )


def _so_far(
    state: race.Race, field: race.RaceField, plan: Plan, times: ModelTimes | None
) -> Iterator[SoFar]:
    """Yield the known rates of the launch to compare with, and of the choice."""
    known, steps = state.rates, plan.steps_per_model
    if steps:
        known = known.models_per_hour(steps, times.beside_s if times else lambda *_: None)
    against = field.fixed[-1].launch
    points = [point for point in known.column if point[0] == against]
    best = max(points, key=known.mean, default=None)
    chosen = (state.choice.launch, state.choice.n) if state.choice else None
    for point in dict.fromkeys([best, chosen]):
        if point is not None:
            launch, n = point
            yield SoFar(plan.by_id[launch].label, n, float(np.exp(known.mean(point))))


def _models(plan: Plan, field: race.RaceField, measured: Sequence[Start]) -> Wanted | None:
    """Return the first models to train; None if that is not possible, or takes too long."""
    base, workload = field.baseline.launch, plan.workload
    baseline_starts = [start for start in measured if start.launch == base and start.rates]
    if (
        not baseline_starts
        or plan.steps_per_model is None
        or workload.runs
        or workload.starts_processes
    ):
        return None
    n, rate = min(baseline_starts[0].rates.items())
    model_s = plan.steps_per_model * n / rate
    ranked = ranks.asked(plan.by_id[base].axes) is not None
    forks = workload.forks and not ranked
    forks &= plan.confirm.seconds is not None and plan.objective != ONE_MODEL
    expected_s = {
        start: starts * baseline_starts[0].start_s + models * model_s
        for start, (starts, models) in MODEL_PARTS.items()
    }
    most_s = MODELS_SHARE * 60 * (plan.search.budget_minutes or 0.0)
    if forks and expected_s["forked"] <= most_s:
        return Wanted(base, "forked", expected_s["forked"])
    return Wanted(base, "fresh", expected_s["fresh"]) if expected_s["fresh"] <= most_s else None


def _within(measured: Sequence[Start], counts: Sequence[int]) -> list[Start]:
    """Return starts with their results at these counts; another objective may have had others."""
    kept_starts = []
    for start in measured:
        rates = {n: rate for n, rate in start.rates.items() if n in counts}
        lost = tuple(n for n in start.lost if n in counts)
        if rates or lost or not (start.rates or start.lost):
            kept_starts.append(dataclasses.replace(start, rates=rates, lost=lost))
    return kept_starts


def _combined(plan: Plan, axes: Axes) -> Launch:
    """Return a launch that a plan lacks, with its name there."""
    builds = {launch.axes["build"] for launch in plan.launches}
    return named(axes, "combined", plan.by_id[plan.default].axes, builds)


def helpful(plan: Plan, targets: Sequence[Target]) -> list[Launch]:
    """Return launches that the plan lacks, with changes that experiments showed to help.

    Args:
        plan: plan.json, or what a race has made of it.
        targets: the targets of causes.json on one machine.
    """
    known = plan.by_id
    launches = {}
    for target in targets:
        causes = (*target.scaling_loss.named, *target.single_process_loss.named)
        remedies = [cause.remedy.axes for cause in causes if cause.remedy and cause.remedy.axes]
        for changed in remedies if target.launch in known else []:
            axes = {**known[target.launch].axes, **changed}
            if not any(item.items() <= axes.items() for item in plan.exclude):
                launch = _combined(plan, axes)
                launches[launch.id] = launch
    return [launch for name, launch in launches.items() if name not in known]


def _batches(
    race_round: race.RaceRound, names: Mapping[str, str], plan: Plan
) -> list[list[race.Task]]:
    """Return a round's batches, with the number of its record file in each start.

    The baseline's second start is that of the A/A repeat, which has a name of its own.
    """
    counts = Counter({launch.id: plan.replicates_of(launch.id) for launch in plan.launches})
    batches = []
    for batch in race_round.batches:
        tasks = []
        # The first start of a batch is not like those after it, so no launch is always the first.
        order = np.random.default_rng([plan.seed, counts.total()]).permutation(len(batch))
        for task in (batch[at] for at in order):
            launch = names.get(task.launch, task.launch)
            baseline = launch == plan.baseline
            if baseline and counts[launch] and not counts[plan.repeat]:
                launch = plan.repeat
            tasks.append(race.Task(launch, task.counts, counts[launch]))
            counts[launch] += 1
        batches.append(tasks)
    return batches
