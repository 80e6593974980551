"""What the folder of a named machine holds, as far as it is through with this plan."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from scaling_study.common import storage
from scaling_study.common.objectives import OBJECTIVES
from scaling_study.config.plan import Plan
from scaling_study.records import codec
from scaling_study.records.analysis import (
    Analysed,
    Machines,
    Noise,
    Provenance,
    Recommendation,
)
from scaling_study.records.cohorts import Cohorts
from scaling_study.records.columns import REPLICATES
from scaling_study.records.machine import Machine
from scaling_study.records.window import DECODER, Cohort
from scaling_study.stats.intervals import LogMean, Means


@dataclass(frozen=True, slots=True)
class Results:
    """What is known of one machine, as far as it is measured with this plan.

    Attributes:
        hash: of the machine; where nodes differ, of the one with most cohorts.
        recommendation: its entry of analysis/recommendation.json.
        provenance: of analysis/provenance.json.
        noise: its entry of analysis/noise.json, the A/A check.
        rates: its rows of the table of replicates.
        hosts: names of the nodes by hash, with the number of cohorts that each measured.
        descriptions: machine.json by hash.
    """

    hash: str
    recommendation: Recommendation
    provenance: Provenance
    noise: Noise
    rates: pd.DataFrame
    hosts: Mapping[str, Mapping[str, int]]
    descriptions: Mapping[str, Machine]

    @property
    def objective(self) -> str:
        """What machines are compared by: an hour's price is that of all that it gives."""
        return OBJECTIVES[self.recommendation.objective].rate

    def recommended_rate(self) -> LogMean | None:
        """Return what the recommended point gives; None without one."""
        chosen = self.recommendation.recommended
        return None if chosen is None else Means(self.rates, self.objective).of(*chosen.at)


def read_results(folder: Path, plan: Plan) -> Results | str:
    """Read what a machine's folder holds; where that is not enough, say what is missing.

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
    """Read what was analysed; None if that was another plan, or other records than are there."""
    analysis = folder / "analysis"
    recommendations = codec.read_file(analysis / "recommendation.json", Machines[Recommendation])
    noises = codec.read_file(analysis / "noise.json", Machines[Noise])
    provenance = codec.read_file(analysis / "provenance.json", Analysed)
    study = codec.read_file(folder / "tables/cohorts.json", Cohorts)
    if provenance.plan != plan.to_dict() or _measured_since(folder, study):
        return None
    hosts: dict[str, dict[str, int]] = {}
    for cohort in study.cohorts:
        counts = hosts.setdefault(cohort.machine, {})
        counts[cohort.host] = counts.get(cohort.host, 0) + 1
    machine = max(hosts, key=lambda hash_: sum(hosts[hash_].values()))
    rates = storage.read_table(folder / "tables", REPLICATES)
    recommendation, noise = recommendations.of(machine), noises.of(machine)
    own = provenance.of(machine)
    if recommendation is None or noise is None or own is None:
        return None
    return Results(
        machine,
        recommendation,
        own,
        noise,
        rates[rates["machine"] == machine],
        hosts,
        study.machines,
    )


def _measured_since(folder: Path, study: Cohorts) -> bool:
    """Whether a record file is another than the one that was collected; copies keep no times."""
    started: dict[str, str] = {}
    for cohort in study.cohorts:
        started.setdefault(cohort.file, cohort.started)
    for file, time in started.items():
        _, head = next(codec.read(folder / file, DECODER))
        if not isinstance(head, Cohort) or head.started != time:
            return True
    return False


def folders(study_folder: Path, names: Iterable[str]) -> dict[str, Path]:
    """Folder of each machine of a study."""
    return {name: study_folder / "machines" / name for name in names}
