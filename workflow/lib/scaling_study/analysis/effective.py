"""Settings that launches asked for and got, and whether steps change while a cohort trains.

A script can change its own speed: running averages of dead units decay into denormal numbers, or
batches grow with the epoch. The machine can change it too. A rate then holds only for the time that
the windows saw, and is too high or too low for a longer training.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from scaling_study.records.analysis import Effective, Settling
from scaling_study.records.cohorts import CohortSummary, Got
from scaling_study.stats.interval import Interval
from scaling_study.stats.throughputs import Start, fit

PART = 3
"""The first third of a cohort's windows is compared with the last third, or at least one window."""

COHORT = ["machine", "launch", "replicate", "cohort", "n"]
COLUMNS = [*COHORT, "window", "attempt", "valid", "step_median_s"]
"""The columns of the table of windows that are read."""


def readback(cohorts: Sequence[CohortSummary], windows: pd.DataFrame) -> list[Effective]:
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
        Effective(
            launch=launch,
            label=cohort.label,
            **{name: getattr(got, name) for name in Got.__struct_fields__},
            pace=paces.get(launch),
            settling=_settling([one for one in cohorts if one.launch == launch]),
        )
        for launch, cohort in shown.items()
        if (got := cohort.readback)
    ]


def _settling(cohorts: Sequence[CohortSummary]) -> Settling | None:
    anew = [one.settled for one in cohorts if one.settled]
    if not anew:
        return None
    changes = [records[0].change for records in anew]
    return Settling(
        cohorts=len(anew),
        of=sum(one.measured for one in cohorts),
        least=min(changes),
        most=max(changes),
        left=sum(records[-1].left is not None for records in anew),
    )


def pace(windows: pd.DataFrame) -> dict[str, Interval]:
    """Return the time of a step in later windows over that in earlier ones.

    Args:
        windows: One machine's rows of the table of windows, `COLUMNS` of them.

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
