"""Reading what a study found and writing its figures, its launch scripts and its report."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from msgspec import json

from scaling_study.common import storage
from scaling_study.config import work
from scaling_study.config.plan import read_plan
from scaling_study.launch.axes.build import interpreter
from scaling_study.member import bind, model_queue
from scaling_study.records.analysis import Compared
from scaling_study.records.codec import read_file
from scaling_study.report import flames, model, page, svg, words
from scaling_study.report.launch_script import render_array_job, render_launch_script
from scaling_study.runner.environment import INHERITED
from scaling_study.runner.switch_script import render_switches

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from scaling_study.config.plan import Plan
    from scaling_study.report.model import Machine

BINDER = [sys.executable, "-P", str(bind.__file__)]
QUEUE = [sys.executable, "-P", str(model_queue.__file__)]
"""``-P`` keeps this package's folder, with modules named like common ones, off the path."""


FIGURES = ("throughput", "step_time")
"""The rule promises these to Snakemake, whatever was measured."""
NOTHING_DRAWN = """\
<svg xmlns="http://www.w3.org/2000/svg" width="320" height="40">
<text x="8" y="25" font-family="sans-serif">No valid window: nothing to draw.</text>
</svg>
"""


def render_study(
    study_folder: Path,
    report: Path,
    *,
    plan: Path,
    builds: Path,
    compared: Path | None = None,
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
    content = None
    if compared is not None:
        content = read_file(compared, Compared)
    kinds = {one.name: one.kind for one in content.machines} if content else {}
    texts: dict[Path, str] = {}
    views: list[page.View] = []
    for machine in _machines(study_folder, planned, content):
        script = study_folder / "launch" / f"recommended{machine.suffix}.sh"
        texts[script] = _launch_script(machine, planned, builds, script)
        imported = machine.confirmation.imports if machine.confirmation else None
        beside = {
            switches_of(script): _switches(machine, script),
            imports_of(script): imported and json.encode(imported).decode(),
            array_job_of(script): _array_job(machine, planned, kinds, script),
        }
        for path, text in beside.items():
            if text:
                texts[path] = text
            else:
                path.unlink(missing_ok=True)  # that of an earlier recommendation
        seen = flames.view_flames(machine.profiled, suffix=machine.suffix)
        texts |= {study_folder / "figures" / name: text for name, text in seen.files.items()}
        launching = page.Launching(str(script), texts[script])
        for name in FIGURES:
            texts[study_folder / "figures" / f"{name}{machine.suffix}.svg"] = NOTHING_DRAWN
        views.append(page.view(planned, machine, launching, seen, f"m{len(views) + 1}"))
    rendered = page.render_report(planned, views, content)
    for figure in rendered.figures:
        texts[study_folder / "figures" / f"{figure.name}.svg"] = svg.standalone(figure.svg)
    texts[report] = rendered.html
    write(texts)
    return list(texts)


def _machines(folder: Path, plan: Plan, compared: Compared | None) -> list[Machine]:
    """Read the machines of a study; one that is missing keeps no launch script of an older plan."""
    if compared is None:
        return model.read_machines(folder, plan)
    machines = []
    for entry in compared.machines:
        if entry.status == "measured":
            own = folder / "machines" / entry.name
            machines += model.read_machines(own, plan, name=entry.name, first=entry.machine)
        else:
            script = folder / "launch" / f"recommended-{entry.name}.sh"
            for path in (script, *(of(script) for of in (switches_of, imports_of, array_job_of))):
                path.unlink(missing_ok=True)
    return machines


def _launch_script(machine: Machine, plan: Plan, builds: Path, path: Path) -> str:
    recommended = machine.recommendation.recommended
    workload = plan.workload
    build = str(recommended.axes["build"]) if recommended else "default"
    return render_launch_script(
        machine.recommendation,
        plan,
        python=interpreter(build, builds) or work.interpreter(workload),
        binder=BINDER,
        queue=QUEUE,
        folder=work.folder(workload),
        kept=INHERITED,
        switches_file=switches_of(path).absolute(),
        imports_file=imports_of(path).absolute(),
        start=machine.confirmation.start if machine.confirmation else "fresh",
        confirmed=words.confirmed_amount(machine.confirmation),
    )


def _array_job(
    machine: Machine, plan: Plan, kinds: Mapping[str, Mapping[str, object]], script: Path
) -> str | None:
    """Return the text of the array job of a machine; None where nothing is recommended."""
    if machine.recommendation.recommended is None:
        return None
    kind = kinds.get(machine.name, {})
    return render_array_job(plan.study, script.absolute(), machine.name, kind)


def array_job_of(script: Path) -> Path:
    """Return the array job that trains a list on several nodes, beside a launch script."""
    return script.with_suffix(".sbatch")


def imports_of(script: Path) -> Path:
    """Return the file of what is imported before a model is forked, beside a launch script."""
    return script.with_suffix(".imports.json")


def switches_of(script: Path) -> Path:
    """Return the file that makes switches true, beside a launch script."""
    return script.with_suffix(".switches.py")


def _switches(machine: Machine, script: Path) -> str | None:
    """Return the text of that file; None where the recommended launch has no switches."""
    recommended = machine.recommendation.recommended
    if recommended is None:
        return None
    used = machine.readback.optimizers(recommended.launch)
    return render_switches(recommended.axes, script.name, used)


def write(texts: dict[Path, str]) -> None:
    """Write files, each of them whole or not at all."""
    for path, text in texts.items():
        storage.write_whole(path, lambda beside, text=text: beside.write_text(text, "utf-8"))  # type: ignore[misc]
