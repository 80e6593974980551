"""The ledger of the truth benchmark, the cells that its runs make together, and their table."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import TYPE_CHECKING, Any

import pandas as pd
import truth_rates
from truth_list import PROCESSES, ROWS
from truth_rates import Ratio, Side

from scaling_study.stats import intervals

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

LOW, HIGH = 0.97, 1.03
"""A study is true where this range and its ratio's interval meet."""
WIDEST = 0.04
"""Of each side of the interval: a wider one would meet the range too easily."""

POOLED_FREEDOM = 1000
"""Degrees of freedom of an error that all rows have told together: a normal distribution's."""

OK, FAIL, COARSE = "ok", "FAIL", "not precise enough"
NO_LOOP, NO_STUDY = "no loop", "no number of the study"

Entry = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """A script at a process count.

    Attributes:
        row: Name of the script's row.
        n: Processes.
        loop: What the shell loop counted; None without one.
        loops: Loops that were counted.
        study: What the study says; None where it says nothing.
        source: Which of the study's numbers that is: measured, confirmed or predicted.
        ratio: Study by loop.
        verdict: OK, FAIL, COARSE, NO_LOOP or NO_STUDY.
        between: Columns on what lies between steps, as the last study has them.
        reasons: Where a side is missing: why its runs failed.
    """

    row: str
    n: int
    loop: Side | None
    loops: int
    study: Side | None
    source: str
    ratio: Ratio
    verdict: str
    between: dict[str, float | None]
    reasons: tuple[str, ...]


def verdict(found: Ratio) -> str:
    """Judge a ratio: a wide interval that misses the range fails all the same."""
    if found.high < LOW or found.low > HIGH:
        return FAIL
    return OK if found.reach <= WIDEST else COARSE


def errors(entries: Iterable[Entry]) -> dict[tuple[str, str, int], float]:
    """How well each side's mean is known, as the standard error of its logarithm.

    Two loops of a script say little about how much loops differ; loops of all scripts say much.
    So it is learnt from all rows together, as a study learns how much starts of a launch differ.

    Returns:
        By row, kind of run and process count; NaN where nothing was done twice.
    """
    values: dict[tuple[str, str, int], list[float]] = {}
    for entry in entries:
        if entry["status"] != "ok":
            continue
        for n in entry["counts"]:
            if entry["kind"] == "loop":
                found = [entry["rate"]]
            else:
                found = entry["points"].get(str(n), {}).get("values", [])
            values.setdefault((entry["row"], entry["kind"], n), []).extend(found)
    rows = [
        {"launch": f"{name} {kind}", "n": n, "replicate": number, "steps_per_s": value}
        for (name, kind, n), own in values.items()
        for number, value in enumerate(own)
    ]
    if not rows:
        return {}
    means = intervals.Means(pd.DataFrame(rows))
    return {(name, kind, n): means.of(f"{name} {kind}", n).deviation for name, kind, n in values}


def cell(entries: Sequence[Entry], name: str, n: int) -> Cell:
    """Put together what runs of one row say at a process count.

    Args:
        entries: All that count, of other rows too.
        name: The row's.
        n: Processes.
    """
    known = errors(entries)
    own = [entry for entry in entries if entry["row"] == name and n in entry["counts"]]
    good = [entry for entry in own if entry["status"] == "ok"]
    rates = [entry["rate"] for entry in good if entry["kind"] == "loop"]
    points = [entry["points"][str(n)] for entry in good if entry["kind"] == "study"]
    source, study = study_side(
        points, known.get((name, "study", n)), whole=ROWS[name].compares == PROCESSES
    )
    loop = _pooled(truth_rates.side_of_values(rates), known[name, "loop", n]) if rates else None
    none = Ratio(math.nan, math.nan, math.nan)
    found = truth_rates.ratio(study, loop) if study and loop else none
    judged = verdict(found) if study and loop else NO_STUDY if loop else NO_LOOP
    reasons = () if study and loop else _reasons(own, points)
    between = points[-1]["between"] if points else {}
    return Cell(name, n, loop, len(rates), study, source, found, judged, between, reasons)


def _reasons(own: Iterable[Entry], points: Iterable[Entry]) -> tuple[str, ...]:
    """Say why a cell lacks a side."""
    failed = [entry for entry in own if entry["status"] != "ok"]
    return (
        *(f"the {entry['kind']} failed: {entry['reason']}" for entry in failed),
        *(f"a study had {point['invalid']} invalid windows" for point in points),
    )


def _pooled(side: Side, error: float | None) -> Side:
    """A side with the error that all rows have told."""
    if error is None:
        return side
    return dataclasses.replace(side, error=error, freedom=POOLED_FREEDOM)


def study_side(
    points: Sequence[Entry], error: float | None, *, whole: bool
) -> tuple[str, Side | None]:
    """Return what studies say together, and which of their numbers it is.

    A throughput's value is that of the tables, its precision that of all replicates; whole
    processes have intervals.

    Args:
        points: What each study says at a process count.
        error: Of throughputs (`errors`).
        whole: Whether whole processes are compared.
    """
    if not whole:
        known = [point for point in points if point["value"] is not None]
        values = [value for point in known for value in point["values"]]
        if not values:
            return "measured", None
        weighted = [
            len(point["values"]) / len(values) * math.log(point["value"]) for point in known
        ]
        side = _pooled(truth_rates.side_of_values(values), error)
        return "measured", dataclasses.replace(side, value=math.exp(sum(weighted)))
    source = "confirmed" if any(one["source"] == "confirmed" for one in points) else "predicted"
    sides = [
        truth_rates.side_of_interval(**interval)
        for point in points
        if point["source"] == source
        for interval in point["rounds"]
    ]
    return source, truth_rates.mean_side(sides) if sides else None


def gave_something(entry: Entry) -> bool:
    """Whether a run gave a number, so that it need not be done again."""
    if entry["status"] != "ok":
        return False
    points = entry["points"].values() if entry["kind"] == "study" else ()
    return entry["kind"] == "loop" or any(one.get("values") or one.get("rounds") for one in points)


def newest(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries of each row that are of the code of its last entry.

    Each process count of a row of whole processes has studies of its own.
    """

    def row(entry: Entry) -> tuple[str, ...]:
        whole = ROWS[entry["row"]].compares == PROCESSES
        return (entry["row"], *(map(str, entry["counts"]) if whole else ()))

    last = {row(entry): entry["code"] for entry in entries}
    return [entry for entry in entries if entry["code"] == last[row(entry)]]


def read_ledger(path: Path) -> list[Entry]:
    """Return the runs of a ledger, without a last line that a kill has cut."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.split("\n")[:-1] if line]


def add_to_ledger(path: Path, entry: Entry) -> None:
    """Append a run to a ledger, and end a line there that a kill has cut."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = path.read_bytes() if path.exists() else b""
    whole = text[: text.rfind(b"\n") + 1]
    with path.open("r+b" if path.exists() else "wb") as file:
        file.truncate(len(whole))
        file.seek(len(whole))
        file.write(json.dumps(entry).encode() + b"\n")


INTRODUCTION = f"""\
# Is what a study says what the machine delivers?

Twelve ordinary scripts ([benchmarks/truth](../benchmarks/truth)) run under a plain shell loop of
n background processes of one thread each, and count their own iterations. Each is a study of
its own too: default settings, two replicates. Loops and studies take turns. The table compares the
study's number for one thread per process with the loop's.

- **Throughput** is `steps_per_s` of `tables/points.csv`. The loop counts from each process's first
  iteration end on, while all n run; where a script has periods, from the end of one to the end of
  another. The baseline's and its repeat's replicates count, since both are the same launch.
- **Whole processes** per hour are those of the study's confirmation, or, where it has not confirmed
  this launch at this count, the predicted `models_per_hour`. With n = 1 they are those of the
  default launch, on both sides: a study always confirms that one. The loop counts from the end of
  each slot's first process to the end of its last one.
- **torch.compile** is compared after compilation on both sides. Each loop and each study starts
  with empty caches.

A cell fails if the 95% interval of its ratio misses {LOW} to {HIGH}. How much loops of one script
differ, and replicates of one study, is learnt from all rows together, as a study learns how much
starts of a launch differ ([intervals.md](intervals.md)). An interval wider than {WIDEST:.0%} on a
side is not precise enough, which fails too. Printed by `python benchmarks/truth.py`.

"""
HEAD = ("script", "n", "compared", "loop", "study", "study / loop", "95% interval", "verdict",
        "between steps, as the study says")  # fmt: skip


def markdown(cells: Sequence[Cell], older: Sequence[str], machines: Sequence[str]) -> str:
    """Return the table, its count of cells that are true, and where it was made.

    Args:
        cells: In the order of the table.
        older: Rows whose runs are of older code than is here now.
        machines: Those that the runs were done on.
    """
    lines = [_line(HEAD), _line(["---"] * len(HEAD)), *(_line(_words(one)) for one in cells)]
    true = sum(one.verdict == OK for one in cells)
    reasons = [f"- {one.row}, n = {one.n}: {why}" for one in cells for why in one.reasons]
    old = [f"- Runs of older code: {', '.join(older)}."] if older else []
    made = [f"- On {machine}." for machine in machines]
    counts = {
        "false": sum(one.verdict == FAIL for one in cells),
        "not precise enough": sum(one.verdict == COARSE for one in cells),
        "without a number": sum(one.verdict in {NO_LOOP, NO_STUDY} for one in cells),
    }
    others = ", ".join(f"{count} {name}" for name, count in counts.items())
    summary = f"- {true} of {len(cells)} cells are true; {others}."
    ending = [summary, *old, *made, *reasons]
    return "\n".join([*lines, "", *ending]) + "\n"


def _line(words: Iterable[str]) -> str:
    return f"| {' | '.join(word.replace('|', '/') for word in words)} |"


def _words(one: Cell) -> list[str]:
    row, found = ROWS[one.row], one.ratio
    known = [(name, value) for name, value in one.between.items() if value is not None]
    study = f"{one.study.value:.4g} ({one.source})" if one.study else ""
    return [
        row.what,
        str(one.n),
        row.counts,
        f"{one.loop.value:.4g} ({one.loops} times)" if one.loop else "",
        study,
        "" if math.isnan(found.value) else f"{found.value:.3f}",
        "" if math.isnan(found.low) else f"{found.low:.3f} to {found.high:.3f}",
        one.verdict,
        ", ".join(f"{name} {round(value, 6):.3g}" for name, value in known),
    ]
