"""Reading what a study found and writing its figures, its launch scripts and its report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from scaling_study.common import storage
from scaling_study.common.columns import POINTS, WINDOWS
from scaling_study.measuring.environment import INHERITED
from scaling_study.measuring.resolve import build_python
from scaling_study.member import bind
from scaling_study.profiling import profiles
from scaling_study.rendering import svg
from scaling_study.rendering.launch_script import render_launch_script
from scaling_study.rendering.report import Launching, MachineStudy, render_report
from scaling_study.rendering.report_causes import view_causes
from scaling_study.rendering.report_figures import MEMBER_COLUMNS, compare_members
from scaling_study.rendering.report_flames import view_flames
from scaling_study.rendering.report_time import view_time
from scaling_study.rendering.study import read_causes

if TYPE_CHECKING:
    from collections.abc import Mapping

ANALYSES = ("scaling", "noise", "recommendation", "failures", "attestation", "provenance")
BINDER = [sys.executable, "-P", str(bind.__file__)]
"""``-P`` keeps this package's folder, with modules named like common ones, off the path."""


def render_study(study_folder: Path, report: Path, *, plan: Path, builds: Path) -> list[Path]:
    """Write figures/*.svg, launch/*.sh and the report of a study.

    The first machine's files are figures/<name>.svg and launch/recommended.sh; those of a further
    machine have its hash in their names.

    Args:
        study_folder: results/<study>.
        report: the HTML file to write.
        plan: plan.json.
        builds: folder of the environments that were made from requirements.

    Returns:
        The files written.
    """
    planned = storage.read_json(plan)
    entries = {
        name: storage.read_json(study_folder / "analysis" / f"{name}.json")["machines"]
        for name in ANALYSES
    }
    points = storage.read_table(study_folder / "tables", POINTS)
    windows = pd.read_parquet(
        study_folder / "tables" / f"{WINDOWS.name}.parquet", columns=MEMBER_COLUMNS
    )
    members = compare_members(windows)
    manifests = profiles.read_manifests(_profiled(study_folder, planned))
    inflation = _read_inflation(study_folder)
    causes = read_causes(study_folder)
    fingerprint = _read_fingerprint(study_folder)
    studies: list[MachineStudy] = []
    texts: dict[Path, str] = {}
    for index, provenance in enumerate(entries["provenance"]):
        machine = provenance["machine"]
        suffix = f"-{machine}" if index else ""
        analyses = {name: of_machine(found, machine) for name, found in entries.items()}
        path = study_folder / "launch" / f"recommended{suffix}.sh"
        texts[path] = _launch_script(analyses["recommendation"], planned, builds)
        own = [manifest for manifest in manifests if manifest["machine"] == machine]
        flames = view_flames(own, suffix=suffix)
        texts |= {
            study_folder / "figures" / f"{name}.svg": text for name, text in flames.files.items()
        }
        time = view_time(inflation.get(machine, []), own, suffix=suffix, flames=flames)
        studies.append(
            MachineStudy(
                machine=provenance["description"],
                points=points[points["machine"] == machine],
                members=members[members["machine"] == machine],
                analyses=analyses,
                launching=Launching(str(path), texts[path]),
                suffix=suffix,
                time=time,
                causes=view_causes(
                    causes.get(machine, []),
                    fingerprint if fingerprint and fingerprint["machine"] == machine else None,
                    suffix=suffix,
                ),
            )
        )
    rendered = render_report(planned, studies)
    for figure in rendered.figures:
        texts[study_folder / "figures" / f"{figure.name}.svg"] = svg.standalone(figure.svg)
    texts[report] = rendered.html
    for path, text in texts.items():
        _write(path, text)
    return list(texts)


def of_machine(entries: list[dict[str, Any]], machine: str) -> dict[str, Any]:
    """The entry of one machine in an analysis file."""
    return next(entry for entry in entries if entry["machine"] == machine)


def _profiled(study_folder: Path, plan: Mapping[str, Any]) -> list[Path]:
    """Folders of the profiles that the plan asks for: those of an earlier config may lie there."""
    targets = plan.get("profiled")  # plans of earlier versions have none
    folders = profiles.profile_folders(study_folder)
    return [folder for folder in folders if targets is None or folder.name in targets]


def _read_inflation(study_folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Comparisons of profiles by machine; none in a study without profiles."""
    path = study_folder / "analysis" / "inflation.json"
    if not path.exists():
        return {}
    return {entry["machine"]: entry["comparisons"] for entry in storage.read_json(path)["machines"]}


def _read_fingerprint(study_folder: Path) -> dict[str, Any] | None:
    """The machine's own ladder of kernels; None where it was not measured."""
    path = study_folder / "fingerprint.json"
    return storage.read_json(path) if path.exists() else None


def _launch_script(recommendation: Mapping[str, Any], plan: Mapping[str, Any], builds: Path) -> str:
    recommended = recommendation["recommended"]
    build = recommended["axes"]["build"] if recommended else "default"
    return render_launch_script(
        recommendation,
        plan,
        python=str(Path(build_python(build, builds)).absolute()),
        binder=BINDER,
        folder=str(Path.cwd()),
        kept=INHERITED,
    )


def _write(path: Path, text: str) -> None:
    storage.write_whole(path, lambda beside: beside.write_text(text, encoding="utf-8"))
