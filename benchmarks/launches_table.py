"""The tables of benchmarks/launches.py: models/hour of each way, and ratios paired by round."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from launches_list import RIVALS, WORKLOADS
from launches_ways import ACCELERATE, FORKED, RECOMMENDED, RUN_CPU, WAYS
from truth_rates import HOUR_S, Ratio, Side, ratio, side_of_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

EXACT = Side(1.0, 0.0, 1)
"""One, without an error: a ratio to it has Student's interval."""
NONE = Ratio(math.nan, math.nan, math.nan)
NOT_SLOWER = 0.98
"""The least ratio to a rival: slower by at most 2%."""
BEATEN = 3.0
"""A ratio that noise seldom makes: two rounds with it are enough."""
VERDICTS = MISSED, UNDECIDED, REACHED = ("missed", "undecided", "reached")

Entry = dict[str, Any]


def done(entry: Entry) -> bool:
    """Whether a run trained its models."""
    return bool(entry["status"] == "ok")


def rate(entry: Entry, seconds: str = "wall_s") -> float:
    """Return a run's models/hour."""
    return float(entry["models"] * HOUR_S / entry[seconds])


def interval(values: Sequence[float]) -> Ratio:
    """Return a geometric mean with Student's interval of logarithms."""
    return ratio(side_of_values(values), EXACT) if values else NONE


def ours(entries: Sequence[Entry]) -> str:
    """Return what others are compared with: the queue of forked models, where there is one."""
    return FORKED if any(entry["way"] == FORKED for entry in entries) else RECOMMENDED


def pairs(entries: Sequence[Entry], way: str, seconds: str = "wall_s") -> list[float]:
    """Return the ratio of our way to another one in each round that has both.

    Args:
        entries: Of a workload at a process count.
        way: The other way.
        seconds: Which time of a run counts.
    """
    own = ours(entries)
    rates: dict[str, dict[int, float]] = {own: {}, way: {}}
    for entry in entries:
        if entry["way"] in rates and done(entry) and entry[seconds] is not None:
            rates[entry["way"]][entry["round"]] = rate(entry, seconds)
    over, under = rates[own], rates[way]
    return [over[number] / under[number] for number in sorted(over.keys() & under.keys())]


def paired(entries: Sequence[Entry], way: str, seconds: str) -> Ratio:
    """Return the ratio of our way to another one, with its interval over rounds."""
    return interval(pairs(entries, way, seconds))


def beaten(ratios: Sequence[float]) -> bool:
    """Whether a way is so much slower in each of its rounds that no more are needed."""
    return len(ratios) > 1 and min(ratios) >= BEATEN


def verdict(ratios: Sequence[float]) -> str:
    """Say whether `recommended` is not slower by more than 2%, as far as rounds can tell."""
    found = interval(ratios)
    if beaten(ratios) or found.low >= NOT_SLOWER:
        return REACHED
    return MISSED if found.high < NOT_SLOWER else UNDECIDED


def section(name: str, entries: Sequence[Entry]) -> tuple[str, bool]:
    """Return a workload's table with its figures, and whether all of these are reached.

    Args:
        name: The workload's.
        entries: Of that workload at a process count.
    """
    first = entries[0]
    own_way = ours(entries)
    head = ["way", "rounds", "models/hour", f"{own_way} / this"]
    head += [] if own_way == FORKED else ["models alone"]
    lines = [f"## {name}, {first['steps']} steps, n = {first['n']}", "", _line(head)]
    lines.append(_line(["---"] * len(head)))
    for way in (way for way in WAYS if any(entry["way"] == way for entry in entries)):
        own = [entry for entry in entries if entry["way"] == way and done(entry)]
        shown = [interval(list(map(rate, own)))]
        if way != own_way:
            shown.append(paired(entries, way, "wall_s"))
            shown += [] if own_way == FORKED else [paired(entries, way, "models_s")]
        texts = [_text(one, 1 if column == 0 else 3) for column, one in enumerate(shown)]
        lines.append(_line([way, str(len(own)), *texts, *[""] * (len(head) - 2 - len(texts))]))
    lines.append("")
    targets = WORKLOADS[name].targets
    found = {way: paired(entries, way, "wall_s") for way in targets}
    met = {way: found[way].value >= least for way, least in targets.items()}
    for way, least in targets.items():
        mark = "reached" if met[way] else "missed"
        text = _text(found[way], 3) or "no round has both"
        lines.append(f"- {mark}: {name}, {own_way} / {way}: {text}, at least {least:g}")
    if not targets:
        for seconds, counted in (("wall_s", "whole processes"), ("models_s", "models alone")):
            way, mark = best_rival(entries, seconds)
            met[seconds] = mark == REACHED
            text = _text(paired(entries, way, seconds), 3) or "no round has both"
            what = f"{counted}, recommended / best rival ({way}): {text}"
            lines.append(f"- {mark}: {what}, at least {NOT_SLOWER:g}")
    return "\n".join([*lines, *_notes(entries)]) + "\n", all(met.values())


def best_rival(entries: Sequence[Entry], seconds: str) -> tuple[str, str]:
    """Return the rival that `recommended` does worst beside, with the verdict on it.

    A verdict that is worse comes before a ratio that is smaller, so it holds beside all rivals.
    """
    ratios = {way: pairs(entries, way, seconds) for way in RIVALS}

    def order(way: str) -> tuple[int, float]:
        own = ratios[way]
        return VERDICTS.index(verdict(own)), interval(own).value if own else 0.0

    way = min(RIVALS, key=order)
    return way, verdict(ratios[way])


def _notes(entries: Sequence[Entry]) -> Iterator[str]:
    """Say what was run, and what failed."""
    good = [entry for entry in entries if done(entry)]
    for count in sorted({entry["models"] for entry in good if entry["way"] == ours(entries)}):
        listed = f"{count} models, " if ours(entries) == FORKED else ""
        yield f"- recommended: {entries[0]['label']}, {listed}{entries[0]['n']} at once."
    for names in {tuple(entry["preloaded"]) for entry in good if entry["way"] == RUN_CPU}:
        yield f"- run_cpu preloaded {', '.join(names) or 'nothing'}."
    for version in {entry["version"] for entry in entries if entry["way"] == ACCELERATE}:
        yield f"- accelerate {version}."
    for entry in entries:
        if entry.get("stopped"):
            yield (
                f"- {entry['way']}, round {entry['round'] + 1}: stopped after "
                f"{entry['wall_s']:.0f} s, so its models/hour are fewer, and the ratio is larger."
            )
        if not done(entry):
            yield f"- failed: {entry['way']}, round {entry['round'] + 1}: {entry['reason']}"
    yield from (f"- On {one}." for one in sorted({entry["machine"] for entry in entries}))


def _text(found: Ratio, decimals: int) -> str:
    if math.isnan(found.value):
        return ""
    if math.isnan(found.low):
        return f"{found.value:.{decimals}f}"
    low, high = f"{found.low:.{decimals}f}", f"{found.high:.{decimals}f}"
    return f"{found.value:.{decimals}f} ({low} to {high})"


def _line(words: Sequence[str]) -> str:
    return f"| {' | '.join(words)} |"
