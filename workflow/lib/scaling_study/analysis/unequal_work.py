"""Tests of whether steps are equal work. If they are not, a rate of steps cannot compare launches.

The length of an episode, a sequence or a tree can make one step a hundred times the work of
another. The rate of a window then depends on the steps in it more than on the launch. Three tests
detect this, each within one launch, where nothing but the work may differ:

repeat
    Starts of the baseline and its repeat differ, by more than the gain.
growth
    n processes have more than n times the throughput of one.
drift
    Windows of one start with the same processes differ, in most launches.

Waiting and interference change the time of a step as well, up to twentyfold. So the tests require
that the CPU time of a step changes along with it (or its instructions, if they are counted). A
thread that spins takes CPU time while it waits, so points with several threads per operator are
left out if they wait for CPUs. Phases such as a validation change the CPU time of a window, but
neither its median step nor a rate.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from scaling_study.common.quantities import format_ratio
from scaling_study.config.plan import Plan
from scaling_study.member.iterations import MARK
from scaling_study.records.analysis import Recommendation
from scaling_study.records.cohorts import CohortSummary
from scaling_study.stats.thresholds import CONFIDENCE

REPEATED = 1.5
"""Two starts of equal work differ by less than this factor in the CPU time of a step. Pages on
another NUMA node, or without huge pages, make some 1.3."""
GROWTH = 1.4
"""Throughput per process grows by less than this factor with equal work: shared caches make 1.3."""
DRIFTED = 2.0
"""With equal work, two windows of a start differ by less than this factor: a lower clock and
denormal numbers make some 1.5."""
WAITS = 0.1
"""Above this ratio of run-queue wait to user time, threads may be spinning for each other."""
PAIR = 2.5
"""A single pair of starts that differs by less than this factor shows nothing alone: a busy machine
makes 2."""
FEWEST_FREE = 2
"""Degrees of freedom that an estimate of how much windows or starts differ needs."""
START = ["launch", "n", "replicate"]
COLUMNS = [
    *("machine", *START, "cohort", "window", "attempt", "slot", "valid", "steps", "step_median_s"),
    *("user_s_per_step", "instructions_per_step"),
]
"""The columns of the table of windows that are read."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A sign that steps differ in work.

    Attributes:
        test: The test that found it.
        factor: By how much two starts (`repeat`) or windows (`drift`) typically differ; the speedup
            (`growth`).
        text: The same in words.
        free: Degrees of freedom of `repeat`, from which `explains` derives whether it explains a
            gain; 0 for the other tests.
    """

    test: Literal["repeat", "growth", "drift"]
    factor: float
    text: str
    free: int = 0


def unequal_work(
    points: pd.DataFrame,
    rates: pd.DataFrame,
    windows: pd.DataFrame,
    cohorts: Iterable[CohortSummary],
    plan: Plan,
) -> list[Finding]:
    """Return the signs that steps differ in work, per sample if the script counts samples.

    Args:
        points: One machine's rows of the table of points.
        rates: Its rows of the table of replicates.
        windows: Its rows of the table of windows, `COLUMNS` of them.
        cohorts: Its cohorts.
        plan: plan.json.
    """
    single = {
        cohort.launch
        for cohort in cohorts
        if cohort.readback and set(cohort.readback.intra_op) == {1}
    }
    waits = points["runqueue_s_per_step"] > WAITS * points["user_s_per_step"]
    judged = points[points["launch"].isin(single) | ~waits]
    rows = windows[windows["valid"]].merge(judged[["launch", "n"]])
    counted = bool(rows["instructions_per_step"].notna().all())
    work = rows["instructions_per_step" if counted else "user_s_per_step"]
    rows = rows.assign(work=work, whole=work * rows["steps"])[work > 0]
    sums = rows.groupby(START)[["whole", "steps"]].sum()
    starts = rates.set_index(START).join(sums, how="inner").reset_index()
    starts["time"] = -np.log(starts["steps_per_s"])
    starts["work"] = np.log(starts["whole"] / starts["steps"])
    rows = rows.assign(time=np.log(rows["step_median_s"]), work=np.log(rows["work"]))
    repeat, *others = _repeat(starts, plan), _growth(judged, starts), _drift(rows)
    signs = [sign for sign in others if sign is not None]
    if repeat is None:
        return signs
    one_pair = repeat.free < FEWEST_FREE and repeat.factor < PAIR
    return signs if one_pair and not signs else [repeat, *signs]


def _typical(rows: pd.DataFrame, groups: Sequence[str]) -> tuple[float, int]:
    """Return the factor by which two rows of a group typically differ, in time and work together.

    It is from the covariance of both within groups, so a change of only one of them is left out.

    Returns:
        The factor, and its degrees of freedom.
    """
    by_group = rows.groupby(list(groups))
    deviations = rows[["time", "work"]] - by_group[["time", "work"]].transform("mean")
    free = len(rows) - by_group.ngroups
    common = float((deviations["time"] * deviations["work"]).sum()) / max(1, free)
    return float(np.exp(np.sqrt(2 * max(0.0, common)))), free


def _repeat(starts: pd.DataFrame, plan: Plan) -> Finding | None:
    rows = starts[starts["launch"].isin([plan.baseline, plan.repeat])]
    factor, _ = _typical(rows, ["n"])
    if factor < REPEATED:
        return None
    text = f"two starts of the same launch typically differ by a factor of {factor:.3g}"
    free = len(rows.groupby(["launch", "replicate"])) - 1  # counts of a start are not independent
    return Finding("repeat", factor, text, free)


def _growth(points: pd.DataFrame, starts: pd.DataFrame) -> Finding | None:
    work = starts.groupby(["launch", "n"])["work"].mean()
    most, sign = GROWTH, None
    columns = points[["launch", "label", "n", "speedup", "speedup_low"]]
    for launch, label, n, value, low in columns.itertuples(index=False):
        if n == 1 or not {(launch, 1), (launch, n)} <= set(work.index):
            continue
        least = value if np.isnan(low) else low  # one start has no interval
        grown = min(least / n, float(np.exp(work[launch, 1] - work[launch, n])))
        if grown >= most:
            text = f"{n} processes give {format_ratio(value)} the throughput of one ({label})"
            most, sign = grown, Finding("growth", value, text)
    return sign


def _drift(rows: pd.DataFrame) -> Finding | None:
    """Return drift that most launches show: one may have its own reason, such as compilation."""
    starts = ["replicate", "cohort", "n", "slot"]
    typical = [_typical(group, starts) for _, group in rows.groupby("launch", sort=False)]
    spreads = [factor for factor, free in typical if free >= FEWEST_FREE]
    factor = statistics.median_low(spreads) if spreads else 1.0
    text = f"steps of two windows of one start typically differ by a factor of {factor:.3g}"
    return Finding("drift", factor, text) if factor >= DRIFTED else None


def explains(sign: Finding, chosen: Recommendation) -> bool:
    """Return whether steps of unequal work may explain the whole gain of a recommendation."""
    gain, best, against = chosen.ratio, chosen.recommended, chosen.compared
    if sign.test != "repeat" or gain is None or best is None or against is None:
        return True
    from scipy.stats import t  # noqa: PLC0415 (takes half a second, which few studies need)

    starts = best.replicates, against.replicates
    # The best of many launches is so partly by chance: Bonferroni's correction.
    chance = (1 - CONFIDENCE) / 2 / max(1, len(chosen.ranking) - 1)
    reach = float(t.ppf(1 - chance, sign.free)) * np.sqrt(sum(1 / count for count in starts) / 2)
    return bool(np.log(gain.value) <= reach * np.log(sign.factor))


def reason(signs: Sequence[Finding], plan: Plan) -> str:
    """Return in words that steps differ too much in work, by how much, and what to do.

    Args:
        signs: As `unequal_work` returns it.
        plan: plan.json.
    """
    per, remedy = "", (
        "Measure whole runs (workload.step: run) if one ends within a tenth of the budget."
        " Otherwise let the script count what each step processes, before its optimizer's step"
        " (from scaling_study import mark; mark(samples=len(batch))), and set"
        " workload.samples_per_step: mark. Then launches are compared by samples"
    )  # fmt: skip
    if plan.workload.samples_per_step == MARK:
        per, remedy = " per sample", (
            "Let the script mark as samples what its time goes with, such as tokens or actions"
        )  # fmt: skip
    return (
        f"steps differ too much in work{per} to compare launches:"
        f" {'; '.join(sign.text for sign in signs)}. The CPU time of a step differs along with its"
        f" time, so it is the work that differs, not the machine. {remedy}"
    )
