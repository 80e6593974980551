"""One self-contained HTML page of a study: opens from disk, loads nothing.

Tables and analyses become plain rows here and in ``report_rows``; how they look is up to the
templates in ``workflow/report``. Jinja escapes whatever comes from a config or a record, and the
page's policy allows no script but its own, which it knows by its hash.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import yaml
from markupsafe import Markup

from scaling_study.common.objectives import OBJECTIVES
from scaling_study.common.quantities import format_count, format_percent, format_seconds
from scaling_study.config import process_counts, work
from scaling_study.config.launches import differing
from scaling_study.config.plan import asked_replicates
from scaling_study.config.work import samples_per_step, with_learnt, work_by_launch
from scaling_study.host.probe import usable_topology
from scaling_study.launch.axes.axis_table import DEFAULTS
from scaling_study.member import program
from scaling_study.records.columns import EXPERIMENTS, OPERATORS, TABLES
from scaling_study.report import report_rows, svg
from scaling_study.report.busy import tell_lost_windows
from scaling_study.report.explanation import explain
from scaling_study.report.figure_axes import find_boundaries
from scaling_study.report.figure_series import choose_series
from scaling_study.report.headline import describe_sureness, write_headline
from scaling_study.report.headline_words import THINGS, Note
from scaling_study.report.report_between import view_between
from scaling_study.report.report_changes import view_changes
from scaling_study.report.report_confirm import view_confirmation
from scaling_study.report.report_feed import view_feed
from scaling_study.report.report_figures import Material, draw_all
from scaling_study.report.report_front import view_front
from scaling_study.report.report_machines import view_comparison
from scaling_study.report.report_search import view_search
from scaling_study.runner import switch_script

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from scaling_study.common.storage import Table
    from scaling_study.report.figure_series import Series
    from scaling_study.report.figures import Figure
    from scaling_study.report.headline_words import Headline
    from scaling_study.report.report_causes import CausesView
    from scaling_study.report.report_time import TimeView

TEMPLATES = Path(__file__).parents[3] / "report"

CONTENTS = (
    ("headline", "Answer"),
    ("run", "What to run"),
    ("confirmed", "Confirmed"),
    ("race", "The race"),
    ("front", "Soon or many"),
    ("why", "Why it stops"),
    ("feed", "The data loader"),
    ("changes", "Single changes"),
    ("time", "Where the time goes"),
    ("launches", "Launches"),
    ("figures", "Figures"),
    ("lost", "Skipped and failed"),
    ("effective", "Evidence"),
)
"""Sections of a machine: the end of each one's id, and its name in the page's contents."""
SOMETIMES = {"race": "search", "front": "front", "feed": "feed", "changes": "changes"}
"""Those that not every report has, with the part of the view that they show."""


@dataclass(frozen=True, slots=True)
class Launching:
    """How to start the recommended launch.

    Attributes:
        path: of the launch script, as one types it in the study's working directory.
        script: its text.
    """

    path: str
    script: str


@dataclass(frozen=True, slots=True)
class MachineStudy:
    """All that a study knows of one machine.

    Attributes:
        machine: the machine's description (machine.json).
        points: its rows of tables/points.
        members: its rows of ``report_figures.compare_members``.
        between: its rows of tables/between.
        analyses: its entry of each analysis file, by the file's name without ending.
        launching: how to start what is recommended.
        suffix: of its figures' names; ``""`` for the first machine.
        name: what the config calls it; ``""`` in a study of this machine alone.
        time: what its profiles show; None where none was taken.
        causes: what its experiments on causes show; None where none was made.
        targets: the same as its entry of analysis/causes.json has it.
        confirmation: its entry of analysis/confirmation.json; None where there is none.
        feed: its entry of analysis/feed.json; None where the study did not ask.
        fingerprint: fingerprint.json, if it is this machine's.
    """

    machine: Mapping[str, Any]
    points: pd.DataFrame
    members: pd.DataFrame
    between: pd.DataFrame
    analyses: Mapping[str, Mapping[str, Any]]
    launching: Launching
    suffix: str
    name: str = ""
    time: TimeView | None = None
    causes: CausesView | None = None
    targets: Sequence[Mapping[str, Any]] = ()
    confirmation: Mapping[str, Any] | None = None
    feed: Mapping[str, Any] | None = None
    fingerprint: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """A rendered report, and the figures in it."""

    html: str
    figures: tuple[Figure, ...]


def render_report(
    plan: Mapping[str, Any],
    machines: Sequence[MachineStudy],
    compared: Mapping[str, Any] | None = None,
) -> Report:
    """Render the report of a study.

    Args:
        plan: plan.json.
        machines: at least one.
        compared: analysis/machines.json of a study that names machines.

    Returns:
        The page; the same input gives the same text.
    """
    views = [
        _view_machine(plan, machine, f"m{number}") for number, machine in enumerate(machines, 1)
    ]
    several = len(views) > 1 or compared is not None
    times = [machine.time for machine in machines if machine.time is not None]
    html = render_page(
        "report.html.j2",
        flames=any(time.flames for time in times),
        study=plan["study"],
        description=plan["description"],
        script_name=program.name(work.program(plan["workload"])),
        dropped=plan["dropped"],
        config_yaml=_dump_yaml(_readable_plan(plan, compared)),
        provenance=_provenance(plan, machines),
        tables=_tables(machines),
        machines=views,
        several=several,
        comparison=None if compared is None else view_comparison(compared),
        places={view["name"]: view for view in views},
        contents=_contents(views, several=several),
        h="h3" if several else "h2",
        h2="h4" if several else "h3",
        h3="h5" if several else "h4",
    )
    figures = [figure for view in views for figure in view["figures"]]
    figures += [view["front"].figure for view in views if view["front"]]
    figures += [figure for view in views if view["feed"] for figure in view["feed"].figures]
    figures += [figure for time in times for figure in time.figures]
    figures += [
        figure for machine in machines if machine.causes for figure in machine.causes.figures
    ]
    return Report(html, tuple(figures))


def _tables(machines: Sequence[MachineStudy]) -> tuple[Table, ...]:
    """The tables that the study has."""
    profiled = any(machine.time for machine in machines)
    explained = any(machine.causes for machine in machines)
    operators = (OPERATORS,) if profiled else ()
    return (*TABLES, *operators, *((EXPERIMENTS,) if explained else ()))


def render_page(template: str, *, flames: bool, **content: Any) -> str:
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
    return environment.get_template(template).render(
        css=Markup(_css()),  # noqa: S704 (ours)
        script=Markup(script),  # noqa: S704 (ours)
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        **content,
    )


def _css() -> str:
    """The page's style, with the theme's colours for both schemes and for the reader's choice."""
    light, dark = svg.theme_css(0), svg.theme_css(1)
    return (
        f":root{{{light}}}"
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}"
        f":root[data-theme=dark]{{{dark}}}" + (TEMPLATES / "style.css").read_text(encoding="utf-8")
    )


def _contents(views: Sequence[Mapping[str, Any]], *, several: bool) -> list[tuple[str, str]]:
    """Targets and texts of the links at the page's top."""
    if not several:
        view = views[0]
        absent = {end for end, key in SOMETIMES.items() if not view[key]}
        there = [(end, text) for end, text in CONTENTS if end not in absent]
        links = [(f"{view['anchor']}-{end}", text) for end, text in there]
    else:
        links = [("compared", "Machines"), *((view["anchor"], view["name"]) for view in views)]
    return [*links, ("study", "The study")]


def _view_machine(plan: Mapping[str, Any], study: MachineStudy, anchor: str) -> dict[str, Any]:
    """What the templates show of one machine."""
    recommendation = study.analyses["recommendation"]
    failures = study.analyses["failures"]
    attestation = study.analyses["attestation"]
    labels = {launch["id"]: launch["label"] for launch in plan["launches"]}
    series = _choose_series(plan, study)
    shown = [one.launch for one in series if one.roles]
    ok = recommendation["status"] == "ok"
    objective = OBJECTIVES[recommendation["objective"]]
    return {
        "anchor": anchor,
        "name": study.name or study.machine["cpu_model"],
        "size": report_rows.describe_size(study.machine, named=bool(study.name)),
        "headline": _headline(plan, study),
        "run": _run(study) if ok else None,
        "confirm": view_confirmation(study.confirmation),
        "search": view_search(plan, study.targets),
        "findings": explain(
            {
                one.launch: one.title
                for one in series
                if {"recommended", "today", "default"}.intersection(one.roles)
            },
            study.points,
            study.analyses["scaling"]["launches"],
            len(usable_topology(study.machine).cpus),
        ),
        "ranking": report_rows.ranking_rows(recommendation),
        "has_models": objective.rate == "models_per_hour",
        "thing": THINGS[objective.rate] if objective.single else "",
        "front": view_front(
            study.analyses["pareto"], suffix=study.suffix, raced=recommendation["raced"]
        ),
        "between": view_between(
            study.between,
            attestation["launches"],
            series,
            study.machine,
            plan["workload"]["step"],
        ),
        "feed": view_feed(study.feed, study.machine, study.fingerprint, study.suffix),
        "changes": view_changes(study.analyses["single_changes"]),
        "time": study.time,
        "causes": study.causes,
        "figures_note": _figures_note(study, series),
        "figures": draw_all(_material(plan, study, series)),
        "points": report_rows.point_rows(study.points, series),
        "failures": report_rows.failure_rows(failures["launches"], labels),
        "lost": report_rows.lost_rows(failures["points"]),
        "members": failures["members"],
        "invalid": report_rows.invalid_rows(failures["windows"]),
        "invalid_share": _invalid_share(study.analyses["provenance"]),
        "attestation": report_rows.attestation_groups(attestation["launches"], shown),
        "member": _first_member(attestation["launches"], shown),
        "machine": report_rows.machine_facts(study.machine),
    }


def _headline(plan: Mapping[str, Any], study: MachineStudy) -> Headline:
    """The first answer, with a word on windows that were lost to other programs."""
    analyses, failures = study.analyses, study.analyses["failures"]
    written = write_headline(
        analyses["recommendation"],
        analyses["noise"],
        replicates=asked_replicates(plan),
        failures=failures,
        confirmation=study.confirmation,
    )
    lost = tell_lost_windows(failures, analyses["provenance"])
    return replace(written, notes=(*lost, *written.notes, *_work_note(plan, analyses)))


def _work_note(
    plan: Mapping[str, Any], analyses: Mapping[str, Mapping[str, Any]]
) -> tuple[Note, ...]:
    """What a step is, where launches of the study do different work in one."""
    plan = with_learnt(plan, analyses["provenance"])
    if set(work_by_launch(plan).values()) <= {1.0}:
        return ()
    default = next(one for one in plan["launches"] if one["id"] == plan["default"])
    samples = samples_per_step(plan["workload"], default)
    what = "one of the default launch's" if samples is None else f"{samples:,g} samples"
    return (
        Note(
            f"A step is {what}: launches are compared by equal work, in which each rank of a group "
            "has a step of its own. Profiles and causes tell of the script's own steps."
        ),
    )


def _choose_series(plan: Mapping[str, Any], study: MachineStudy) -> tuple[Series, ...]:
    recommendation = study.analyses["recommendation"]
    measured = study.points[study.points["arm"] != "repeat"]
    best_first = measured.groupby("launch")["steps_per_s"].max().sort_values(ascending=False)
    recommended = recommendation["recommended"]
    return choose_series(
        dict(zip(measured["launch"], measured["label"], strict=True)),
        {
            "recommended": recommended["launch"] if recommended else None,
            "default": plan["default"],
            "today": plan.get("today"),
            "baseline": plan["baseline"],
        },
        list(best_first.index),
    )


def _material(plan: Mapping[str, Any], study: MachineStudy, series: tuple[Series, ...]) -> Material:
    usable, quota_cpus = usable_topology(study.machine), study.machine["quota_cpus"]
    return Material(
        points=study.points[study.points["arm"] != "repeat"],
        members=study.members,
        series=series,
        noise=study.analyses["noise"],
        counts=process_counts.resolve(plan["processes"], usable, quota_cpus),
        marks=find_boundaries(study.machine),
        suffix=study.suffix,
    )


def _run(study: MachineStudy) -> dict[str, Any]:
    """The second answer: what to run, and how sure that is."""
    recommendation = study.analyses["recommendation"]
    recommended = recommendation["recommended"]
    used = switch_script.optimizers_of(study.analyses["attestation"], recommended["launch"])
    return {
        "command": f"bash {study.launching.path}",
        "script": study.launching.script,
        "label": recommended["label"],
        "lines": "\n".join(switch_script.lines(recommended["axes"], used)),
        "n": format_count(recommended["n"], "process", "processes"),
        "sureness": describe_sureness(recommendation),
        "environment": report_rows.environment_facts(recommended["requested_env"]),
        "binding": report_rows.binding_facts(recommended["slots"][: recommended["n"]]),
    }


def _figures_note(study: MachineStudy, series: Sequence[Series]) -> str:
    """What the figures show, and what they leave out."""
    if study.points.empty:
        return "No launch gave a valid window: there is nothing to draw."
    launches = study.points.loc[study.points["arm"] != "repeat", "launch"].nunique()
    note = "Colours and markers are the same in all figures."
    if launches > len(series):
        note = (
            f"{launches} launches were measured. In colour: the recommended one, the default, the "
            f"baseline and the best of the others, {len(series)} in all; the rest is grey. {note}"
        )
    return note


def _invalid_share(provenance: Mapping[str, Any]) -> str:
    """How many windows were invalid, as a sentence."""
    invalid, valid = provenance["windows_invalid"], provenance["windows_valid"]
    share = format_percent(invalid / max(1, invalid + valid))
    return f"{invalid:,} of {format_count(invalid + valid, 'window')} ({share})."


def _first_member(
    launches: Sequence[Mapping[str, Any]], shown: Sequence[str]
) -> dict[str, str] | None:
    """Everything that one member attested, of the recommended launch where there is one."""
    entry = next(
        (entry for launch in shown for entry in launches if entry["launch"] == launch), None
    )
    if entry is None:
        return None
    return {"label": entry["label"], "yaml": _dump_yaml(entry["member"])}


def _provenance(plan: Mapping[str, Any], machines: Sequence[MachineStudy]) -> list[tuple[str, str]]:
    """Where the numbers come from; values of several machines stand side by side."""
    entries = [machine.analyses["provenance"] for machine in machines]

    def joined(texts: Sequence[str]) -> str:
        return "; ".join(dict.fromkeys(texts))

    return [
        ("study", plan["study"]),
        ("seed of the order and of the draws", str(plan["seed"])),
        ("started", joined([entry["started"] for entry in entries])),
        ("cohorts", joined([f"{entry['cohorts']:,}" for entry in entries])),
        ("valid windows", joined([f"{entry['windows_valid']:,}" for entry in entries])),
        ("counted steps", joined([f"{entry['steps']:,}" for entry in entries])),
        ("time measuring", joined([format_seconds(entry["wall_s"]) for entry in entries])),
        (
            "of it inside windows",
            joined(
                [
                    format_percent(entry["in_windows_s"] / (entry["wall_s"] or 1))
                    for entry in entries
                ]
            ),
        ),
        ("commit", joined([entry["commit"] or "none" for entry in entries])),
        ("hash of what was measured", joined([", ".join(e["measured_hashes"]) for e in entries])),
        ("hash of the measuring code", joined([", ".join(e["harness_hashes"]) for e in entries])),
        ("machine hash", joined([machine.machine["hash"] for machine in machines])),
        ("intervals", machines[0].analyses["recommendation"]["interval"]),
        ("probability of being best", machines[0].analyses["recommendation"]["probability"]),
    ]


def _readable_plan(plan: Mapping[str, Any], compared: Mapping[str, Any] | None) -> dict[str, Any]:
    """The plan with what each launch changes only, and in the order of a config."""
    changed = {
        launch["id"]: {
            "arm": launch["arm"],
            **differing(launch["axes"], DEFAULTS),
        }
        for launch in plan["launches"]
    }
    keys = ("study", "description", "seed", "objective", "workload", "processes", "search")
    kinds = {
        entry["name"]: {key: value for key, value in entry["kind"].items() if value}
        for entry in (compared or {"machines": ()})["machines"]
    }
    machines = {"machines": kinds} if kinds else {}
    return {**{key: plan[key] for key in (*keys, "measure")}, "launches": changed, **machines}


def _dump_yaml(content: Any) -> str:
    return str(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=88))
