"""From rows of windows to replicates and points."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import pandas as pd

from scaling_study.analysis.accounts import without_restarts
from scaling_study.records.columns import CLOCK, PER_STEP, POINTS, REPLICATES, RUNNABLE, WHERE
from scaling_study.stats import intervals
from scaling_study.stats.throughputs import Start, Throughputs

POINT = [*(column.name for column in WHERE), "n"]
REPLICATE = [*POINT, "replicate"]
WINDOW = [*REPLICATE, "cohort", "window", "attempt"]
SECONDS_PER_HOUR = 3600
MEANS = [
    *(column.name for column in (*PER_STEP, RUNNABLE, CLOCK)),
    *("threads", "processes", "rss_bytes"),
]


def replicates(
    rates: pd.DataFrame | None,
    starts: Mapping[tuple[str, str], float],
    steps_per_model: float | None,
    batches: Mapping[tuple[str, str, int], str] = MappingProxyType({}),
) -> pd.DataFrame:
    """Return the rates of every process count in every replicate.

    Args:
        rates: `rates.Rates.replicates` of all launches on all machines, with the names of both.
        starts: The time of a process's start (s), by machine and launch; where it is not known,
            models/hour do not include the start.
        steps_per_model: Steps that train one model; None leaves models/hour empty.
        batches: The job that a replicate shared with other launches, by machine, launch and
            replicate. The machine's drift between such jobs is taken out of the rates. Empty
            without a race.

    Returns:
        Table of replicates; a process count without a valid window has no row.
    """
    if rates is None:
        return REPLICATES.frame()
    rows = rates.copy()
    places = zip(rows["machine"], rows["launch"], strict=True)
    rows["start_s"] = [starts.get(place, np.nan) for place in places]
    rows["batch"] = [
        batches.get((machine, launch, replicate)) or f"{launch} {replicate}"
        for machine, launch, replicate in zip(
            rows["machine"], rows["launch"], rows["replicate"], strict=True
        )
    ]
    rows["drift"] = _drift(rows) if batches else 1.0
    rows["steps_per_s"] /= rows["drift"]
    rows["step_s"] *= rows["drift"]
    rows["models_per_hour"] = models_per_hour(rows, rows["steps_per_s"], steps_per_model)
    rows = REPLICATES.frame(rows)
    # Machines and launches stay in their order of appearance, which is the plan's.
    order = rows.assign(**{name: pd.factorize(rows[name])[0] for name in ("machine", "launch")})
    order = order.sort_values(["machine", "launch", "n", "replicate"])
    return rows.loc[order.index].reset_index(drop=True)


def models_per_hour(
    rows: pd.DataFrame, steps_per_s: "pd.Series[float]", steps_per_model: float | None
) -> "pd.Series[float]":
    """Return models per hour, with their starts; NaN if the steps of a model are not known.

    A slot trains a model in its start and the time of its steps, at its share of the throughput.

    Args:
        rows: Rows with `n` and `start_s` (NaN: not known, and left out).
        steps_per_s: Throughput of all n processes together, of each row.
        steps_per_model: Steps that train one model.
    """
    model_s = (steps_per_model or np.nan) * rows["n"] / steps_per_s
    return SECONDS_PER_HOUR * rows["n"] / (model_s + rows["start_s"].fillna(0.0))


def _drift(rows: pd.DataFrame) -> "pd.Series[float]":
    """Return the factor by which each replicate's `batch` was faster than others."""
    factors = pd.Series(1.0, index=rows.index)
    for _, own in rows.groupby("machine", sort=False):
        roles = dict(zip(own["role"], own["launch"], strict=True))
        same = {roles["repeat"]: roles["baseline"]} if {"repeat", "baseline"} <= set(roles) else {}
        batches = {name: number for number, name in enumerate(own["batch"].unique())}
        starts = [
            Start(
                same.get(launch, launch),
                batches[each["batch"].iloc[0]],
                dict(zip(each["n"].tolist(), each["steps_per_s"].tolist(), strict=True)),
            )
            for (launch, _), each in own.groupby(["launch", "replicate"], sort=False)
        ]
        drifts = Throughputs(starts).drifts
        factors[own.index] = np.exp([drifts[batches[name]] for name in own["batch"]])
    return factors


def points(windows: pd.DataFrame, rates: pd.DataFrame, extra: pd.DataFrame) -> pd.DataFrame:
    """Return one row per machine, launch and process count with a valid window.

    Args:
        windows: Table of windows.
        rates: Table of replicates.
        extra: For every point at least, indexed by machine, launch and n: the pooled step_median_s,
            step_p95_s and step_p99_s, `windows_invalid` and `oversubscribed`.

    Returns:
        Table of points, in the order of `rates`.
    """
    if rates.empty:
        return POINTS.frame()
    valid = windows[windows["valid"]]
    by_point = rates.groupby(POINT, sort=False)
    rows = pd.DataFrame({"replicates": by_point.size(), "windows": by_point["windows"].sum()})
    rows = rows.join(_means(rates)).join(_speedup(rates))
    rows["non_step_share"] = by_point["non_step_share"].mean()
    rows["start_s"] = by_point["start_s"].mean()
    members = without_restarts(valid, POINT).groupby(POINT, sort=False)
    rows["steps"] = members["steps"].sum()
    rows["cpu_use"] = valid.groupby(WINDOW, sort=False)["cpu_use"].sum().groupby(POINT).mean()
    rows = rows.join(members[MEANS].mean())
    rows["member_spread"] = _member_spread(valid)
    return POINTS.frame(rows.reset_index().join(extra, on=["machine", "launch", "n"]))


def _means(rates: pd.DataFrame) -> pd.DataFrame:
    """Return steps_per_s, step_s and models_per_hour with their intervals, by POINT."""
    names = ("steps_per_s", "step_s", "models_per_hour")
    known = [name for name in names if rates[name].notna().all()]
    means = [intervals.pooled_means(rates, POINT, name) for name in known]
    columns = [f"{name}{end}" for name in names for end in ("", "_low", "_high")]
    return pd.concat(means, axis=1).reindex(columns=columns)


def _speedup(rates: pd.DataFrame) -> pd.DataFrame:
    """Return speedup and efficiency with intervals, by POINT, over replicates with n = 1."""
    keys = ["machine", "launch", "replicate"]
    one = rates[rates["n"] == 1].set_index(keys)["steps_per_s"].rename("one")
    paired = rates.join(one, on=keys).dropna(subset="one")
    paired["speedup"] = paired["steps_per_s"] / paired["one"]
    found = intervals.pooled_means(paired[paired["n"] != 1], POINT, "speedup")
    itself = paired.loc[paired["n"] == 1, POINT].drop_duplicates()
    exact = pd.DataFrame(1.0, index=pd.MultiIndex.from_frame(itself), columns=found.columns)
    found = pd.concat([each for each in (exact, found) if len(each)] or [found])
    efficiency = found.div(found.index.get_level_values("n"), axis=0)
    return found.join(
        efficiency.set_axis(found.columns.str.replace("speedup", "efficiency"), axis=1)
    )


def _member_spread(valid: pd.DataFrame) -> "pd.Series[float]":
    """Return (slowest - fastest) / mean of members' mean steps, mean over replicates, by POINT."""
    steps = valid.groupby([*REPLICATE, "slot"])["step_mean_s"].mean().groupby(REPLICATE)
    return ((steps.max() - steps.min()) / steps.mean()).groupby(POINT).mean()
