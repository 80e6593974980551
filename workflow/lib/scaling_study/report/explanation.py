"""Why it does not scale further: what the tables and the fitted laws show, in sentences.

Each function returns sentences about one launch. Causes that experiments found are told apart from
these, by ``headline_causes``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scaling_study.common.quantities import (
    format_count,
    format_interval,
    format_number,
    format_percent,
    format_seconds,
    known,
)
from scaling_study.stats.thresholds import GROWS_AT_LEAST, NOTICEABLE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

ACCOUNTS = {
    "trainer_user_s_per_step": "CPU time in user mode",
    "trainer_system_s_per_step": "CPU time in the kernel",
    "trainer_runqueue_s_per_step": "waiting for a CPU (run queue)",
    "trainer_throttled_s_per_step": "held back by a CPU quota",
    "trainer_blocked_s_per_step": "blocked",
    "trainer_residual_s_per_step": "not accounted for",
}
"""Where the training thread's time goes; they add up to the time of a step."""
QUOTA = "trainer_throttled_s_per_step"
"""The account that is missing where no cgroup counts it; then waiting for a CPU holds it."""

LAWS = {
    "linear": "growth in proportion",
    "hard_saturation": "growth in proportion up to a hard ceiling",
    "smooth_saturation": "growth that bends slowly into a ceiling",
    "domain_saturation": "a ceiling of its own for each part of the machine that members fill",
    "usl": "the universal scalability law (contention and coherence)",
}
STILL_SCALING = 0.9
"""From this efficiency on, there is nothing to explain."""


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
            growth, law = _growth(rows, usable_cpus), _law(laws[launch])
            findings = (*growth, *_accounts(rows), *_user_time(rows), *law)
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
    if (knee := laws["knee"]) is not None:
        sentence += (
            f"; its knee is at {format_number(knee['value'])} processes (95% interval "
            f"{format_interval(knee['low'], knee['high'], like=knee['value'])}, if the law holds)"
        )
    return [f"{sentence}."]


def _accounts(rows: pd.DataFrame) -> list[str]:
    """Divide the step time that the largest count adds to the smallest."""
    columns = list(ACCOUNTS)
    rows = rows[["n", *columns]].fillna({QUOTA: 0.0})
    first, last = rows.iloc[0], rows.iloc[-1]
    before_s, after_s = float(first[columns].sum()), float(last[columns].sum())
    if rows[columns].isna().any(axis=None) or after_s < GROWS_AT_LEAST * before_s:
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


def _user_time(rows: pd.DataFrame) -> list[str]:
    """Divide added user time into work, stalls and clock, where the machine counts."""
    columns = ["n", "user_s_per_step", "instructions_per_step", "cycles_per_step"]
    sides = rows.reindex(columns=columns).iloc[[0, -1]]
    one, many = (UserTime(*side) for side in sides[columns[1:]].itertuples(index=False))
    if sides.isna().any(axis=None) or many.user_s < GROWS_AT_LEAST * one.user_s:
        return []
    shares = many.growth_from(one)
    work, stalls, clock = (format_percent(shares[name]) for name in ("work", "stalls", "clock"))
    sentence = (
        f"All threads together spent {format_seconds(one.user_s)} in user mode per step with "
        f"{_processes(rows['n'].iloc[0])} and {format_seconds(many.user_s)} with "
        f"{rows['n'].iloc[-1]}. Of what was added, {work} is more instructions, {stalls} more "
        f"cycles for each of them (stalls), and {clock} a lower clock."
    )
    return [sentence]


@dataclass(frozen=True, slots=True)
class UserTime:
    """User time of a step (s), and what was counted in it: instructions and cycles."""

    user_s: float
    instructions: float
    cycles: float

    def growth_from(self, before: UserTime) -> dict[str, float]:
        """Divide the time added to ``before`` into work, stalls and clock: shares that add up.

        User time is instructions times cycles per instruction over the clock. The difference of a
        product divides without remainder by the logarithmic mean (Ang, Energy Policy 32, 2004).
        """
        factors = {
            "work": self.instructions / before.instructions,
            "stalls": self.cycles / self.instructions * before.instructions / before.cycles,
            "clock": self.user_s / self.cycles * before.cycles / before.user_s,
        }
        whole = math.log(self.user_s / before.user_s)
        return {name: math.log(factor) / whole for name, factor in factors.items()}


def _processes(count: float) -> str:
    return format_count(int(count), "process", "processes")
