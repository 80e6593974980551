"""One self-contained HTML page of a study: opens from disk, loads nothing.

Templates (``workflow/report``) get typed objects (`model`), sentences (`words`) and the filters
below. Jinja escapes whatever comes from a config or a record, and the page's policy allows no
script but its own, which it knows by its hash.
"""

from __future__ import annotations

import base64
import hashlib
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2
import yaml
from markupsafe import Markup

from scaling_study.common.objectives import OBJECTIVES
from scaling_study.common.quantities import (
    format_bytes,
    format_count,
    format_cpus,
    format_interval,
    format_number,
    format_percent,
    format_probability,
    format_ratio,
    format_seconds,
    format_time,
    known,
)
from scaling_study.config import work
from scaling_study.config.launches import differing
from scaling_study.experiments.loader_model import TITLES
from scaling_study.launch.axes.axis_table import DEFAULTS
from scaling_study.member import program
from scaling_study.member.kernels import STREAM_BYTES
from scaling_study.profiling import operator_groups
from scaling_study.report import draw, figures, rows, sections, svg, words
from scaling_study.report.model import Interval
from scaling_study.runner import switch_script
from scaling_study.search import rounds

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from scaling_study.config.plan import Plan
    from scaling_study.report.figures import Figure, Series
    from scaling_study.report.flames import Flames
    from scaling_study.report.model import Compared, Hardware, Machine, Slot, Target


TEMPLATES = Path(__file__).parents[3] / "report"
MOST_OPERATORS = 8
"""Rows of a table of operators; all are in tables/operators."""


def interval(found: Interval | None, unit: float = 1.0) -> str:
    """Write the interval of a value; empty without one."""
    if found is None or not found.sure:
        return ""
    return format_interval(found.low, found.high, like=found.value, unit=unit)


def ratio(found: Interval | float | None) -> str:
    """Write a ratio, of a value with an interval or of a plain one."""
    return format_ratio(found.value if isinstance(found, Interval) else found)


def share(found: Interval | float | None) -> str:
    """Write a share: of an experiment in whole percent."""
    return words.share_text(found) if isinstance(found, Interval) else format_percent(found)


def sortable(value: Interval | float | None) -> str:
    """Write what a table is sorted by; what is missing sorts last."""
    number = value.value if isinstance(value, Interval) else value
    return f"{number:.9g}" if number is not None and not math.isnan(number) else ""


def yaml_text(content: object) -> str:
    """Write a nested value as YAML."""
    return str(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=88))


def download(text: str) -> str:
    """Return an address that holds a text, for a link that saves it."""
    return f"data:text/plain;charset=utf-8;base64,{base64.b64encode(text.encode()).decode()}"


FILTERS = {
    "number": lambda value: f"{value:,}" if isinstance(value, int) else format_number(value),
    "ratio": ratio,
    "seconds": format_seconds,
    "time": format_time,
    "interval": interval,
    "share": share,
    "count": format_count,
    "bytes": format_bytes,
    "cpus": format_cpus,
    "probability": lambda value: format_probability(value, short=True),
    "added": draw.added,
    "sortable": sortable,
    "yaml": yaml_text,
    "download": download,
    "known": known,
}


@dataclass(frozen=True, slots=True)
class Launching:
    """The launch script: its path, as one types it, and its text."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class View:
    """What the templates show of one machine, beside the machine itself.

    Attributes:
        anchor: prefix of ids in the page.
        figures: by a name without the machine's suffix.
    """

    anchor: str
    machine: Machine
    headline: words.Headline
    launching: Launching
    series: tuple[Series, ...]
    flames: Flames
    figures: Mapping[str, Figure]
    plan: Plan
    operators: tuple[Figure, ...] = field(default=())

    @property
    def name(self) -> str:
        """What the page calls the machine."""
        return self.machine.name or self.machine.hardware.cpu_model

    @property
    def size(self) -> str:
        """The machine's size in a few words; its processor too, where the config names it."""
        hardware = self.machine.hardware
        text = format_count(hardware.cpus, "usable CPU")
        if self.machine.name:
            text = f"{hardware.cpu_model}, {text}"
        if hardware.quota_cpus is not None:
            text += f", a quota of {format_number(hardware.quota_cpus)}"
        return f"{text}, {format_bytes(hardware.memory_bytes)}"

    @property
    def rate(self) -> str:
        """The rate that the objective compares."""
        return OBJECTIVES[self.machine.recommendation.objective].rate

    @property
    def titles(self) -> dict[str, str]:
        """Titles of the launches with a role, by id."""
        return {one.launch: one.title for one in self.series if one.roles}

    @property
    def targets(self) -> tuple[Target, ...]:
        """Targets of experiments, each launch once."""
        return tuple(one for one in self.machine.targets if one.same_as is None)

    @property
    def points(self) -> list[dict[Hashable, object]]:
        """Points of the launches in colour, as rows of a table."""
        points = self.machine.points
        own = [points[points["launch"] == one.launch].sort_values("n") for one in self.series]
        return [row for each in own for row in each.to_dict("records")]

    @property
    def between(self) -> list[dict[Hashable, object]]:
        """What lies between steps, of launches and counts where it takes a part worth a row."""
        found = self.machine.between
        found = found[found["launch"].isin([*self.titles])]
        whole = found.groupby(["launch", "n"])["share"].transform("sum")
        return list(found[whole > sections.WORTH_SAYING].to_dict("records"))

    @property
    def largest(self) -> str | None:
        """The operator that the first comparison's difference is mostly in."""
        comparison = self.machine.comparisons[0]
        found = figures.sum_operators(comparison)
        if not found or not found[0][2]:
            return None
        operator, group, _ = found[0]
        return "what no operator covers" if group == operator_groups.OUTSIDE else operator

    @property
    def script_lines(self) -> str:
        """Lines of the script that do what the switches file does; empty without any."""
        best = self.machine.recommendation.recommended
        if best is None:
            return ""
        read_back = self.machine.readback.model_dump()
        used = switch_script.optimizers_of(read_back, best.launch)
        return "\n".join(switch_script.lines(best.axes, used))

    @property
    def command(self) -> str:
        """What to type."""
        return f"bash {self.launching.path}"

    @property
    def settings(self) -> list[str]:
        """Variables that the recommended launch sets."""
        best = self.machine.recommendation.recommended
        values = best.requested_env if best else {}
        return [f"{name}={value}" for name, value in sorted(values.items()) if value is not None]

    @property
    def helpful(self) -> list[str]:
        """Labels of launches that experiments showed to help, and that a race did not measure."""
        if self.plan.searched is None:
            return []
        targets = [target.model_dump() for target in self.machine.targets]
        return [one.label for one in rounds.helpful(self.plan, targets)]

    @property
    def disk_limit(self) -> float | None:
        """What one process reads from the disk in order, at most (bytes per second)."""
        alone = self.machine.microbenchmarks
        found = (
            one.per_s for one in (alone.ceilings if alone else ()) if one.name == "disk_in_order"
        )
        return next(found, None)


def streams(machine: Machine) -> list[tuple[str, float]]:
    """Return what streams move at most (bytes per second), with one process and with the most."""
    alone = machine.microbenchmarks
    found = []
    for kernel, title in (("memory", "memory, a stream"), ("llc", "last-level cache, a stream")):
        rows = [row for row in (alone.rows if alone else ()) if row.kernel == kernel and row.valid]
        counts = sorted({row.n for row in rows if row.rates})
        for n in dict.fromkeys([*counts[:1], *counts[-1:]]):
            sums = [sum(row.rates) for row in rows if row.n == n and row.rates]
            found.append((f"{title}, {words.processes(n)}", STREAM_BYTES * sum(sums) / len(sums)))
    return found


@dataclass(frozen=True, slots=True)
class Page:
    """A rendered report, and the figures in it."""

    html: str
    figures: tuple[Figure, ...]


def view(plan: Plan, machine: Machine, launching: Launching, flames: Flames, anchor: str) -> View:
    """Draw a machine's figures and word its headline."""
    series, suffix = figures.choose_series(machine, plan), machine.suffix
    found: dict[str, Figure | None] = {**figures.scaling(machine, plan, series)}
    found["front"] = figures.front(machine)
    for at, target in enumerate(one for one in machine.targets if one.same_as is None):
        end = f"{f'-{at + 1}' if at else ''}{suffix}"
        found[f"accounts-{at}"] = figures.accounts(target, f"causes-accounts{end}")
        found[f"interventions-{at}"] = figures.interventions(target, f"causes-interventions{end}")
        found[f"doses-{at}"] = figures.doses(
            target.sensitivities,
            f"causes-doses{end}",
            "One thing added: step time beside other work",
            "One member trains beside others that run one kernel each for a share of their time "
            "(the dose). What rises above the control, in grey, is what training is sensitive to.",
        )
    if machine.microbenchmarks:
        found["microbenchmarks"] = figures.microbenchmarks(
            machine.microbenchmarks, f"microbenchmarks{suffix}"
        )
    if machine.data_loader:
        found["use"] = figures.use(machine)
        found["neighbours"] = figures.doses(
            machine.data_loader.neighbours,
            f"neighbours{suffix}",
            "Training beside what a loader does",
            "Training from memory beside work like a loader's, at growing doses: step time against "
            "that beside none.",
            machine.hardware.cpus / machine.data_loader.n,
        )
    operators = tuple(
        figures.operators(one, f"inflation{f'-{at + 1}' if at else ''}{suffix}")
        for at, one in enumerate(machine.comparisons)
    )
    return View(
        anchor=anchor,
        machine=machine,
        headline=words.headline(machine),
        launching=launching,
        series=series,
        flames=flames,
        figures={name: one for name, one in found.items() if one is not None},
        plan=plan,
        operators=operators,
    )


def render_report(plan: Plan, views: Sequence[View], compared: Compared | None = None) -> Page:
    """Render the report of a study; the same input gives the same text."""
    several = len(views) > 1 or compared is not None
    html = render_page(
        "report.html.j2",
        flames=any(one.flames.shown for one in views),
        title=f"{plan.study}: scaling study",
        plan=plan,
        script_name=program.name(work.program(plan.workload)),
        config_yaml=yaml_text(_readable(plan, compared)),
        equal_work=_equal_work(plan, views),
        views=views,
        places={one.name: one for one in views},
        several=several,
        compared=compared,
        h=3 if several else 2,
    )
    drawn = [one for each in views for one in (*each.figures.values(), *each.operators)]
    return Page(html, tuple(drawn))


def render_page(template: str, *, flames: bool, **content: object) -> str:
    """Render a page that has its style and its script inside.

    Args:
        template: file in workflow/report; it gets ``css``, ``script`` and ``script_hash`` too.
        flames: whether there are flame graphs, which bring a script of their own.
        content: what the template shows.
    """
    files = ["page.js", "flame.js"] if flames else ["page.js"]
    script = "".join((TEMPLATES / name).read_text(encoding="utf-8") for name in files)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS)
    environment.globals.update(
        words=words,
        rows=rows,
        sections=sections,
        variants=TITLES,
        accounts=figures.ACCOUNTS,
        defaults=DEFAULTS,
        group_colour=figures.group_colour,
        group_reason=operator_groups.reason,
        sum_operators=figures.sum_operators,
        most_operators=MOST_OPERATORS,
        facts_of=facts_of,
        places_of=places_of,
        streams=streams,
        css=Markup(_css()),  # noqa: S704 (ours)
        script=Markup(script),  # noqa: S704 (ours)
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    return environment.get_template(template).render(**content)


def _css() -> str:
    """The page's style, with the theme's colours for both schemes and for the reader's choice."""
    light, dark = svg.theme_css(0), svg.theme_css(1)
    return (
        f":root{{{light}}}"
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}"
        f":root[data-theme=dark]{{{dark}}}" + (TEMPLATES / "style.css").read_text(encoding="utf-8")
    )


def _readable(plan: Plan, compared: Compared | None) -> dict[str, object]:
    """The plan with what each launch changes only, and in the order of a config."""
    launches = {
        launch.id: {"role": launch.role, **differing(launch.axes, DEFAULTS)}
        for launch in plan.launches
    }
    keys = ("study", "description", "seed", "objective", "workload", "processes", "search")
    kinds = {
        one.name: {key: value for key, value in one.kind.items() if value}
        for one in (compared.machines if compared else ())
    }
    machines = {"machines": kinds} if kinds else {}
    content = plan.to_dict()
    shown = {key: content[key] for key in (*keys, "measure")}
    return {**shown, "launches": launches, **machines}


def _equal_work(plan: Plan, views: Sequence[View]) -> str:
    """Say what a step is, where launches of the study do different work in one."""
    learnt = work.with_learnt(plan, views[0].machine.provenance.samples)
    if set(work.work_by_launch(learnt).values()) <= {1.0}:
        return ""
    samples = work.samples_per_step(learnt, plan.by_id[plan.default])
    what = "one of the default launch's" if samples is None else f"{samples:,g} samples"
    return (
        f"A step is {what}: launches are compared by equal work, in which each rank of a group has "
        "a step of its own. Profiles and causes show the script's own steps."
    )


def places_of(slots: Sequence[Slot]) -> list[tuple[str, str]]:
    """Return where members run; neighbours with the same place share a row."""
    groups: list[tuple[list[int], str]] = []
    for slot in slots:
        cpus = "any CPU" if slot.cpus is None else f"CPU {slot.cpus}"
        loader = "" if slot.loader_cpus is None else f" (its loader: {slot.loader_cpus})"
        memory = "" if slot.policy == "default" else f", memory {slot.policy}"
        shared = ", shared with another member" if slot.oversubscribed else ""
        place = f"{cpus}{loader}{memory}{shared}"
        if groups and groups[-1][1] == place:
            groups[-1][0].append(slot.slot)
        else:
            groups.append(([slot.slot], place))
    return [
        (f"member {who[0]}" if len(who) == 1 else f"members {who[0]} to {who[-1]}", place)
        for who, place in groups
    ]


def facts_of(machine: Hardware) -> dict[str, str]:
    """Return the machine, as its probe saw it."""
    yes_no = {True: "yes", False: "no", None: "not readable"}
    limits = (machine.quota_cpus, machine.memory_limit_bytes)
    libraries = [f"{name} {path}" for name, path in machine.libraries.items() if path]
    return {
        "host": machine.hostname,
        "processor": machine.cpu_model,
        "topology": machine.layout,
        "usable CPUs": machine.allowed_cpus,
        "CPU quota": "none" if limits[0] is None else format_number(limits[0]),
        "L2, L3": f"{format_bytes(machine.l2_bytes)}, {format_bytes(machine.l3_bytes)}",
        "instruction sets": ", ".join(machine.isa),
        "memory": format_bytes(machine.memory_bytes),
        "memory limit": "none" if limits[1] is None else format_bytes(limits[1]),
        "swap": format_bytes(machine.swap_bytes),
        "virtual": machine.virtual or "no",
        "kernel, C library": f"{machine.kernel}, {machine.libc}",
        "frequency governor": machine.governor or "not readable",
        "transparent huge pages": machine.thp or "not readable",
        "automatic NUMA balancing": yes_no[machine.numa_balancing],
        "hardware counters": yes_no[machine.perf_counters],
        "libraries found": ", ".join(libraries) or "none",
        "versions": ", ".join(f"{name} {text}" for name, text in machine.versions.items()),
        "commit": machine.commit or "none",
        "machine hash": machine.hash,
    }
