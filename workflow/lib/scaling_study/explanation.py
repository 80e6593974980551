"""Why it does not scale further: what the tables and the fitted laws show, in sentences.

Each function returns sentences about one launch. A later stage that knows causes adds a function of
its own to ``explain``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scaling_study.quantities import (
    format_count,
    format_number,
    format_percent,
    format_seconds,
    known,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

ACCOUNTS = {
    "trainer_user_s_per_step": "CPU time in user mode",
    "trainer_system_s_per_step": "CPU time in the kernel",
    "trainer_runqueue_s_per_step": "waiting for a CPU (run queue)",
    "trainer_blocked_s_per_step": "blocked",
}
"""Where the training thread's time goes; the four add up to the time of a step."""

LAWS = {
    "linear": "growth in proportion",
    "hard_saturation": "growth in proportion up to a hard ceiling",
    "smooth_saturation": "growth that bends slowly into a ceiling",
    "domain_saturation": "a ceiling of its own for each part of the machine that members fill",
    "usl": "the universal scalability law (contention and coherence)",
}
STILL_SCALING = 0.9
"""From this efficiency on, there is nothing to explain."""
NOTICEABLE = 0.05
"""A share of the added time below this is left out of the sentence."""
LONGER = 1.05
"""From this ratio of step times on, there is added time worth dividing."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is known about the end of one launch's scaling: sentences."""

    launch: str
    findings: tuple[str, ...]


def explain(
    launches: Mapping[str, str],
    points: pd.DataFrame,
    scaling: Sequence[Mapping[str, Any]],
    usable_cpus: int,
) -> tuple[Explanation, ...]:
    """Say what a machine's data shows about the end of scaling.

    Args:
        launches: what to explain: text of each launch by id.
        points: tables/points of this machine.
        scaling: its launches in analysis/scaling.json.
        usable_cpus: CPUs that the members may use.

    Returns:
        One entry for each launch that has points.
    """
    laws = {entry["launch"]: entry["laws"] for entry in scaling}
    found: list[Explanation] = []
    for launch, text in launches.items():
        rows = points[points["launch"] == launch].sort_values("n")
        if not rows.empty:
            findings = (*_growth(rows, usable_cpus), *_accounts(rows), *_law(laws[launch]))
            found.append(Explanation(text, findings))
    return tuple(found)


def _growth(rows: pd.DataFrame, usable_cpus: int) -> list[str]:
    """How far throughput grew, and how many CPUs were busy at its end."""
    first, last = rows.iloc[0], rows.iloc[-1]
    if len(rows) == 1:
        return [f"Only {_processes(last['n'])} measured: nothing is known about scaling."]
    top = rows.iloc[int(rows["steps_per_s"].argmax())]
    sentence = (
        f"From {first['n']} to {_processes(last['n'])} throughput changed by a factor of "
        f"{format_number(last['steps_per_s'] / first['steps_per_s'])}"
    )
    if top["n"] not in (first["n"], last["n"]):
        sentence += (
            f" (with {top['n']}, its highest, by "
            f"{format_number(top['steps_per_s'] / first['steps_per_s'])})"
        )
    if known(last["efficiency"]):
        sentence += f": an efficiency of {format_percent(last['efficiency'])}"
        if last["efficiency"] >= STILL_SCALING:
            sentence += ", so it still scales there"
    cpus = f"{format_number(last['cpu_use'])} of {format_count(usable_cpus, 'usable CPU')}"
    return [f"{sentence}. With {last['n']}, the members kept {cpus} busy."]


def _law(laws: Mapping[str, Any]) -> list[str]:
    """Which scaling law fits best, and where its knee is."""
    if laws["status"] != "fitted":
        return [f"No scaling law was fitted: {laws['reason']}."]
    count = format_count(len(laws["candidates"]), "scaling law")
    sentence = f"Of {count}, {LAWS[laws['best']]} fits best ({laws['text']})"
    if known(laws["knee"]):
        sentence += f"; its knee is at {format_number(laws['knee'])} processes"
    return [f"{sentence}."]


def _accounts(rows: pd.DataFrame) -> list[str]:
    """Divide the step time that the largest count adds to the smallest."""
    columns = list(ACCOUNTS)
    first, last = rows[["n", *columns]].iloc[0], rows[["n", *columns]].iloc[-1]
    before_s, after_s = float(first[columns].sum()), float(last[columns].sum())
    if rows[columns].isna().any(axis=None) or after_s < LONGER * before_s:
        return []
    added_s = after_s - before_s
    shares = {name: float(last[name] - first[name]) / added_s for name in columns}
    parts = [
        f"{format_percent(share)} {ACCOUNTS[name]}"
        for name, share in sorted(shares.items(), key=lambda item: -item[1])
        if share >= NOTICEABLE
    ]
    less = [ACCOUNTS[name] for name, share in shares.items() if share <= -NOTICEABLE]
    shrunk = f" ({', '.join(less)} shrank)" if less else ""
    sentence = (
        f"A step of the training thread took {format_seconds(before_s)} with "
        f"{_processes(first['n'])} and {format_seconds(after_s)} with {last['n']:.0f}. Of the "
        f"{format_seconds(added_s)} added: {', '.join(parts)}{shrunk}."
    )
    return [sentence]


def _processes(count: float) -> str:
    return format_count(int(count), "process", "processes")
