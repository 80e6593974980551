"""From tables to the analysis files: one entry per machine in each.

Machines are never pooled: every number is of one machine, and readers compare them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from msgspec.structs import asdict

from scaling_study.analysis import laws, unequal_work
from scaling_study.analysis.collect import Collected
from scaling_study.analysis.recommend import candidates, pareto, recommend
from scaling_study.analysis.record_rows import AGAINST
from scaling_study.analysis.single_changes import single_changes
from scaling_study.common.topology import Domain, Topology, parse_cpu_list
from scaling_study.config.plan import Plan
from scaling_study.config.work import with_learnt
from scaling_study.records import analysis
from scaling_study.records.codec import write_file
from scaling_study.records.cohorts import CohortSummary, Got, Replicate
from scaling_study.records.machine import Machine
from scaling_study.records.window import LostMember, Slot
from scaling_study.stats.interval import Floats, Interval
from scaling_study.stats.throughputs import Start, Throughputs, fit

DOMAINS: tuple[Domain, ...] = ("l3", "node", "socket")
"""Parts of a machine that have a cache or a memory of their own, smallest first."""
PART = 3
"""The first third of a cohort's windows is compared with the last third, or at least one window."""
COHORT = ["machine", "launch", "replicate", "cohort", "n"]
PACE_COLUMNS = [*COHORT, "window", "attempt", "valid", "step_median_s"]
COLUMNS = list({*PACE_COLUMNS, *unequal_work.COLUMNS})
"""The columns of the table of windows that analyses read."""
NAMES = Replicate.__struct_fields__
AGAIN = "put right what its log says, and run the study again"


@dataclass(frozen=True, slots=True)
class Analysis:
    """The results of one machine; each field is the entry of a file of its name."""

    scaling: analysis.Scaling
    noise: analysis.Noise
    recommendation: analysis.Recommendation
    pareto: analysis.Pareto
    single_changes: analysis.SingleChanges
    failures: analysis.Failures
    readback: analysis.EffectiveSettings
    provenance: analysis.Provenance


FILES = tuple(Analysis.__dataclass_fields__)


def analyse(collected: Collected, plan: Plan) -> list[Analysis]:
    """Return the results of each machine of a study."""
    study, windows = collected.cohorts, collected.windows[COLUMNS]
    known = with_learnt(plan, study.samples, study.model_length)
    results = []
    for machine, description in study.machines.items():
        cohorts = study.of(machine)
        own_points, own_rates, own_windows = (
            table[table["machine"] == machine]
            for table in (collected.points, collected.replicates, windows)
        )
        unequal = unequal_work.unequal_work(own_points, own_rates, own_windows, cohorts, plan)
        drawn = collected.drawn[machine]
        rates_drawn = drawn.steps_per_s
        shown = candidates(own_points, cohorts)
        results.append(
            Analysis(
                scaling(own_points, rates_drawn, cohorts, description),
                noise(machine, rates_drawn, plan),
                recommend(shown, drawn, cohorts, known, unequal),
                pareto(machine, shown, known),
                single_changes(machine, own_points, rates_drawn, known),
                list_failures(machine, cohorts, study.missing),
                analysis.EffectiveSettings(
                    machine=machine, launches=tuple(readback(cohorts, own_windows))
                ),
                provenance(cohorts, description, study.samples),
            )
        )
    return results


def write(folder: Path, results: Sequence[Analysis], plan: Plan) -> None:
    """Write a file of analysis/ for each field of `Analysis`; provenance.json has the plan too."""
    for name in FILES:
        machines = tuple(getattr(result, name) for result in results)
        known = name == "provenance"
        content = (
            analysis.Analysed(machines, plan.to_dict()) if known else analysis.Machines(machines)
        )
        write_file(folder / f"{name}.json", content)


def noise(machine: str, measured: Throughputs, plan: Plan) -> analysis.Noise:
    """Return the A/A check: the repeat of the baseline against the baseline.

    Args:
        machine: Hash of the machine.
        measured: Joint draws of its throughputs.
        plan: plan.json.
    """
    points = []
    for launch, n in measured.column:
        if launch == plan.baseline and (plan.repeat, n) in measured.column:
            ratio = measured.ratio((plan.repeat, n), (launch, n))
            points.append(
                analysis.NoisePoint(n=n, ratio=ratio.value, low=ratio.low, high=ratio.high)
            )
    spread = max((abs(point.ratio - 1) for point in points), default=None)
    return analysis.Noise(machine=machine, points=tuple(points), spread=spread)


def scaling(
    points: pd.DataFrame,
    measured: Throughputs,
    cohorts: Sequence[CohortSummary],
    description: Machine,
) -> analysis.Scaling:
    """Return the scaling laws of every launch of a machine.

    Args:
        points: The machine's rows of the table of points.
        measured: Joint draws of its throughputs.
        cohorts: Its cohorts.
        description: Its machine.json.
    """
    slots = {each.launch: each.slots for each in cohorts if each.slots}
    launches = []
    for launch, rows in points.groupby("launch", sort=False):
        id_, n, throughput = str(launch), rows["n"].to_numpy(), rows["steps_per_s"].to_numpy()
        further = domain_laws(slots[id_], description.topology)
        law = laws.choose(n, throughput, measured.scatter(id_), further)
        launches.append(analysis.LaunchLaws(launch=id_, laws=law))
    return analysis.Scaling(machine=description.hash, launches=tuple(launches))


def domain_laws(slots: Sequence[Slot], topology: Topology) -> list[laws.Law]:
    """Return laws for parts of a machine that members bound to CPUs saturate one after another.

    Args:
        slots: Slots of a launch, as its cohort's first record holds them.
        topology: Topology of the machine.

    Returns:
        One law for every kind of domain that members fill unevenly; none if they are not bound.
        (Domains that all hold the same share at every n saturate together: hard saturation.)
    """
    bound = [parse_cpu_list(slot.cpus) for slot in slots if slot.cpus is not None]
    if len(bound) < len(slots):
        return []
    domains: list[tuple[Domain, Floats]] = []
    for domain in DOMAINS:
        groups = topology.domains(domain)
        group_of = {cpu: index for index, group in enumerate(groups) for cpu in group}
        shares = np.zeros((len(slots), len(groups)))
        for cpus, share in zip(bound, shares, strict=True):
            np.add.at(share, [group_of[cpu] for cpu in cpus], 1 / len(cpus))
        occupancy = shares.cumsum(axis=0)
        even = np.allclose(occupancy, occupancy[:, :1])
        known_already = any(
            each.shape == occupancy.shape and np.allclose(each, occupancy) for _, each in domains
        )
        if not even and not known_already:
            domains.append((domain, occupancy))
    return [laws.domain_saturation(domain, occupancy) for domain, occupancy in domains]


def provenance(
    cohorts: Sequence[CohortSummary], description: Machine, samples: Mapping[str, float]
) -> analysis.Provenance:
    """Return the provenance of a machine's numbers.

    Args:
        cohorts: Its cohorts.
        description: Its machine.json.
        samples: Samples of a step by launch, if scripts count them.
    """
    ends = [cohort.end for cohort in cohorts if cohort.end is not None]
    measured = [cohort for cohort in cohorts if cohort.measured]
    return analysis.Provenance(
        machine=description.hash,
        description=description,
        measured_hashes=tuple(sorted({cohort.measured_hash for cohort in measured})),
        harness_hashes=tuple(sorted({cohort.harness_hash for cohort in measured})),
        started=min(cohort.started for cohort in cohorts),
        cohorts=len(cohorts),
        windows_valid=sum(cohort.windows_valid for cohort in cohorts),
        windows_invalid=sum(len(cohort.windows_invalid) for cohort in cohorts),
        steps=sum(cohort.steps for cohort in cohorts),
        wall_s=sum(end.wall_s for end in ends),
        in_windows_s=sum(end.in_windows_s for end in ends),
        samples=dict(samples),
    )


def readback(cohorts: Sequence[CohortSummary], windows: pd.DataFrame) -> list[analysis.Effective]:
    """Return the settings of each launch, from a cohort with a failed check if there is one.

    Args:
        cohorts: The machine's cohorts.
        windows: Its rows of the table of windows.
    """
    shown: dict[str, CohortSummary] = {}
    for cohort in cohorts:
        if cohort.readback and (cohort.launch not in shown or not cohort.readback.proven):
            shown[cohort.launch] = cohort
    paces = pace(windows)
    return [
        analysis.Effective(
            launch=launch,
            label=cohort.label,
            **{name: getattr(got, name) for name in Got.__struct_fields__},
            pace=paces.get(launch),
            settling=_settling(
                [own_cohort for own_cohort in cohorts if own_cohort.launch == launch]
            ),
        )
        for launch, cohort in shown.items()
        if (got := cohort.readback)
    ]


def _settling(cohorts: Sequence[CohortSummary]) -> analysis.Settling | None:
    anew = [cohort.settled for cohort in cohorts if cohort.settled]
    if not anew:
        return None
    changes = [records[0].change for records in anew]
    return analysis.Settling(
        cohorts=len(anew),
        of=sum(cohort.measured for cohort in cohorts),
        least=min(changes),
        most=max(changes),
        left=sum(records[-1].left is not None for records in anew),
    )


def pace(windows: pd.DataFrame) -> dict[str, Interval]:
    """Return the time of a step in later windows over that in earlier ones.

    A script can change its own speed: running averages of dead units decay into denormal numbers,
    or batches grow with the epoch. The machine can change it too. A rate then holds only for the
    time that the windows saw, and is too high or too low for a longer training.

    Args:
        windows: One machine's rows of the table of windows, `PACE_COLUMNS` of them.

    Returns:
        By launch, the geometric mean over process counts, with its interval over replicates. A
        launch with only one window for each count is left out.
    """
    valid = windows[windows["valid"]]
    logs = np.log(valid["step_median_s"])
    taken = logs.groupby([valid[name] for name in (*COHORT, "window", "attempt")]).mean()
    of_cohort = taken.groupby(COHORT)
    count, place = of_cohort.transform("size"), of_cohort.cumcount()
    part = np.maximum(1, count // PART)
    early = taken[(place < part) & (count > 1)].groupby(COHORT).mean()
    late = taken[(place >= count - part) & (count > 1)].groupby(COHORT).mean()
    ratios = (late - early).groupby(["machine", "launch", "replicate"]).mean()
    if ratios.empty:
        return {}
    starts = [
        Start(launch, number, {0: float(np.exp(log))})
        for number, ((_, launch, _), log) in enumerate(ratios.items())
    ]
    known = fit(starts)
    return {launch: known.level((launch, n)) for launch, n in known.column}


def list_failures(
    machine: str, cohorts: Sequence[CohortSummary], missing: Sequence[Replicate]
) -> analysis.Failures:
    """List all that is not a complete cohort of valid windows.

    Args:
        machine: Hash of the machine.
        cohorts: Its cohorts.
        missing: Launches and replicates of the plan without a record file.
    """
    writers: Counter[str] = Counter()
    for cohort in cohorts:
        writers |= Counter(cohort.shared_files)  # the larger number of each
    return analysis.Failures(
        machine=machine,
        launches=(
            *(_ending(cohort) for cohort in cohorts if _ended_badly(cohort, cohorts)),
            *(
                analysis.Failure(
                    **asdict(replicate),
                    status="missing",
                    reason="the plan has it, but there is no record file",
                    remedy="run the study again: it measures what is missing",
                )
                for replicate in missing
            ),
        ),
        windows=tuple(_invalid_windows(cohorts)),
        points=tuple(_lost_points(cohorts)),
        members=tuple(
            analysis.MemberEvent(
                **{name: getattr(cohort, name) for name in NAMES},
                **{name: getattr(event, name) for name in LostMember.__struct_fields__},
            )
            for cohort in cohorts
            for event in cohort.events
        ),
        shared_files=dict(writers),
    )


def _ended_badly(cohort: CohortSummary, cohorts: Sequence[CohortSummary]) -> bool:
    """Return whether a cohort lost something; one that a later cohort resumed did not."""
    if cohort.end is not None:
        return cohort.end.status != "complete"
    return not any(
        (other.file, other.machine) == (cohort.file, cohort.machine)
        and other.cohort > cohort.cohort
        for other in cohorts
    )


def _ending(cohort: CohortSummary) -> analysis.Failure:
    end = cohort.end
    if end is None:
        status = "interrupted"
        reason: str | None = "its records have no end: the measuring job was stopped"
        remedy = "run the study again: it goes on where it stopped"
    else:
        status, reason, remedy = end.status, end.reason, end.remedy or AGAIN
    return analysis.Failure(
        **{name: getattr(cohort, name) for name in NAMES},
        status=status,
        reason=reason,
        remedy=remedy,
        log=cohort.events[-1].log if cohort.events else None,
    )


def _invalid_windows(cohorts: Sequence[CohortSummary]) -> Iterator[analysis.Invalid]:
    counts = Counter(
        (cohort.launch, cohort.label, window.n, flag)
        for cohort in cohorts
        for window in cohort.windows_invalid
        for flag in (AGAINST.intersection(window.flags) or window.flags)
    )
    for (launch, label, n, flag), count in sorted(counts.items()):
        yield analysis.Invalid(launch=launch, label=label, n=n, flag=flag, count=count)


def _lost_points(cohorts: Sequence[CohortSummary]) -> Iterator[analysis.Point]:
    """Yield the process counts without a valid window, of launches that took any window."""
    valid = {(cohort.launch, n) for cohort in cohorts for n in cohort.ns_valid}
    points = dict.fromkeys(
        (cohort.launch, cohort.label, n)
        for cohort in cohorts
        if cohort.measured
        for n in cohort.process_counts
    )
    for launch, label, n in points:
        if (launch, n) not in valid:
            yield analysis.Point(launch=launch, label=label, n=n)
