"""All that a report shows of a machine: what the analyses have found, its tables and profiles."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from scaling_study.common import storage
from scaling_study.profiling import profiles
from scaling_study.records.analysis import (
    Analysed,
    Comparison,
    Confirmation,
    EffectiveSettings,
    Failures,
    Inflation,
    Machines,
    Noise,
    OfMachine,
    Pareto,
    Provenance,
    Recommendation,
    Scaling,
    SingleChanges,
)
from scaling_study.records.codec import read_file
from scaling_study.records.columns import BETWEEN, POINTS, WINDOWS
from scaling_study.records.experiment import Microbenchmarks
from scaling_study.records.verdict import Causes, DataLoader, Target

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from scaling_study.config.plan import Plan
    from scaling_study.records import machine
    from scaling_study.records.profile import Profiled

E = TypeVar("E", bound=OfMachine)

MEMBER_COLUMNS = ["machine", "launch", "n", "slot", "valid", "step_mean_s"]
"""What ``compare_members`` reads of tables/windows."""
OTHER_NODES = ", other nodes"
"""Behind a machine's name: nodes under it that are another machine."""


@dataclass(frozen=True, slots=True)
class Machine:
    """All that a study knows of one machine.

    Attributes:
        name: what the config calls it; ``""`` in a study of one machine.
        suffix: of its files' names; ``""`` for the first machine.
        points: its rows of tables/points, without the baseline's repeat.
        between: its rows of tables/between.
        members: of `compare_members`.
        profiled: of `profiles.read_manifests`.
        targets: launches on which experiments were made, each once.
    """

    name: str
    suffix: str
    hardware: machine.Machine
    provenance: Provenance
    recommendation: Recommendation
    confirmation: Confirmation | None
    noise: Noise
    failures: Failures
    readback: EffectiveSettings
    scaling: Scaling
    single_changes: SingleChanges
    pareto: Pareto
    comparisons: tuple[Comparison, ...]
    profiled: tuple[Profiled, ...]
    targets: tuple[Target, ...]
    data_loader: DataLoader | None
    microbenchmarks: Microbenchmarks | None
    points: pd.DataFrame
    between: pd.DataFrame
    members: pd.DataFrame

    def point(self, launch: str, n: int | None = None) -> pd.Series | None:  # type: ignore[explicit-any]  # cells of several types
        """Return a launch's row of points at a count (its largest by default); None without one."""
        rows = self.points[self.points["launch"] == launch].sort_values("n")
        rows = rows if n is None else rows[rows["n"] == n]
        return None if rows.empty else rows.iloc[-1]

    @property
    def queued(self) -> str:
        """What follows the launch script's name where forked models are the headline."""
        forked = self.confirmation is not None and self.confirmation.start == "forked"
        return " --queue models.txt" if forked else ""


def read_machines(folder: Path, plan: Plan, *, name: str = "", first: str = "") -> list[Machine]:
    """Read all machines of a folder.

    Args:
        folder: that holds tables, analysis and profile.
        plan: plan.json.
        name: of the machine in the config; ``""`` in a study of this machine alone.
        first: hash of the machine that comes first, which the name stands for.
    """
    analysis = folder / "analysis"

    def entries(name: str, kind: type[E]) -> dict[str, E]:
        """Return what an analysis file holds, by machine; nothing where it is not made."""
        path = analysis / f"{name}.json"
        if not path.exists():
            return {}
        content: Machines[E] = read_file(path, Machines[kind])  # type: ignore[valid-type]
        return {one.machine: one for one in content.machines}

    points = storage.read_table(folder / "tables", POINTS)
    points = points[points["role"] != "repeat"]
    between = storage.read_table(folder / "tables", BETWEEN)
    members = compare_members(storage.read_columns(folder / "tables", WINDOWS, MEMBER_COLUMNS))
    asked = plan.profiled  # profiles of an earlier config may lie there
    folders = [one for one in profiles.profile_folders(folder) if one.name in asked]
    manifests = profiles.read_manifests(folders)
    path = folder / "microbenchmarks.json"
    alone = read_file(path, Microbenchmarks) if path.exists() else None
    machines: list[Machine] = []
    provenances = read_file(analysis / "provenance.json", Analysed).machines
    for provenance in sorted(provenances, key=lambda one: one.machine != first):
        machine = provenance.machine
        suffix = f"-{name}" if name else ""
        loader = entries("data_loader", DataLoader).get(machine)
        targets = entries("causes", Causes).get(machine, Causes()).targets
        machines.append(
            Machine(
                name=f"{name}{OTHER_NODES}" if name and machines else name,
                suffix=f"{suffix}-{re.sub(r'[^A-Za-z0-9_-]', '_', machine)}"
                if machines
                else suffix,
                hardware=provenance.description,
                provenance=provenance,
                recommendation=entries("recommendation", Recommendation)[machine],
                confirmation=entries("confirmation", Confirmation).get(machine),
                noise=entries("noise", Noise).get(machine, Noise()),
                failures=entries("failures", Failures).get(machine, Failures()),
                readback=entries("readback", EffectiveSettings).get(machine, EffectiveSettings()),
                scaling=entries("scaling", Scaling).get(machine, Scaling()),
                single_changes=entries("single_changes", SingleChanges).get(
                    machine, SingleChanges()
                ),
                pareto=entries("pareto", Pareto).get(machine, Pareto()),
                comparisons=entries("inflation", Inflation).get(machine, Inflation()).comparisons,
                profiled=tuple(one for one in manifests if one.machine == machine),
                targets=tuple(one for one in targets if one.same_as is None),
                data_loader=None if plan.data_loader == "off" else loader,
                microbenchmarks=alone if alone and alone.machine == machine else None,
                points=points[points["machine"] == machine],
                between=between[between["machine"] == machine],
                members=members[members["machine"] == machine],
            )
        )
    return machines


def compare_members(windows: pd.DataFrame) -> pd.DataFrame:
    """Mean step time of every member against its cohort's, at each launch's largest n.

    Args:
        windows: rows of tables/windows, ``MEMBER_COLUMNS``.

    Returns:
        Columns ``machine``, ``launch``, ``n``, ``slot``, ``relative`` (0.02: two percent slower
        than the mean of the members).
    """
    valid = windows[windows["valid"].astype(bool) & (windows["n"] > 1)]
    largest = valid.groupby(["machine", "launch"])["n"].transform("max")
    point = ["machine", "launch", "n"]
    rows = valid[valid["n"] == largest].groupby([*point, "slot"])["step_mean_s"]
    members = rows.mean().to_frame("step_mean_s").reset_index()
    mean_s = members.groupby(point)["step_mean_s"].transform("mean")
    members["relative"] = members["step_mean_s"] / mean_s - 1
    return members[[*point, "slot", "relative"]]
