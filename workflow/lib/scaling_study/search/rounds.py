"""A race in the words of a study: from its plan, its machine and its records to the next round."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from scaling_study.analysis.points import models_per_hour
from scaling_study.common import storage
from scaling_study.common.objectives import ONE_MODEL
from scaling_study.common.quantities import format_count
from scaling_study.config import process_counts
from scaling_study.config.launches import named
from scaling_study.config.work import changed_training
from scaling_study.host import probe
from scaling_study.launch.axes import placement
from scaling_study.launch.axes.axis_table import DEFAULTS
from scaling_study.runner import journal, measure
from scaling_study.search.race import (
    START_S,
    Entrant,
    Exclusion,
    Field,
    Race,
    Round,
    Settings,
    dealt,
)
from scaling_study.stats.throughputs import Start

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    import pandas as pd

    from scaling_study.analysis.unequal_work import Finding
    from scaling_study.common.topology import Topology
    from scaling_study.records.cohorts import CohortSummary
    from scaling_study.records.verdict import Target
    from scaling_study.search.race import Changes

Json = dict[str, Any]

SCHEMA_VERSION = 2
"""Of a round's file."""

OF_SEVERAL_THREADS = ("openmp", "openmp_affinity")
"""Axes that matter only where an operator has several threads."""

FEWEST_ROUNDS, MOST_ROUNDS, SHORTEST_ROUND_S = 4, 16, 60.0
"""Of a race: one for each of these times in its budget, within these bounds. A round for which
nothing is left to do takes some seconds too."""
UNEQUAL = "steps differ too much in work to compare launches"
"""Why a race ends that cannot find out more."""
ROUND_S = 8.0
"""What a round takes beside measuring: to decide, and to make the report anew."""


def most(budget_s: float) -> int:
    """Return how many rounds a race may have: those that are left over find nothing to do."""
    return min(MOST_ROUNDS, max(FEWEST_ROUNDS, math.ceil(budget_s / SHORTEST_ROUND_S)))


def grown(plan: Mapping[str, Any], study_folder: Path) -> Json:
    """Return a plan with what a race has made of it, as far as records are there.

    Combinations are launches like others, and each launch has `replicates` of its own: as many as
    it has record files. A launch without any stays, since it may be screened yet.

    Args:
        plan: plan.json.
        study_folder: results/<study>.
    """
    files = sorted((study_folder / "measure").glob("*/*.jsonl"))
    made = Counter(path.parent.name for path in files)
    launches = list(plan["launches"])
    known = {launch["id"] for launch in launches}
    for path in files:
        if path.parent.name not in known:
            head = _head(path)
            if head["role"] == "combined":
                known.add(path.parent.name)
                launches.append(
                    {"id": head["launch"], **{key: head[key] for key in ("label", "role", "axes")}}
                )
    return {
        **plan,
        "launches": [{**launch, "replicates": made[launch["id"]]} for launch in launches],
    }


def without_result(study_folder: Path) -> list[Path]:
    """Return the record files of launches that gave nothing: the next run has them race again."""
    folders = sorted((study_folder / "measure").glob("*/"))
    files = [list(folder.glob("*.jsonl")) for folder in folders]
    marked = [own for own in files if all(journal.mark_of(one).exists() for one in own)]
    return [one for own in marked for one in own]


def left(study_folder: Path) -> set[str]:
    """Return the launches that gave nothing in an earlier run."""
    marks = (study_folder / "measure").glob(f"*/*{journal.MARK}")
    return {mark.parent.name for mark in marks if not any(mark.parent.glob("*.jsonl"))}


def set_aside(study_folder: Path, job: str, now: str) -> Path | None:
    """Move records away that were measured in another way, so that the race begins anew.

    Args:
        study_folder: results/<study>.
        job: what all measurements depend on (`measure.job_text`, of no launch).
        now: the time, which names where they go.

    Returns:
        Where they are now; None where nothing has changed.
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
    """Whether records that no race has made were measured in another way than a race would."""
    asked, harness = json.loads(job)["measure"], measure.harness_digest()
    heads = map(_head, records.glob("*/*.jsonl"))
    return any(head["measure"] != asked or head["harness_hash"] != harness for head in heads)


def measure_part(
    found: Mapping[str, Any], base: measure.Job, folder: Path, builds: Path, part: tuple[int, int]
) -> None:
    """Measure what of a round is not measured yet, batch by batch.

    Args:
        found: the round, of its file.
        base: what all measurements share.
        folder: of the record files.
        builds: folder of built environments.
        part: which of how many nodes this is.
    """
    launches = {launch["id"]: launch for launch in found["launches"]}
    node, nodes = part
    for number, batch in dealt(list(enumerate(found["batches"])), nodes)[node]:
        runs = []
        # The study's first start decides whether there is anything to measure.
        batch.sort(key=lambda one: not measure.is_first(launches[one["launch"]], one["replicate"]))
        for task in batch:
            path = folder / task["launch"] / f"{task['replicate']}.jsonl"
            if path.exists():  # before a kill
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            job = dataclasses.replace(
                base, launch=launches[task["launch"]], replicate=task["replicate"]
            )
            name = batch_name(found["decided"], number, node)
            runs.append(measure.Measurement(job, path, builds, task["counts"], name))
        measure.in_turns(runs)


def _head(path: Path) -> Json:
    """Return the first record of a file, which says what was measured."""
    with path.open(encoding="utf-8") as lines:
        head: Json = json.loads(next(lines))
    return head


def searched(
    plan: Mapping[str, Any],
    found: Sequence[Mapping[str, Any]],
    following: Mapping[str, Any] | None = None,
) -> Json:
    """Return a plan with what a race has made of it, and what became of the race.

    Args:
        plan: as `grown` makes it.
        found: the content of the files of all rounds that were measured, in their order.
        following: of the next one, which was decided when the last one had been measured.
    """
    done = [one for one in found if one["batches"]]
    last = following or found[-1]
    return {
        **plan,
        "searched": {
            "rounds": [{key: one[key] for key in ("stage", "expected_s")} for one in done],
            "reason": last["reason"] or ("" if following else "it had no further round"),
            "next": _outline(following) if following and following["batches"] else None,
            **{key: last[key] for key in ("spent_s", "budget_s", "choice", "not_screened")},
        },
    }


def _outline(found: Mapping[str, Any]) -> Json:
    """What a round is about: its stage, how long it takes, and its launches."""
    labels = [launch["label"] for launch in found["launches"] if launch["role"] != "repeat"]
    return {**{key: found[key] for key in ("stage", "expected_s")}, "labels": labels}


def without_the_rest(plan: Mapping[str, Any]) -> Json:
    """Return a plan without what comes after a race: confirmation, profiles and experiments."""
    return {
        **plan,
        "confirm": {**plan["confirm"], "seconds": None},
        "profiled": {},
        "why": {**plan["why"], "effort": "off"},
        "explained": {},
    }


def describe(found: Mapping[str, Any], plan: Mapping[str, Any]) -> str:
    """Say in a line what a round measures, and what is known before it."""
    labels = {launch["id"]: launch["label"] for launch in plan["launches"]}
    choice = found["choice"]
    best = ""
    if choice is not None:
        best = (
            f"; best so far: {labels[choice['launch']]},"
            f" {format_count(choice['n'], 'process', 'processes')} (within the"
            f" tolerance of the best one that was measured with {choice['probability']:.0%})"
        )
    if not found["batches"]:
        return f"the race is over: {found['reason']}{best}"
    starts = sum(map(len, found["batches"]))
    minutes = found["expected_s"] / 60
    left = len(found["not_screened"])
    unseen = f"; not measured yet: {left} launches" if left else ""
    return f"{found['stage']}: {starts} starts, {minutes:.0f} minutes or so{best}{unseen}"


def competing(plan: Mapping[str, Any], topology: Topology, quota_cpus: float | None) -> Field:
    """Return what may be measured on a machine; the A/A repeat is the baseline by another name.

    Where one model soonest is looked for, launches race at the smallest count alone.

    Args:
        plan: plan.json, with the combinations that were measured among its launches.
        topology: of the CPUs that may be used.
        quota_cpus: the cgroup's quota in CPUs, None without one.
    """
    known = {launch["id"]: launch for launch in plan["launches"]}
    base = known[plan["baseline"]]["axes"]
    cpus = len(topology.cpus)
    training = changed_training(plan)

    def entrant(launch: str) -> Entrant:
        axes = known[launch]["axes"]
        return Entrant(
            launch,
            changes(base, axes),
            placement.threads(axes) or cpus,
            measure.each_alone(plan["measure"], axes),
            bool(training[launch]),
        )

    today = plan.get("today")
    fixed = {plan["default"], plan["baseline"], plan["repeat"], today}
    counts = process_counts.resolve(plan["processes"], topology, quota_cpus)
    boundaries = [
        n
        for n in process_counts.boundaries(topology, quota_cpus)
        if plan["processes"] == "auto" or n in plan["processes"]
    ]
    if plan["objective"] == ONE_MODEL:  # more processes make no model sooner
        counts, boundaries = counts[:1], []
    return Field(
        entrant(plan["default"]),
        entrant(plan["baseline"]),
        tuple(entrant(launch) for launch in known if launch not in fixed),
        tuple(counts),
        tuple(boundaries),
        tuple(
            Exclusion(changes(base, item), frozenset(a for a, v in item.items() if base[a] == v))
            for item in (*plan["exclude"], *_idle(plan["launches"], base))
        ),
        entrant(today) if today else None,
    )


def _idle(launches: Sequence[Mapping[str, Any]], base: Mapping[str, Any]) -> list[Json]:
    """Return what changes nothing beside one thread, so that no combination tries it."""
    used = {(axis, one["axes"][axis]) for one in launches for axis in OF_SEVERAL_THREADS}
    return [
        {"intra_op": 1, axis: value}
        for axis, value in sorted(used)
        if value not in {base[axis], DEFAULTS[axis]}
    ]


def changes(base: Mapping[str, Any], axes: Mapping[str, Any]) -> Changes:
    """Return what differs between two launches, as axis and value (JSON)."""
    return frozenset(
        (axis, json.dumps(value)) for axis, value in axes.items() if base[axis] != value
    )


def changed(base: Mapping[str, Any], made: Changes) -> Json:
    """Return all axes of a launch that differs from another by what `changes` has found."""
    return {**base, **{axis: json.loads(value) for axis, value in made}}


def beside_window_s(plan: Mapping[str, Any]) -> float:
    """Return what a window takes beside its own time: a pool's program starts anew for each."""
    return float(START_S if plan["workload"]["pool"] else plan["measure"]["settle_s"])


def settings(plan: Mapping[str, Any], done: int) -> Settings:
    """Return what a plan asks of its race, without the time of the confirmation and the reports.

    Args:
        plan: plan.json.
        done: rounds that were measured.
    """
    search, timing = plan["search"], plan["measure"]
    return Settings(
        budget_s=60 * search["budget_minutes"]
        - (plan["confirm"]["seconds"] or 0.0)
        - ROUND_S * (done + 1),
        tolerance=search["tolerance"],
        confidence=search["confidence"],
        window_s=(timing["shortest_s"] + timing["longest_s"]) / 2 + beside_window_s(plan),
        windows=timing["windows"],
        round_s=60 * search["budget_minutes"] / MOST_ROUNDS,
        nodes=search["nodes"],
        seed=plan["seed"],
    )


def starts(
    cohorts: Sequence[CohortSummary], rates: pd.DataFrame, plan: Mapping[str, Any]
) -> list[Start]:
    """Return all fresh starts that were measured, the oldest first.

    Args:
        cohorts: of one machine.
        rates: its rows of the table of replicates.
        plan: plan.json.
    """
    steps = plan["workload"]["steps_per_model"]
    given = rates["steps_per_s"] * rates["drift"]  # the race finds the drift itself
    given = given if steps is None else models_per_hour(rates, given, steps)
    by_start: dict[tuple[str, int], dict[int, float]] = {}
    for launch, replicate, n, rate in zip(
        rates["launch"], rates["replicate"], rates["n"], given, strict=True
    ):
        by_start.setdefault((str(launch), int(replicate)), {})[int(n)] = float(rate)
    files: dict[tuple[str, int], list[CohortSummary]] = {}
    for cohort in sorted(cohorts, key=lambda one: one.started):
        files.setdefault((cohort.launch, cohort.replicate), []).append(cohort)
    batches: dict[str, int] = {}
    found = []
    for (launch, replicate), own in files.items():
        asked = sorted({n for one in own for n in one.process_counts})
        seen = by_start.get((launch, replicate), {})
        tried = any(one.measured for one in own)
        batch = own[0].batch or f"{launch} {replicate}"
        decided, node = _parts(own[0].batch)
        ends = [one.end for one in own if one.end]
        start_s = sum(end.start_s or 0.0 for end in ends)
        found.append(
            Start(
                plan["baseline"] if launch == plan["repeat"] else launch,
                batches.setdefault(batch, len(batches)),
                seen,
                max(asked),
                start_s,
                sum(end.wall_s for end in ends) - start_s,
                tuple(n for n in asked if tried and n not in seen),
                decided,
                node,
            )
        )
    return found


def done(cohorts: Sequence[CohortSummary]) -> int:
    """Return how many rounds cohorts were measured in."""
    return len({_parts(one.batch)[0] for one in cohorts})


def batch_name(decided: str, number: int, node: int) -> str:
    """Name a batch in the records, so that all batches of a round and a node are known."""
    return f"{decided} {number} {node}"


def _parts(batch: str | None) -> tuple[str, str]:
    """Return when a batch was decided, and its node; what a grid has measured has no batch."""
    decided, _, node, *_ = [*(batch or "").split(" "), "", ""]
    return decided, node


def next_round(
    plan: Mapping[str, Any],
    machine: Mapping[str, Any],
    measured: Sequence[Start],
    done: int,
    decided: str,
    *,
    unequal: Sequence[Finding] = (),
    again: Iterable[str] = (),
) -> Json:
    """Return the content of a round's file: what its jobs measure, and what is known before it.

    Args:
        plan: as `grown` makes it.
        machine: machine.json.
        measured: all starts so far.
        done: how many rounds they were measured in.
        decided: the time, which names the batches.
        unequal: what shows that steps differ in work (`unequal_work`). Where it is more than that
            starts differ, which a large gain outweighs, no launch can be chosen: the race is over.
        again: launches that gave nothing in an earlier run.
    """
    files = {launch["id"]: launch["replicates"] for launch in plan["launches"]}
    field = competing(plan, probe.usable_topology(machine), machine["quota_cpus"])
    asks = dataclasses.replace(settings(plan, done), again=frozenset(again))
    measured = _within(measured, field.process_counts)
    race = Race(field, asks, measured, done)
    found, choice = race.next(), race.choice
    if any(one.test != "repeat" for one in unequal):
        found, choice = Round("done", reason=UNEQUAL), None
    known = {launch["id"]: launch for launch in plan["launches"]}
    base = known[plan["baseline"]]["axes"]
    defaults = known[plan["default"]]["axes"]
    builds = builds_of(plan)
    combined = {
        one.launch: combination(changed(base, one.changes), defaults, builds)
        for one in found.combined
    }
    known |= {launch["id"]: launch for launch in combined.values()}
    names = {name: launch["id"] for name, launch in combined.items()}
    batches = _batches(found, names, plan, files)
    asked = dict.fromkeys(task["launch"] for batch in batches for task in batch)
    seen = {one.launch for one in measured}
    return {
        "schema_version": SCHEMA_VERSION,
        "decided": decided,
        "stage": found.stage,
        "reason": found.reason,
        "batches": batches,
        "launches": [known[launch] for launch in asked],
        "expected_s": race.round_s(found.batches),
        "spent_s": race.spent_s,
        "budget_s": asks.budget_s,
        "choice": None if choice is None else dataclasses.asdict(choice),
        "not_screened": [one.launch for one in field.others if one.launch not in seen],
    }


def _within(measured: Sequence[Start], counts: Sequence[int]) -> list[Start]:
    """Return starts with what they tell of some counts: those of another objective have others."""
    found = []
    for one in measured:
        rates = {n: rate for n, rate in one.rates.items() if n in counts}
        lost = tuple(n for n in one.lost if n in counts)
        if rates or lost or not (one.rates or one.lost):
            found.append(dataclasses.replace(one, rates=rates, lost=lost))
    return found


def builds_of(plan: Mapping[str, Any]) -> set[str]:
    """Return the environments of a plan's launches."""
    return {launch["axes"]["build"] for launch in plan["launches"]}


def combination(
    axes: Mapping[str, Any], defaults: Mapping[str, Any], builds: Collection[str] = ()
) -> Json:
    """Return the plan's entry of a launch that no config describes.

    Args:
        axes: its values.
        defaults: those of the default launch.
        builds: the plan's environments.
    """
    words = {name: tuple(v) if isinstance(v, list) else v for name, v in axes.items()}
    launch = named(words, "combined", defaults, builds)
    return {"id": launch.id, "label": launch.label, "role": launch.role, "axes": dict(axes)}


def helpful(plan: Mapping[str, Any], targets: Sequence[Target]) -> list[Json]:
    """Return what experiments on causes showed to help, as launches that the plan does not have.

    Args:
        plan: plan.json, or what a race has made of it.
        targets: of causes.json, of one machine.
    """
    known = {launch["id"]: launch for launch in plan["launches"]}
    found = {}
    for target in targets:
        causes = (*target.scaling_loss.named, *target.single_process_loss.named)
        remedies = [cause.remedy.axes for cause in causes if cause.remedy and cause.remedy.axes]
        for changed in remedies if target.launch in known else []:
            axes = {**known[target.launch]["axes"], **changed}
            if not any(item.items() <= axes.items() for item in plan["exclude"]):
                launch = combination(axes, known[plan["default"]]["axes"], builds_of(plan))
                found[launch["id"]] = launch
    return [launch for one, launch in found.items() if one not in known]


def _batches(
    found: Round, names: Mapping[str, str], plan: Mapping[str, Any], files: Mapping[str, int]
) -> list[list[Json]]:
    """Return a round's starts, each with its launch, the number of its file, and its counts.

    The baseline's second start is that of the A/A repeat, which has a name of its own.
    """
    made = dict(files)
    batches = []
    for batch in found.batches:
        tasks = []
        # The first start of a batch is not like those after it: none is always the first.
        order = np.random.default_rng([plan["seed"], sum(made.values())]).permutation(len(batch))
        for task in (batch[at] for at in order):
            launch = names.get(task.launch, task.launch)
            baseline = launch == plan["baseline"]
            if baseline and made.get(launch) and not made.get(plan["repeat"]):
                launch = plan["repeat"]
            replicate = made.get(launch, 0)
            made[launch] = replicate + 1
            tasks.append({"launch": launch, "replicate": replicate, "counts": list(task.counts)})
        batches.append(tasks)
    return batches
