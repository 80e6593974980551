"""The figures of a machine, each with its title and its caption."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

import pandas as pd

from scaling_study.analysis.inflation import sum_operators
from scaling_study.common.quantities import format_count, known, time_unit
from scaling_study.config import process_counts
from scaling_study.config.plan import Plan
from scaling_study.profiling import operator_groups
from scaling_study.records.analysis import Comparison, FrontPoint
from scaling_study.records.verdict import Sensitivity, Target
from scaling_study.report import draw, words
from scaling_study.report.draw import About, Curve, DotRow, Figure, WaterfallBar
from scaling_study.report.model import MachineReport, estimate
from scaling_study.stats.interval import Interval

MARKERS = ("o", "X", "s", "^", "D", "v")
"""Markers of the series in colour: more lines than these cannot be told apart."""
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
USES = {
    "trainers": ("training threads", "series-1"),
    "threads": ("other threads of theirs", "series-2"),
    "workers": ("processes of theirs", "series-3"),
    "others": ("other programs", "rest"),
}
SHOWN_FROM = {"trainer_throttled_s_per_step": 0.0, "trainer_residual_s_per_step": 0.02}
"""Shares of a step up to which these accounts are not drawn."""
SMALL_SHARE = 0.005
"""An account below this share of the longer step, at both counts, has no row of its own."""
GROUP_COLOURS = (
    *("series-1", "series-2", "series-3", "series-4", "series-5", "series-6"),
    *("part-2", "muted", "muted"),
)
"""Colours of the groups of operators, in their order."""
LARGEST = 9
"""Operators with a bar of their own."""
NOT_REACHED = "dashed: others did not reach the work asked of them"
CONTROL = "register"
"""The kernel that needs nothing but a core and its clock."""


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


def choose_series(machine: MachineReport, plan: Plan) -> tuple[Series, ...]:
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


@dataclass(frozen=True, slots=True)
class FigureKind:
    """A kind of figure.

    Attributes:
        title: above the plots.
        caption: how to read it.
        column: column of tables/points to draw as curves against the number of processes.
        scale: factor of the column.
        parts: columns of tables/points to draw as stacked bars, with title and colour.
    """

    title: str
    caption: str
    column: str = ""
    scale: float = 1.0
    parts: Mapping[str, tuple[str, str]] = field(default_factory=dict)


KINDS = {
    "throughput": FigureKind(
        "Throughput, steps/s",
        "All members together; higher is better. Shaded: 95% intervals over starts. Upright lines: "
        "processes of one CPU each fill a part of the machine.",
        "steps_per_s",
    ),
    "step_time": FigureKind(
        "Step time, ms", "What one member sees: a flat line is perfect scaling.", "step_s", 1e3
    ),
    "efficiency": FigureKind(
        "Efficiency",
        "Throughput over n times that of one process of the same launch: 1 is perfect.",
        "efficiency",
    ),
    "phases": FigureKind(
        "Phases of a step",
        "Mean time; forward has all other Python. Each launch has a scale of its own.",
        parts={
            "load_s_per_step": ("load", "part-1"),
            "forward_s_per_step": ("forward and Python", "part-2"),
            "backward_s_per_step": ("backward", "part-3"),
            "optimizer_s_per_step": ("optimizer", "part-4"),
        },
    ),
    "accounts": FigureKind(
        "Where the training thread's time goes",
        "Per step, as the kernel counts it. Blocked: waiting for threads, locks or data.",
        parts={f"trainer_{name}_s_per_step": account for name, account in ACCOUNTS.items()},
    ),
    "cpu_time": FigureKind(
        "CPU time of all threads",
        "Per step of one member, child processes included: several threads take more than a step.",
        parts={f"{name}_s_per_step": ACCOUNTS[name] for name in ("user", "system", "runqueue")},
    ),
    "noise": FigureKind(
        "A/A check: the baseline against itself",
        "The repeat is the same launch: this is how no difference looks on this machine.",
    ),
    "causes-accounts": FigureKind(
        "What more processes add to a step",
        "The training thread's mean step in these experiments, as the kernel counts it. Parts are "
        "counted apart, so what is not accounted for may be below 0.",
    ),
    "causes-interventions": FigureKind(
        "One change at a time: what it takes away",
        "The same launch with one thing changed. At 0% a change does nothing; to the left it makes "
        "things worse.",
    ),
    "causes-doses": FigureKind(
        "One thing added: step time beside other work",
        "The others run one kernel each for a share of their time (the dose). What rises "
        "above the control, in grey, is what training is sensitive to.",
    ),
    "microbenchmarks": FigureKind(
        "This machine: kernels side by side",
        "Small kernels, each bound by one thing, in place of the training: the rate of one alone "
        "over the mean rate of n. Grey: a loop in registers, which shares only the clock.",
    ),
    "use": FigureKind(
        "CPUs in use while it trains as it is",
        "By kind of thread. The dashed line: all that the study may use.",
    ),
    "inflation": FigureKind(
        "Change of the step time by operator",
        "Self time per profiled step of one member: small differences mean nothing.",
    ),
}
OF_RUNS = {"throughput": "Throughput, runs/s", "efficiency": KINDS["efficiency"].title}
"""The figures of whole runs, in which no steps are seen, with their titles."""
CURVES = {name: kind.title for name, kind in KINDS.items() if kind.column}
STACKS = tuple(name for name, kind in KINDS.items() if kind.parts)
SCALING = (*CURVES, *STACKS, "noise")
"""Figures against the number of processes, in the page's order."""


def texts(kind: str, suffix: str = "", at: int = 0) -> About:
    """Return the texts of a figure.

    Args:
        kind: a key of ``KINDS``.
        suffix: suffix of the machine's files.
        at: the figure's place among those of its kind, from 0.
    """
    entry = KINDS[kind]
    number = f"-{at + 1}" if at else ""
    return About(f"{kind}{number}{suffix}", entry.title, entry.caption)


def draw_all(machine: MachineReport, plan: Plan, series: Sequence[Series]) -> dict[str, Figure]:
    """Draw a machine's figures; return them by their names without the machine's suffix."""
    suffix = machine.suffix
    drawn = [*scaling(machine, plan, series).values(), front(machine), use(machine)]
    for at, comparison in enumerate(machine.comparisons):
        drawn.append(operators(comparison, texts("inflation", suffix, at)))
    for at, target in enumerate(machine.targets):
        drawn.append(accounts(target, texts("causes-accounts", suffix, at)))
        drawn.append(interventions(target, texts("causes-interventions", suffix, at)))
        drawn.append(doses(target.sensitivities, texts("causes-doses", suffix, at)))
    drawn.append(kernels(machine))
    return {figure.name.removesuffix(suffix): figure for figure in drawn if figure is not None}


def scaling(
    machine: MachineReport, plan: Plan, series: Sequence[Series]
) -> dict[str, Figure | None]:
    """Draw the figures against the number of processes; none without a valid window."""
    if machine.points.empty:
        return {}
    hardware = machine.hardware
    counts = process_counts.resolve(plan.processes, hardware.usable, hardware.quota_cpus)
    runs = plan.workload.runs
    titles = OF_RUNS if runs else CURVES
    return {
        **{name: _against_n(machine, series, counts, name, titles[name]) for name in titles},
        **{name: _stacked(machine, series, name) for name in (() if runs else STACKS)},
        "noise": _noise(machine),
    }


def _against_n(
    machine: MachineReport, series: Sequence[Series], counts: Sequence[int], name: str, title: str
) -> Figure | None:
    kind = KINDS[name]
    needed = {f"{kind.column}{end}" for end in ("", "_low", "_high")}
    needed |= {"launch", "n", "replicates", "steps_per_s"}  # rows of all columns take long
    points = machine.points.loc[machine.points[kind.column].notna(), sorted(needed)]
    if points.empty:
        return None
    places = sorted({*counts, *points["n"]})

    def curve_of(rows: pd.DataFrame, label: str, **style: object) -> Curve:
        """Return the curve of a launch, with a gap where a count was not measured."""
        measured = {
            row["n"]: estimate(row, kind.column, kind.scale) for row in rows.to_dict("records")
        }
        values = tuple((float(n), measured.get(n, Interval())) for n in places)
        return Curve(label, values, **style)  # type: ignore[arg-type]

    launches = dict(tuple(points.groupby("launch")))
    curves = [
        curve_of(launches.pop(line.launch), line.title, colour=line.colour, marker=line.marker,
                 width=2.8 if line.roles else 1.8)
        for line in series
        if line.launch in launches
    ]  # fmt: skip
    rest = format_count(len(launches), "other launch", "other launches")
    curves += [
        curve_of(rows, rest, colour="rest", marker="", width=1.0) for rows in launches.values()
    ]
    slope = 0.0 if name == "efficiency" else None
    if name == "throughput":
        one_process = points[points["n"] == 1].set_index("launch")["steps_per_s"]
        slope = one_process.get(series[0].launch)
    if slope is not None:
        ns = sorted(points["n"].astype(float).unique())
        ideal = tuple((n, Interval(n * slope or 1.0)) for n in ns)
        curves.append(Curve("ideal: in proportion", ideal, "muted", "", 1.2, dashed=True))
    return draw.lines(
        {"": curves},
        replace(texts(name, machine.suffix), title=title),
        "processes",
        marks=process_counts.boundaries(machine.hardware.usable, machine.hardware.quota_cpus),
        from_zero=name == "efficiency",
    )


def _stacked(machine: MachineReport, series: Sequence[Series], name: str) -> Figure | None:
    points = machine.points
    # Time held back by a quota or not accounted for is drawn only where it is not negligible.
    parts = {
        column: part
        for column, part in KINDS[name].parts.items()
        if column not in SHOWN_FROM
        or (points[column] / points["step_s"]).abs().max() > SHOWN_FROM[column]
    }
    heights = points.set_index(["launch", "n"])[list(parts)].dropna(how="all").fillna(0.0)
    launches = heights.index.unique("launch")
    panels = {
        line.title: heights.loc[[line.launch]].droplevel("launch").sort_index()
        for line in series[:STACKED]
        if line.launch in launches
    }
    if not panels:
        return None
    return draw.stacks(panels, [*parts.values()], texts(name, machine.suffix))


def _noise(machine: MachineReport) -> Figure | None:
    rows = [
        DotRow(words.processes(point.n), (difference,), "series-3")
        for point in machine.noise.points
        for difference in [Interval(point.ratio, point.low, point.high).plus(-1.0)]
    ]
    return draw.dots(rows, texts("noise", machine.suffix))


def front(machine: MachineReport) -> Figure | None:
    """Draw every point's rate against the time of one model; None without a point."""
    pareto = machine.pareto
    if not pareto.points:
        return None
    thing, unit = words.THINGS[pareto.rate], words.UNITS[pareto.rate]
    unit_s, time_name = time_unit(min(point.time_s for point in pareto.points))

    def curve(label: str, points: Iterable[FrontPoint], **style: object) -> Curve:
        values = tuple((point.time_s / unit_s, Interval(point.rate)) for point in points)
        return Curve(label, values, **style)  # type: ignore[arg-type]

    usual = [point for point in pareto.points if not point.changes_training]
    changing = [point for point in pareto.points if point.changes_training]
    curves = [
        curve("no other point beats it at both", pareto.front),
        curve("another launch at a process count", usual, colour="rest", width=0.0),
        curve("changes training", changing, colour="series-2", marker="s", width=0.0),
    ]
    about = About(
        f"front{machine.suffix}",
        unit,
        f"To the left {thing} is done sooner, to the top there are more. Predicted means.",
    )
    shown = [line for line in curves if line.points]
    return draw.lines({"": shown}, about, f"time of {thing}, {time_name}", counts=False)


def accounts(target: Target, about: About) -> Figure | None:
    """Draw a step of one process, what each account adds, and a step of n processes."""
    times = [
        (*ACCOUNTS[entry.account], entry.low_s or 0.0, entry.high_s or 0.0)
        for entry in target.accounts
    ]
    low_s, high_s = sum(low for _, _, low, _ in times), sum(high for _, _, _, high in times)
    changes = [
        WaterfallBar(title, high - low, colour)
        for title, colour, low, high in times
        if max(abs(low), abs(high)) > SMALL_SHARE * abs(high_s)
    ]
    if not changes:
        return None
    changes.sort(key=lambda step: -step.added_s)
    first = WaterfallBar("a step of 1 process", low_s, whole=True)
    last = WaterfallBar(f"a step of {target.n} processes", high_s, whole=True)
    return draw.waterfall([first, *changes, last], about)


def interventions(target: Target, about: About) -> Figure | None:
    """Draw the share that each change recovers of the added time, and of a step of one process."""
    rows = [
        DotRow(change.title, (_known(change.scaling_loss), _known(change.single_process_loss)))
        for change in target.interventions
        if change.status == "measured" and (change.scaling_loss or change.single_process_loss)
    ]
    rows.sort(key=lambda row: -(row.columns[0].value if row.columns[0] else -1.0))
    return draw.dots(rows[:12], about, ("of the growth with n", "of a step alone"))


def _known(interval: Interval | None) -> Interval | None:
    return interval if interval is not None and known(interval.value) else None


def doses(sensitivities: Sequence[Sensitivity], about: About) -> Figure | None:
    """Draw step times beside growing doses of other work, a small plot for each kind."""
    curves = {}
    for sensitivity in sensitivities:
        values = tuple(
            (dose.dose, ratio)
            for dose in sorted(sensitivity.doses, key=lambda dose: dose.dose)
            if (ratio := _known(dose.ratio))
        )
        if values:
            label = "" if sensitivity.verified else NOT_REACHED
            curve = Curve(label, values, dashed=not sensitivity.verified)
            curves[sensitivity.kernel or sensitivity.title] = (sensitivity.title, curve)
    return _multiples(curves, about, "dose of the others")


def kernels(machine: MachineReport) -> Figure | None:
    """Draw how much slower each kernel of the machine's microbenchmarks gets with n."""
    benchmarks = machine.microbenchmarks
    if benchmarks is None:
        return None
    rows = [row for row in benchmarks.rows if row.valid and row.placement == "cores"]
    curves = {}
    for kernel in benchmarks.kernels:
        rates = {
            (row.block, row.n): fmean(row.rates)
            for row in rows
            if row.kernel == kernel.kernel and min(row.rates, default=0.0) > 0
        }
        slower: dict[int, list[float]] = {}
        for (block, n), rate in sorted(rates.items()):
            if alone := rates.get((block, 1)):
                slower.setdefault(n, []).append(alone / rate)
        values = tuple(
            (n, Interval(fmean(ratios), *((min(ratios), max(ratios)) if len(ratios) > 1 else ())))
            for n, ratios in sorted(slower.items())
        )
        if values:
            curves[kernel.kernel] = kernel.title, Curve("", values)
    return _multiples(curves, texts("microbenchmarks", machine.suffix), "processes")


def _multiples(
    curves: Mapping[str, tuple[str, Curve]], about: About, x_label: str
) -> Figure | None:
    """Draw a small plot for each curve, in each of them the control in grey."""
    if not curves:
        return None
    control = curves.get(CONTROL)
    grey = () if control is None else (Curve(control[0], control[1].points, "muted", "s"),)
    panels = {
        head: grey if kernel == CONTROL else (curve, *grey)
        for kernel, (head, curve) in curves.items()
    }
    return draw.lines(panels, about, x_label, counts=x_label == "processes", ratios=True)


def use(machine: MachineReport) -> Figure | None:
    """Draw the CPUs that each kind of thread used over time; None without readings."""
    usage = machine.data_loader.use if machine.data_loader else None
    if usage is None or not usage.spans:
        return None
    curves = [
        Curve(
            label, tuple((span.at_s, Interval(getattr(span, kind))) for span in usage.spans), colour
        )
        for kind, (label, colour) in USES.items()
    ]
    usable = tuple((span.at_s, Interval(usage.cpus)) for span in usage.spans)
    curves.append(Curve("CPUs that the study may use", usable, "muted", ".", 1.2, dashed=True))
    about = texts("use", machine.suffix)
    return draw.lines({"": curves}, about, "seconds", counts=False, from_zero=True)


def group_colour(group: str) -> str:
    """Return the name in ``svg.THEME`` of the colour of a group of operators."""
    return GROUP_COLOURS[operator_groups.names().index(group)]


def operators(comparison: Comparison, about: About) -> Figure:
    """Draw the time that each operator adds to a step."""
    summed = sum_operators(comparison)
    by_size = sorted(summed, key=lambda row: -row.size)
    few = len(by_size) <= LARGEST + 1  # one too many is not worth the bar "1 other"
    shown = by_size[: None if few else LARGEST]
    steps = [
        WaterfallBar(row.operator, row.difference_s, group_colour(row.group))
        for row in summed
        if row in shown and row.difference_s
    ]
    others = [row.difference_s or 0.0 for row in summed if row not in shown]
    if others:
        steps.append(WaterfallBar(f"{len(others)} smaller changes", sum(others), "rest"))
    steps.append(WaterfallBar("whole step", sum(step.added_s for step in steps), whole=True))
    legend = [(group.group, group_colour(group.group)) for group in comparison.groups]
    return draw.waterfall(steps, about, legend)
