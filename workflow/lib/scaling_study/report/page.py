"""The page of a study, its figures and its launch scripts, from the results of the study.

The page is one HTML file: it opens from disk and loads nothing.

Templates (``workflow/report``) get typed objects (`model`), sentences (`words`, `sections`) and the
filters below. Jinja escapes all text from configs and records, and the page's policy allows only
its own script, by its hash.
"""

import base64
import hashlib
import math
import shlex
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import jinja2
import yaml
from markupsafe import Markup
from msgspec import json, structs

from scaling_study.common import quantities, storage
from scaling_study.common.objectives import OBJECTIVES
from scaling_study.common.topology import format_cpu_list
from scaling_study.config import work
from scaling_study.config.launches import differing
from scaling_study.config.plan import Plan, read_plan
from scaling_study.experiments.loader_model import VARIANTS
from scaling_study.launch.axes.axis_table import DEFAULTS
from scaling_study.profiling import operator_groups
from scaling_study.records.analysis import STAGE_TIMES, Compared, Effective
from scaling_study.records.codec import plain, read_file
from scaling_study.report import draw, figures, flamegraph, launch_script, sections, svg, words
from scaling_study.report.figures import Series
from scaling_study.report.model import MachineReport, estimate, read_study
from scaling_study.runner import switch_script
from scaling_study.search import rounds
from scaling_study.stats import thresholds
from scaling_study.stats.interval import Interval

SCRIPTS = ("page.js", "flame.js")
FIGURES = ("throughput", "step_time")
"""The rule promises these to Snakemake, whatever was measured."""
NOTHING_DRAWN = """\
<svg xmlns="http://www.w3.org/2000/svg" width="320" height="40">
<text x="8" y="25" font-family="sans-serif">No valid window: nothing to draw.</text>
</svg>
"""


def interval(value: Interval | None) -> str:
    """Write the interval of a value; empty without one."""
    return quantities.format_interval(value.low, value.high, like=value.value) if value else ""


def ratio(value: Interval | float | None) -> str:
    """Write a ratio, of a value with an interval or of a plain one."""
    return quantities.format_ratio(value.value if isinstance(value, Interval) else value)


def share(value: Interval | float | None) -> str:
    """Write a share; one with an interval, as of an experiment, in whole percent."""
    if isinstance(value, Interval):
        return words.share_text(value)
    return quantities.format_percent(value)


def overhead(factor: float | None) -> str:
    """Write an overhead of 1.04 as ``+4%``."""
    text = quantities.format_percent(None if factor is None else factor - 1)
    return f"+{text}" if factor is not None and factor > 1 else text


def sortable(value: Interval | float | None) -> str:
    """Write the number that a table is sorted by; missing ones sort last."""
    number = value.value if isinstance(value, Interval) else value
    return f"{number:.9g}" if number is not None and not math.isnan(number) else ""


def grouped(items: Iterable[object], *names: str) -> list[list[object]]:
    """Gather the items that agree in some attributes, in the order of their first ones."""
    groups: dict[tuple[object, ...], list[object]] = {}
    for item in items:
        groups.setdefault(tuple(getattr(item, name) for name in names), []).append(item)
    return list(groups.values())


def yaml_text(content: object) -> str:
    """Write a record or a nested value as YAML."""
    return str(yaml.safe_dump(plain(content), sort_keys=False, allow_unicode=True, width=88))


def download(text: str) -> str:
    """Return an address that holds a text, for a link that saves it."""
    return f"data:text/plain;charset=utf-8;base64,{base64.b64encode(text.encode()).decode()}"


def number(value: float | None) -> str:
    """Write a number; a whole one with all its digits."""
    return f"{value:,}" if isinstance(value, int) else quantities.format_number(value)


FILTERS = {
    "number": number,
    "ratio": ratio,
    "seconds": quantities.format_seconds,
    "time": quantities.format_time,
    "interval": interval,
    "share": share,
    "overhead": overhead,
    "estimate": estimate,
    "cpus": quantities.format_cpus,
    "count": quantities.format_count,
    "bytes": quantities.format_bytes,
    "cpu_list": format_cpu_list,
    "probability": lambda value: quantities.format_probability(value, short=True),
    "added": draw.added,
    "listed": words.listed,
    "sentence": words.sentence,
    "named": words.name_launch,
    "processes": words.processes,
    "sortable": sortable,
    "grouped": grouped,
    "yaml": yaml_text,
    "download": download,
    "shell": shlex.join,
    "known": quantities.known,
}


@dataclass(frozen=True)
class View:
    """A machine, and all that the templates show of it.

    Attributes:
        anchor: prefix of ids in the page.
        script: the launch script's path, as typed in a shell.
        script_text: the launch script's content.
    """

    anchor: str
    machine: MachineReport
    plan: Plan
    flames: flamegraph.Flames
    script: str
    script_text: str

    @cached_property
    def headline(self) -> words.Headline:
        """The answer at the top of the report."""
        return words.headline(self.machine)

    @cached_property
    def series(self) -> tuple[Series, ...]:
        """Launches in colour."""
        return figures.choose_series(self.machine, self.plan)

    @cached_property
    def figures(self) -> dict[str, draw.Figure]:
        """Figures by a name without the machine's suffix."""
        return figures.draw_all(self.machine, self.plan, self.series)

    @property
    def name(self) -> str:
        """The machine's name in the page."""
        return self.machine.name or self.machine.hardware.cpu_model

    @property
    def titles(self) -> dict[str, str]:
        """Titles of the launches with a role, by id."""
        return {launch.launch: launch.title for launch in self.series if launch.roles}

    @property
    def points(self) -> list[dict[Hashable, object]]:
        """Points of the launches in colour, as rows of a table."""
        points = self.machine.points
        frames = [
            points[points["launch"] == launch.launch].sort_values("n") for launch in self.series
        ]
        return [row for each in frames for row in each.to_dict("records")]

    @property
    def between(self) -> list[dict[Hashable, object]]:
        """Rows on the time between steps, for launches and counts where it is noticeable."""
        rows = self.machine.between
        rows = rows[rows["launch"].isin([*self.titles])]
        whole = rows.groupby(["launch", "n"])["share"].transform("sum")
        return list(rows[whole > thresholds.NOTICEABLE].to_dict("records"))


def render_report(
    plan: Plan, views: Sequence[View], compared: Compared | None, times_s: Mapping[str, float]
) -> str:
    """Render the report of a study; the same input gives the same text.

    Args:
        plan: plan.json.
        views: its machines.
        compared: analysis/machines.json, if the study names machines.
        times_s: how long its stages took, by name.
    """
    several = len(views) > 1 or compared is not None
    learnt = work.with_learnt(plan, views[0].machine.provenance.samples)
    return render_page(
        "report.html.j2",
        title=f"{plan.study}: scaling study",
        plan=plan,
        script_name=work.name(plan.workload),
        config_yaml=yaml_text(_readable(plan, compared)),
        equal_work=set(work.work_by_launch(learnt).values()) <= {1.0},
        samples=work.samples_per_step(learnt, plan.by_id[plan.default]),
        views=views,
        places={view.name: view for view in views},
        several=several,
        compared=compared,
        times_s=times_s,
        h=3 if several else 2,
    )


def render_page(template: str, **content: object) -> str:
    """Render a page that has its style and its script inside.

    Args:
        template: file in workflow/report; it gets ``css``, ``script`` and ``script_hash`` too.
        content: what the template shows.
    """
    script = "".join((storage.TEMPLATES / name).read_text(encoding="utf-8") for name in SCRIPTS)
    return (
        environment()
        .get_template(template)
        .render(
            css=Markup(_css()),  # noqa: S704 (ours)
            script=Markup(script),  # noqa: S704 (ours)
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            **content,
        )
    )


def environment() -> jinja2.Environment:
    """Return Jinja with the filters and sentences that templates use."""
    jinja = jinja2.Environment(
        loader=jinja2.FileSystemLoader(storage.TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.filters.update(FILTERS)
    jinja.globals.update(
        words=words,
        sections=sections,
        objectives=OBJECTIVES,
        noticeable=thresholds.NOTICEABLE,
        variants={variant.name: variant.title for variant in VARIANTS},
        scaling_figures=figures.SCALING,
        group_colour=figures.group_colour,
        group_reason=operator_groups.reason,
        checks=checks,
        first_command=work.first_command,
        switch_lines=switch_script.lines,
        helpful=rounds.helpful,
    )
    return jinja


def _css() -> str:
    """Return the page's style, with the theme's colours for both schemes and for a choice."""
    light, dark = svg.theme_css(0), svg.theme_css(1)
    return (
        f":root{{{light}}}"
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}"
        f":root[data-theme=dark]{{{dark}}}"
        + (storage.TEMPLATES / "style.css").read_text(encoding="utf-8")
    )


def _readable(plan: Plan, compared: Compared | None) -> dict[str, object]:
    """Return the plan in the order of a config: keys that are set, and the changes of launches."""
    keys = ("study", "description", "seed", "objective", "workload", "processes", "search")
    launches = {
        launch.id: {"role": launch.role, **differing(launch.axes, DEFAULTS)}
        for launch in plan.launches
    }
    machines = {entry.name: _set(entry.kind) for entry in (compared.machines if compared else ())}
    content = plan.to_dict()
    shown = {key: content[key] for key in (*keys, "measure")}
    shown["workload"] = _set(content["workload"])
    return {**shown, "launches": launches, **({"machines": machines} if machines else {})}


def _set(section: object) -> dict[str, object]:
    """Return the keys of a section that are set."""
    return {key: value for key, value in dict(section).items() if value}  # type: ignore[call-overload]


def checks(launches: Sequence[Effective]) -> list[tuple[tuple[bool, str, str, str], list[str]]]:
    """Return the checks that failed, then those of values other than the defaults.

    Returns:
        Whether it took effect, axis, requested and effective; and the labels of the launches.
    """
    labels: dict[tuple[bool, str, str, str], list[str]] = {}
    for launch in launches:
        for check in launch.checks:
            if not check.ok or check.requested != DEFAULTS.get(check.axis):
                key = check.ok, check.axis, str(check.requested), str(check.effective)
                labels.setdefault(key, []).append(launch.label)
    return sorted(labels.items())


def render_study(
    study_folder: Path, report: Path, *, plan: Path, builds: Path, compared: Path | None = None
) -> list[Path]:
    """Write figures/*.svg, launch/*.sh and the report of a study.

    The first machine's files are figures/<name>.svg and launch/recommended.sh; those of a further
    machine have its hash in their names, those of a machine that the config names have its name.

    Args:
        study_folder: results/<study>.
        report: the HTML file to write.
        plan: plan.json.
        builds: folder of the environments that were made from requirements.
        compared: analysis/machines.json of a study that names machines.

    Returns:
        The files written.
    """
    planned = read_plan(plan)
    content = None if compared is None else read_file(compared, Compared)
    machines = content.machines if content else ()
    kinds = {entry.name: entry.kind for entry in machines}
    launch, drawn = study_folder / "launch", study_folder / "figures"
    texts: dict[Path, str | None] = {}
    views: list[View] = []
    for entry in machines:
        if entry.status == "missing":  # an earlier run may have measured it
            script = launch / f"recommended-{entry.name}.sh"
            texts |= {script.with_suffix(end): None for end in (".sh", *launch_script.BESIDE)}
    for machine in read_study(study_folder, planned, content):
        script = launch / f"recommended{machine.suffix}.sh"
        script_text = launch_script.render_launch_script(
            machine.recommendation, machine.confirmation, planned, script, builds
        )
        texts[script] = script_text
        beside = _beside(machine, planned, kinds.get(machine.name, {}), script)
        texts |= {script.with_suffix(end): text for end, text in beside.items()}
        flames = flamegraph.Flames(machine.profiled, suffix=machine.suffix)
        texts |= {drawn / name: text for name, text in flames.files.items()}
        texts |= {drawn / f"{name}{machine.suffix}.svg": NOTHING_DRAWN for name in FIGURES}
        anchor = f"m{len(views) + 1}"
        views.append(View(anchor, machine, planned, flames, str(script), script_text))
        for figure in views[-1].figures.values():
            texts[drawn / f"{figure.name}.svg"] = svg.standalone(figure.svg)
    stages = study_folder / STAGE_TIMES
    times_s = read_file(stages, dict[str, float]) if stages.exists() else {}
    texts[report] = render_report(planned, views, content, times_s)
    return write(texts)


def _beside(
    machine: MachineReport, plan: Plan, kind: Mapping[str, object], script: Path
) -> dict[str, str | None]:
    """Return the texts of the files beside a launch script; None for those that it lacks."""
    best, imports = machine.recommendation.recommended, machine.confirmation.imports
    if best is None:
        return dict.fromkeys(launch_script.BESIDE)
    used = machine.readback.optimizers(best.launch)
    return {
        launch_script.SWITCHES: switch_script.render_switches(best.axes, script.name, used),
        launch_script.IMPORTS: json.encode(structs.asdict(imports)).decode() if imports else None,
        launch_script.ARRAY_JOB: launch_script.render_array_job(
            plan.study, script.absolute(), machine.name, kind
        ),
    }


def write(texts: Mapping[Path, str | None]) -> list[Path]:
    """Write files, each of them whole or not at all, and remove those that have no text.

    Returns:
        The files written.
    """
    for path, text in texts.items():
        if text is None:
            path.unlink(missing_ok=True)
        else:
            storage.write_whole(path, lambda beside, text=text: beside.write_text(text, "utf-8"))  # type: ignore[misc]
    return [path for path, text in texts.items() if text is not None]
