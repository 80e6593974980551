"""From tables to the analysis files: one entry per machine in each.

Machines are never pooled: every number is of one machine, and readers compare them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from scaling_study.analysis import law_choice, laws
from scaling_study.analysis.effective import readback
from scaling_study.analysis.failures import list_failures
from scaling_study.analysis.points import joint
from scaling_study.analysis.recommend import candidates, pareto, recommend
from scaling_study.analysis.single_changes import single_changes
from scaling_study.analysis.unequal_work import unequal_work
from scaling_study.common.topology import Domain, Topology, parse_cpu_list
from scaling_study.config.plan import Plan
from scaling_study.config.work import with_learnt
from scaling_study.records.analysis import (
    Analysed,
    EffectiveSettings,
    Failures,
    LaunchLaws,
    Machines,
    Noise,
    NoisePoint,
    Pareto,
    Provenance,
    Recommendation,
    Scaling,
    SingleChanges,
)
from scaling_study.records.codec import write_file
from scaling_study.records.cohorts import Cohorts, CohortSummary
from scaling_study.records.machine import Machine
from scaling_study.records.window import Slot
from scaling_study.stats.throughputs import Throughputs

if TYPE_CHECKING:
    from scaling_study.stats.interval import Floats

DOMAINS: tuple[Domain, ...] = ("l3", "node", "socket")
"""Parts of a machine that have a cache or a memory of their own, smallest first."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """The results of one machine; each field is the entry of a file of its name."""

    scaling: Scaling
    noise: Noise
    recommendation: Recommendation
    pareto: Pareto
    single_changes: SingleChanges
    failures: Failures
    readback: EffectiveSettings
    provenance: Provenance


FILES = tuple(Analysis.__dataclass_fields__)


def analyse(
    points: pd.DataFrame, rates: pd.DataFrame, windows: pd.DataFrame, study: Cohorts, plan: Plan
) -> list[Analysis]:
    """Analyse a study.

    Args:
        points: Table of points.
        rates: Table of replicates.
        windows: Table of windows, with `effective.COLUMNS` and `unequal_work.COLUMNS` at least.
        study: cohorts.json.
        plan: plan.json.

    Returns:
        The results of each machine.
    """
    known = with_learnt(plan, study.samples, study.model_length)
    found = []
    for machine, description in study.machines.items():
        cohorts = study.of(machine)
        own, own_rates, own_windows = (
            table[table["machine"] == machine] for table in (points, rates, windows)
        )
        unequal = unequal_work(own, own_rates, own_windows, cohorts, plan)
        first = study.first_of(machine)
        drawn = joint(own_rates, cohorts, known.steps_per_model, plan.seed, first)
        rates_drawn = drawn.steps_per_s
        shown = candidates(own, cohorts)
        found.append(
            Analysis(
                scaling(own, rates_drawn, cohorts, description),
                noise(machine, rates_drawn, plan),
                recommend(shown, drawn, cohorts, known, unequal),
                pareto(machine, shown, known),
                single_changes(machine, own, rates_drawn, known),
                list_failures(machine, cohorts, study.missing),
                EffectiveSettings(machine=machine, launches=tuple(readback(cohorts, own_windows))),
                provenance(cohorts, description, study.samples),
            )
        )
    return found


def write(folder: Path, found: Sequence[Analysis], plan: Plan) -> None:
    """Write a file of analysis/ for each field of `Analysis`; provenance.json has the plan too."""
    for name in FILES:
        machines = tuple(getattr(one, name) for one in found)
        known = name == "provenance"
        content = Analysed(machines, plan.to_dict()) if known else Machines(machines)
        write_file(folder / f"{name}.json", content)


def noise(machine: str, measured: Throughputs, plan: Plan) -> Noise:
    """Return the A/A check: the repeat of the baseline against the baseline.

    Args:
        machine: Hash of the machine.
        measured: Joint draws of its throughputs.
        plan: plan.json.
    """
    points = []
    for launch, n in measured.column:
        if launch == plan.baseline and (plan.repeat, n) in measured.column:
            found = measured.ratio((plan.repeat, n), (launch, n))
            points.append(NoisePoint(n=n, ratio=found.value, low=found.low, high=found.high))
    spread = max((abs(one.ratio - 1) for one in points), default=None)
    return Noise(machine=machine, points=tuple(points), spread=spread)


def scaling(
    points: pd.DataFrame,
    measured: Throughputs,
    cohorts: Sequence[CohortSummary],
    description: Machine,
) -> Scaling:
    """Return the scaling laws of every launch of a machine.

    Args:
        points: The machine's rows of the table of points.
        measured: Joint draws of its throughputs.
        cohorts: Its cohorts.
        description: Its machine.json.
    """
    slots = {each.launch: each.slots for each in cohorts if each.slots}
    found = []
    for launch, rows in points.groupby("launch", sort=False):
        id_, n, throughput = str(launch), rows["n"].to_numpy(), rows["steps_per_s"].to_numpy()
        further = domain_laws(slots[id_], description.topology)
        law = law_choice.choose(n, throughput, measured.scatter(id_), further)
        found.append(LaunchLaws(launch=id_, laws=law))
    return Scaling(machine=description.hash, launches=tuple(found))


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
    found: list[tuple[Domain, Floats]] = []
    for domain in DOMAINS:
        groups = topology.domains(domain)
        group_of = {cpu: index for index, group in enumerate(groups) for cpu in group}
        shares = np.zeros((len(slots), len(groups)))
        for cpus, share in zip(bound, shares, strict=True):
            np.add.at(share, [group_of[cpu] for cpu in cpus], 1 / len(cpus))
        occupancy = shares.cumsum(axis=0)
        even = np.allclose(occupancy, occupancy[:, :1])
        known_already = any(
            each.shape == occupancy.shape and np.allclose(each, occupancy) for _, each in found
        )
        if not even and not known_already:
            found.append((domain, occupancy))
    return [laws.domain_saturation(domain, occupancy) for domain, occupancy in found]


def provenance(
    cohorts: Sequence[CohortSummary], description: Machine, samples: Mapping[str, float]
) -> Provenance:
    """Return the provenance of a machine's numbers.

    Args:
        cohorts: Its cohorts.
        description: Its machine.json.
        samples: Samples of a step by launch, if scripts count them.
    """
    ends = [cohort.end for cohort in cohorts if cohort.end is not None]
    measured = [cohort for cohort in cohorts if cohort.measured]
    return Provenance(
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
