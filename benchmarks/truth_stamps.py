"""What scripts of the truth benchmark counted themselves, beside what a study says of them."""

from __future__ import annotations

import itertools
import json
import math
import statistics
import time
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from scaling_study.analysis.record_rows import read_rows
from scaling_study.confirm import timeline
from scaling_study.records import codec
from scaling_study.records.confirmation import DECODER, Head, Round

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ledger import Entry

    from scaling_study.records.confirmation import ModelRun
    from scaling_study.stats.interval import Floats

SLACK_S = 5e-5
"""Records round the time of each step to 1 us, so a window's edge is known to some 10 us."""

Logs = dict[int, list["Log"]]


@dataclass(frozen=True, slots=True)
class Log:
    """What a process counted itself (see truth/counting.py); times in s of the monotonic clock.

    Attributes:
        began: When it was started.
        ended: When its script ended; None if it was stopped before.
        plain: Whether nothing but Python ran the script.
        iterations: When its iterations ended.
        periods: When its periods ended.
    """

    began: float
    ended: float | None
    plain: bool
    iterations: Floats
    periods: Floats


def read_log(file: Path) -> Log:
    """Read what a process counted."""
    words = np.fromfile(file, np.float64)
    began, ended, plain = words[:3].tolist()
    stamps = words[3:]
    return Log(began, ended or None, bool(plain), stamps[stamps > 0], -stamps[stamps < 0])


def read_logs(folder: Path) -> Logs:
    """Read what all processes of a study counted, by slot, in the order of their starts."""
    logs: Logs = {}
    for file in folder.iterdir():
        logs.setdefault(int(file.name.partition("-")[0]), []).append(read_log(file))
    return {slot: sorted(each, key=lambda log: log.began) for slot, each in logs.items()}


# Windows


@dataclass(frozen=True, slots=True)
class Stretch:
    """A script's own iterations between two moments without a rest.

    Attributes:
        times: Of each iteration, in s.
        ends_period: Whether a period ended within it.
    """

    times: Floats
    ends_period: np.ndarray[tuple[int], np.dtype[np.bool_]]


def stretch(logs: Sequence[Log], begin_s: float, end_s: float) -> Stretch:
    """Return the iterations from the first stamp after a moment to the first after another one.

    Args:
        logs: Of all processes of a slot, one after the other.
        begin_s: When a step of the study began.
        end_s: When a step ended, after which the script went on.

    Raises:
        ValueError: There is no stamp after the end.
    """
    stamps = np.concatenate([log.iterations for log in logs])
    periods = np.concatenate([log.periods for log in logs])
    first, last = np.searchsorted(stamps, [begin_s - SLACK_S, end_s - SLACK_S])
    if last == len(stamps):
        raise ValueError("the script counted no iteration after a window")
    inside = stamps[first : last + 1]
    return Stretch(np.diff(inside), np.diff(np.searchsorted(periods, inside)) > 0)


def rate(own: Sequence[Stretch], last_s: float, length: float) -> float:
    """Return a process's iterations/s over whole periods.

    A window holds no whole number of periods. So an iteration that ends a period counts once in
    `length` iterations.

    Args:
        own: The process's iterations in its windows.
        last_s: Mean time of an iteration that ends a period; NaN if none was seen.
        length: Iterations of a period; NaN without periods.
    """
    times, last = (
        np.concatenate([getattr(one, name) for one in own]) for name in ("times", "ends_period")
    )
    if math.isnan(length):
        return len(times) / float(times.sum())
    return length / float((length - 1) * times[~last].mean() + last_s)


def mean_last_s(stretches: Sequence[Stretch]) -> float:
    """Return the mean time of iterations that end a period (s); NaN if there are none."""
    times = np.concatenate([one.times[one.ends_period] for one in stretches])
    return float(times.mean()) if times.size else math.nan


def period(logs: Logs) -> float:
    """Return the iterations of a period, as the script counted them; NaN without periods."""
    lengths = [
        np.diff(np.searchsorted(log.iterations, log.periods))
        for each in logs.values()
        for log in each
        if len(log.periods) > 1
    ]
    return float(np.concatenate(lengths).mean()) if lengths else math.nan


def compare_windows(results: Path, n: int, logs: Logs) -> Entry:
    """Compare what a study says of the windows of one thread per process with the script's stamps.

    Returns:
        `windows`; `counts` of iterations in them, the study's and the script's; and `rates` (1/s)
        of each start of n processes, the study's and the script's.
    """
    planned = json.loads((results / "plan.json").read_text(encoding="utf-8"))
    launches = [planned["baseline"], planned["repeat"]]  # the same launch
    windows = 0
    counts = [0, 0]
    slots: dict[tuple[str, int], dict[int, list[Stretch]]] = {}
    active: dict[tuple[str, int], list[Stretch]] = {}
    for file in (file for one in launches for file in (results / f"measure/{one}").glob("*.jsonl")):
        start, rows = (file.parent.name, int(file.stem)), read_rows(file).rows
        rows = rows[rows["valid"] & (rows["n"] == n)]
        columns = (rows[name].tolist() for name in ("slot", "released_s", "life", "step_us"))
        for slot, released_s, life, step_us in zip(*columns, strict=True):
            begin_s = released_s + sum(life.settled_us) / 1e6
            end_s = begin_s + step_us.sum() / 1e6
            # The script stamps its last step after the rest.
            rests_s = end_s + sum(life.after_us[:-1]) / 1e6
            found = stretch(logs[int(slot)], begin_s, end_s)
            counts = [counts[0] + len(step_us), counts[1] + len(found.times)]
            slots.setdefault(start, {}).setdefault(int(slot), []).append(found)
            active.setdefault(start, []).append(stretch(logs[int(slot)], released_s, rests_s))
        windows += len(rows) // n
    length = period(logs)
    anywhere_s = mean_last_s([*itertools.chain.from_iterable(active.values())])
    own_rates: dict[tuple[str, int], float] = {}
    for start, each in slots.items():
        last_s = mean_last_s(active[start])
        last_s = anywhere_s if math.isnan(last_s) else last_s
        own_rates[start] = sum(rate(one, last_s, length) for one in each.values())
    table = pd.read_csv(results / "tables/replicates.csv")
    table = table[(table["n"] == n) & table["launch"].isin(launches)]
    # The table's rates are those at the mean speed of the machine.
    said = (table["steps_per_s"] * table["drift"]).tolist()
    starts = zip(table["launch"], table["replicate"], strict=True)
    rates = [[one, own_rates[start]] for one, start in zip(said, starts, strict=True)]
    return {"windows": windows, "counts": counts, "rates": rates}


# Whole processes


def slot_turn(logs: Sequence[Log]) -> tuple[int, float]:
    """Return how many processes of a slot ended in a round, and in what time (s).

    The time is from the begin of the first one to that of the one that the round cut. If that had
    not reached its script's first line, it has no log: then the time from one's last line to the
    next one's begin is that of the others. It is NaN without any.
    """
    ended = [log for log in logs if log.ended is not None]
    begins = [log.began for log in logs]
    gaps = [begin - (log.ended or 0.0) for log, begin in zip(ended, begins[1:], strict=False)]
    if not gaps:
        return len(ended), math.nan
    last = ended[-1].ended or 0.0
    return len(ended), last + (gaps[len(ended) - 1 :] or [statistics.fmean(gaps)])[0] - begins[0]


def rounds_of(records: Sequence[Round], logs: Logs) -> list[dict[int, list[Log]]]:
    """Return the logs of each round, by slot.

    A record's times count from the start of its round, which the first log of slot 0 shows.

    Args:
        records: All rounds with fresh starts, in order.
        logs: Of plain processes.
    """
    left = {slot: [*each] for slot, each in logs.items()}
    found = []
    for record in records:
        first: ModelRun = min(record.runs, key=lambda one: (one.slot, one.model))
        cut_s = left[first.slot][0].began - first.began_s + record.cut_s
        begun = {slot: sum(log.began < cut_s for log in each) for slot, each in left.items()}
        found.append({slot: each[: begun[slot]] for slot, each in left.items()})
        left = {slot: each[begun[slot] :] for slot, each in left.items()}
    return found


def compare_rounds(results: Path, logs: Logs, steps: int) -> Entry:
    """Compare the confirmed models/hour with the processes that began and ended by themselves.

    Returns:
        `windows`, the rounds; `counts` of whole processes in them, the study's and their own; and
        `rates` (1/h) of each round, the study's and their own.
    """
    records = [record for _, record in codec.read(results / "confirm/rounds.jsonl", DECODER)]
    (head,) = (one for one in records if isinstance(one, Head))
    fresh = [arm.key for arm in head.arms if arm.start == "fresh"]
    rounds = [one for one in records if isinstance(one, Round) and one.arm in fresh]
    # Windows of whole runs have plain processes too.
    began_s = datetime.fromisoformat(head.started).timestamp() - time.time() + time.monotonic()
    plain = {
        slot: [log for log in each if log.plain and log.began > began_s]
        for slot, each in logs.items()
    }
    pairs = [*zip(rounds, rounds_of(rounds, plain), strict=True)]
    (said,) = json.loads((results / "analysis/confirmation.json").read_text())["machines"]
    stated = {f"{arm['role']}/{arm['start']}": arm["value"] for arm in said["arms"]}
    rates = []
    for key in fresh:
        own = [pair for pair in pairs if pair[0].arm == key]
        how = timeline.basis([record for record, _ in own], steps)
        values = [timeline.look(record, steps, how).value or math.nan for record, _ in own]
        # The stated value is a mean of all rounds.
        scale = stated[key] / statistics.geometric_mean(values)
        for value, (_, slots) in zip(values, own, strict=True):
            counted = sum(ended / span_s for ended, span_s in map(slot_turn, slots.values()))
            if not math.isnan(counted):
                rates.append([scale * value, timeline.SECONDS_PER_HOUR * counted])
    return {
        "windows": len(rates),
        "counts": [
            sum(run.ended_s is not None for record, _ in pairs for run in record.runs),
            sum(slot_turn(each)[0] for _, slots in pairs for each in slots.values()),
        ],
        "rates": rates,
    }
