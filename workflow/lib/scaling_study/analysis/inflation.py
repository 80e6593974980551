"""Operators that take longer: two profiles compared per step of work and per call.

The times of the operators and the rest of the step, which no operator covers, add up to the step,
so the differences add up to the step's difference and each has a share of it.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import pandas as pd
from msgspec import convert
from msgspec.structs import replace

from scaling_study.common.quantities import (
    format_count,
    format_number,
    format_percent,
    format_ratio,
    format_seconds,
)
from scaling_study.profiling.operator_groups import OUTSIDE, names
from scaling_study.profiling.profiles import Kind, choose_pairs
from scaling_study.records.analysis import Comparison, GroupRow, Inflation, OperatorRow, Side
from scaling_study.records.profile import Profiled
from scaling_study.stats.thresholds import NOTICEABLE

REST = "(outside operators)"
"""The row for the part of a step that no operator covers."""
SAME = 0.02
"""A step whose time changed by less than this share has not changed: profiles are of few steps."""
R = TypeVar("R")
SUMS = ["calls_per_step", "self_s_per_step"]


def compare(
    a: Side,
    b: Side,
    operators: pd.DataFrame,
    *,
    kind: Kind,
    rest: tuple[str, str] = (REST, OUTSIDE),
) -> Comparison:
    """Compare two profiles.

    Args:
        a: the profile to start from.
        b: the profile compared with it.
        operators: rows of tables/operators of one machine; those of the two sides are used.
        kind: what the sides differ in.
        rest: operator and group of the row for what the operators of the table do not cover.
    """
    before, after = (
        operators[(operators["launch"] == side.launch) & (operators["n"] == side.n)]
        for side in (a, b)
    )
    table = _join(before, after)
    uncovered = {
        "operator": rest[0], "phase": "", "group": rest[1],
        "self_a_s": a.step_s - table["self_a_s"].sum(),
        "self_b_s": b.step_s - table["self_b_s"].sum(),
    }  # fmt: skip
    table = pd.concat([table, pd.DataFrame([uncovered])], ignore_index=True)
    comparison = Comparison(
        kind=kind, title=_title(kind, a, b), a=a, b=b, rows=_rows(table), groups=_groups(table),
    )  # fmt: skip
    return replace(comparison, text=describe(comparison))


def compare_all(manifests: Sequence[Profiled], operators: pd.DataFrame) -> list[Inflation]:
    """Make every comparison of a study's profiles.

    For each launch the lowest against the highest number of processes; then the default against the
    recommended launch, with the highest number that both have.

    Args:
        manifests: of ``profiles.read_manifests``.
        operators: tables/operators.
    """
    found = []
    for machine in dict.fromkeys(manifest.machine for manifest in manifests):
        own = [one for one in manifests if one.machine == machine]
        sides: dict[str, dict[int, Side]] = {}
        for side in itertools.chain.from_iterable(map(profiled_sides, own)):
            sides.setdefault(side.launch, {}).setdefault(side.n, side)
        rows = operators[operators["machine"] == machine]
        pairs = choose_pairs(own, sides)
        comparisons = tuple(compare(a, b, rows, kind=kind) for kind, a, b in pairs)
        found.append(Inflation(machine=machine, comparisons=comparisons))
    return found


def profiled_sides(manifest: Profiled) -> Iterator[Side]:
    """The points of a target whose operators were profiled."""
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
    """Put the operators of both sides side by side; one that a side lacks has no calls in it.

    Where one side knows no phases, there is nothing to compare them with: they are summed.
    """
    if not (before["phase"].any() and after["phase"].any()):
        before, after = before.assign(phase=""), after.assign(phase="")
    keys = ["operator", "phase", "group"]
    a, b = (frame.groupby(keys)[SUMS].sum(min_count=1) for frame in (before, after))
    both = a.index.union(b.index)
    a, b = (one.reindex(both, fill_value=0.0) for one in (a, b))
    a.columns, b.columns = ["calls_a", "self_a_s"], ["calls_b", "self_b_s"]
    return a.join(b).reset_index()


def _rows(table: pd.DataFrame) -> tuple[OperatorRow, ...]:
    """Differences, shares and ratios by operator, the largest added time first."""
    added_s = table["self_b_s"] - table["self_a_s"]
    per_call_s = (_divide(table[f"self_{side}_s"], table[f"calls_{side}"]) for side in "ab")
    before_s, after_s = per_call_s
    found = table.assign(
        difference_s=added_s,
        share=added_s / (added_s.sum() or np.nan),
        per_call_ratio=_divide(after_s, before_s),
        added_s=-added_s.fillna(0.0),
    ).sort_values(["added_s", "operator"], kind="stable")
    return _convert(found, OperatorRow)


def _groups(table: pd.DataFrame) -> tuple[GroupRow, ...]:
    """The same by group, in the order of the groups."""
    sums = table.groupby("group")[["self_a_s", "self_b_s"]].sum()
    sums = sums.loc[[name for name in names() if name in sums.index]]
    added_s = sums["self_b_s"] - sums["self_a_s"]
    found = sums.assign(
        difference_s=added_s,
        share=added_s / (added_s.sum() or np.nan),
        # What no operator covers is a difference of two times and may come out below zero.
        ratio=_divide(sums["self_b_s"], sums["self_a_s"].clip(lower=0.0)),
    )
    return _convert(found.reset_index(), GroupRow)


def _convert(table: pd.DataFrame, kind: type[R]) -> tuple[R, ...]:
    """Return the rows of a table as records, in which NaN is None."""
    rows = table.astype(object).where(table.notna(), None).to_dict("records")
    return convert(rows, tuple[kind, ...])  # type: ignore[valid-type]  # known when it runs


def _divide(over: "pd.Series[float]", under: "pd.Series[float]") -> "pd.Series[float]":
    return over / under.where(under != 0)


def _title(kind: str, a: Side, b: Side) -> str:
    if kind == "counts":
        return f"{a.label}: {a.n} against {_processes(b.n)}"
    return f"{a.label} against {b.label}, with {_processes(b.n)}"


def describe(comparison: Comparison) -> str:
    """Describe the largest change in one or two sentences with numbers."""
    a, b, added_s = comparison.a, comparison.b, comparison.added_s
    change = (
        f"A step of {a.label} took {format_seconds(a.step_s)} with {_processes(a.n)} and "
        f"{format_seconds(b.step_s)} with {b.n}"
        if comparison.kind == "counts"
        else f"With {_processes(a.n)} a step took {format_seconds(a.step_s)} with "
        f"{a.label} and {format_seconds(b.step_s)} with {b.label}"
    )
    if abs(added_s) < SAME * a.step_s:
        return f"{change}: no difference worth dividing among operators."
    more = "more" if added_s > 0 else "less"
    largest = sum_operators(comparison)[0]
    difference_s = largest.difference_s or 0.0
    text = (
        f"{change}, {format_seconds(abs(added_s))} {more}. Most of it is {_name(largest)}"
        if difference_s / added_s > 0.5  # noqa: PLR2004 (most is more than half)
        else f"{change}, {format_seconds(abs(added_s))} {more}. The largest part is "
        f"{_name(largest)}"
    )
    text += (
        f": {format_seconds(abs(difference_s))} {more} per step "
        f"({format_percent(difference_s / added_s)} of the difference)"
    )
    text += f"{_per_call(largest)}. {_by_group(comparison.groups, added_s)}"
    return text.strip()


def sum_operators(comparison: Comparison) -> list[OperatorRow]:
    """A comparison's rows without phases, the largest part of the step's difference first.

    What is not known of an operator in a phase counts as nothing.
    """
    found: dict[str, OperatorRow] = {}
    for row in comparison.rows:
        before = found.get(row.operator)
        sums: dict[str, float] = {
            name: ((getattr(before, name) if before else None) or 0.0) + (getattr(row, name) or 0.0)
            for name in ("calls_a", "calls_b", "self_a_s", "self_b_s", "difference_s")
        }
        blank = OperatorRow(operator=row.operator, group=row.group)
        found[row.operator] = replace(blank, **sums)
    sign = 1 if comparison.added_s >= 0 else -1
    return sorted(found.values(), key=lambda row: -sign * (row.difference_s or 0.0))


def _name(row: OperatorRow) -> str:
    return "what no operator covers" if row.group == OUTSIDE else f"{row.operator}"


def _per_call(row: OperatorRow) -> str:
    """How the calls of an operator changed, in number and in time."""
    if not row.calls_a or not row.calls_b:
        return ""
    number = f"{format_calls(row.calls_b)} {'call' if row.calls_b == 1 else 'calls'} a step"
    if abs(row.calls_b / row.calls_a - 1) > NOTICEABLE:
        number += f" instead of {format_calls(row.calls_a)}"
    if not row.self_a_s:
        return f", {number}"
    before_s, after_s = row.self_a_s / row.calls_a, (row.self_b_s or 0.0) / row.calls_b
    return (
        f", {number} at {format_seconds(after_s)} each instead of {format_seconds(before_s)} "
        f"({format_ratio(after_s / before_s)})"
    )


def format_calls(calls: float | None) -> str:
    """Write a number of calls per step: whole where it is."""
    return f"{calls:,.0f}" if calls is not None and calls == round(calls) else format_number(calls)


def _by_group(groups: Iterable[GroupRow], added_s: float) -> str:
    """The groups that the difference is in, as a sentence."""
    shares = {group.group: group.difference_s / added_s for group in groups}
    parts = [
        f"{name} {format_percent(share)}"
        for name, share in sorted(shares.items(), key=lambda item: -item[1])
        if share >= NOTICEABLE
    ]
    against = [name for name, share in shares.items() if share <= -NOTICEABLE]
    if not parts:
        return ""
    opposite = f" ({', '.join(against)} changed the other way)" if against else ""
    return f"By group: {', '.join(parts)}{opposite}."


def _processes(n: int) -> str:
    return format_count(n, "process", "processes")
