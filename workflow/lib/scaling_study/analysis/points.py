"""From rows of windows to replicates and points."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from scaling_study.analysis.accounts import without_restarts
from scaling_study.analysis.model_times import ModelTimes, model_times
from scaling_study.records import columns
from scaling_study.records.cohorts import CohortSummary
from scaling_study.records.confirmation import FirstModels
from scaling_study.stats.interval import Floats, Interval
from scaling_study.stats.throughputs import Start, Throughputs, fit

POINT = [column.name for column in columns.POINT]
REPLICATE = [*POINT, "replicate"]
WINDOW = [*REPLICATE, "cohort", "window", "attempt"]
MEANS = [
    *(column.name for column in (*columns.PER_STEP, columns.RUNNABLE, columns.CLOCK)),
    *("threads", "processes", "rss_bytes"),
]


@dataclass(frozen=True, slots=True)
class Drawn:
    """Joint draws of one machine.

    Attributes:
        times: Of models beside their steps.
        steps_per_s: Of all points.
        models_per_hour: With fresh starts; None if the length of a model is not known.
        forked: Models/hour with forked starts; None if none was seen.
    """

    times: ModelTimes
    steps_per_s: Throughputs
    models_per_hour: Throughputs | None = None
    forked: Throughputs | None = None

    def of(self, rate: str) -> Throughputs:
        """Return the draws of a rate that is known, by its column."""
        throughputs: Throughputs = getattr(self, rate)
        return throughputs


def replicates(
    rates: pd.DataFrame,
    cohorts: Sequence[CohortSummary],
    drawn: Mapping[str, Drawn],
    steps_per_model: float | None,
) -> pd.DataFrame:
    """Return the rates of every process count in every replicate.

    Args:
        rates: `replicates` of all launches on all machines, as `rates.rates` returns them, with the
            names of both.
        cohorts: All cohorts.
        drawn: What `joint` returns for each machine. The drift between jobs that launches shared
            is taken out of the rates. Where the start of a process is not known, models/hour do not
            include it.
        steps_per_model: Steps that train one model; None leaves models/hour empty.

    Returns:
        Table of replicates; a process count without a valid window has no row.
    """
    rows, jobs = rates.copy(), _jobs(cohorts)
    keys = [*zip(rows["machine"], rows["launch"], rows["replicate"], strict=True)]
    drifts = [drawn[key[0]].steps_per_s.drifts.get(jobs.get(key, ""), 0.0) for key in keys]
    rows["drift"] = np.exp(drifts)
    rows["steps_per_s"] /= rows["drift"]
    rows["step_s"] *= rows["drift"]
    places = [*zip(rows["machine"], rows["launch"], rows["n"], strict=True)]
    times = [(drawn[machine].times, launch, n) for machine, launch, n in places]
    rows["start_s"] = [_mean(known.start_s(launch, n)) for known, launch, n in times]
    beside_s = np.array([_mean(known.beside_s(launch, n)) for known, launch, n in times])
    # A slot trains a model in the time beside its steps, with the first step, and that of others.
    further = (steps_per_model or np.nan) - ~np.isnan(beside_s)
    model_s = further * rows["n"] / rows["steps_per_s"] + np.nan_to_num(beside_s)
    rows["models_per_hour"] = 3600 * rows["n"] / model_s
    rows = columns.REPLICATES.frame(rows)
    # Machines and launches stay in their order of appearance, which is the plan's.
    order = rows.assign(**{name: pd.factorize(rows[name])[0] for name in ("machine", "launch")})
    order = order.sort_values(["machine", "launch", "n", "replicate"])
    return rows.loc[order.index].reset_index(drop=True)


def _mean(draws: Floats | None) -> float:
    """Return the mean of draws of a time, on the log scale; NaN without any."""
    return np.nan if draws is None else float(np.exp(np.log(draws).mean()))


def _jobs(cohorts: Iterable[CohortSummary]) -> dict[tuple[str, str, int], str]:
    """Return the job that a replicate shared with others, by machine, launch and replicate."""
    return {
        (cohort.machine, cohort.launch, cohort.replicate): cohort.batch
        for cohort in cohorts
        if cohort.batch
    }


def joint(
    rates: pd.DataFrame,
    cohorts: Sequence[CohortSummary],
    steps_per_model: float | None,
    seed: int,
    first: FirstModels | None = None,
) -> Drawn:
    """Return joint draws of one machine's rates.

    Args:
        rates: Its rows of the table of replicates, or those from which that is made.
        cohorts: Its cohorts.
        steps_per_model: Steps that train one model; None leaves models/hour out.
        seed: Seed of the draws.
        first: The first models that it trained.
    """
    jobs = {key[1:]: job for key, job in _jobs(cohorts).items()}
    starts = [
        Start(launch, jobs.get((launch, replicate), f"{launch} {replicate}"), own_rates)
        for (launch, replicate), own_rates in of_starts(rates).items()
    ]
    known = fit(starts, seed)
    times = model_times(cohorts, first)
    if not steps_per_model:
        return Drawn(times, known)
    fresh = known.models_per_hour(steps_per_model, times.beside_s)
    if "forked" not in times.first:
        return Drawn(times, known, fresh)
    forked = known.models_per_hour(steps_per_model, partial(times.beside_s, forked=True))
    return Drawn(times, known, fresh, forked)


def of_starts(rates: pd.DataFrame) -> dict[tuple[str, int], dict[int, float]]:
    """Return the throughputs of each fresh start as they were measured, drift included.

    Args:
        rates: As for `joint`.

    Returns:
        Steps/s by process count, by launch and replicate.
    """
    rates = rates.assign(raw=rates["steps_per_s"] * rates.get("drift", 1.0))
    starts: dict[tuple[str, int], dict[int, float]] = {}
    for launch, replicate, n, raw in zip(
        *(rates[name].tolist() for name in ("launch", "replicate", "n", "raw")), strict=True
    ):
        starts.setdefault((launch, replicate), {})[n] = raw
    return starts


def points(
    windows: pd.DataFrame, rates: pd.DataFrame, extra: pd.DataFrame, drawn: Mapping[str, Drawn]
) -> pd.DataFrame:
    """Return one row per machine, launch and process count with a valid window.

    Args:
        windows: Table of windows.
        rates: Table of replicates.
        extra: For every point at least, indexed by machine, launch and n: the pooled step_median_s,
            step_p95_s and step_p99_s, `windows_invalid` and `oversubscribed`.
        drawn: What `joint` returns for each machine.

    Returns:
        Table of points, in the order of `rates`.
    """
    if rates.empty:
        return columns.POINTS.frame()
    valid = windows[windows["valid"]]
    by_point = rates.groupby(POINT, sort=False)
    rows = pd.DataFrame({"replicates": by_point.size(), "windows": by_point["windows"].sum()})
    rows = rows.join(_estimates(rates, drawn))
    rows["non_step_share"] = by_point["non_step_share"].mean()
    rows["start_s"] = by_point["start_s"].mean()
    members = without_restarts(valid, POINT).groupby(POINT, sort=False)
    rows["steps"] = members["steps"].sum()
    rows["cpu_use"] = valid.groupby(WINDOW, sort=False)["cpu_use"].sum().groupby(POINT).mean()
    rows = rows.join(members[MEANS].mean())
    rows["member_spread"] = _member_spread(valid)
    return columns.POINTS.frame(rows.reset_index().join(extra, on=["machine", "launch", "n"]))


def _estimates(rates: pd.DataFrame, drawn: Mapping[str, Drawn]) -> pd.DataFrame:
    """Return throughput, step, models/hour, speedup and efficiency with intervals, by POINT."""
    shares = rates.groupby(POINT, sort=False)["non_step_share"].mean()
    places = rates.drop_duplicates(POINT)[["machine", "launch", "n"]]
    names = ("steps_per_s", "step_s", "models_per_hour", "speedup", "efficiency")
    rows = []
    for machine, launch, n, share in zip(*(places[name] for name in places), shares, strict=True):
        draws, point = drawn[machine], (launch, n)
        level = draws.steps_per_s.level(point)
        models = Interval() if draws.models_per_hour is None else draws.models_per_hour.level(point)
        speedup = draws.steps_per_s.ratio(point, (launch, 1))
        intervals = level, level.over(n * (1 - share)), models, speedup, speedup.times(1 / n)
        rows.append(
            [end for interval in intervals for end in (interval.value, interval.low, interval.high)]
        )
    ends = [f"{name}{end}" for name in names for end in ("", "_low", "_high")]
    return pd.DataFrame(rows, index=shares.index, columns=ends, dtype=np.float64)


def _member_spread(valid: pd.DataFrame) -> "pd.Series[float]":
    """Return (slowest - fastest) / mean of members' mean steps, mean over replicates, by POINT."""
    steps = valid.groupby([*REPLICATE, "slot"])["step_mean_s"].mean().groupby(REPLICATE)
    return ((steps.max() - steps.min()) / steps.mean()).groupby(POINT).mean()
