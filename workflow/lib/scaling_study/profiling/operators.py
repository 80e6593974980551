"""From torch's profiler to rows of tables/operators: times per step and per call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from scaling_study.profiling.operator_groups import group_of
from scaling_study.records.columns import OPERATORS

if TYPE_CHECKING:
    from collections.abc import Mapping

NAMES = ["operator", "phase"]
SUMS = ["calls", "self_s", "total_s", "flops"]


def operator_rows(
    content: Mapping[str, Any],
    *,
    machine: str,
    launch: str,
    label: str,
    role: str,
    n: int,
    overhead: float | None,
) -> pd.DataFrame:
    """Make the rows of one profiled point.

    Args:
        content: operators.json: sums over ``steps`` steps. A number may be None or missing.
        machine: hash of the machine.
        launch: its id.
        label: its text.
        role: why it is in the plan.
        n: members that trained.
        overhead: step time while profiled over that of unprofiled windows.

    Returns:
        Rows as ``OPERATORS`` has them, one for each operator and phase.

    Raises:
        ValueError: the profile covers no step.
    """
    steps = content["steps"]
    if steps < 1:
        raise ValueError(f"a profile of {label} with {n} covers no step")
    found = pd.DataFrame(content["rows"], columns=[*NAMES, *SUMS])
    found[SUMS] = found[SUMS].astype(float)
    # min_count: a sum of nothing known is unknown.
    sums = found.groupby(NAMES, sort=False)[SUMS].sum(min_count=1).reset_index()
    calls = sums["calls"].where(sums["calls"] > 0)
    return OPERATORS.frame(
        sums.assign(
            machine=machine,
            launch=launch,
            label=label,
            role=role,
            n=n,
            group=[group_of(name) for name in sums["operator"]],
            calls_per_step=sums["calls"] / steps,
            self_s_per_step=sums["self_s"] / steps,
            total_s_per_step=sums["total_s"] / steps,
            self_s_per_call=sums["self_s"] / calls,
            total_s_per_call=sums["total_s"] / calls,
            flops_per_step=sums["flops"] / steps,
            steps=steps,
            overhead=float("nan") if overhead is None else overhead,
        )
    )
