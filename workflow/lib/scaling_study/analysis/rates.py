"""From the steps of a launch to its rates: the ordinary step, what lies between, the throughput.

A member's throughput is its iterations over the time that they took, with all that lies between
them: the windows' steps are whole, and which of them count does not depend on how long they take
(`windows.counted_steps`), so the sum of steps over the sum of time is consistent. Phases that come
back enter as their number per step times their duration (``non_step``).
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pandas as pd

from scaling_study.analysis.record_rows import STEP_QUANTILES, US_PER_S
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
        rows: Its rows of `window_rows` on one machine; and `work`: that of a step, 1 where all are
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
    excess = _excess(kinds, known, step_s)
    work = _work(valid).reindex(step_s.index)
    return Rates(
        _replicates(valid, step_s, excess, kinds, work),
        _between(step_s, excess, kinds),
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


def _work(valid: pd.DataFrame) -> "pd.Series[float]":
    """Work of the mean counted step, by `KEY` and slot."""
    rows = valid.assign(whole=valid["work"] * valid["steps"])
    sums = rows.groupby([*KEY, "slot"])[["whole", "steps"]].sum()
    return sums["whole"] / sums["steps"]


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


def _ordinary(counted: pd.DataFrame) -> "pd.Series[float]":
    """Mean ordinary step (s) by `KEY` and slot.

    Where a slot has none, that of the other slots stands for it; where none has, all its steps do.
    """
    by_slot = [*KEY, "slot"]
    whole = counted.groupby(by_slot)["us"].mean()
    found = counted[counted["label"] == 0].groupby(by_slot)["us"].mean().reindex(whole.index)
    found = found.fillna(found.groupby(KEY).transform("mean")).fillna(whole)
    return found / US_PER_S


def _kinds(rows: pd.DataFrame) -> tuple[tuple[non_step.Kind, ...], Integers, pd.DataFrame]:
    """Find what comes back in all steps that are known, those of invalid windows too.

    Returns:
        The kinds, the label of each counted step of valid rows in their order, and of every step
        of valid rows `n`, `replicate`, `us`, `label`.
    """
    members = rows.groupby(["replicate", "cohort", "slot"], sort=False).ngroup()
    parts, counted, valid, replicate = [], [], [], []
    columns = (rows[name] for name in ("n", "valid", "replicate", "life", "step_us"))
    for member, n, ok, which, life, step_us in zip(members, *columns, strict=True):
        steps, inside = non_step.member_steps(int(member), int(n), life, step_us)
        mask = np.zeros(len(steps.us), dtype=bool)
        mask[inside] = ~steps.fresh[inside]
        parts.append(steps)
        counted.append(mask & bool(ok))
        valid.append(np.full(len(steps.us), bool(ok)) & ~steps.fresh)
        valid[-1][inside.stop :][-1:] = False  # perhaps beside fewer members
        replicate.append(np.full(len(steps.us), int(which)))
    steps = non_step.Steps.concat(parts)
    found = non_step.find(steps)
    usable = np.concatenate(valid)
    known = pd.DataFrame(
        {
            "n": steps.n[usable],
            "replicate": np.concatenate(replicate)[usable],
            "us": steps.us[usable],
            "label": found.labels[usable],
        }
    )
    return found.kinds, found.labels[np.concatenate(counted)], known


def _excess(
    kinds: Sequence[non_step.Kind], known: pd.DataFrame, step_s: "pd.Series[float]"
) -> "dict[int, pd.Series[float]]":
    """How much longer the steps of each kind take than ordinary ones (s), by `KEY`.

    Where a replicate has seen none, the mean of the launch at that count stands for it; where no
    replicate has, that of the nearest count, in proportion to the ordinary step. A kind that no
    window has seen that counts is left out.
    """
    ordinary = step_s.groupby(KEY).mean()
    found: dict[int, pd.Series[float]] = {}
    for number in range(1, len(kinds) + 1):
        own = known[known["label"] == number]
        long_s = own.groupby(KEY)["us"].mean() / US_PER_S
        excess = (long_s - ordinary).reindex(ordinary.index)
        by_n = excess.groupby("n").mean()
        usual = ordinary.groupby("n").mean()
        seen = by_n.dropna()
        if seen.empty:
            continue
        for n in by_n.index[by_n.isna()]:
            nearest = min(seen.index, key=lambda other: abs(other - n))
            by_n[n] = seen[nearest] * usual[n] / usual[nearest]
        found[number] = excess.fillna(
            pd.Series(by_n.reindex(excess.index.get_level_values("n")).to_numpy(), excess.index)
        )
    return found


def _replicates(
    valid: pd.DataFrame,
    step_s: "pd.Series[float]",
    excess: "dict[int, pd.Series[float]]",
    kinds: Sequence[non_step.Kind],
    work: "pd.Series[float]",
) -> pd.DataFrame:
    """Rates by `KEY`; a step is one of the launch's mean work."""
    windows = valid.groupby([*KEY, "cohort", "window", "attempt"]).size().groupby(KEY).size()
    added = sum(
        (each * kinds[number - 1].per_step for number, each in excess.items()),
        start=pd.Series(0.0, index=windows.index),
    )
    of_step = pd.MultiIndex.from_frame(step_s.reset_index()[KEY])
    iteration_s = step_s + added.reindex(of_step).to_numpy()
    steps_per_s = (work / iteration_s).groupby(KEY).sum()
    usual = step_s.groupby(KEY).size() / (work / step_s).groupby(KEY).sum()
    members = step_s.groupby(KEY).size()
    found = pd.DataFrame(
        {
            "windows": windows,
            "steps_per_s": steps_per_s,
            "step_s": usual,
            "non_step_share": 1 - usual * steps_per_s / members,
        }
    )
    return found.dropna(subset="steps_per_s").reset_index()[REPLICATE_COLUMNS]


def _between(
    step_s: "pd.Series[float]",
    excess: "dict[int, pd.Series[float]]",
    kinds: Sequence[non_step.Kind],
) -> pd.DataFrame:
    """Return the phases between steps, by process count."""
    usual = step_s.groupby("n").mean()
    per_step = {
        number: each.groupby("n").mean() * kinds[number - 1].per_step
        for number, each in excess.items()
    }
    whole = usual + sum(per_step.values(), start=pd.Series(0.0, index=usual.index))
    rows = [
        (n, number, kinds[number - 1].every, each[n] / kinds[number - 1].per_step,
         each[n] / whole[n], kinds[number - 1].seen)
        for n in usual.index
        for number, each in per_step.items()
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=BETWEEN_COLUMNS)
