"""Does the study of a data loader add up, and do its predictions hold?

Each case is a script with a loader, measured with one process as `data_loader: quick` does, but
with every other way to load run beside the script as it is. Told are the parts of a step with what
they do not account for, and each way's predicted and measured step. A prediction holds if it is
within 15% of what is measured; a step adds up if at most 3% of it is left. Of injected faults, the
time that a fault adds to each batch is known, and stands beside what waiting grew by: against the
same workload without it. Where the loader's files are known, the stalls that DS-Analyzer's method
tells (Mohan et al. 2021: files cold, files in memory, no loader) stand beside ours.

Results go into a file of JSON lines; cases that it has are not run again. Nothing else should run
meanwhile: a case takes two minutes.

    python benchmarks/feeds.py --output feeds.jsonl [--only images ncf]
    python benchmarks/feeds.py --table feeds.jsonl [--again]
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fault_cases import Case as Injected
from fault_list import FAULTS, NOTHING, ROOT

from scaling_study.analysis.experiment_runs import read_loader_run
from scaling_study.common.quantities import format_percent, format_seconds
from scaling_study.config.config import load_config
from scaling_study.config.efforts import LOADER_EFFORTS
from scaling_study.config.plan import make_plan
from scaling_study.diagnosis.loader_verdict import data_loader
from scaling_study.experiments import loader_experiment as measured
from scaling_study.records.codec import plain
from scaling_study.runner import job_process, measure

if TYPE_CHECKING:
    from collections.abc import Mapping

Json = dict[str, Any]

WAYS = 5  # run beside the script as it is, at most
HOLDS = 0.15
ADDS_UP = 0.03

# As studies of these scripts recommend. With malloc as it is, a step of images or of the plain loop
# takes none or 1,800 page faults (a third of it), now and then, whatever it is that is measured.
ALLOCATOR = {"allocator": "glibc-large-thresholds"}

IMAGES = ("scripts/workloads/images.py", "--epochs", "20", "--data", str(ROOT / "results/.images"))
NCF = ("scripts/workloads/ncf.py",)
PARQUET = (
    *("scripts/workloads/parquet.py", "--read", "needed", "--epochs", "20"),
    *("--data", str(ROOT / "results/.tables")),
)
SCRIPTS = {
    "images": (*IMAGES, "--workers", "0"),
    "images, 1 worker": (*IMAGES, "--workers", "1"),
    "images, 2 workers": (*IMAGES, "--workers", "2"),
    "images, SPDL mt": (*IMAGES, "--loader", "mt"),
    "ncf": (*NCF, "--workers", "0"),
    "ncf, 1 worker": (*NCF, "--workers", "1"),
    "ncf, whole batches": (*NCF, "--sampling", "batch", "--workers", "0"),
    "parquet": (*PARQUET, "--workers", "0"),
    "parquet, 1 worker": (*PARQUET, "--workers", "1"),
}
CASES = [
    *SCRIPTS,
    *(
        f"{workload}/{fault}"
        for workload in ("plain", "images")
        for fault in (NOTHING, "slow_loader", "busy_loader", "rows")
    ),
]


def config(case: str, folder: Path) -> Json:
    """Return the study's config of a case."""
    if case in SCRIPTS:
        script, *args = SCRIPTS[case]
        content: Json = {
            "study": "feeds",
            "workload": {"script": str(ROOT / script), "args": args},
            "processes": [1],
            "launches": {"baseline": {"intra_op": 1}},
        }
    else:
        workload, _, fault = case.partition("/")
        content = Injected(workload, fault, 0).config(folder)
        content["processes"] = [1]
        del content["why"]
        content["workload"]["args"] = [
            "1" if one == "{member}" else one for one in content["workload"]["args"]
        ]
    content["launches"]["baseline"] |= ALLOCATOR
    return content | {"data_loader": "full"}


def run(case: str, kept: Path) -> Json:
    """Measure one case, keep its records, and return its entry of the ledger."""
    LOADER_EFFORTS["full"] = dataclasses.replace(LOADER_EFFORTS["quick"], blocks=6, ways=WAYS)
    folder = Path(tempfile.mkdtemp(prefix="feeds-"))
    began = time.monotonic()
    try:
        plan = make_plan(load_config(config(case, folder)))
        job = measure.Job(plan, plan.by_id[plan.baseline], 0)
        path = folder / "0.jsonl"
        with job_process.prepared(f"data_loader ({case})", folder / "log", None):
            measured.LoaderExperiment(job, path, folder / "builds").run(1)
        wall_s = time.monotonic() - began
        kept.parent.mkdir(exist_ok=True)
        shutil.copy(path, kept)
    finally:
        shutil.rmtree(folder)
    return tell(case, kept) | {"wall_s": wall_s}


def tell(case: str, kept: Path) -> Json:
    """Return the ledger's entry of a case, from its records."""
    found = plain(data_loader([read_loader_run(kept)]))
    names = ("status", "reason", "parts", "variants", "ways", "left_out", "fetching")
    chosen = {name: found[name] for name in (*names, "preparing")}
    return {"case": case, **chosen}


def table(entries: list[Json]) -> str:
    """Return tables in Markdown: the parts of steps, predictions, and stalls by another method."""
    lines = [
        "| case | step | waiting | training | interference | left |",
        "| --- " * 6 + "|",
    ]
    known = {one["case"]: one for one in entries}
    rests, errors = [], []
    ways = ["| case | way | predicted | measured | off by |", "| --- " * 5 + "|"]
    added = []
    stalls = [
        "| case | preparing | fetching | waiting | interference |",
        "| --- " * 5 + "|",
    ]
    for one in entries:
        if one["status"] != "ok":
            lines.append(f"| {one['case']} | {one['status']}: {one['reason']} | | | | |")
            continue
        parts = {part["part"]: part for part in one["parts"]}
        shares = [
            format_percent(round(parts[name]["share"]["value"], 3)) if name in parts else ""
            for name in ("waiting", "training", "interference", "rest")
        ]
        lines.append(f"| {one['case']} | {format_seconds(_step_s(one))} | {' | '.join(shares)} |")
        if one["preparing"]:
            stalls.append(
                f"| {one['case']} | {_stall(one, 'preparing')} | {_stall(one, 'fetching')} |"
                f" {shares[0]} | {shares[2]} |"
            )
        rests.append(parts["rest"]["share"]["value"])
        for way in one["ways"][1:]:
            if way["measured_s"] is None:
                continue
            errors.append(way["predicted_s"] / way["measured_s"] - 1)
            ways.append(
                f"| {one['case']} | {way['title']} | {format_seconds(way['predicted_s'])} |"
                f" {format_seconds(way['measured_s'])} | {format_percent(round(errors[-1], 3))} |"
            )
        added += _injected(one, known)
    adds_up = sum(abs(rest) <= ADDS_UP for rest in rests)
    holds = sum(abs(error) <= HOLDS for error in errors)
    said = (
        f"{adds_up} of {len(rests)} steps add up to {format_percent(ADDS_UP)}; {holds} of"
        f" {len(errors)} predictions hold to {format_percent(HOLDS)}."
    )
    return "\n".join([*lines, "", *ways, "", *stalls, "", said, *added, ""])


def _step_s(one: Mapping[str, Any]) -> float:
    return float(one["variants"][0]["step_s"]["value"])


def _stall(one: Json, name: str) -> str:
    """A stall as DS-Analyzer tells it, as a share of the step as it is."""
    known = one[name]
    return format_percent(round(known["value"] / _step_s(one), 3)) if known else ""


def _injected(one: Json, known: Mapping[str, Json]) -> list[str]:
    """Compare what a fault adds to each batch with what waiting grew by."""
    workload, _, fault = one["case"].partition("/")
    clean = known.get(f"{workload}/{NOTHING}")
    if fault not in {"slow_loader", "busy_loader"} or clean is None:
        return []
    _, _, seconds, *_ = FAULTS[fault].wrapper(Injected(workload, fault, 0).dose(Path()))
    injected_s = float(seconds)
    waited_s = [each["parts"][0]["s"] for each in (clean, one)]
    share, true = (waited_s[1] - waited_s[0]) / _step_s(one), injected_s / _step_s(one)
    said = (
        f"{one['case']}: {format_percent(round(true, 3))} of a step are injected, waiting grew by"
        f" {format_percent(round(share, 3))} of it."
    )
    return [said]


def main() -> None:
    """Run what is missing, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--table", type=Path, help="print the tables of this file; run nothing")
    parser.add_argument("--again", action="store_true", help="tell the kept records anew")
    options = parser.parse_args()
    path = options.table or options.output
    if path is None:
        parser.error("one of --output and --table is needed")
    entries = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    for case in options.only if options.output else ():
        if case not in {one["case"] for one in entries}:
            entries.append(run(case, records(path, case)))
            with path.open("a") as file:
                file.write(json.dumps(entries[-1]) + "\n")
            print(f"{case}: {entries[-1]['status']}", file=sys.stderr, flush=True)
    if options.again:
        entries = [{**one, **tell(one["case"], records(path, one["case"]))} for one in entries]
    print(table(entries))


def records(ledger: Path, case: str) -> Path:
    """Return where the records of a case are kept."""
    return ledger.with_suffix(".records") / f"{case.replace('/', ', ')}.jsonl"


if __name__ == "__main__":
    main()
