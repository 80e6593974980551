"""From the steps of a launch to its rates: the ordinary step, what lies between, the throughput.

A member's throughput is its iterations over the time that they took, with all that lies between
them: the windows' steps are whole, and which of them count does not depend on how long they take
(`windows.counted_steps`), so the sum of steps over the sum of time is consistent. Phases that come
back enter as their number per step times their duration (``non_step``).
"""

import dataclasses

import numpy as np
import pandas as pd

from scaling_study.analysis.member_rows import STEP_QUANTILES, US_PER_S
from scaling_study.runner import non_step
from scaling_study.stats.intervals import Integers

KEY = ["n", "replicate"]
REPLICATE_COLUMNS = ["n", "replicate", "windows", "steps_per_s", "step_s", "non_step_share"]
BETWEEN_COLUMNS = ["n", "kind", "every_steps", "duration_s", "share", "seen"]


@dataclasses.dataclass(frozen=True, slots=True)
class Rates:
    """The rates of one launch on one machine.

    Attributes:
        replicates: `REPLICATE_COLUMNS`, a row per process count and replicate.
        between: `BETWEEN_COLUMNS`, a row per process count and kind of phase that comes back.
        quantiles: n and `STEP_QUANTILES` of all counted steps, a row per process count.
    """

    replicates: pd.DataFrame
    between: pd.DataFrame
    quantiles: pd.DataFrame


def rates(rows: pd.DataFrame) -> Rates:
    """Return the rates of a launch.

    Args:
        rows: Its rows of `member_rows` on one machine; and `work`: that of a step, 1 where all are
            alike.
    """
    valid = rows[rows["valid"]]
    counted = _counted(valid)
    labels = np.zeros(len(counted), dtype=np.int64)
    kinds: tuple[non_step.Kind, ...] = ()
    known = pd.DataFrame(columns=["n", "replicate", "us", "label"])
    if _looks_long(counted) and rows["life"].notna().all():
        kinds, labels, known = _kinds(rows)
    counted["label"] = labels
    step_s = _ordinary(counted)
    ordinary_s = step_s.mean(axis=1)
    excess = _excess(known, ordinary_s) if kinds else pd.DataFrame(index=ordinary_s.index)
    described = pd.DataFrame(
        {number: dataclasses.asdict(kind) for number, kind in enumerate(kinds, 1)},
        index=["every", "per_step", "seen"],
        columns=excess.columns,
    ).T
    return Rates(
        _replicates(valid, step_s, excess.mul(described["per_step"]).sum(axis=1)),
        _between(ordinary_s, excess, described),
        _quantiles(valid),
    )


def _quantiles(valid: pd.DataFrame) -> pd.DataFrame:
    """Quantiles of all counted steps (s) by process count; work divides the time of a step."""
    found = []
    for n, own in valid.groupby("n"):
        works = np.repeat(own["work"].to_numpy(), own["step_us"].map(len))
        step_us = np.rint(np.concatenate(own["step_us"].to_list()) / works)
        found.append((n, *np.quantile(step_us, [*STEP_QUANTILES.values()]) / US_PER_S))
    quantiles = pd.DataFrame(found, columns=["n", *STEP_QUANTILES], dtype=np.float64)
    return quantiles.astype({"n": np.int64})


def _work(valid: pd.DataFrame) -> pd.DataFrame:
    """Work of the mean counted step, by `KEY`, a column for each slot."""
    rows = valid.assign(whole=valid["work"] * valid["steps"])
    sums = rows.groupby([*KEY, "slot"])[["whole", "steps"]].sum()
    return (sums["whole"] / sums["steps"]).unstack("slot")  # noqa: PD010 (pivot_table is slow)


def _counted(valid: pd.DataFrame) -> pd.DataFrame:
    """Counted steps of valid rows, one after the other: `n`, `replicate`, `slot`, `us`."""
    sizes = valid["step_us"].map(len)
    counted = valid.loc[valid.index.repeat(sizes), ["n", "replicate", "slot"]].astype(np.int64)
    step_us = np.concatenate([np.empty(0, np.int64), *valid["step_us"]])
    return counted.assign(us=step_us).reset_index(drop=True)


def _looks_long(counted: pd.DataFrame) -> bool:
    """Whether there are long steps at all: most scripts have none, and most files are large."""
    if counted.empty:
        return False
    usual = counted.groupby("n")["us"].transform("median")
    long_us = counted["us"][counted["us"] >= non_step.LONG * usual].sum()
    return bool(long_us >= non_step.WORTH_SHARE / 2 * counted["us"].sum())


def _ordinary(counted: pd.DataFrame) -> pd.DataFrame:
    """Mean ordinary step (s) by `KEY`, a column for each slot.

    Where a slot has none, that of the other slots stands for it; where none has, all its steps do.
    """
    by_slot = [*KEY, "slot"]
    whole = counted.groupby(by_slot)["us"].mean()
    found = counted[counted["label"] == 0].groupby(by_slot)["us"].mean().reindex(whole.index)
    found = found.fillna(found.groupby(KEY).transform("mean")).fillna(whole)
    return (found / US_PER_S).unstack("slot")  # noqa: PD010 (pivot_table is slow)


def _kinds(rows: pd.DataFrame) -> tuple[tuple[non_step.Kind, ...], Integers, pd.DataFrame]:
    """Find what comes back in all steps that are known, those of invalid windows too.

    Returns:
        The kinds, the label of each counted step of valid rows in their order, and of every step
        of valid rows `n`, `replicate`, `us`, `label`.
    """
    members = rows.groupby(["replicate", "cohort", "slot"], sort=False).ngroup()
    parts, counted, usable = [], [], []
    columns = (rows[name] for name in ("n", "valid", "life", "step_us"))
    for member, n, valid, life, step_us in zip(members, *columns, strict=True):
        steps, inside = non_step.member_steps(int(member), int(n), life, step_us)
        anywhere = valid & ~steps.fresh
        within = np.zeros_like(anywhere)
        within[inside] = anywhere[inside]
        anywhere[inside.stop :][-1:] = False  # perhaps beside fewer members
        parts.append(steps)
        counted.append(within)
        usable.append(anywhere)
    steps = non_step.Steps.concat(parts)
    found = non_step.find(steps)
    replicate = np.repeat(rows["replicate"].to_numpy(), [len(one) for one in usable])
    known = pd.DataFrame(
        {"n": steps.n, "replicate": replicate, "us": steps.us, "label": found.labels}
    )
    return (
        found.kinds,
        found.labels[np.concatenate(counted)],
        known[np.concatenate(usable)],
    )


def _excess(known: pd.DataFrame, ordinary_s: "pd.Series[float]") -> pd.DataFrame:
    """How much longer the steps of each kind take than ordinary ones (s), by `KEY`.

    Where a replicate has seen none, the mean of the launch at that count stands for it; where no
    replicate has, that of the nearest count, in proportion to the ordinary step. A kind that no
    window has seen that counts is left out.

    Returns:
        A column for each kind.
    """
    long = known[known["label"] > 0]
    long_s = long.pivot_table(index=KEY, columns="label", values="us") / US_PER_S
    excess = long_s.sub(ordinary_s, axis=0).reindex(ordinary_s.index)
    usual = ordinary_s.groupby("n").mean()
    by_n = excess.groupby("n").mean().div(usual, axis=0)
    by_n = by_n.apply(lambda one: one.dropna().reindex(one.index, method="nearest"))
    of_count = by_n.mul(usual, axis=0).reindex(excess.index.get_level_values("n"))
    return excess.fillna(of_count.set_axis(excess.index))


def _replicates(
    valid: pd.DataFrame, step_s: pd.DataFrame, added_s: "pd.Series[float]"
) -> pd.DataFrame:
    """Rates by `KEY`; a step is one of the launch's mean work.

    Args:
        valid: Rows that count.
        step_s: Of `_ordinary`.
        added_s: By how much phases between steps make the mean step longer, by `KEY`.
    """
    work, members = _work(valid), step_s.count(axis=1)
    steps_per_s = (work / step_s.add(added_s, axis=0)).sum(axis=1)
    usual = members / (work / step_s).sum(axis=1)
    found = pd.DataFrame(
        {
            "windows": valid.groupby([*KEY, "cohort", "window", "attempt"])
            .size()
            .groupby(KEY)
            .size(),
            "steps_per_s": steps_per_s,
            "step_s": usual,
            "non_step_share": 1 - usual * steps_per_s / members,
        }
    )
    return found.reset_index()[REPLICATE_COLUMNS]


def _between(
    ordinary_s: "pd.Series[float]", excess: pd.DataFrame, kinds: pd.DataFrame
) -> pd.DataFrame:
    """Return the phases between steps, by process count."""
    if kinds.empty:
        return pd.DataFrame(columns=BETWEEN_COLUMNS)
    duration_s = excess.groupby("n").mean()
    per_step_s = duration_s.mul(kinds["per_step"])
    whole_s = ordinary_s.groupby("n").mean() + per_step_s.sum(axis=1)
    found = duration_s.reset_index().melt("n", var_name="kind", value_name="duration_s")
    share = per_step_s.div(whole_s, axis=0).reset_index().melt("n", value_name="share")
    found = found.assign(share=share["share"]).join(kinds, on="kind")
    return found.rename(columns={"every": "every_steps"}).sort_values(["n", "kind"])[
        BETWEEN_COLUMNS
    ]
