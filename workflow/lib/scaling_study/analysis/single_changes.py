"""The effect of each single change of the baseline on a step, and of the best of them together.

All of it at one process count, the smallest that the baseline was measured at: with one process
alone a change shows what it does for one model. Gains are ratios of throughputs, so they count
what lies between steps; the phases are those of ordinary steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scaling_study.common.storage import FLAT
from scaling_study.config.launches import differing
from scaling_study.config.work import epoch_s
from scaling_study.stats import intervals

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pandas as pd

    from scaling_study.config.plan import Plan
    from scaling_study.stats.intervals import Interval

COLUMNS = (
    *("launch", "replicates", "step_s", "cpu_use"),
    *(f"{phase}_s_per_step" for phase in ("load", "forward", "backward", "optimizer")),
)
"""Of the table of points: what is shown of one."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A point: times of a step and of its phases; NaN is not known."""

    epoch_s: float | None
    launch: str
    replicates: int
    step_s: float
    cpu_use: float
    load: float
    forward: float
    backward: float
    optimizer: float

    @property
    def phases(self) -> tuple[float, ...]:
        """They add up to a step."""
        return self.load, self.forward, self.backward, self.optimizer


@dataclass(frozen=True, slots=True)
class Change:
    """A launch that differs from the baseline in one axis, and its gain in throughput."""

    shown: Shown = field(metadata=FLAT)
    axis: str
    value: Any
    gain: Interval


@dataclass(frozen=True, slots=True)
class Step:
    """A change on the way to the best launch, after those before it.

    Attributes:
        axis: What it changes.
        value: To what.
        alone: Its gain.
        predicted: Gain of all so far together (see `_predicted`).
        measured: The same of the launch with just these changes; None where there is none.
    """

    axis: str
    value: Any
    alone: Interval
    predicted: float
    measured: Interval | None


@dataclass(frozen=True, slots=True)
class SingleChanges:
    """A machine's entry of single_changes.json, without the machine.

    Attributes:
        n: Process count of all of it.
        baseline: None where it has no valid window.
        changes: In the order of the axes.
        steps: The way to the best launch whose changes were all tried alone.
    """

    n: int | None
    baseline: Shown | None
    changes: Sequence[Change] = ()
    steps: Sequence[Step] = ()


def single_changes(points: pd.DataFrame, rates: pd.DataFrame, plan: Plan) -> SingleChanges:
    """Compare the launches that change one thing, and those on the way to the best one.

    Args:
        points: The machine's rows of the table of points.
        rates: Its rows of the table of replicates.
        plan: plan.json, or what a race has made of it.
    """
    launches = plan.by_id
    base = launches[plan.baseline].axes
    counts = points.loc[points["launch"] == plan.baseline, "n"]
    if counts.empty:
        return SingleChanges(None, None)
    n = int(counts.min())
    rows = points[points["n"] == n]
    shown = {
        row[0]: Shown(epoch_s(plan, steps_per_s / n), *row)
        for steps_per_s, *row in zip(
            *(rows[name].tolist() for name in ("steps_per_s", *COLUMNS)), strict=True
        )
    }
    measured = intervals.Means(rates, "steps_per_s")

    def gain(launch: str) -> Interval:
        return measured.ratio((launch, n), (plan.baseline, n))

    different = {
        launch: differing(launches[launch].axes, base)
        for launch in shown
        if launch in launches and launches[launch].role != "repeat"
    }
    changes = [
        Change(shown[launch], axis, value, gain(launch))
        for launch, changed in different.items()
        if len(changed) == 1
        for axis, value in changed.items()
    ]
    axes = list(base)
    changes.sort(key=lambda one: (axes.index(one.axis), _order(one.value)))
    ours = shown[plan.baseline]
    return SingleChanges(n, ours, changes, _steps(ours, different, changes, gain))


def _order(value: object) -> tuple[bool, float, str]:
    """Numbers by size, then texts."""
    if isinstance(value, int | float):
        return (False, float(value), str(value))
    return (True, 0.0, str(value))


def _steps(
    base: Shown,
    different: Mapping[str, Mapping[str, Any]],
    changes: Sequence[Change],
    gain: Callable[[str], Interval],
) -> list[Step]:
    """The way from the baseline to the best of the launches whose changes were all tried alone.

    The change that gains most alone comes first.
    """
    alone = {(one.axis, str(one.value)): one for one in changes}
    known = {
        launch: [(axis, str(value)) for axis, value in changed.items()]
        for launch, changed in different.items()
    }
    whole = [
        launch
        for launch, changed in known.items()
        if len(changed) > 1 and all(one in alone for one in changed)
    ]
    if not whole:
        return []
    best = max(whole, key=lambda launch: gain(launch).value)
    order = sorted(known[best], key=lambda one: -alone[one].gain.value)
    found = []
    for count, one in enumerate(order, 1):
        same = [launch for launch, own in known.items() if set(own) == set(order[:count])]
        step = alone[one]
        predicted = _predicted(base, [alone[each] for each in order[:count]])
        together = gain(same[0]) if same else None
        found.append(Step(step.axis, step.value, step.gain, predicted, together))
    return found


def _predicted(base: Shown, changes: Sequence[Change]) -> float:
    """What changes are expected to gain together.

    Each phase of a step gets the strongest shortening and the strongest lengthening that any of the
    changes brought it alone. Products of all would promise too much: what changes do to phases that
    are not theirs, as by leaving more of a cache, they mostly do to the same time (in
    docs/one-model.md both are compared). Where phases are not known, gains multiply.
    """
    shown = [one.shown.phases for one in changes]
    if any(math.isnan(time) for one in (base.phases, *shown) for time in one):
        return math.prod(one.gain.value for one in changes)
    after_s = 0.0
    for before_s, *alone_s in zip(base.phases, *shown, strict=True):
        alone = [time / before_s for time in alone_s if before_s]
        after_s += before_s * min(1.0, *alone, 1.0) * max(1.0, *alone, 1.0)
    return sum(base.phases) / after_s if after_s else math.nan
