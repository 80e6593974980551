"""The boundary of the machine that the knee of a launch's scaling law coincides with.

A knee coincides with a boundary if its interval contains that boundary and no other, and lies close
around it. A knee with a wide interval, or of a law without a sharp bend, coincides with none.
"""

from pathlib import Path

import pandas as pd

from scaling_study.analysis.laws import SHARP
from scaling_study.config.process_counts import boundaries
from scaling_study.records.analysis import ChosenLaw, Machines, Scaling
from scaling_study.records.codec import read_file
from scaling_study.records.machine import Machine
from scaling_study.records.verdict import Boundary

CLOSE = 1.15
"""A knee's interval must lie within this factor of the boundary that it coincides with."""
ONE_CPU = 1.25
"""A member that keeps no more CPUs busy than this needs one."""


def read_law(study_folder: Path, machine: str, launch: str) -> ChosenLaw | None:
    """Return a launch's scaling law; None where it has no knee, or nothing was analysed.

    Args:
        study_folder: results/<study>, or a machine's.
        machine: hash.
        launch: id.
    """
    path = study_folder / "analysis/scaling.json"
    entries = read_file(path, Machines[Scaling]).machines if path.exists() else ()
    for entry in entries:
        for one in entry.launches:
            if (entry.machine, one.launch) == (machine, launch) and one.laws.knee:
                return one.laws
    return None


def coinciding(
    law: ChosenLaw, points: pd.DataFrame, machine: Machine, cpus_per_process: float | None = None
) -> Boundary | None:
    """Return the only boundary in a sharp knee's interval, if the interval is close around it.

    Args:
        law: scaling law of a launch on a machine.
        points: rows of tables/points for this launch and machine.
        machine: machine.json.
        cpus_per_process: CPUs that a member needs; without it a launch whose members keep more
            than one CPU busy is compared with no boundary.
    """
    if cpus_per_process is None:
        first = points.sort_values("n").iloc[0]
        if not first["cpu_use"] / first["n"] <= ONE_CPU:
            return None
        cpus_per_process = 1.0
    low, high = (law.knee.low, law.knee.high) if law.knee else (None, None)
    if law.best not in SHARP or low is None or high is None:
        return None
    quota = machine.quota_cpus
    limits: dict[float, str] = {
        n: ", ".join(names)
        for n, names in boundaries(machine.usable, None).items()
        if quota is None or n < quota
    }
    if quota is not None:
        limits[quota] = "CPU quota"
    inside = [
        Boundary(name, n / cpus_per_process)
        for n, name in limits.items()
        if n > cpus_per_process and low <= n / cpus_per_process <= high
    ]
    if len(inside) != 1 or low * CLOSE < inside[0].n or high > inside[0].n * CLOSE:
        return None
    return inside[0]
