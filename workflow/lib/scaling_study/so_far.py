"""A report on the records that a stopped study has so far: predicted, not confirmed.

It is made in a folder of its own (so_far/), so that the study goes on as if it were not there.
"""

import shutil
from pathlib import Path

from scaling_study import stages
from scaling_study.config.config import Confirm
from scaling_study.config.plan import Plan, read_plan
from scaling_study.records.codec import RecordError, write_file
from scaling_study.records.confirmation import FIRST_MODELS
from scaling_study.report import study as texts
from scaling_study.report.render import render_study
from scaling_study.runner import journal
from scaling_study.search import rounds

PART = journal.part_of(Path("*.jsonl")).name


def report(folder: Path, page: Path, builds: Path) -> str:
    """Write a report of what is known; return the result in a few lines, empty if nothing is known.

    Args:
        folder: results/<study>.
        page: the HTML file to write.
        builds: folder of the environments that were made from requirements.
    """
    beside = folder / "so_far"
    shutil.rmtree(beside, ignore_errors=True)
    _copy_records(folder / "measure", beside / "measure")
    shutil.copy(folder / "machine.json", beside)
    plan = _plan(folder, beside)
    write_file(beside / "plan.json", plan.to_dict())
    try:
        stages.analyse(beside, plan)
    except RecordError:  # no start has a valid window yet
        return ""
    stages.judge(beside, plan)
    render_study(beside, page, plan=beside / "plan.json", builds=builds)
    return texts.conclusion(beside, beside / "plan.json", page)


def _copy_records(measure: Path, target: Path) -> None:
    """Copy all record files, and the whole lines of those that are being written."""
    target.mkdir(parents=True)
    for path in measure.glob("*/*.jsonl"):
        (target / path.parent.name).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target / path.parent.name)
    for part in measure.glob(f"*/{PART}"):
        copy = target / part.parent.name / part.name.removesuffix(".part")
        data = part.read_bytes()
        if not copy.exists() and (whole := data[: data.rfind(b"\n") + 1]):
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(whole)
    if (measure / FIRST_MODELS).exists():
        shutil.copy(measure / FIRST_MODELS, target)


def _plan(folder: Path, records: Path) -> Plan:
    """Return the plan with what a race has done so far, and without all that comes later."""
    plan = read_plan(folder / "plan.json")
    if plan.search.budget_minutes is not None:
        plan = rounds.grown(plan, records)
        paths = sorted((folder / "rounds").glob("[0-9]*.json"), key=lambda path: int(path.stem))
        if decided := [rounds.read(path) for path in paths]:
            plan = rounds.searched(plan, decided)
    later = {"confirm": Confirm(seconds=None), "profiled": {}, "explained": {}}
    return plan.model_copy(update={**later, "data_loader": "off"})
