"""The effect of each single change of the baseline on a step, and of the best of them together.

All are compared at the smallest process count that the baseline was measured at: with one process
alone, a change shows its effect on one model. Gains are ratios of throughputs, so they include the
time between steps. Phases are means over the counted steps, long ones included.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

import numpy as np
import pandas as pd
from msgspec import structs

from scaling_study.common.axis_values import Axes
from scaling_study.common.quantities import known
from scaling_study.config.launches import differing
from scaling_study.config.plan import Plan
from scaling_study.config.work import epoch_s
from scaling_study.records.analysis import Combined, SingleChange, SingleChanges
from scaling_study.stats.interval import Interval
from scaling_study.stats.throughputs import Throughputs

PHASES = ("load", "forward", "backward", "optimizer")


def single_changes(
    machine: str, points: pd.DataFrame, measured: Throughputs, plan: Plan
) -> SingleChanges:
    """Compare the launches that change one axis, and those on the way to the best combination.

    Args:
        machine: Hash of the machine.
        points: Its rows of the table of points.
        measured: Joint draws of its throughputs.
        plan: The plan, with what was learnt from the records.
    """
    launches = plan.by_id
    base = launches[plan.baseline].axes
    counts = points.loc[points["launch"] == plan.baseline, "n"]
    if counts.empty:
        return SingleChanges(machine=machine)
    n = int(counts.min())
    shown = {
        str(row["launch"]): _shown(row, plan) for _, row in points[points["n"] == n].iterrows()
    }

    def gain(launch: str) -> Interval:
        return measured.ratio((launch, n), (plan.baseline, n))

    different = {
        launch: differing(launches[launch].axes, base)
        for launch in shown
        if launches[launch].role != "repeat"
    }
    changes = [
        structs.replace(shown[launch], axis=axis, value=value, gain=gain(launch))
        for launch, changed in different.items()
        if len(changed) == 1
        for axis, value in changed.items()
    ]
    axes = list(base)
    changes.sort(key=lambda change: (axes.index(change.axis), _order(change.value)))
    ours = shown[plan.baseline]
    return SingleChanges(
        machine=machine,
        n=n,
        baseline=ours,
        changes=tuple(changes),
        steps=tuple(_steps(ours, different, changes, gain)),
    )


def _shown(row: pd.Series, plan: Plan) -> SingleChange:  # type: ignore[explicit-any]  # mixed cells
    """Return the part of a row of the table of points that is shown; NaN if not known."""
    return SingleChange(
        epoch_s=epoch_s(plan, row["steps_per_s"] / row["n"]),
        **{name: row[name] for name in ("launch", "replicates", "step_s", "cpu_use")},
        **{phase: row[f"{phase}_s_per_step"] for phase in PHASES},
    )


def _order(value: object) -> tuple[bool, float, str]:
    """Return a sort key: numbers by size, then texts."""
    if isinstance(value, int | float):
        return (False, float(value), str(value))
    return (True, 0.0, str(value))


def _steps(
    base: SingleChange,
    different: Mapping[str, Axes],
    changes: Sequence[SingleChange],
    gain: Callable[[str], Interval],
) -> Iterator[Combined]:
    """Yield the changes that lead from the baseline to the best combination, one after another.

    The combination is the best launch whose changes were all tried alone. The change that gains
    most alone comes first.
    """
    alone = {(change.axis, change.value): change for change in changes}
    whole = [
        launch
        for launch, changed in different.items()
        if len(changed) > 1 and changed.items() <= alone.keys()
    ]
    if not whole:
        return
    best = max(whole, key=lambda launch: gain(launch).value)
    order = [alone[pair] for pair in different[best].items()]
    order.sort(key=lambda change: -change.gain.value)
    for count, change in enumerate(order, 1):
        pairs = {each.axis: each.value for each in order[:count]}
        same = [launch for launch, changed in different.items() if changed == pairs]
        yield Combined(
            axis=change.axis,
            value=change.value,
            alone=change.gain,
            predicted=_predicted(base, order[:count]),
            measured=gain(same[0]) if same else None,
        )


def _predicted(base: SingleChange, changes: Sequence[SingleChange]) -> float:
    """Predict the gain of several changes together.

    Each phase of a step gets the strongest speedup and the strongest slowdown that any of the
    changes brought alone. The product of all would promise too much: changes also affect phases
    that they do not aim at, for example by leaving more of a cache, and these effects mostly
    overlap (docs/one-model.md compares both rules). Where phases are not known, gains multiply.
    """
    phases = [change.phases for change in (base, *changes)]
    if not all(map(known, chain.from_iterable(phases))):
        return math.prod(change.gain.value for change in changes)
    before, *alone = np.array(phases, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        times = np.nan_to_num(np.array(alone) / before, nan=1.0, posinf=1.0)
    after_s = before * times.min(axis=0).clip(max=1.0) * times.max(axis=0).clip(min=1.0)
    return float(before.sum() / after_s.sum()) if after_s.any() else math.nan
