"""A machine as a report shows it: its analyses, tables and profiles."""

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pandas as pd

from scaling_study.common import tables
from scaling_study.common.quantities import known
from scaling_study.config.plan import Plan
from scaling_study.profiling import profiles
from scaling_study.records import analysis, machine
from scaling_study.records.codec import read_file
from scaling_study.records.columns import BETWEEN, POINTS
from scaling_study.records.experiment import Microbenchmarks
from scaling_study.records.profile import Profiled
from scaling_study.records.verdict import Causes, DataLoader, Target
from scaling_study.stats.interval import Interval

E = TypeVar("E", bound=analysis.OfMachine)

OTHER_NODES = ", other nodes"
"""Suffix of a machine's name, for nodes of this name that are another machine."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine, with its analyses, tables and profiles.

    Attributes:
        name: its name in the config; ``""`` in a study of one machine.
        suffix: suffix of its files' names; ``""`` for the first machine.
        points: its rows of tables/points, without the baseline's repeat.
        between: its rows of tables/between.
        profiled: its profiles, from `profiles.read_manifests`.
        targets: launches on which experiments were made, each once.
    """

    name: str
    suffix: str
    hardware: machine.Machine
    provenance: analysis.Provenance
    recommendation: analysis.Recommendation
    confirmation: analysis.Confirmation | None
    noise: analysis.Noise
    failures: analysis.Failures
    readback: analysis.EffectiveSettings
    scaling: analysis.Scaling
    single_changes: analysis.SingleChanges
    pareto: analysis.Pareto
    comparisons: tuple[analysis.Comparison, ...]
    profiled: tuple[Profiled, ...]
    targets: tuple[Target, ...]
    data_loader: DataLoader | None
    microbenchmarks: Microbenchmarks | None
    points: pd.DataFrame
    between: pd.DataFrame

    def point(self, launch: str, n: int | None = None) -> pd.Series | None:  # type: ignore[explicit-any]  # cells of several types
        """Return a launch's row of points at a count (its largest by default); None without one."""
        rows = self.points[self.points["launch"] == launch].sort_values("n")
        rows = rows if n is None else rows[rows["n"] == n]
        return None if rows.empty else rows.iloc[-1]

    @property
    def queued(self) -> str:
        """The launch script's arguments if forked models are the headline; empty otherwise."""
        forked = self.confirmation is not None and self.confirmation.start == "forked"
        return " --queue models.txt" if forked else ""


def estimate(row: Mapping[Hashable, float], column: str, scale: float = 1.0) -> Interval:
    """Return a cell of tables/points, with its interval if it comes from enough starts."""
    ends = (row.get(f"{column}_low"), row.get(f"{column}_high"))
    sure = row["replicates"] >= analysis.ENOUGH_STARTS and known(ends[0])
    return Interval(row[column], *(ends if sure else ())).times(scale)


def read_study(
    folder: Path, plan: Plan, compared: analysis.Compared | None = None
) -> list[Machine]:
    """Read all machines of a study: those that its config names, or those of this machine's study.

    Args:
        folder: results/<study>.
        plan: plan.json.
        compared: analysis/machines.json of a study that names machines.
    """
    if compared is None:
        return read_machines(folder, plan)
    return [
        machine
        for entry in compared.measured
        for machine in read_machines(
            folder / "machines" / entry.name, plan, name=entry.name, first=entry.machine
        )
    ]


def read_machines(folder: Path, plan: Plan, *, name: str = "", first: str = "") -> list[Machine]:
    """Read all machines of a folder.

    Args:
        folder: folder with tables, analysis and profile.
        plan: plan.json.
        name: the machine's name in the config; ``""`` in a study of this machine alone.
        first: hash of the machine that the name stands for; it comes first.
    """

    def made(name: str, kind: type[E], machine: str) -> E | None:
        """Return a machine's entry of an analysis file; None without the file or the entry."""
        path = folder / f"analysis/{name}.json"
        if not path.exists():
            return None
        content: analysis.Machines[E] = read_file(path, analysis.Machines[kind])  # type: ignore[valid-type]
        return content.of(machine)

    def entry(name: str, kind: type[E], machine: str) -> E:
        """Return a machine's entry of an analysis file; an empty one if there is none."""
        return made(name, kind, machine) or kind()

    points = tables.read_table(folder / "tables", POINTS)
    points = points[points["role"] != "repeat"]
    between = tables.read_table(folder / "tables", BETWEEN)
    asked = plan.profiled  # profiles of an earlier config may lie there
    folders = [one for one in profiles.profile_folders(folder) if one.name in asked]
    manifests = profiles.read_manifests(folders)
    path = folder / "microbenchmarks.json"
    alone = read_file(path, Microbenchmarks) if path.exists() else None
    machines: list[Machine] = []
    provenances = read_file(folder / "analysis/provenance.json", analysis.Analysed).machines
    for provenance in sorted(provenances, key=lambda one: one.machine != first):
        machine = provenance.machine
        other = f"-{re.sub(r'[^A-Za-z0-9_-]', '_', machine)}" if machines else ""
        loader = made("data_loader", DataLoader, machine)
        causes = entry("causes", Causes, machine)
        machines.append(
            Machine(
                name=f"{name}{OTHER_NODES}" if name and machines else name,
                suffix=f"-{name}{other}" if name else other,
                hardware=provenance.description,
                provenance=provenance,
                recommendation=entry("recommendation", analysis.Recommendation, machine),
                confirmation=made("confirmation", analysis.Confirmation, machine),
                noise=entry("noise", analysis.Noise, machine),
                failures=entry("failures", analysis.Failures, machine),
                readback=entry("readback", analysis.EffectiveSettings, machine),
                scaling=entry("scaling", analysis.Scaling, machine),
                single_changes=entry("single_changes", analysis.SingleChanges, machine),
                pareto=entry("pareto", analysis.Pareto, machine),
                comparisons=entry("inflation", analysis.Inflation, machine).comparisons,
                profiled=tuple(one for one in manifests if one.machine == machine),
                targets=tuple(one for one in causes.targets if one.same_as is None),
                data_loader=None if plan.data_loader == "off" else loader,
                microbenchmarks=alone if alone and alone.machine == machine else None,
                points=points[points["machine"] == machine],
                between=between[between["machine"] == machine],
            )
        )
    return machines
