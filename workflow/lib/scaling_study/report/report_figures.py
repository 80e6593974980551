"""Which figures a report has, with their captions and the texts for those who cannot see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scaling_study.common.quantities import (
    format_count,
    format_number,
    format_percent,
    format_seconds,
    known,
)
from scaling_study.report.explanation import ACCOUNTS, QUOTA
from scaling_study.report.figure_panels import draw_fairness, draw_stacks
from scaling_study.report.figures import Figure, draw_curves, draw_noise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from scaling_study.report.figure_axes import Boundary
    from scaling_study.report.figure_series import Series

STACKED = 3
"""Panels of stacked bars: the recommended launch, the default and the baseline."""

PHASES = {
    "load_s_per_step": "load",
    "forward_s_per_step": "forward and Python",
    "backward_s_per_step": "backward",
    "optimizer_s_per_step": "optimizer",
}
CPU_TIMES = {
    "user_s_per_step": "user mode",
    "system_s_per_step": "kernel",
    "runqueue_s_per_step": "waiting for a CPU",
}
ACCOUNT_PARTS = dict(
    zip(
        ACCOUNTS,
        (
            *(("user mode", "part-1"), ("kernel", "part-2"), ("waiting for a CPU", "part-3")),
            *(("held back by a quota", "series-4"), ("blocked", "part-4")),
            ("not accounted for", "rest"),
        ),
        strict=True,
    )
)
"""Name and colour of each account."""
RESIDUAL = "trainer_residual_s_per_step"
SMALL_RESIDUAL = 0.02
"""Of the step: a smaller residual is told, not drawn."""
MEMBER_COLUMNS = ["machine", "launch", "n", "slot", "valid", "step_mean_s"]
"""What ``compare_members`` reads of tables/windows."""


@dataclass(frozen=True, slots=True)
class Material:
    """What one machine's figures are drawn from.

    Attributes:
        points: its rows of tables/points.
        members: from ``compare_members``.
        series: launches in colour.
        noise: its entry of analysis/noise.json.
        counts: the ladder.
        marks: process counts at which a part of the machine is full.
        suffix: of the figures' names, ``""`` for the first machine.
    """

    points: pd.DataFrame
    members: pd.DataFrame
    series: tuple[Series, ...]
    noise: Mapping[str, Any]
    counts: tuple[int, ...]
    marks: tuple[Boundary, ...]
    suffix: str


def compare_members(windows: pd.DataFrame) -> pd.DataFrame:
    """Mean step time of every member against its cohort's, at each launch's largest n.

    Args:
        windows: rows of tables/windows, ``MEMBER_COLUMNS``.

    Returns:
        Columns ``machine``, ``launch``, ``n``, ``slot``, ``relative`` (0.02: two percent slower
        than the mean of the members).
    """
    valid = windows[windows["valid"].astype(bool) & (windows["n"] > 1)]
    largest = valid.groupby(["machine", "launch"])["n"].transform("max")
    point = ["machine", "launch", "n"]
    rows = valid[valid["n"] == largest].groupby([*point, "slot"])["step_mean_s"]
    members = rows.mean().to_frame("step_mean_s").reset_index()
    mean_s = members.groupby(point)["step_mean_s"].transform("mean")
    members["relative"] = members["step_mean_s"] / mean_s - 1
    return members[[*point, "slot", "relative"]]


def draw_all(material: Material) -> tuple[Figure, ...]:
    """Draw a machine's figures, in the order of the report."""
    return (
        _throughput(material),
        _step_time(material),
        _efficiency(material),
        _fairness(material),
        _phases(material),
        _accounts(material),
        _cpu_times(material),
        _noise(material),
    )


def _throughput(material: Material) -> Figure:
    name, title = f"throughput{material.suffix}", "Throughput, steps/s"
    first = material.series[:1]
    rows = material.points[material.points["launch"].isin([one.launch for one in first])]
    ones = rows.loc[rows["n"] == 1, "steps_per_s"]
    rate = float(ones.iloc[0]) if len(ones) else None
    svg = draw_curves(
        material.points,
        material.series,
        name=name,
        column="steps_per_s",
        title=title,
        alt=f"Throughput against processes. {_extreme(material, 'steps_per_s')}",
        counts=material.counts,
        marks=material.marks,
        reference=None if rate is None else lambda n: rate * n,
    )
    caption = (
        "All members together, against the number of processes; higher is better. No line leads "
        "through a count that was not measured. Shaded bars: 95% intervals over replicates, where "
        "there are several, cut where they leave the plot. " + _about_marks(material.marks)
    )
    if rate is not None:
        caption += f" Dashed: {first[0].label} if it scaled in proportion."
    return Figure(name, title, caption.strip(), svg)


def _step_time(material: Material) -> Figure:
    name, title = f"step_time{material.suffix}", "Step time, ms"
    svg = draw_curves(
        material.points,
        material.series,
        name=name,
        column="step_s",
        title=title,
        alt=f"Step time against processes. {_slowest(material)}",
        counts=material.counts,
        marks=material.marks,
        scale=1e3,
    )
    caption = (
        "What one member sees: processes over throughput; lower is better, and a flat line is "
        "perfect scaling. Shaded bars: 95% intervals."
    )
    return Figure(name, title, caption, svg)


def _efficiency(material: Material) -> Figure:
    name, title = f"efficiency{material.suffix}", "Efficiency"
    svg = draw_curves(
        material.points,
        material.series,
        name=name,
        column="efficiency",
        title=title,
        alt=f"Efficiency against processes. {_extreme(material, 'efficiency', largest_n=True)}",
        reference=lambda _: 1.0,
        from_zero=True,
        counts=material.counts,
        marks=material.marks,
    )
    caption = (
        "Throughput against n = 1 of the same launch, over n, so 1 is perfect. It compares a "
        "launch with itself only: one that is slow everywhere may be efficient."
    )
    return Figure(name, title, caption, svg)


def _fairness(material: Material) -> Figure:
    name, title = f"fairness{material.suffix}", "Members against their mean step time"
    spreads = [
        f"{one.label}: {format_percent(float(rows.min()))} to {format_percent(float(rows.max()))}"
        for one in material.series
        if len(rows := material.members.loc[material.members["launch"] == one.launch, "relative"])
    ]
    svg = draw_fairness(
        material.members,
        material.series,
        name=name,
        title=title,
        alt="Members' step times against their mean. " + "; ".join(spreads),
    )
    caption = (
        "Each dot is one member at the largest number of processes; to the right of 0 it is slower "
        "than the mean of its cohort. Dots far apart: the machine is not shared evenly."
    )
    return Figure(name, title, caption, svg)


def _phases(material: Material) -> Figure:
    name, title = f"phases{material.suffix}", "Phases of a step"
    svg = draw_stacks(
        material.points,
        material.series[:STACKED],
        name=name,
        columns=PHASES,
        title=title,
        alt=f"Phases of a step per number of processes. {_largest_part(material, PHASES)}",
    )
    caption = (
        "Mean time of a step, divided into loading data, forward (with all other Python), backward "
        "and optimizer. Each launch has a scale of its own."
    )
    return Figure(name, title, caption, svg)


def _accounts(material: Material) -> Figure:
    name, title = f"accounts{material.suffix}", "Where the training thread's time goes"
    points = material.points
    residual = float((points[RESIDUAL] / points["step_s"]).abs().max())
    absent = set()
    if not points[QUOTA].gt(0).any():
        absent.add(QUOTA)
    if not residual >= SMALL_RESIDUAL:
        absent.add(RESIDUAL)
    shown = {name: part for name, part in ACCOUNT_PARTS.items() if name not in absent}
    columns = {name: text for name, (text, _) in shown.items()}
    svg = draw_stacks(
        points,
        material.series[:STACKED],
        name=name,
        columns=columns,
        title=title,
        alt=f"Time accounts of the training thread. {_largest_part(material, columns)}",
        colours=[colour for _, colour in shown.values()],
    )
    caption = (
        "Per step: CPU time in user mode and in the kernel, waiting in the run queue for a CPU, "
        "time for which a CPU quota held the members back, where there was any, and blocked (on "
        "other threads, locks, memory or data). They add up to the step"
    )
    if known(residual):
        caption += f", but for {format_percent(residual)} of it at most"
    return Figure(name, title, f"{caption}.", svg)


def _cpu_times(material: Material) -> Figure:
    name, title = f"cpu_time{material.suffix}", "CPU time of all threads"
    svg = draw_stacks(
        material.points,
        material.series[:STACKED],
        name=name,
        columns=CPU_TIMES,
        title=title,
        alt=f"CPU time of all threads per step. {_largest_part(material, CPU_TIMES)}",
    )
    caption = (
        "Per step of one member, summed over all its threads and child processes: it exceeds the "
        "step where several threads compute, or spin while they wait."
    )
    return Figure(name, title, caption, svg)


def _noise(material: Material) -> Figure:
    name, title = f"noise{material.suffix}", "A/A check: the baseline against itself"
    points, spread = material.noise["points"], material.noise["spread"]
    worst = "" if spread is None else f"It is at most {format_percent(spread)}."
    svg = draw_noise(
        points, name=name, title=title, alt=f"Difference of a launch from its repeat. {worst}"
    )
    caption = (
        "Throughput of the baseline's repeat against the baseline, which are the same launch: what "
        f"no difference looks like on this machine that day. {worst}"
    )
    return Figure(name, title, caption.strip(), svg)


def _extreme(material: Material, column: str, *, largest_n: bool = False) -> str:
    """The highest point of a column, or the first series at its largest n, as a sentence."""
    points = material.points[material.points[column].notna()]
    if points.empty:
        return "No valid window."
    if largest_n:
        one = material.series[0]
        rows = points[points["launch"] == one.launch]
        if rows.empty:
            return ""
        row = rows.iloc[int(rows["n"].argmax())]
        return f"{one.label} with {_processes(row)}: {format_number(row[column])}."
    row = points.iloc[int(points[column].argmax())]
    return (
        f"Highest of {format_count(points['launch'].nunique(), 'launch', 'launches')}: "
        f"{format_number(row[column])} steps/s with {_processes(row)} of {row['label']}."
    )


def _slowest(material: Material) -> str:
    points = material.points[material.points["step_s"].notna()]
    if points.empty:
        return "No valid window."
    low, high = (
        points.iloc[int(points["step_s"].argmin())],
        points.iloc[int(points["step_s"].argmax())],
    )
    return (
        f"From {format_seconds(low['step_s'])} with {_processes(low)} of {low['label']} to "
        f"{format_seconds(high['step_s'])} with {_processes(high)} of {high['label']}."
    )


def _largest_part(material: Material, columns: Mapping[str, str]) -> str:
    """The largest part of each panel's last bar, as a sentence."""
    sentences: list[str] = []
    for one in material.series[:STACKED]:
        rows = material.points[material.points["launch"] == one.launch]
        rows = rows.dropna(subset=list(columns))
        if rows.empty:
            continue
        row = rows.iloc[int(rows["n"].argmax())]
        parts_s = {text: float(row[column]) for column, text in columns.items()}
        if sum(parts_s.values()) > 0:
            largest = max(parts_s, key=lambda text: parts_s[text])
            share = format_percent(parts_s[largest] / sum(parts_s.values()))
            n = format_count(int(rows["n"].max()), "process", "processes")
            sentences.append(f"{one.label} with {n}: {share} is {largest}.")
    return " ".join(sentences)


def _about_marks(marks: Sequence[Boundary]) -> str:
    """What the faint lines mean."""
    if not marks:
        return ""
    return "Upright lines: where processes of one CPU each fill a part of the machine."


def _processes(row: pd.Series[Any]) -> str:
    return format_count(int(row["n"]), "process", "processes")
