"""Reading what a study found and writing its figures, its launch scripts and its report."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scaling_study.analysis.analyse import FILES
from scaling_study.common import storage
from scaling_study.config import work
from scaling_study.diagnosis.cause_file import read_causes
from scaling_study.launch.axes.build import interpreter
from scaling_study.member import bind, model_queue
from scaling_study.profiling import profiles
from scaling_study.records.columns import BETWEEN, POINTS, WINDOWS
from scaling_study.report import svg
from scaling_study.report.launch_script import render_launch_script
from scaling_study.report.report import Launching, MachineStudy, render_report
from scaling_study.report.report_causes import view_causes
from scaling_study.report.report_figures import MEMBER_COLUMNS, compare_members
from scaling_study.report.report_flames import view_flames
from scaling_study.report.report_time import view_time
from scaling_study.report.study import read_confirmations
from scaling_study.runner.environment import INHERITED
from scaling_study.runner.switch_script import optimizers_of, render_switches

if TYPE_CHECKING:
    from collections.abc import Mapping

NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
BINDER = [sys.executable, "-P", str(bind.__file__)]
QUEUE = [sys.executable, "-P", str(model_queue.__file__)]
"""``-P`` keeps this package's folder, with modules named like common ones, off the path."""


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
    planned = storage.read_json(plan)
    content = None if compared is None else storage.read_json(compared)
    sources = [Source(study_folder)] if content is None else _named(study_folder, content)
    texts: dict[Path, str] = {}
    studies: list[MachineStudy] = []
    for source in sources:
        found, beside = _read_machines(source, study_folder, planned, builds)
        studies += found
        texts |= beside
    rendered = render_report(planned, studies, content)
    for figure in rendered.figures:
        texts[study_folder / "figures" / f"{figure.name}.svg"] = svg.standalone(figure.svg)
    texts[report] = rendered.html
    for path, text in texts.items():
        _write(path, text)
    for study in studies:
        switches = _switches_of(Path(study.launching.path))
        if switches not in texts:  # those of an earlier recommendation
            switches.unlink(missing_ok=True)
    return list(texts)


@dataclass(frozen=True, slots=True)
class Source:
    """Where records and analyses lie.

    Attributes:
        folder: that holds them.
        name: of the machine in the config; ``""`` in a study of this machine alone.
        machine: hash of the machine that the name stands for; ``""`` for the first.
    """

    folder: Path
    name: str = ""
    machine: str = ""


def _named(study_folder: Path, compared: Mapping[str, Any]) -> list[Source]:
    """The machines that are measured; a missing one keeps no launch script of an older plan."""
    for entry in compared["machines"]:
        if entry["status"] == "missing":
            script = study_folder / "launch" / f"recommended-{entry['name']}.sh"
            script.unlink(missing_ok=True)
            _switches_of(script).unlink(missing_ok=True)
    return [
        Source(study_folder / "machines" / entry["name"], entry["name"], entry["machine"])
        for entry in compared["machines"]
        if entry["status"] == "measured"
    ]


def _read_machines(
    source: Source, study_folder: Path, planned: Mapping[str, Any], builds: Path
) -> tuple[list[MachineStudy], dict[Path, str]]:
    """Read all that a folder holds, by machine.

    Args:
        source: the folder.
        study_folder: of the figures and launch scripts.
        planned: the content of plan.json.
        builds: folder of the environments that were made from requirements.

    Returns:
        The machines, and the texts of launch scripts and stacks by path.
    """
    folder, name = source.folder, source.name
    texts: dict[Path, str] = {}
    entries = {
        one: storage.read_json(folder / "analysis" / f"{one}.json")["machines"] for one in FILES
    }
    points = storage.read_table(folder / "tables", POINTS)
    between = storage.read_table(folder / "tables", BETWEEN)
    windows = storage.read_columns(folder / "tables", WINDOWS, MEMBER_COLUMNS)
    members = compare_members(windows)
    manifests = profiles.read_manifests(_profiled(folder, planned))
    inflation = _read_inflation(folder)
    causes, confirmations = read_causes(folder), read_confirmations(folder)
    feeds = _read_feed(folder, planned)
    fingerprint = _read_fingerprint(folder)
    studies: list[MachineStudy] = []
    for provenance in sorted(
        entries["provenance"], key=lambda one: one["machine"] != source.machine
    ):
        machine = provenance["machine"]
        suffix = f"-{name}" if name else ""
        if studies:
            suffix += f"-{NOT_IN_NAMES.sub('_', machine)}"
        analyses = {one: of_machine(found, machine) for one, found in entries.items()}
        path = study_folder / "launch" / f"recommended{suffix}.sh"
        texts[path] = _launch_script(analyses["recommendation"], planned, builds, path)
        texts |= _switches(analyses, _switches_of(path))
        own = [manifest for manifest in manifests if manifest["machine"] == machine]
        flames = view_flames(own, suffix=suffix)
        texts |= {study_folder / "figures" / one: text for one, text in flames.files.items()}
        there = fingerprint if fingerprint and fingerprint["machine"] == machine else None
        time = view_time(inflation.get(machine, []), own, suffix=suffix, flames=flames)
        studies.append(
            MachineStudy(
                machine=provenance["description"],
                points=points[points["machine"] == machine],
                members=members[members["machine"] == machine],
                between=between[between["machine"] == machine],
                analyses=analyses,
                launching=Launching(str(path), texts[path]),
                suffix=suffix,
                name=f"{name}, other nodes" if name and studies else name,
                time=time,
                confirmation=confirmations.get(machine),
                feed=feeds.get(machine),
                fingerprint=there,
                targets=causes.get(machine, []),
                causes=view_causes(
                    causes.get(machine, []),
                    there,
                    suffix=suffix,
                ),
            )
        )
    return studies, texts


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


def _read_feed(study_folder: Path, plan: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What the data loader costs, by machine; none in a study that does not ask."""
    path = study_folder / "analysis/feed.json"
    if plan.get("feed", "off") == "off" or not path.exists():
        return {}
    return {entry["machine"]: entry for entry in storage.read_json(path)["machines"]}


def _read_fingerprint(study_folder: Path) -> dict[str, Any] | None:
    """The machine's own ladder of kernels; None where it was not measured."""
    path = study_folder / "fingerprint.json"
    return storage.read_json(path) if path.exists() else None


def _launch_script(
    recommendation: Mapping[str, Any], plan: Mapping[str, Any], builds: Path, path: Path
) -> str:
    recommended = recommendation["recommended"]
    build = recommended["axes"]["build"] if recommended else "default"
    return render_launch_script(
        recommendation,
        plan,
        python=interpreter(build, builds) or work.interpreter(plan["workload"]),
        binder=BINDER,
        queue=QUEUE,
        folder=work.folder(plan["workload"]),
        kept=INHERITED,
        switches_file=_switches_of(path).absolute(),
    )


def _switches_of(script: Path) -> Path:
    """The file that makes switches true, beside a launch script."""
    return script.with_suffix(".switches.py")


def _switches(analyses: Mapping[str, Any], path: Path) -> dict[Path, str]:
    """The text of that file, where the recommended launch has switches."""
    recommended = analyses["recommendation"]["recommended"]
    if not recommended:
        return {}
    used = optimizers_of(analyses["attestation"], recommended["launch"])
    text = render_switches(recommended["axes"], path.name, used)
    return {path: text} if text else {}


def _write(path: Path, text: str) -> None:
    storage.write_whole(path, lambda beside: beside.write_text(text, encoding="utf-8"))
