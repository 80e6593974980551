"""Which operators take longer: two profiles compared per step of work and per call.

The times of the operators and the rest of the step, which no operator covers, add up to the step,
so the differences add up to the step's difference and each has a share of it.
"""

from collections.abc import Iterable, Iterator, Sequence

import pandas as pd
from msgspec.structs import replace

from scaling_study.common.quantities import (
    format_count,
    format_number,
    format_percent,
    format_ratio,
    format_seconds,
    known,
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
    before, after = (_of(operators, side) for side in (a, b))
    table = _join(before, after)
    uncovered = {
        "operator": rest[0], "phase": "", "group": rest[1],
        "self_a_s": a.step_s - table["self_a_s"].sum(),
        "self_b_s": b.step_s - table["self_b_s"].sum(),
    }  # fmt: skip
    table = pd.concat([table, pd.DataFrame([uncovered])], ignore_index=True)
    comparison = Comparison(
        kind=kind, title=_title(kind, a, b), a=a, b=b, rows=tuple(_rows(table)),
        groups=tuple(_groups(table)),
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
    machines = dict.fromkeys(manifest.machine for manifest in manifests)
    return [
        Inflation(
            machine=machine,
            comparisons=tuple(
                _comparisons(
                    [one for one in manifests if one.machine == machine],
                    operators[operators["machine"] == machine],
                )
            ),
        )
        for machine in machines
    ]


def _comparisons(manifests: Sequence[Profiled], operators: pd.DataFrame) -> Iterator[Comparison]:
    sides: dict[str, dict[int, Side]] = {}
    for manifest in manifests:
        for side in profiled_sides(manifest):
            sides.setdefault(side.launch, {}).setdefault(side.n, side)
    for kind, a, b in choose_pairs(manifests, sides):
        yield compare(a, b, operators, kind=kind)


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


def _of(operators: pd.DataFrame, side: Side) -> pd.DataFrame:
    return operators[(operators["launch"] == side.launch) & (operators["n"] == side.n)]


def _join(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Put the operators of both sides side by side; one that a side lacks has no calls in it.

    Where one side knows no phases, there is nothing to compare them with: they are summed.
    """
    if not (before["phase"].any() and after["phase"].any()):
        before, after = before.assign(phase=""), after.assign(phase="")
    keys = ["operator", "phase", "group"]
    sums = [
        frame.groupby(keys)[SUMS]
        .sum(min_count=1)
        .set_axis([f"calls_{one}", f"self_{one}_s"], axis=1)
        for one, frame in (("a", before), ("b", after))
    ]
    absent = [sums[1].index.difference(sums[0].index), sums[0].index.difference(sums[1].index)]
    whole = [
        pd.concat([one, pd.DataFrame(0.0, index=gone, columns=one.columns)])
        for one, gone in zip(sums, absent, strict=True)
    ]
    return whole[0].join(whole[1]).reset_index()


def _rows(table: pd.DataFrame) -> list[OperatorRow]:
    """Differences, shares and ratios by operator, the largest added time first."""
    added_s = float((table["self_b_s"] - table["self_a_s"]).sum())
    rows: list[OperatorRow] = []
    columns = ["operator", "phase", "group", "calls_a", "self_a_s", "calls_b", "self_b_s"]
    values = zip(*(table[name].tolist() for name in columns), strict=True)
    for operator, phase, group, *numbers in values:
        calls_a, self_a_s, calls_b, self_b_s = (one if known(one) else None for one in numbers)
        difference_s = None if self_a_s is None or self_b_s is None else self_b_s - self_a_s
        rows.append(
            OperatorRow(
                operator=operator, phase=phase, group=group, calls_a=calls_a, self_a_s=self_a_s,
                calls_b=calls_b, self_b_s=self_b_s, difference_s=difference_s,
                share=_divide(difference_s, added_s),
                per_call_ratio=_divide(_divide(self_b_s, calls_b), _divide(self_a_s, calls_a)),
            )
        )  # fmt: skip
    return sorted(rows, key=lambda row: (-(row.difference_s or 0.0), row.operator))


def _groups(table: pd.DataFrame) -> list[GroupRow]:
    """The same by group, in the order of the groups."""
    sums = table.groupby("group")[["self_a_s", "self_b_s"]].sum()
    times = {
        str(name): (float(a_s), float(b_s))
        for name, a_s, b_s in sums.itertuples(name=None)  # pandas has no type for its rows
    }
    added_s = sum(b_s - a_s for a_s, b_s in times.values())
    return [
        GroupRow(
            group=name, self_a_s=a_s, self_b_s=b_s, difference_s=b_s - a_s,
            share=_divide(b_s - a_s, added_s),
            # What no operator covers is a difference of two times and may come out below zero.
            ratio=_divide(b_s, a_s) if a_s > 0 else None,
        )
        for name in names()
        if name in times
        for a_s, b_s in [times[name]]
    ]  # fmt: skip


def _divide(over: float | None, under: float | None) -> float | None:
    return None if over is None or not under else over / under


def _title(kind: str, a: Side, b: Side) -> str:
    if kind == "counts":
        return f"{a.label}: {a.n} against {_processes(b.n)}"
    return f"{a.label} against {b.label}, with {_processes(b.n)}"


def describe(comparison: Comparison) -> str:
    """What changed most, in one or two sentences with numbers."""
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
