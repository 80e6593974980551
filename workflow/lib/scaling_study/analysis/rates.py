"""From the steps of a launch to its rates: the ordinary step, phases between steps, the throughput.

A member's throughput is its iterations over the time that they took, including all time between
them. Windows have whole steps, and whether a step counts does not depend on how long it takes
(`windows.counted_steps`), so the sum of steps over the sum of time is consistent. Phases that recur
enter as their number per step times their duration (``non_step``).
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pandas as pd

from scaling_study.analysis.record_rows import STEP_QUANTILES, US_PER_S
from scaling_study.runner import non_step
from scaling_study.stats.interval import Integers

KEY = ["n", "replicate"]
REPLICATE_COLUMNS = ["n", "replicate", "windows", "steps_per_s", "step_s", "non_step_share"]
BETWEEN_COLUMNS = ["n", "kind", "every_steps", "duration_s", "share", "seen"]


def rates(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the rates of a launch on one machine.

    Args:
        rows: Its rows of `member_rows`, with a column `work`: the work of a step, 1 where all are
            alike.

    Returns:
        `replicates`, with `REPLICATE_COLUMNS`, a row per process count and replicate; `between`,
        with `BETWEEN_COLUMNS`, a row per process count and kind of phase that recurs; and
        `quantiles`, with n and `STEP_QUANTILES` of all counted steps, a row per process count.
    """
    valid = rows[rows["valid"]]
    kinds: tuple[non_step.PhaseKind, ...] = ()
    labels, known = [np.zeros_like(step_us) for step_us in valid["step_us"]], pd.DataFrame()
    quantiles, looks_long = _distribution(valid)
    if looks_long and rows["life"].notna().all():
        kinds, labels, known = _kinds(rows)
    step_s, work = _ordinary(valid, labels)
    ordinary_s = step_s.mean(axis=1)
    excess = _excess(known, ordinary_s) if kinds else pd.DataFrame(index=ordinary_s.index)
    described = pd.DataFrame(
        {number: dataclasses.asdict(kind) for number, kind in enumerate(kinds, 1)},
        index=["every", "per_step", "seen"],
        columns=excess.columns,
    ).T
    replicates = _replicates(step_s, work, excess.mul(described["per_step"]).sum(axis=1))
    replicates["windows"] = valid[valid["slot"] == 0].groupby(KEY).size()
    return {
        "replicates": replicates.reset_index()[REPLICATE_COLUMNS],
        "between": _between(ordinary_s, excess, described),
        "quantiles": quantiles,
    }


def _distribution(valid: pd.DataFrame) -> tuple[pd.DataFrame, bool]:
    """Return the quantiles of all counted steps, and whether some steps are long at all.

    Only long steps are searched for phases: most scripts have none, and most files are large.

    Returns:
        The `quantiles` of `rates`, in which work divides the time of a step; and whether the long
        steps take enough time to be searched.
    """
    rows, long_us, whole_us = [], 0.0, 0.0
    for n, group in valid.groupby("n"):
        step_us = np.concatenate(group["step_us"].to_list())
        whole_us += step_us.sum()
        long_us += step_us[step_us >= non_step.LONG * np.median(step_us)].sum()
        works = np.repeat(group["work"].to_numpy(), group["step_us"].map(len))
        quantiles = np.quantile(np.rint(step_us / works), [*STEP_QUANTILES.values()])
        rows.append((n, *quantiles / US_PER_S))
    table = pd.DataFrame(rows, columns=["n", *STEP_QUANTILES], dtype=np.float64)
    looks_long = whole_us > 0 and long_us >= non_step.WORTH_SHARE / 2 * whole_us
    return table.astype({"n": np.int64}), looks_long


def _ordinary(valid: pd.DataFrame, labels: Sequence[Integers]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the mean ordinary step (s) and the mean work of a step, by `KEY`, a column per slot.

    A slot without an ordinary step gets the mean of the other slots. If no slot has one, each gets
    the mean of all its steps.

    Args:
        valid: Rows that count.
        labels: Labels of the counted steps of each row: 0 for an ordinary one.
    """
    usual = [step_us[of == 0] for step_us, of in zip(valid["step_us"], labels, strict=True)]
    rows = valid.assign(
        whole_us=valid["step_us"].map(np.sum),
        usual_us=[step_us.sum() for step_us in usual],
        usual=[step_us.size for step_us in usual],
        work=valid["work"] * valid["steps"],
    )
    sums = rows.groupby([*KEY, "slot"])[["whole_us", "usual_us", "usual", "work", "steps"]].sum()
    mean_us = sums["usual_us"] / sums["usual"]
    mean_us = mean_us.fillna(mean_us.groupby(KEY).transform("mean"))
    step_s = mean_us.fillna(sums["whole_us"] / sums["steps"]) / US_PER_S
    work = sums["work"] / sums["steps"]
    return step_s.unstack("slot"), work.unstack("slot")  # noqa: PD010 (pivot_table is slow)


def _kinds(
    rows: pd.DataFrame,
) -> tuple[tuple[non_step.PhaseKind, ...], list[Integers], pd.DataFrame]:
    """Find phases that recur, in all steps that are known, including those of invalid windows.

    Returns:
        The kinds; the labels of the counted steps of each valid row; and `n`, `replicate`, `us` and
        `label` of each step of valid rows whose time can be used.
    """
    members = rows.groupby(["replicate", "cohort", "slot"], sort=False).ngroup()
    parts, counted, usable = [], [], []
    columns = (rows[name] for name in ("n", "valid", "life", "step_us"))
    for member, n, valid, life, step_us in zip(members, *columns, strict=True):
        steps, inside = non_step.member_steps(int(member), int(n), life, step_us)
        anywhere = valid & ~steps.fresh
        within = np.zeros_like(anywhere)
        within[inside] = anywhere[inside]
        anywhere[inside.stop :][-1:] = False  # may have run beside fewer members
        parts.append(steps)
        counted.append(within)
        usable.append(anywhere)
    steps = non_step.LaunchSteps.concat(parts)
    phases = non_step.find(steps)
    sizes = [len(mask) for mask in usable]
    replicate = np.repeat(rows["replicate"].to_numpy(), sizes)
    known = pd.DataFrame(
        {"n": steps.n, "replicate": replicate, "us": steps.us, "label": phases.labels}
    )
    of_rows = zip(
        np.split(phases.labels, np.cumsum(sizes)[:-1]), counted, rows["valid"], strict=True
    )
    labels = [row_labels[within] for row_labels, within, valid in of_rows if valid]
    return phases.kinds, labels, known[np.concatenate(usable)]


def _excess(known: pd.DataFrame, ordinary_s: "pd.Series[float]") -> pd.DataFrame:
    """Return how much longer the steps of each kind take than ordinary ones (s), by `KEY`.

    A replicate that has seen none gets the mean of the launch at that count. If no replicate has,
    it gets that of the nearest count, in proportion to the ordinary step. A kind that no valid
    window has seen is left out.

    Returns:
        A column for each kind.
    """
    long = known[known["label"] > 0]
    long_s = long.pivot_table(index=KEY, columns="label", values="us") / US_PER_S
    excess = long_s.sub(ordinary_s, axis=0).reindex(ordinary_s.index)
    usual = ordinary_s.groupby("n").mean()
    by_n = excess.groupby("n").mean().div(usual, axis=0)
    by_n = by_n.apply(lambda column: column.dropna().reindex(column.index, method="nearest"))
    of_count = by_n.mul(usual, axis=0).reindex(excess.index.get_level_values("n"))
    return excess.fillna(of_count.set_axis(excess.index))


def _replicates(
    step_s: pd.DataFrame, work: pd.DataFrame, added_s: "pd.Series[float]"
) -> pd.DataFrame:
    """Return rates by `KEY`, in steps of the launch's mean work.

    Args:
        step_s: The mean ordinary steps that `_ordinary` returns.
        work: The mean work that `_ordinary` returns.
        added_s: Time that phases between steps add to the mean step, by `KEY`.
    """
    members = step_s.count(axis=1)
    steps_per_s = (work / step_s.add(added_s, axis=0)).sum(axis=1)
    usual = members / (work / step_s).sum(axis=1)
    share = 1 - usual * steps_per_s / members
    return pd.DataFrame({"steps_per_s": steps_per_s, "step_s": usual, "non_step_share": share})


def _between(
    ordinary_s: "pd.Series[float]", excess: pd.DataFrame, kinds: pd.DataFrame
) -> pd.DataFrame:
    """Return the phases between steps, by process count."""
    if kinds.empty:
        return pd.DataFrame(columns=BETWEEN_COLUMNS)
    duration_s = excess.groupby("n").mean()
    per_step_s = duration_s.mul(kinds["per_step"])
    whole_s = ordinary_s.groupby("n").mean() + per_step_s.sum(axis=1)
    phases = duration_s.reset_index().melt("n", var_name="kind", value_name="duration_s")
    share = per_step_s.div(whole_s, axis=0).reset_index().melt("n", value_name="share")
    phases = phases.assign(share=share["share"]).join(kinds, on="kind")
    return phases.rename(columns={"every": "every_steps"}).sort_values(["n", "kind"])[
        BETWEEN_COLUMNS
    ]
