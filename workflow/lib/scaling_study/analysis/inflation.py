"""Operators that take longer: two profiles compared per step and per call.

The times of the operators and the rest of the step, which no operator covers, add up to the step,
so the differences add up to the step's difference and each has a share of it.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
import pandas as pd
from msgspec import convert
from msgspec.structs import replace

from scaling_study.common.quantities import format_count
from scaling_study.profiling.operator_groups import OUTSIDE, names
from scaling_study.profiling.profiles import Kind, choose_pairs
from scaling_study.records.analysis import Comparison, GroupRow, Inflation, OperatorRow, Point, Side
from scaling_study.records.profile import Profiled

R = TypeVar("R")
SUMS = ["calls_per_step", "self_s_per_step"]


def compare(
    a: Side, b: Side, operators: pd.DataFrame, *, kind: Kind, rest: str = OUTSIDE
) -> Comparison:
    """Compare two profiles.

    Args:
        a: the profile to start from.
        b: the profile compared with it.
        operators: rows of tables/operators of one machine; those of the two sides are used.
        kind: what the sides differ in.
        rest: group of the row for the time that the table's operators do not cover; in
            parentheses, it stands for an operator, too.
    """
    before, after = (
        operators[(operators["launch"] == side.launch) & (operators["n"] == side.n)]
        for side in (a, b)
    )
    table = _join(before, after)
    uncovered = {
        "operator": f"({rest})", "phase": "", "group": rest,
        "self_a_s": a.step_s - table["self_a_s"].sum(),
        "self_b_s": b.step_s - table["self_b_s"].sum(),
    }  # fmt: skip
    table = pd.concat([table, pd.DataFrame([uncovered])], ignore_index=True)
    return Comparison(
        kind=kind, title=name_pair(kind, a, b), a=a, b=b, rows=_rows(table), groups=_groups(table),
    )  # fmt: skip


def compare_all(manifests: Sequence[Profiled], operators: pd.DataFrame) -> list[Inflation]:
    """Make every comparison of a study's profiles.

    Each launch's lowest number of processes is compared with its highest; then the default with the
    recommended launch, at the highest number that both have.

    Args:
        manifests: as ``profiles.read_manifests`` returns them.
        operators: tables/operators.
    """
    inflations = []
    for machine in dict.fromkeys(manifest.machine for manifest in manifests):
        own_manifests = [manifest for manifest in manifests if manifest.machine == machine]
        sides: dict[str, dict[int, Side]] = {}
        for side in itertools.chain.from_iterable(map(profiled_sides, own_manifests)):
            sides.setdefault(side.launch, {}).setdefault(side.n, side)
        rows = operators[operators["machine"] == machine]
        pairs = choose_pairs(own_manifests, sides)
        comparisons = tuple(compare(a, b, rows, kind=kind) for kind, a, b in pairs)
        inflations.append(Inflation(machine=machine, comparisons=comparisons))
    return inflations


def profiled_sides(manifest: Profiled) -> Iterator[Side]:
    """Yield the points of a target whose operators were profiled."""
    for point in manifest.points:
        profile = point.profile("operators")
        if profile is not None and profile.step_s is not None:
            yield Side(
                launch=manifest.launch or "",
                label=manifest.label or "",
                n=point.n,
                step_s=profile.step_s,
            )


def _join(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Join the operators of both sides; an operator that a side lacks has no calls on it.

    If one side has no phases, the phases of the other are summed.
    """
    if not (before["phase"].any() and after["phase"].any()):
        before, after = before.assign(phase=""), after.assign(phase="")
    keys = ["operator", "phase", "group"]
    a, b = (frame.groupby(keys)[SUMS].sum(min_count=1) for frame in (before, after))
    both = a.index.union(b.index)
    a, b = (frame.reindex(both, fill_value=0.0) for frame in (a, b))
    a.columns, b.columns = ["calls_a", "self_a_s"], ["calls_b", "self_b_s"]
    return a.join(b).reset_index()


def _rows(table: pd.DataFrame) -> tuple[OperatorRow, ...]:
    """Return differences, shares and ratios by operator, the largest added time first."""
    added_s = table["self_b_s"] - table["self_a_s"]
    before_s, after_s = (_divide(table[f"self_{side}_s"], table[f"calls_{side}"]) for side in "ab")
    rows = table.assign(
        difference_s=added_s,
        share=added_s / (added_s.sum() or np.nan),
        per_call_ratio=_divide(after_s, before_s),
        added_s=-added_s.fillna(0.0),
    ).sort_values(["added_s", "operator"], kind="stable")
    return _convert(rows, OperatorRow)


def _groups(table: pd.DataFrame) -> tuple[GroupRow, ...]:
    """Return differences, shares and ratios by group, in the order of the groups."""
    sums = table.groupby("group")[["self_a_s", "self_b_s"]].sum()
    sums = sums.loc[[name for name in names() if name in sums.index]]
    added_s = sums["self_b_s"] - sums["self_a_s"]
    groups = sums.assign(
        difference_s=added_s,
        share=added_s / (added_s.sum() or np.nan),
        # The row for the rest is a difference of two times and may come out below zero.
        ratio=_divide(sums["self_b_s"], sums["self_a_s"].clip(lower=0.0)),
    )
    return _convert(groups.reset_index(), GroupRow)


def _convert(table: pd.DataFrame, kind: type[R]) -> tuple[R, ...]:
    """Return the rows of a table as records, in which NaN is None."""
    rows = table.astype(object).where(table.notna(), None).to_dict("records")
    return convert(rows, tuple[kind, ...])  # type: ignore[valid-type]  # known when it runs


def _divide(over: "pd.Series[float]", under: "pd.Series[float]") -> "pd.Series[float]":
    return over / under.where(under != 0)


def name_pair(kind: Kind, a: Point, b: Point) -> str:
    """Return the title of a comparison of two points."""
    processes = format_count(b.n, "process", "processes")
    if kind == "counts":
        return f"{a.label}: {a.n} against {processes}"
    return f"{a.label} against {b.label}, with {processes}"


def sum_operators(comparison: Comparison) -> list[OperatorRow]:
    """Return a comparison's rows without phases, the largest part of the step's difference first.

    An unknown value of an operator in a phase counts as 0.
    """
    rows: dict[str, OperatorRow] = {}
    for row in comparison.rows:
        before = rows.get(row.operator)
        sums: dict[str, float] = {
            name: ((getattr(before, name) if before else None) or 0.0) + (getattr(row, name) or 0.0)
            for name in ("calls_a", "calls_b", "self_a_s", "self_b_s", "difference_s")
        }
        rows[row.operator] = replace(OperatorRow(operator=row.operator, group=row.group), **sums)
    sign = 1 if comparison.added_s >= 0 else -1
    return sorted(rows.values(), key=lambda row: -sign * (row.difference_s or 0.0))
