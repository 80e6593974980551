"""Read the results of a study; write its figures, its launch scripts and its report."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import json, structs

from scaling_study.common import storage
from scaling_study.config.plan import Plan, read_plan
from scaling_study.records.analysis import Compared
from scaling_study.records.codec import read_file
from scaling_study.report import flamegraph, launch_script, model, page, svg
from scaling_study.report.model import Machine
from scaling_study.runner.switch_script import render_switches

FIGURES = ("throughput", "step_time")
"""The rule promises these to Snakemake, whatever was measured."""
NOTHING_DRAWN = """\
<svg xmlns="http://www.w3.org/2000/svg" width="320" height="40">
<text x="8" y="25" font-family="sans-serif">No valid window: nothing to draw.</text>
</svg>
"""


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
    kinds = {one.name: one.kind for one in content.machines} if content else {}
    texts: dict[Path, str] = {}
    views: list[page.View] = []
    for entry in content.machines if content else ():
        if entry.status == "missing":  # an earlier run may have measured it
            script = study_folder / "launch" / f"recommended-{entry.name}.sh"
            for suffix in (script.suffix, *launch_script.BESIDE):
                script.with_suffix(suffix).unlink(missing_ok=True)
    for machine in model.read_study(study_folder, planned, content):
        script = study_folder / "launch" / f"recommended{machine.suffix}.sh"
        texts[script] = launch_script.render_launch_script(
            machine.recommendation, planned, script, builds, machine.confirmation
        )
        kind = kinds.get(machine.name, {})
        for suffix, text in _beside(machine, planned, kind, script).items():
            path = script.with_suffix(suffix)
            if text:
                texts[path] = text
            else:
                path.unlink(missing_ok=True)  # left by an earlier recommendation
        seen = flamegraph.Flames(machine.profiled, suffix=machine.suffix)
        texts |= {study_folder / "figures" / name: text for name, text in seen.files.items()}
        for name in FIGURES:
            texts[study_folder / "figures" / f"{name}{machine.suffix}.svg"] = NOTHING_DRAWN
        anchor = f"m{len(views) + 1}"
        views.append(page.View(anchor, machine, planned, seen, str(script), texts[script]))
        for figure in views[-1].figures.values():
            texts[study_folder / "figures" / f"{figure.name}.svg"] = svg.standalone(figure.svg)
    texts[report] = page.render_report(planned, views, content)
    write(texts)
    return list(texts)


def _beside(
    machine: Machine, plan: Plan, kind: Mapping[str, object], script: Path
) -> dict[str, str | None]:
    """Return the texts of the files beside a launch script; None for those that it lacks."""
    recommended, imports = machine.recommendation.recommended, None
    if recommended is None:
        return dict.fromkeys(launch_script.BESIDE)
    if machine.confirmation and machine.confirmation.imports:
        imports = json.encode(structs.asdict(machine.confirmation.imports)).decode()
    used = machine.readback.optimizers(recommended.launch)
    return {
        launch_script.SWITCHES: render_switches(recommended.axes, script.name, used),
        launch_script.IMPORTS: imports,
        launch_script.ARRAY_JOB: launch_script.render_array_job(
            plan.study, script.absolute(), machine.name, kind
        ),
    }


def write(texts: dict[Path, str]) -> None:
    """Write files, each of them whole or not at all."""
    for path, text in texts.items():
        storage.write_whole(path, lambda beside, text=text: beside.write_text(text, "utf-8"))  # type: ignore[misc]
