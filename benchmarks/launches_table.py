"""The tables of benchmarks/launches.py: models/hour of each way, and ratios paired by round."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from doc_tables import write_table
from launches_ways import ACCELERATE, FORKED, RECOMMENDED, RIVALS, RUN_CPU, WAYS, WORKLOADS
from ledger import Entry, describe

from scaling_study.stats.interval import Interval
from scaling_study.stats.ratios import Pairs, geometric_ratio

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scaling_study.stats.interval import Floats

HOUR_S = 3600.0
NOT_SLOWER = 0.98
"""The least ratio to a rival: slower by at most 2%."""
BEATEN = 3.0
"""A ratio that noise seldom makes: two rounds with it are enough."""
VERDICTS = MISSED, UNDECIDED, REACHED = ("missed", "undecided", "reached")


def ours(entries: Sequence[Entry]) -> str:
    """Return what others are compared with: the queue of forked models, where there is one."""
    return FORKED if any(entry["way"] == FORKED for entry in entries) else RECOMMENDED


def rates(entries: Sequence[Entry], seconds: str = "wall_s") -> pd.DataFrame:
    """Return the models/hour of each round and way; NaN where a run failed.

    Args:
        entries: Of a workload at a process count.
        seconds: Which time of a run counts.
    """
    good = pd.DataFrame([entry for entry in entries if entry["status"] == "ok"])
    if good.empty:
        return pd.DataFrame(columns=list(WAYS))
    good["rate"] = good["models"] * HOUR_S / good[seconds].astype(np.float64)
    return good.pivot_table(index="round", columns="way", values="rate").reindex(columns=list(WAYS))


def ratios(entries: Sequence[Entry], way: str, seconds: str = "wall_s") -> Floats:
    """Return the ratio of our way to another one in each round that has both."""
    table = rates(entries, seconds)
    return (table[ours(entries)] / table[way]).dropna().to_numpy(np.float64)


def mean(values: Floats) -> Interval:
    """Return a geometric mean with Student's interval; NaN without values."""
    return geometric_ratio(Pairs(values, np.ones_like(values))) or Interval()


def beaten(found: Floats) -> bool:
    """Whether a way is so much slower in each of its rounds that no more are needed."""
    return len(found) > 1 and bool(found.min() >= BEATEN)


def verdict(found: Floats) -> str:
    """Say whether `recommended` is not slower by more than 2%, as far as rounds can tell."""
    interval = mean(found)
    if beaten(found) or (interval.low is not None and interval.low >= NOT_SLOWER):
        return REACHED
    return MISSED if interval.high is not None and interval.high < NOT_SLOWER else UNDECIDED


def section(name: str, entries: Sequence[Entry]) -> tuple[str, bool]:
    """Return a workload's table with its figures, and whether all of these are reached.

    Args:
        name: The workload's.
        entries: Of that workload at a process count.
    """
    own, targets, table = ours(entries), WORKLOADS[name].targets, rates(entries)
    counted = {"wall_s": "whole processes"} | ({} if targets else {"models_s": "models alone"})
    head = ["way", "rounds", "models/hour", f"{own} / this", *([] if targets else ["models alone"])]
    rows = []
    for way in (way for way in WAYS if any(entry["way"] == way for entry in entries)):
        known = table[way].dropna().to_numpy(np.float64)
        texts = [
            "" if way == own else describe(mean(ratios(entries, way, seconds)))
            for seconds in counted
        ]
        rows.append([way, str(len(known)), describe(mean(known), 1), *texts])
    goals = [(f"{name}, {own} / {way}", way, "wall_s", least) for way, least in targets.items()]
    for seconds, what in counted.items() if not targets else ():
        way = worst(entries, seconds)
        goals.append((f"{what}, recommended / best rival ({way})", way, seconds, NOT_SLOWER))
    lines, met = [], []
    for goal, way, seconds, least in goals:
        found = ratios(entries, way, seconds)
        reached = REACHED if mean(found).value >= least else MISSED
        mark = reached if targets else verdict(found)
        met.append(mark == REACHED)
        text = describe(mean(found)) or "no round has both"
        lines.append(f"- {mark}: {goal}: {text}, at least {least:g}")
    title = f"## {name}, {entries[0]['steps']} steps, n = {entries[0]['n']}\n\n"
    notes = "\n".join([*lines, *_notes(entries)])
    return f"{title}{write_table(head, rows)}\n{notes}\n", all(met)


def worst(entries: Sequence[Entry], seconds: str) -> str:
    """Return the rival that `recommended` does worst beside.

    A verdict that is worse comes before a ratio that is smaller, so it holds beside all rivals.
    """

    def order(way: str) -> tuple[int, float]:
        found = ratios(entries, way, seconds)
        return VERDICTS.index(verdict(found)), np.nan_to_num(mean(found).value)

    return min(RIVALS, key=order)


def _notes(entries: Sequence[Entry]) -> Iterator[str]:
    """Say what was run, and what failed."""
    good = [entry for entry in entries if entry["status"] == "ok"]
    for count in sorted({entry["models"] for entry in good if entry["way"] == ours(entries)}):
        listed = f"{count} models, " if ours(entries) == FORKED else ""
        yield f"- recommended: {entries[0]['label']}, {listed}{entries[0]['n']} at once."
    for names in {tuple(entry["preloaded"]) for entry in good if entry["way"] == RUN_CPU}:
        yield f"- run_cpu preloaded {', '.join(names) or 'nothing'}."
    for version in {entry["version"] for entry in entries if entry["way"] == ACCELERATE}:
        yield f"- accelerate {version}."
    for entry in entries:
        run = f"{entry['way']}, round {entry['round'] + 1}"
        if entry.get("stopped"):
            seconds = f"{entry['wall_s']:.0f} s"
            yield f"- {run}: stopped after {seconds}, so its models/hour are fewer still."
        if entry["status"] != "ok":
            yield f"- failed: {run}: {entry['reason']}"
    yield from (f"- On {one}." for one in sorted({entry["machine"] for entry in entries}))
