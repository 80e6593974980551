"""From tables to the analysis files: one entry per machine in each.

Machines are compared by a reader, never pooled: every number is of one machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from scaling_study.analysis import law_choice, laws
from scaling_study.analysis.failures import list_failures
from scaling_study.analysis.noise import noise
from scaling_study.analysis.pace import pace
from scaling_study.analysis.pareto import pareto
from scaling_study.analysis.recommend import recommend
from scaling_study.analysis.single_changes import single_changes
from scaling_study.analysis.unequal_work import unequal_work
from scaling_study.common.storage import FLAT
from scaling_study.common.topology import Topology, parse_cpu_list
from scaling_study.config.work import with_learnt
from scaling_study.records.model_length import ModelLength
from scaling_study.stats import intervals

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from scaling_study.common.topology import Domain
    from scaling_study.config.plan import Plan
    from scaling_study.stats.intervals import Interval

    Json = Mapping[str, Any]

DOMAINS: tuple[Domain, ...] = ("l3", "node", "socket")
"""Parts of a machine that have a cache or a memory of their own, smallest first."""
FILES = (
    *("scaling", "noise", "recommendation", "pareto", "single_changes", "failures"),
    *("readback", "provenance"),
)


@dataclass(frozen=True, slots=True)
class MachineEntry:
    """What an analysis file holds of one machine."""

    machine: str
    cpu_model: str
    found: object = field(metadata=FLAT)


@dataclass(frozen=True, slots=True)
class LaunchLaws:
    """The scaling law of a launch."""

    launch: str
    laws: law_choice.ChosenLaw


@dataclass(frozen=True, slots=True)
class Settling:
    """Cohorts of a launch whose windows were taken anew, because steps had changed.

    Attributes:
        cohorts: How many.
        of: How many were measured.
        least: The smallest change of steps, as part of them.
        most: The largest.
        left: In how many steps were still changing in the last windows.
    """

    cohorts: int
    of: int
    least: float
    most: float
    left: int


@dataclass(frozen=True, slots=True)
class Effective:
    """What a launch asked for and got.

    Attributes:
        launch: Its id.
        label: Its text.
        checks: What was requested and what took effect, by axis.
        member: All that the first member reported.
        changes: What the script changed until the last window.
        counted: What was counted as an iteration.
        once: Whether each run of the script needs a process of its own.
        pace: What a step takes in later windows over earlier ones.
        settling: None where no window was taken anew.
    """

    launch: str
    label: str
    checks: Sequence[Json]
    member: Json
    changes: Sequence[Json] | None
    counted: Json | None
    once: bool | None
    pace: Interval | None
    settling: Settling | None


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a machine's numbers come from: machine.json, versions, hashes, counts and times."""

    description: Json
    versions: Json
    commit: str | None
    measured_hashes: Sequence[str]
    harness_hashes: Sequence[str]
    started: str
    cohorts: int
    windows_valid: int
    windows_invalid: int
    steps: int
    wall_s: float
    in_windows_s: float
    samples: Json


def analyse(
    points: pd.DataFrame, rates: pd.DataFrame, windows: pd.DataFrame, study: Json, plan: Plan
) -> dict[str, dict[str, object]]:
    """Analyse a study.

    Args:
        points: Table of points.
        rates: Table of replicates.
        windows: Table of windows, with `pace.COLUMNS` and `unequal_work.COLUMNS` at least.
        study: cohorts.json.
        plan: plan.json.

    Returns:
        Content of analysis/<name>.json by name: `machines`, with an entry for each.
    """
    entries: dict[str, list[MachineEntry]] = {name: [] for name in FILES}
    known = with_learnt(plan, study["samples"], ModelLength(**study["model_length"]))
    for machine, description in study["machines"].items():
        cohorts = [each for each in study["cohorts"] if each["machine"] == machine]
        own = points[points["machine"] == machine]
        own_rates = rates[rates["machine"] == machine]
        own_windows = windows[windows["machine"] == machine]
        unequal = unequal_work(own, own_rates, own_windows, cohorts, plan)
        found = (
            {"launches": scaling(own, own_rates, cohorts, description)},
            noise(own_rates, plan, unequal),
            recommend(own, own_rates, cohorts, known, unequal),
            pareto(own, cohorts, known),
            single_changes(own, own_rates, known),
            list_failures(cohorts, study["missing"]),
            {"launches": readback(cohorts, own_windows)},
            provenance(cohorts, description, study["samples"]),
        )
        for name, entry in zip(FILES, found, strict=True):
            entries[name].append(MachineEntry(machine, description["cpu_model"], entry))
    content: dict[str, dict[str, object]] = {
        name: {"machines": all_} for name, all_ in entries.items()
    }
    content["provenance"]["plan"] = plan.to_dict()
    return content


def scaling(
    points: pd.DataFrame, rates: pd.DataFrame, cohorts: Sequence[Json], description: Json
) -> list[LaunchLaws]:
    """Scaling laws of every launch of a machine.

    Args:
        points: The machine's rows of the table of points.
        rates: Its rows of the table of replicates.
        cohorts: Its cohorts.
        description: Its machine.json.
    """
    topology = Topology.from_dict(description["topology"])
    slots = {each["launch"]: each["slots"] for each in cohorts if each["slots"]}
    means = intervals.Means(rates)
    found = []
    for launch, rows in points.groupby("launch", sort=False):
        id_, n, throughput = str(launch), rows["n"].to_numpy(), rows["steps_per_s"].to_numpy()
        further = domain_laws(slots[id_], topology)
        law = law_choice.choose(n, throughput, means.scatter(id_), further)
        found.append(LaunchLaws(id_, law))
    return found


def domain_laws(slots: Sequence[Json], topology: Topology) -> list[laws.Law]:
    """Saturation of the parts of a machine that members bound to CPUs fill one after another.

    Args:
        slots: Of a launch, as its cohort's first record holds them.
        topology: Of the machine.

    Returns:
        One law for every kind of domain that members fill unevenly; none if they are not bound.
        (Domains that all hold the same share at every n saturate together: hard saturation.)
    """
    if any(slot["cpus"] is None for slot in slots):
        return []
    found: list[tuple[Domain, intervals.Floats]] = []
    for domain in DOMAINS:
        groups = topology.domains(domain)
        group_of = {cpu: index for index, group in enumerate(groups) for cpu in group}
        shares = np.zeros((len(slots), len(groups)))
        for slot, share in zip(slots, shares, strict=True):
            cpus = parse_cpu_list(slot["cpus"])
            np.add.at(share, [group_of[cpu] for cpu in cpus], 1 / len(cpus))
        occupancy = shares.cumsum(axis=0)
        even = np.allclose(occupancy, occupancy[:, :1])
        known_already = any(
            each.shape == occupancy.shape and np.allclose(each, occupancy) for _, each in found
        )
        if not even and not known_already:
            found.append((domain, occupancy))
    return [laws.domain_saturation(domain, occupancy) for domain, occupancy in found]


def readback(cohorts: Sequence[Json], windows: pd.DataFrame) -> list[Effective]:
    """What each launch asked for and got; of its cohorts, one with a failed check if there is one.

    Args:
        cohorts: The machine's cohorts.
        windows: Its rows of the table of windows.
    """
    shown: dict[str, Json] = {}
    for cohort in cohorts:
        got = cohort["readback"]
        if got is not None and (
            cohort["launch"] not in shown or not all(check["ok"] for check in got["checks"])
        ):
            shown[cohort["launch"]] = cohort
    paces = pace(windows)
    found = []
    for launch, cohort in shown.items():
        got = cohort["readback"]
        changes, counted, once = (got.get(name) for name in ("changes", "counted", "once"))
        settling = _settling([one for one in cohorts if one["launch"] == launch])
        asked = launch, cohort["label"], got["checks"], got["member"]
        found.append(Effective(*asked, changes, counted, once, paces.get(launch), settling))
    return found


def _settling(cohorts: Sequence[Json]) -> Settling | None:
    anew = [one["settled"] for one in cohorts if one.get("settled")]
    if not anew:
        return None
    measured = sum(bool(one["windows_valid"] or one["windows_invalid"]) for one in cohorts)
    changes = [records[0]["change"] for records in anew]
    left = sum(records[-1]["left"] is not None for records in anew)
    return Settling(len(anew), measured, min(changes), max(changes), left)


def provenance(cohorts: Sequence[Json], description: Json, samples: Json) -> Provenance:
    """Where a machine's numbers come from.

    Args:
        cohorts: Its cohorts.
        description: Its machine.json.
        samples: Of a step, by launch, where scripts say them.
    """
    ends = [cohort["end"] for cohort in cohorts if cohort["end"] is not None]
    measured = [each for each in cohorts if each["windows_valid"] or each["windows_invalid"]]
    return Provenance(
        description=description,
        versions=description["versions"],
        commit=description["commit"],
        measured_hashes=sorted({cohort["measured_hash"] for cohort in measured}),
        harness_hashes=sorted({cohort["harness_hash"] for cohort in measured}),
        started=min(cohort["started"] for cohort in cohorts),
        cohorts=len(cohorts),
        windows_valid=sum(cohort["windows_valid"] for cohort in cohorts),
        windows_invalid=sum(len(cohort["windows_invalid"]) for cohort in cohorts),
        steps=sum(cohort["steps"] for cohort in cohorts),
        wall_s=sum(end["wall_s"] for end in ends),
        in_windows_s=sum(end["in_windows_s"] for end in ends),
        samples=samples,
    )
