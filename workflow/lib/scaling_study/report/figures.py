"""Which figures a machine has, with captions and texts for those who cannot see them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from scaling_study.common.quantities import (
    TIMES,
    format_cpus,
    format_number,
    format_percent,
    format_seconds,
    known,
    time_unit,
)
from scaling_study.config import process_counts
from scaling_study.profiling.operator_groups import OTHER, OUTSIDE, read_groups
from scaling_study.report import draw, sections, words
from scaling_study.report.draw import Curve, Panel, Row, Stack, Step, Value
from scaling_study.report.model import ENOUGH_STARTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scaling_study.config.plan import Plan
    from scaling_study.report.model import (
        Comparison,
        Interval,
        Machine,
        Microbenchmarks,
        Sensitivity,
        Target,
    )

MARKERS = ("o", "X", "s", "^", "D", "v")
"""Of the series in colour: more lines than these cannot be told apart."""
STACKED = 3
"""Panels of stacked bars: the recommended launch, the default and the baseline."""
ACCOUNTS = {
    "user": ("user mode", "part-1"),
    "system": ("kernel", "part-2"),
    "runqueue": ("waiting for a CPU", "part-3"),
    "throttled": ("held back by a quota", "series-4"),
    "blocked": ("blocked", "part-4"),
    "residual": ("not accounted for", "rest"),
}
"""Title and colour of each time account; they add up to the time of a step."""
PHASES = {
    "load_s_per_step": ("load", "part-1"),
    "forward_s_per_step": ("forward and Python", "part-2"),
    "backward_s_per_step": ("backward", "part-3"),
    "optimizer_s_per_step": ("optimizer", "part-4"),
}
CPU_TIMES = {
    "user_s_per_step": ("user mode", "part-1"),
    "system_s_per_step": ("kernel", "part-2"),
    "runqueue_s_per_step": ("waiting for a CPU", "part-3"),
}
USES = {
    "trainers": ("training threads", "part-1"),
    "threads": ("other threads of theirs", "part-2"),
    "workers": ("processes of theirs", "part-3"),
    "others": ("other programs", "rest"),
}
SMALL_RESIDUAL = 0.02
"""Of the step: a smaller residual is not drawn."""
SMALL_SHARE = 0.005
"""Of the longer step: an account that is smaller at both counts has no row of its own."""
LARGEST = 9
"""Operators with a bar of their own."""
CONTROL = "register"
"""The kernel that needs nothing but a core and its clock."""
PREFERRED_PLACEMENT = "cores"


@dataclass(frozen=True, slots=True)
class Figure:
    """A finished figure.

    Attributes:
        name: file name without suffix, and prefix of the ids in the SVG.
        title: a few words.
        caption: how to read it.
        svg: an ``<svg>`` element for a page (``svg.standalone`` makes a file of it).
    """

    name: str
    title: str
    caption: str
    svg: str


@dataclass(frozen=True, slots=True)
class Series:
    """A launch that figures draw in colour."""

    launch: str
    label: str
    roles: tuple[str, ...]
    colour: str
    marker: str

    @property
    def title(self) -> str:
        """The label with the roles."""
        roles = ", ".join(role for role in self.roles if role != self.label)
        return f"{self.label} ({roles})" if roles else self.label


def choose_series(machine: Machine, plan: Plan) -> tuple[Series, ...]:
    """Choose the launches to draw in colour: those with a role, then the best of the others."""
    points, best = machine.points, machine.recommendation.recommended
    labels = dict(zip(points["launch"], points["label"], strict=True))
    roles = {
        "recommended": best.launch if best else None,
        "default": plan.default,
        "today": plan.today,
        "baseline": plan.baseline,
    }
    best_first = points.groupby("launch")["steps_per_s"].max().sort_values(ascending=False)
    ordered = dict.fromkeys([*filter(None, roles.values()), *best_first.index])
    chosen = [str(launch) for launch in ordered if launch in labels][: len(MARKERS)]
    return tuple(
        Series(
            launch,
            labels[launch],
            tuple(role for role, its in roles.items() if its == launch),
            f"series-{number}",
            MARKERS[number - 1],
        )
        for number, launch in enumerate(chosen, 1)
    )


def scaling(machine: Machine, plan: Plan, series: Sequence[Series]) -> dict[str, Figure]:
    """Draw the figures against the number of processes; none without a valid window."""
    if machine.points.empty:
        return {}
    counts = process_counts.resolve(
        plan.processes,
        machine.hardware.usable(),
        machine.hardware.quota_cpus,
    )
    figures = [
        _against_n(machine, series, counts, "throughput", "steps_per_s", "Throughput, steps/s"),
        _against_n(machine, series, counts, "step_time", "step_s", "Step time, ms", scale=1e3),
        _against_n(machine, series, counts, "efficiency", "efficiency", "Efficiency"),
        _fairness(machine, series),
        _stacked(machine, series, "phases", "Phases of a step", PHASES,
                 "Mean time of a step: loading, forward (with all other Python), backward and "
                 "optimizer. Each launch has a scale of its own."),
        _stacked(machine, series, "accounts", "Where the training thread's time goes",
                 _accounts_shown(machine),
                 "Per step: CPU time in user mode and in the kernel, waiting in the run queue, "
                 "held back by a quota where there is one, blocked on threads, locks or data."),
        _stacked(machine, series, "cpu_time", "CPU time of all threads", CPU_TIMES,
                 "Per step of one member, over all its threads and child processes: more than the "
                 "step where several threads compute or spin."),
        _noise(machine),
    ]  # fmt: skip
    return {one.name.removesuffix(machine.suffix): one for one in figures if one is not None}


CAPTIONS = {
    "throughput": (
        "All members together; higher is better. Shaded: 95% intervals over starts, where there "
        "are several. Upright lines: processes of one CPU each fill a part of the machine. Dashed: "
        "in proportion to one process."
    ),
    "step_time": "What one member sees: lower is better, and a flat line is perfect scaling.",
    "efficiency": (
        "Throughput over n times that of one process of the same launch: 1 is perfect. A launch "
        "that is slow everywhere may be efficient."
    ),
}


def _against_n(  # noqa: PLR0917 (what a figure is)
    machine: Machine,
    series: Sequence[Series],
    counts: Sequence[int],
    name: str,
    column: str,
    title: str,
    *,
    scale: float = 1.0,
) -> Figure | None:
    points = machine.points[machine.points[column].notna()]
    if points.empty:
        return None
    rungs = {n: rung for rung, n in enumerate(sorted({*counts, *points["n"]}))}

    def curve_of(rows: pd.DataFrame, **style: object) -> Curve:
        rows = rows.sort_values("n")
        values = tuple(
            Value(
                float(row["n"]),
                scale * float(row[column]),
                *(
                    (scale * float(row[f"{column}_low"]), scale * float(row[f"{column}_high"]))
                    if row["replicates"] >= ENOUGH_STARTS and known(row[f"{column}_low"])
                    else (None, None)
                ),
            )
            for row in rows.to_dict("records")
        )
        # No line leads through a count that was not measured.
        breaks = tuple(
            float(after)
            for before, after in itertools.pairwise(rows["n"])
            if rungs[after] != rungs[before] + 1
        )
        return Curve(points=values, breaks=breaks, **style)  # type: ignore[arg-type]

    curves = [
        curve_of(
            points[points["launch"] == one.launch],
            label=one.title,
            colour=one.colour,
            marker=one.marker,
            width=2.8 if one.roles else 1.8,
        )
        for one in series
    ]
    others = points[~points["launch"].isin([one.launch for one in series])]
    several = others["launch"].nunique()
    rest = f"{several} other {'launch' if several == 1 else 'launches'}"
    curves += [
        curve_of(rows, label=rest, colour="rest", marker="", width=1.0)
        for _, rows in others.groupby("launch")
    ]
    if (ideal := _ideal(points, series, name)) is not None:
        curves.append(ideal)
    row = points.iloc[int(points[column].argmax())]
    return Figure(
        f"{name}{machine.suffix}",
        title,
        CAPTIONS[name],
        draw.lines(
            [Panel("", tuple(curve for curve in curves if curve.points))],
            name=f"{name}{machine.suffix}",
            title=title,
            alt=f"{title} against processes; highest: {format_number(scale * row[column])} with "
            f"{words.processes(int(row['n']))} of {row['label']}.",
            x_label="processes",
            marks=machine.hardware.boundaries(),
            from_zero=name == "efficiency",
        ),
    )


def _ideal(points: pd.DataFrame, series: Sequence[Series], name: str) -> Curve | None:
    """Return the line of ideal scaling of the first series."""
    counts = [float(n) for n in sorted(points["n"].unique())]
    if name == "efficiency":
        values = [Value(n, 1.0) for n in counts]
    elif name == "throughput" and series:
        own = points[(points["launch"] == series[0].launch) & (points["n"] == 1)]
        values = [Value(n, n * float(one)) for one in own["steps_per_s"] for n in counts]
    else:
        values = []
    label = "ideal: in proportion"
    return Curve(label, tuple(values), "muted", "", 1.2, dashed=True) if values else None


def _fairness(machine: Machine, series: Sequence[Series]) -> Figure | None:
    rows, spreads = [], []
    for one in series:
        own = machine.members[machine.members["launch"] == one.launch]
        if not own.empty:
            values = tuple(Value(float(each), 0.0) for each in own["relative"])
            rows.append(Row(f"{one.title}, n = {own['n'].max()}", (values,), one.colour))
            ends = (
                format_percent(float(end)) for end in (own["relative"].min(), own["relative"].max())
            )
            spreads.append(f"{one.label}: {' to '.join(ends)}")
    if not rows:
        return None
    name, title = f"fairness{machine.suffix}", "Members against their mean step time"
    alt = f"Step times of members against their mean. {'; '.join(spreads)}."
    caption = (
        "Each dot is a member at the largest number of processes; to the right of 0 it is slower "
        "than their mean. Dots far apart: the machine is not shared evenly."
    )
    return Figure(name, title, caption, draw.dots(rows, name=name, title=title, alt=alt))


def _accounts_shown(machine: Machine) -> dict[str, tuple[str, str]]:
    """Return the accounts that are there: quota and residual only where they are not nothing."""
    points = machine.points
    columns = {f"trainer_{name}_s_per_step": account for name, account in ACCOUNTS.items()}
    quota, residual = "trainer_throttled_s_per_step", "trainer_residual_s_per_step"
    if not points[quota].gt(0).any():
        del columns[quota]
    if not float((points[residual] / points["step_s"]).abs().max()) >= SMALL_RESIDUAL:
        del columns[residual]
    return columns


def _stacked(  # noqa: PLR0917 (what a figure is)
    machine: Machine,
    series: Sequence[Series],
    name: str,
    title: str,
    columns: Mapping[str, tuple[str, str]],
    caption: str,
) -> Figure | None:
    panels, said = [], []
    for one in series[:STACKED]:
        rows = machine.points[machine.points["launch"] == one.launch].sort_values("n")
        rows = rows[rows[list(columns)].notna().any(axis=1)].fillna(dict.fromkeys(columns, 0.0))
        if rows.empty:
            continue
        parts = tuple(tuple(float(each) for each in rows[column]) for column in columns)
        panels.append(Stack(one.title, tuple(str(n) for n in rows["n"]), parts))
        last = {text: part[-1] for (text, _), part in zip(columns.values(), parts, strict=True)}
        largest = max(last, key=lambda text: last[text])
        share = last[largest] / (sum(last.values()) or 1.0)
        said.append(f"{one.label}, n = {rows['n'].max()}: {format_percent(share)} is {largest}.")
    if not panels:
        return None
    labels, colours = zip(*columns.values(), strict=True)
    name = f"{name}{machine.suffix}"
    alt = f"{title} per number of processes. {' '.join(said)}"
    drawn = draw.stacks(panels, labels, colours, name=name, title=title, alt=alt)
    return Figure(name, title, caption, drawn)


def _noise(machine: Machine) -> Figure | None:
    if not machine.noise.points:
        return None
    name, title = f"noise{machine.suffix}", "A/A check: the baseline against itself"
    rows = [
        Row(
            words.processes(one.n),
            (
                (
                    Value(
                        one.ratio - 1,
                        0.0,
                        *(None if e is None else e - 1 for e in (one.low, one.high)),
                    ),
                ),
            ),
            "series-3",
        )
        for one in machine.noise.points
    ]
    spread = format_percent(machine.noise.spread)
    alt = f"Difference of the baseline's repeat from the baseline: at most {spread}."
    caption = "The repeat is the same launch: this is how no difference looks on this machine."
    return Figure(name, title, caption, draw.dots(rows, name=name, title=title, alt=alt))


def front(machine: Machine) -> Figure | None:
    """Draw every point's rate against the time of one model; None without a point."""
    found = machine.pareto
    if not found.points:
        return None
    thing, unit = words.THINGS[found.rate], words.UNITS[found.rate]
    unit_s, time_name = time_unit(min(point.time_s for point in found.points))

    def curve(label: str, points: Sequence[object], **style: object) -> Curve:
        values = tuple(Value(p.time_s / unit_s, p.rate) for p in points)  # type: ignore[attr-defined]
        return Curve(label, values, **style)  # type: ignore[arg-type]

    usual = [point for point in found.points if not point.changes_training]
    changing = [point for point in found.points if point.changes_training]
    curves = [
        curve("no other point beats it at both", found.front),
        curve("another launch at a process count", usual, colour="rest", joined=False),
        curve("changes training", changing, colour="series-2", marker="s", joined=False),
    ]
    name, title = f"front{machine.suffix}", f"{unit} against the time of {thing}"
    drawn = draw.lines(
        [Panel("", tuple(one for one in curves if one.points))],
        name=name,
        title=unit,
        alt=f"{title}. {sections.front(found)}",
        x_label=f"time of {thing}, {time_name}",
        counts=False,
    )
    caption = f"To the left {thing} is done sooner, to the top there are more. Predicted means."
    return Figure(name, title, caption, drawn)


def accounts(target: Target, name: str) -> Figure | None:
    """Draw a step of one process, what each account adds, and a step of n processes."""
    known_ones = [
        one for one in target.accounts if one.low_s is not None and one.high_s is not None
    ]
    high_s, low_s = (sum(getattr(one, end) for one in known_ones) for end in ("high_s", "low_s"))
    least_s = SMALL_SHARE * abs(high_s)
    shown = [
        one
        for one in known_ones
        if max(abs(one.low_s or 0.0), abs(one.high_s or 0.0)) > least_s or one.account == "residual"
    ]
    if not shown or target.n is None:
        return None
    changes = sorted(shown, key=lambda one: -(one.high_s or 0.0) + (one.low_s or 0.0))

    def colour(account: str) -> str:
        return ACCOUNTS.get(account, ("", "muted"))[1]

    def title_of(account: str, title: str) -> str:
        return ACCOUNTS.get(account, (title, ""))[0]

    title = "What more processes add to a step"
    drawn = draw.waterfall(
        [
            Step(title_of(one.account, one.title), (one.high_s or 0.0) - (one.low_s or 0.0),
                 colour(one.account))
            for one in changes
        ],
        name=name,
        title=title,
        alt=f"A step of the training thread: {format_seconds(low_s)} with one process and "
        f"{format_seconds(high_s)} with {target.n}, in these experiments.",
        ends=(
            [(colour(one.account), one.low_s or 0.0) for one in shown],
            "a step of 1 process",
            [(colour(one.account), one.high_s or 0.0) for one in shown],
            f"a step of {target.n} processes",
        ),
    )  # fmt: skip
    caption = (
        "Mean time of the training thread's step in these experiments, as the kernel counts it: "
        f"top, one process; bottom, {target.n}."
    )
    return Figure(name, title, caption, drawn)


def interventions(target: Target, name: str) -> Figure | None:
    """Draw what each change takes away, of the added time and of a step of one process."""
    rows = [
        Row(one.title, tuple(map(_dot, (one.scaling_loss, one.single_process_loss))))
        for one in target.interventions
        if one.status == "measured" and (one.scaling_loss or one.single_process_loss)
    ]  # fmt: skip
    if not rows:
        return None
    rows.sort(key=lambda row: -max((value.x for value in row.columns[0]), default=-1.0))
    title = "One change at a time: what it takes away"
    drawn = draw.dots(
        rows[:12],
        name=name,
        title=title,
        alt=f"Shares that each change takes away; most of the growth: {rows[0].title}.",
        heads=("of the growth with n", "of a step alone"),
    )
    caption = (
        "The same launch with one thing changed, in the same blocks. At 0% a change does nothing; "
        "to the left it makes things worse."
    )
    return Figure(name, title, caption, drawn)


def _dot(found: Interval | None) -> tuple[Value, ...]:
    if found is None or found.value is None:
        return ()
    return (Value(found.value, 0.0, found.low, found.high),)


def doses(
    found: Sequence[Sensitivity], name: str, title: str, caption: str, cpus: float | None = None
) -> Figure | None:
    """Draw step times beside growing doses of other work, a small plot for each kind.

    Args:
        found: kinds of work.
        name: of the figure.
        title: of the figure.
        caption: how to read it.
        cpus: of a process, where doses are CPUs in use.
    """
    curves = {}
    for one in found:
        values = tuple(
            Value(dose.dose if cpus is None else min(1.0, dose.cpus / cpus), *_ends(dose.ratio))
            for dose in sorted(one.doses, key=lambda dose: (dose.dose, dose.cpus))
            if dose.ratio is not None and dose.ratio.value is not None
        )
        if values:
            label = (
                "" if one.verified else "dashed: the others did not reach the work asked of them"
            )
            curves[one.kernel or one.title] = (
                one.title,
                Curve(label, values, dashed=not one.verified),
            )
    x_label = "dose of the others" if cpus is None else "CPU use of the others"
    return _multiples(curves, name, title, caption, x_label, counts=False)


def microbenchmarks(found: Microbenchmarks, name: str) -> Figure | None:
    """Draw how much slower each kernel of the machine's microbenchmarks gets with n."""
    rows = pd.DataFrame(
        [
            {"kernel": row.kernel, "placement": row.placement, "n": row.n, "block": row.block,
             "rate": sum(row.rates) / len(row.rates)}
            for row in found.rows
            if row.valid and row.rates and min(row.rates) > 0
        ]
    )  # fmt: skip
    if rows.empty:
        return None
    placements = set(rows["placement"])
    chosen = PREFERRED_PLACEMENT if PREFERRED_PLACEMENT in placements else min(placements)
    rates = rows[rows["placement"] == chosen].pivot_table(
        index=["kernel", "block"], columns="n", values="rate"
    )
    if 1 not in rates:
        return None
    inflation, counts = rates.rdiv(rates[1], axis=0), sorted(set(rows["n"]))
    curves = {}
    for kernel in found.kernels:
        if kernel.kernel in inflation.index.get_level_values("kernel"):
            blocks = inflation.loc[kernel.kernel]
            values = tuple(
                Value(float(n), own.mean(), *((own.min(), own.max()) if len(own) > 1 else ()))
                for n in counts
                if len(own := blocks[n].dropna())
            )
            curves[kernel.kernel] = kernel.title, Curve("", values)
    caption = (
        "Small kernels, each bound by one thing, in place of the training: the rate of one alone "
        "over the mean rate of n together. Grey: a loop in registers, which shares only the clock."
    )
    title = "This machine: kernels side by side"
    return _multiples(curves, name, title, caption, "processes", counts=True)


def _multiples(
    curves: Mapping[str, tuple[str, Curve]],
    name: str,
    title: str,
    caption: str,
    x_label: str,
    *,
    counts: bool,
) -> Figure | None:
    """Draw a small plot for each curve, in each of them the control in grey."""
    if not curves:
        return None
    control = curves.get(CONTROL)
    grey = () if control is None else (Curve(control[0], control[1].points, "muted", "s"),)
    panels = [
        Panel(head, grey if kernel == CONTROL else (curve, *grey))
        for kernel, (head, curve) in curves.items()
    ]
    value, largest = max((curve.points[-1].y, head) for head, curve in curves.values())
    drawn = draw.lines(
        panels,
        name=name,
        title=title,
        alt=f"{title}: at most {format_number(value)} times, {largest}.",
        x_label=x_label,
        counts=counts,
        at_one=True,
        unit=TIMES,
    )
    return Figure(name, title, caption, drawn)


def _ends(found: Interval | None) -> tuple[float, float | None, float | None]:
    """Return the value and the interval of what is known to have a value."""
    if found is None or found.value is None:
        raise ValueError("a dose without a ratio has no place in a figure")
    return found.value, found.low if found.sure else None, found.high if found.sure else None


def use(machine: Machine) -> Figure | None:
    """Draw the CPUs that each kind of thread used over time; None where it was not looked at."""
    found = machine.data_loader.use if machine.data_loader else None
    if found is None or not found.spans:
        return None
    name, title = f"use{machine.suffix}", "CPUs in use while it trains as it is"
    parts = tuple(tuple(getattr(span, kind) for span in found.spans) for kind in USES)
    labels, colours = zip(*USES.values(), strict=True)
    means = (sum(part) / len(part) for part in parts)
    told = ", ".join(
        f"{label} {format_cpus(mean)}" for label, mean in zip(labels, means, strict=True)
    )
    ticks = tuple(f"{span.at_s:.0f}" for span in found.spans)
    drawn = draw.stacks(
        [Stack("", ticks, parts)], labels, colours, name=name, title=title,
        alt=f"CPUs in use on average: {told}.", x_label="seconds", seconds=False, limit=found.cpus,
    )  # fmt: skip
    caption = f"The line: the {format_cpus(found.cpus)} CPUs that the study may use."
    return Figure(name, title, caption, drawn)


def group_colour(group: str) -> str:
    """Return the name in ``svg.THEME`` of the colour of a group of operators."""
    names = [one.name for one in read_groups()]
    if group in names:
        return f"series-{names.index(group) + 1}"
    return {OTHER: "part-2", OUTSIDE: "muted"}[group]


def sum_operators(comparison: Comparison) -> list[tuple[str, str, float]]:
    """Return operator, group and difference (s) without phases, the largest part first."""
    sums: dict[tuple[str, str], float] = {}
    for row in comparison.rows:
        key = row.operator, row.group
        sums[key] = sums.get(key, 0.0) + row.difference_s
    sign = 1 if comparison.added_s >= 0 else -1
    return sorted(((*key, s) for key, s in sums.items()), key=lambda one: -sign * one[2])


def operators(comparison: Comparison, name: str) -> Figure:
    """Draw the time that each operator adds to a step."""
    summed = sum_operators(comparison)
    by_size = sorted(summed, key=lambda one: -abs(one[2]))
    few = len(by_size) <= LARGEST + 1  # one too many is not worth the bar "1 other"
    shown = {one[0] for one in by_size[: None if few else LARGEST]}
    steps = [Step(op, s, group_colour(group)) for op, group, s in summed if op in shown and s]
    others = [s for op, _, s in summed if op not in shown]
    if others:
        steps.append(Step(f"{len(others)} smaller changes", sum(others), "rest"))
    title = "Change of the step time by operator"
    return Figure(
        name,
        f"{title}: {comparison.title}",
        "Self time per profiled step. Each bar begins where the one above ended; together they are "
        "the whole difference.",
        draw.waterfall(
            steps,
            name=name,
            title=title,
            alt=f"{title}. {comparison.title}: {draw.added(comparison.added_s)} in all.",
            legend=[(group_colour(one.group), one.group) for one in comparison.groups],
        ),
    )
