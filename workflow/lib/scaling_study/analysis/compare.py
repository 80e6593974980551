"""Several machines of one study side by side.

Nothing is pooled over machines: each has the intervals of its own replicates, and the interval of a
ratio joins those of two machines. A machine that is not measured and analysed completely is listed
with the reason, and the others are compared without it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from scaling_study.analysis.points import Drawn, joint
from scaling_study.common.objectives import OBJECTIVES
from scaling_study.common.quantities import known
from scaling_study.config.config import NodeKind
from scaling_study.config.plan import Plan
from scaling_study.config.work import with_learnt
from scaling_study.host import probe
from scaling_study.records import analysis, codec, tables
from scaling_study.records.cohorts import Cohorts
from scaling_study.records.columns import REPLICATES
from scaling_study.records.window import DECODER, CohortHead
from scaling_study.stats.interval import Interval
from scaling_study.stats.throughputs import interval_of

SOFTWARE: Mapping[str, Callable[[analysis.Provenance], str]] = {
    "python": lambda provenance: provenance.description.versions.get("python") or "none",
    "torch": lambda provenance: provenance.description.versions.get("torch") or "none",
    "measuring code": lambda provenance: ", ".join(provenance.harness_hashes),
    "what was measured (script, arguments, inputs or build)": lambda provenance: ", ".join(
        provenance.measured_hashes
    ),
}
"""Software that affects how fast a script trains; each entry reads it from a provenance."""


@dataclass(frozen=True, slots=True)
class Results:
    """The results of one machine that is measured and analysed with this plan.

    Attributes:
        hash: of the machine; where nodes differ, of the one with most cohorts.
        recommendation: its entry of analysis/recommendation.json.
        provenance: of analysis/provenance.json.
        noise: its entry of analysis/noise.json, the A/A check.
        drawn: joint draws of its rates.
        study: cohorts.json, of all nodes.
    """

    hash: str
    recommendation: analysis.Recommendation
    provenance: analysis.Provenance
    noise: analysis.Noise
    drawn: Drawn
    study: Cohorts

    def hosts(self, hash_: str) -> tuple[str, ...]:
        """Return the names of the nodes with this machine hash."""
        return tuple(sorted({cohort.host for cohort in self.study.of(hash_)}))


def read_results(folder: Path, plan: Plan) -> Results | str:
    """Read the results in a machine's folder, or return a text on what is missing.

    Args:
        folder: results/<study>/machines/<name>.
        plan: plan.json of the study.
    """
    jobs = [(each.id, index) for each in plan.launches for index in range(plan.replicates)]
    have = sum((folder / "measure" / id_ / f"{index}.jsonl").exists() for id_, index in jobs)
    if have < len(jobs):
        probed = "" if (folder / "machine.json").exists() else ", and no node was probed"
        return f"{have} of {len(jobs)} cohorts are measured{probed}"
    if not (folder / "analysis/provenance.json").exists():
        return "all cohorts are measured, and not analysed yet"
    try:
        return _read_analyses(folder, plan) or "what was analysed there is not what is measured now"
    except FileNotFoundError as error:
        return f"{error.filename} is not there: was the folder copied whole?"


def _read_analyses(folder: Path, plan: Plan) -> Results | None:
    """Read the analyses; None if they are of another plan, or of other records than are there."""
    entries = folder / "analysis"
    recommendations = codec.read_file(
        entries / "recommendation.json", analysis.Machines[analysis.Recommendation]
    )
    noises = codec.read_file(entries / "noise.json", analysis.Machines[analysis.Noise])
    provenance = codec.read_file(entries / "provenance.json", analysis.Analysed)
    study = codec.read_file(folder / "tables/cohorts.json", Cohorts)
    if provenance.plan != plan.to_dict() or _measured_since(folder, study):
        return None
    machine = max(study.machines, key=lambda hash_: len(study.of(hash_)))
    rates = tables.read_table(folder / "tables", REPLICATES)
    recommendation, noise = recommendations.of(machine), noises.of(machine)
    own_provenance = provenance.of(machine)
    if recommendation is None or noise is None or own_provenance is None:
        return None
    steps = with_learnt(plan, study.samples, study.model_length).steps_per_model
    rows, first = rates[rates["machine"] == machine], study.first_of(machine)
    drawn = joint(rows, study.of(machine), steps, plan.seed, first)
    return Results(machine, recommendation, own_provenance, noise, drawn, study)


def _measured_since(folder: Path, study: Cohorts) -> bool:
    """Return whether a record file was replaced after it was collected.

    Its first record has the time of its start; a file's own time may be lost when it is copied.
    """
    # The last value of a key stays: that of a file's first cohort.
    for file, time in {cohort.file: cohort.started for cohort in reversed(study.cohorts)}.items():
        _, head = next(codec.read(folder / file, DECODER))
        if not isinstance(head, CohortHead) or head.started != time:
            return True
    return False


def compare(
    results: Mapping[str, Results | str], kinds: Mapping[str, NodeKind]
) -> analysis.Compared:
    """Compare machines.

    Args:
        results: what `read_results` returned for each machine, in the config's order.
        kinds: the config's section of each machine.
    """
    there = {name: result for name, result in results.items() if not isinstance(result, str)}
    rates = [OBJECTIVES[result.recommendation.objective].rate for result in there.values()]
    # Compare steps if the number of steps of a model is not known on all machines.
    rate = next((column for column in rates if column != "models_per_hour"), "models_per_hour")
    reference = next(
        (name for name, result in there.items() if result.recommendation.recommended), None
    )
    machines = tuple(
        analysis.ComparedMachine(name=name, kind=dict(kinds[name]), status="missing", reason=result)
        if isinstance(result, str)
        else _measured(name, result, kinds[name], rate, ratio(there, name, reference, rate))
        for name, result in results.items()
    )
    return analysis.Compared(
        objective=rate if there else None,
        single=any(result.recommendation.single for result in there.values()),
        reference=reference,
        machines=machines,
        best=_best(there, machines, rate),
        same=_same(there),
        software=tuple(_software(there)),
    )


def _measured(
    name: str, result: Results, kind: NodeKind, rate: str, to_reference: Interval | None
) -> analysis.ComparedMachine:
    """Return a machine's entry: its launches' rates, and nodes that are other machines."""
    description = result.study.machines[result.hash]
    return analysis.ComparedMachine(
        name=name,
        kind=kind.model_dump(),
        status="measured",
        reason=result.recommendation.reason,
        machine=result.hash,
        cpu_model=description.cpu_model,
        hosts=result.hosts(result.hash),
        default=_given(result.recommendation.default, rate),
        recommended=_given(result.recommendation.recommended, rate),
        to_reference=to_reference,
        others=tuple(
            analysis.OtherNodes(
                machine=other,
                hosts=result.hosts(other),
                cohorts=len(result.study.of(other)),
                differences=probe.differences(description, there),
            )
            for other, there in result.study.machines.items()
            if other != result.hash
        ),
    )


def _given(point: analysis.Candidate | None, rate: str) -> analysis.Rate | None:
    """Return a launch's rate; None if there is no launch, or its rate is not known."""
    interval = point.rate(OBJECTIVES[rate]) if point else Interval()
    if point is None or not known(interval.value):
        return None
    return analysis.Rate(launch=point.launch, label=point.label, n=point.n, rate=interval)


def ratio(there: Mapping[str, Results], over: str, under: str | None, rate: str) -> Interval | None:
    """Return the rate of one machine over another's, each with its recommended launch."""
    if under is None or over == under:
        return None
    ours, theirs = (there[name].drawn.of(rate) for name in (over, under))
    point, other = (there[name].recommendation.recommended for name in (over, under))
    if point is None or other is None:
        return None
    logs = ours.of(point.at) - theirs.of(other.at)
    mean = ours.mean(point.at) - theirs.mean(other.at)
    return interval_of(logs, mean, sure=ours.sure and theirs.sure)


def _best(
    there: Mapping[str, Results], machines: Iterable[analysis.ComparedMachine], rate: str
) -> analysis.Best | None:
    """Return the best machine against the next; None with fewer than two machines."""
    rates = {machine.name: machine.recommended for machine in machines if machine.recommended}
    if len(rates) < 2:  # noqa: PLR2004 (two to compare)
        return None
    first, second, *_ = sorted(rates, key=lambda name: -(rates[name].rate.value or 0.0))
    return analysis.Best(
        first=first,
        next=second,
        ratio=ratio(there, first, second, rate) or Interval(),
        spread=max(there[name].noise.at(rates[name].n) or 0.0 for name in (first, second)),
    )


def _same(there: Mapping[str, Results]) -> tuple[tuple[str, ...], ...]:
    """Return groups of names whose nodes have the same machine hash."""
    names: dict[str, list[str]] = {}
    for name, result in there.items():
        names.setdefault(result.hash, []).append(name)
    return tuple(tuple(group) for group in names.values() if len(group) > 1)


def _software(there: Mapping[str, Results]) -> Iterator[analysis.Software]:
    """Yield the software that is not the same on all machines, by machine."""
    for software, of in SOFTWARE.items():
        by_name = {name: of(result.provenance) for name, result in there.items()}
        if len(set(by_name.values())) > 1:
            yield analysis.Software(what=software, machines=by_name)
