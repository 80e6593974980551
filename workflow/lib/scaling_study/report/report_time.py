"""The report's part about where the time goes: what the profiles of a machine show."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from scaling_study.analysis.inflation import format_calls, sum_operators
from scaling_study.common.quantities import (
    format_count,
    format_number,
    format_percent,
    format_ratio,
    format_seconds,
    known,
)
from scaling_study.profiling import operator_groups
from scaling_study.profiling.profiles import RECOMMENDED
from scaling_study.report.figure_inflation import (
    LEAST_S,
    choose_bars,
    draw_inflation,
    format_added,
    group_colour,
)
from scaling_study.report.figures import Figure
from scaling_study.report.report_rows import Cell, Row, number_cell

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scaling_study.report.flamegraph import Flame
    from scaling_study.report.report_flames import Flames

MARKED_SHIFT = 0.10
"""A profile that changes the step's time by a larger share is marked: what it shows is no longer
the step that was measured."""
MOST_ROWS = 80
"""Rows of a table; all are in tables/operators. A step of a large model has some hundred."""
KINDS = {"operators": "operators (torch)", "stacks": "stacks (py-spy)", "calls": "calls (cProfile)"}


@dataclass(frozen=True, slots=True)
class ComparisonView:
    """Two profiles side by side.

    Attributes:
        title: what is compared.
        text: what changed most.
        figure: added time by operator.
        heads: what the two sides are called in the tables.
        rows: by operator and phase.
        rows_left_out: how many more there are.
        groups: by what operators are bound by.
    """

    title: str
    text: str
    figure: Figure
    heads: tuple[str, str]
    rows: list[Row]
    rows_left_out: int
    groups: list[Row]


@dataclass(frozen=True, slots=True)
class TimeView:
    """What the templates show of a machine's profiles.

    Attributes:
        comparisons: the slower question first.
        profiles: one row for each profile: of what, how, and what it cost.
        lost: targets that were not profiled, with reasons.
        kernels: the BLAS kernel that stacks name, by profile.
        flames: of ``flamegraph.view``.
        notes: what the tables can show and what they cannot.
    """

    comparisons: tuple[ComparisonView, ...]
    profiles: list[Row]
    lost: list[Row]
    kernels: list[tuple[str, str]]
    flames: Sequence[Flame]
    notes: tuple[str, ...]

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The figures in it, to be written as files too."""
        return tuple(comparison.figure for comparison in self.comparisons)

    @property
    def marked(self) -> bool:
        """Whether a profile changed what it measured."""
        return any(row["marked"] for row in self.profiles)


def view_time(
    comparisons: Sequence[Mapping[str, Any]],
    manifests: Sequence[Mapping[str, Any]] = (),
    *,
    suffix: str = "",
    flames: Flames | None = None,
    notes: Sequence[str] = (),
) -> TimeView | None:
    """Make the view of one machine's profiles.

    Args:
        comparisons: its entry of analysis/inflation.json.
        manifests: its targets, of ``profiles.read_manifests``; none where tables were imported.
        suffix: of the figures' names, ``""`` for the first machine.
        flames: its flamegraphs, with the kernels that they name.
        notes: sentences to put below the comparisons.

    Returns:
        None where nothing was profiled.
    """
    if not comparisons and not manifests:
        return None
    return TimeView(
        comparisons=tuple(
            _view_comparison(comparison, f"inflation{'' if at == 1 else f'-{at}'}{suffix}")
            for at, comparison in enumerate(comparisons, 1)
        ),
        profiles=[row for manifest in manifests for row in profile_rows(manifest)],
        lost=[_lost_row(manifest) for manifest in manifests if manifest["status"] != "complete"],
        kernels=flames.kernels if flames else [],
        flames=flames.shown if flames else [],
        notes=(*notes, *(flames.notes if flames else ())),
    )


def _view_comparison(comparison: Mapping[str, Any], name: str) -> ComparisonView:
    operators = sum_operators(comparison)
    groups = [entry["group"] for entry in comparison["groups"]]
    a, b = comparison["a"], comparison["b"]
    counts = comparison["kind"] == "counts"
    added_s = b["step_s"] - a["step_s"]
    title = "Time added to a step, by operator" if added_s >= 0 else "Change of a step, by operator"
    largest = operators[0]
    figure = Figure(
        name,
        title,
        caption=(
            f"{comparison['title']}. The time of a step while it is profiled, from "
            f"{format_seconds(a['step_s'])} to {format_seconds(b['step_s'])}: each bar begins "
            "where the one above ended, and together they are the whole difference. "
            "Self time of each operator, without the operators it calls."
        ),
        svg=draw_inflation(
            choose_bars(operators),
            groups,
            name=name,
            title=title,
            alt=f"Change of the step time by operator. {comparison['title']}: "
            f"{format_added(added_s)} in all, {format_added(largest['difference_s'])} of it "
            f"{largest['operator']}.",
        ),
    )
    largest_rows = sorted(comparison["rows"], key=lambda row: -abs(_size(row, added_s)))[:MOST_ROWS]
    rows = sorted(largest_rows, key=lambda row: -_size(row, added_s))
    return ComparisonView(
        title=comparison["title"],
        text=comparison["text"],
        figure=figure,
        heads=(f"n = {a['n']}", f"n = {b['n']}") if counts else ("default", RECOMMENDED),
        rows=[_operator_row(row) for row in rows],
        rows_left_out=len(comparison["rows"]) - len(rows),
        groups=[_group_row(entry) for entry in comparison["groups"]],
    )


def _size(row: Mapping[str, Any], added_s: float) -> float:
    """What a row adds in the direction of the whole."""
    return (row["difference_s"] or 0.0) * (1 if added_s >= 0 else -1)


def _times(entry: Mapping[str, Any]) -> dict[str, Cell]:
    """The cells that operators and groups share."""
    return {
        "self_a": number_cell(entry["self_a_s"], text=format_seconds(entry["self_a_s"])),
        "self_b": number_cell(entry["self_b_s"], text=format_seconds(entry["self_b_s"])),
        "difference": number_cell(entry["difference_s"], text=format_added(entry["difference_s"])),
        "share": number_cell(
            entry["share"],
            text="0%" if _is_rounding(entry["difference_s"]) else format_percent(entry["share"]),
        ),
    }


def _is_rounding(seconds: float | None) -> bool:
    return seconds is not None and abs(seconds) < LEAST_S


def _operator_row(row: Mapping[str, Any]) -> Row:
    return {
        "operator": row["operator"],
        "phase": row["phase"],
        "group": row["group"],
        "colour": group_colour(row["group"]),
        **_times(row),
        "per_call": number_cell(row["per_call_ratio"], text=format_ratio(row["per_call_ratio"])),
        "calls": number_cell(row["calls_b"], text=_calls(row["calls_a"], row["calls_b"])),
    }


def _calls(calls_a: float | None, calls_b: float | None) -> str:
    """Calls per step, of both sides where they differ."""
    before, after = format_calls(calls_a), format_calls(calls_b)
    return after if before == after else f"{before} → {after}"


def _group_row(entry: Mapping[str, Any]) -> Row:
    times = _times(entry)
    return {
        "group": entry["group"],
        "colour": group_colour(entry["group"]),
        "reason": operator_groups.reason(entry["group"]),
        **times,
        "difference": replace(times["difference"], interval=times["share"].text),
        "ratio": number_cell(entry["ratio"], text=format_ratio(entry["ratio"])),
    }


def profile_rows(manifest: Mapping[str, Any]) -> list[Row]:
    """What was profiled of one target, and what it cost the step; marked where that is too much."""
    return [
        {
            "label": manifest["label"],
            "n": number_cell(point["n"], text=str(point["n"])),
            "kind": KINDS.get(profile["kind"], profile["kind"]),
            "status": profile["status"],
            "step": _step_cell(
                profile.get("step_s"),
                profile.get("unprofiled_step_s", point["unprofiled_step_s"]),
            ),
            "tax": _tax_cell(profile.get("tax")),
            "marked": abs((profile.get("tax") or 1.0) - 1) > MARKED_SHIFT,
            "others_tax": _tax_cell(profile.get("others_tax")),
            "how": _how(profile),
            "remedy": profile.get("remedy"),
        }
        for point in manifest["points"]
        for profile in point["kinds"]
    ]


def _step_cell(profiled_s: float | None, unprofiled_s: float | None) -> Cell:
    """A step while profiled, with that of the unprofiled windows below."""
    cell = number_cell(profiled_s, text=format_seconds(profiled_s))
    return replace(cell, interval=f"unprofiled {format_seconds(unprofiled_s)}")


def _tax_cell(tax: float | None) -> Cell:
    """A tax of 1.04 as ``+4%``."""
    if tax is None or not known(tax):
        return number_cell(None)
    text = format_percent(tax - 1)
    return number_cell(tax, text=f"+{text}" if tax > 1 else text)


def _how(profile: Mapping[str, Any]) -> str:
    """How a profile was taken, or why it was not, in a few words."""
    if profile["status"] != "ok":
        return profile.get("reason") or ""
    parts = []
    if profile.get("steps"):
        parts.append(format_count(profile["steps"], "step"))
    if profile.get("rate_hz"):
        samples = format_count(profile["samples"], "sample")
        members = format_count(profile["members"], "member")
        rate = format_number(profile["rate_hz"])
        parts.append(f"{samples} of {members} in turn, {rate} a second")
    if profile.get("native") is not None:
        parts.append("native frames" if profile["native"] else "Python frames only")
    parts += [profile[name] for name in ("native_failed", "reason") if profile.get(name)]
    return ", ".join(parts)


def _lost_row(manifest: Mapping[str, Any]) -> Row:
    return {
        "label": manifest["label"] or "the recommended launch",
        "status": manifest["status"],
        "reason": manifest["reason"] or "",
        "remedy": manifest["remedy"],
    }
