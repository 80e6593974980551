"""A machine as a report shows it: its analyses, tables and profiles."""

import re
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import TypeVar

import pandas as pd

from scaling_study.common.quantities import known
from scaling_study.config.plan import Plan
from scaling_study.profiling import profiles
from scaling_study.records import analysis, tables
from scaling_study.records.codec import read_file
from scaling_study.records.columns import BETWEEN, POINTS
from scaling_study.records.experiment import Microbenchmarks
from scaling_study.records.verdict import Causes, DataLoader
from scaling_study.stats.interval import Interval

E = TypeVar("E", bound=analysis.OfMachine)

OTHER_NODES = ", other nodes"
"""Suffix of a machine's name, for nodes of this name that are another machine."""


class MachineReport:
    """A machine, with its analyses, tables and profiles.

    Args:
        folder: folder with tables, analysis and profile.
        plan: plan.json.
        provenance: its entry of analysis/provenance.json.
        name: its name in the config; ``""`` in a study of one machine.
        suffix: suffix of its files' names; ``""`` for the first machine.

    Attributes:
        points: its rows of tables/points, without the baseline's repeat.
        between: its rows of tables/between.
        profiled: its profiles, from `profiles.read_manifests`.
        targets: launches on which experiments were made, each once.
    """

    def __init__(
        self, folder: Path, plan: Plan, provenance: analysis.Provenance, name: str, suffix: str
    ) -> None:
        machine = provenance.machine

        def lookup(name: str, kind: type[E]) -> E | None:
            """Return the entry of an analysis file; None without the file or the entry."""
            path = folder / f"analysis/{name}.json"
            if not path.exists():
                return None
            content: analysis.Machines[E] = read_file(path, analysis.Machines[kind])  # type: ignore[valid-type]
            return content.of(machine)

        def entry(name: str, kind: type[E]) -> E:
            """Return the entry of an analysis file; an empty one if there is none."""
            return lookup(name, kind) or kind()

        self.name, self.suffix, self.provenance = name, suffix, provenance
        self.hardware = provenance.description
        self.recommendation = entry("recommendation", analysis.Recommendation)
        self.confirmation = entry("confirmation", analysis.Confirmation)
        self.noise = entry("noise", analysis.Noise)
        self.failures = entry("failures", analysis.Failures)
        self.readback = entry("readback", analysis.EffectiveSettings)
        self.scaling = entry("scaling", analysis.Scaling)
        self.single_changes = entry("single_changes", analysis.SingleChanges)
        self.pareto = entry("pareto", analysis.Pareto)
        self.comparisons = entry("inflation", analysis.Inflation).comparisons
        self.targets = tuple(
            target for target in entry("causes", Causes).targets if target.same_as is None
        )
        self.data_loader = None if plan.data_loader == "off" else lookup("data_loader", DataLoader)
        path = folder / "microbenchmarks.json"
        alone = read_file(path, Microbenchmarks) if path.exists() else None
        self.microbenchmarks = alone if alone and alone.machine == machine else None
        # Profiles of an earlier config may lie there.
        folders = [path for path in profiles.profile_folders(folder) if path.name in plan.profiled]
        manifests = profiles.read_manifests(folders)
        self.profiled = tuple(manifest for manifest in manifests if manifest.machine == machine)
        points = tables.read_table(folder / "tables", POINTS)
        self.points = points[(points["role"] != "repeat") & (points["machine"] == machine)]
        between = tables.read_table(folder / "tables", BETWEEN)
        self.between = between[between["machine"] == machine]

    def point(self, launch: str, n: int | None = None) -> pd.Series | None:  # type: ignore[explicit-any]  # cells of several types
        """Return a launch's row of points at a count (its largest by default); None without one."""
        rows = self.points[self.points["launch"] == launch].sort_values("n")
        rows = rows if n is None else rows[rows["n"] == n]
        return None if rows.empty else rows.iloc[-1]

    @property
    def queued(self) -> str:
        """The launch script's arguments if forked models are the headline; empty otherwise."""
        return " --queue models.txt" if self.confirmation.start == "forked" else ""


def estimate(row: Mapping[Hashable, float], column: str, scale: float = 1.0) -> Interval:
    """Return a cell of tables/points, with its interval if it comes from enough starts."""
    ends = (row.get(f"{column}_low"), row.get(f"{column}_high"))
    sure = row["replicates"] >= analysis.ENOUGH_STARTS and known(ends[0])
    return Interval(row[column], *(ends if sure else ())).times(scale)


def read_study(
    folder: Path, plan: Plan, compared: analysis.Compared | None = None
) -> list[MachineReport]:
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


def read_machines(
    folder: Path, plan: Plan, *, name: str = "", first: str = ""
) -> list[MachineReport]:
    """Read all machines of a folder.

    Args:
        folder: folder with tables, analysis and profile.
        plan: plan.json.
        name: the machine's name in the config; ``""`` in a study of this machine alone.
        first: hash of the machine that the name stands for; it comes first.
    """
    machines: list[MachineReport] = []
    provenances = read_file(folder / "analysis/provenance.json", analysis.Analysed).machines
    for provenance in sorted(provenances, key=lambda entry: entry.machine != first):
        other = re.sub(r"[^A-Za-z0-9_-]", "_", f"-{provenance.machine}") if machines else ""
        suffix = f"-{name}{other}" if name else other
        nodes = OTHER_NODES if name and machines else ""
        machines.append(MachineReport(folder, plan, provenance, f"{name}{nodes}", suffix))
    return machines
