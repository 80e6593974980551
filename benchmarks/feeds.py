"""Does the study of a data loader add up, and do its predictions hold?

Each case is a script with a loader, measured with one process as `data_loader: quick` does, but
with every other way to load run beside the script as it is. The tables show the parts of a step
with what they do not account for, and each way's predicted and measured step. A prediction holds if
it is within 15% of what is measured; a step adds up if at most 3% of it is left. Of injected
faults, the time that a fault adds to each batch is known, and stands beside what waiting grew by:
against the same workload without it. Where the loader's files are known, the stalls that
DS-Analyzer's method tells (Mohan et al. 2021: files cold, files in memory, no loader) stand beside
ours.

Results go into a file of JSON lines; cases that it has are not run again. Nothing else should run
meanwhile: a case takes two minutes.

    python benchmarks/feeds.py --output feeds.jsonl [--only images ncf]
    python benchmarks/feeds.py --output feeds.jsonl --only     # run nothing; print the tables
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import ledger
from child_processes import folder
from doc_tables import write_table
from fault_list import NOTHING
from fault_runs import Case as Injected
from ledger import ROOT, Entry

from scaling_study.analysis.experiment_runs import read_loader_run
from scaling_study.common.quantities import format_percent, format_seconds
from scaling_study.config.config import load_config
from scaling_study.config.efforts import LOADER_EFFORTS
from scaling_study.config.plan import make_plan
from scaling_study.diagnosis.loader_verdict import data_loader
from scaling_study.experiments import loader_experiment
from scaling_study.records.codec import plain
from scaling_study.runner import job_process, jobs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
FAULTS = ("slow_loader", "busy_loader", "rows")
CASES = [
    *SCRIPTS,
    *(f"{workload}/{fault}" for workload in ("plain", "images") for fault in (NOTHING, *FAULTS)),
]


def config(case: str, folder: Path) -> Entry:
    """Return the study's config of a case."""
    if case in SCRIPTS:
        script, *args = SCRIPTS[case]
        content: Entry = {
            "study": "feeds",
            "workload": {"script": str(ROOT / script), "args": args},
            "launches": {"baseline": {"intra_op": 1}},
        }
    else:
        workload, _, fault = case.partition("/")
        content = Injected(workload, fault, 0).config(folder)
        del content["why"]
        content["workload"]["args"] = [
            "1" if one == "{member}" else one for one in content["workload"]["args"]
        ]
    content["launches"]["baseline"] |= ALLOCATOR
    return content | {"processes": [1], "data_loader": "full"}


def run(case: str) -> Entry:
    """Measure one case; return its entry of the ledger."""
    LOADER_EFFORTS["full"] = dataclasses.replace(LOADER_EFFORTS["quick"], blocks=6, ways=WAYS)
    began = time.monotonic()
    with folder("feeds-") as own:
        plan = make_plan(load_config(config(case, own)))
        job = jobs.Job(plan, plan.by_id[plan.baseline], 0)
        path = own / "0.jsonl"
        with job_process.prepared(f"data_loader ({case})", own / "log", None):
            loader_experiment.LoaderExperiment(job, path, own / "builds").run(1)
        found = plain(data_loader([read_loader_run(path)]))
    names = ("status", "reason", "parts", "variants", "ways", "left_out", "fetching", "preparing")
    kept = {name: found[name] for name in names}
    return {"case": case, **kept, "wall_s": time.monotonic() - began}


def tables(entries: Sequence[Entry]) -> str:
    """Return tables in Markdown: the parts of steps, predictions, and stalls by another method."""
    known = {one["case"]: one for one in entries}
    steps, ways, stalls, added = [], [], [], []
    rests, errors = [], []
    for one in entries:
        name, step_s = one["case"], _step_s(one)
        if step_s is None:
            steps.append([name, f"{one['status']}: {one['reason']}", *[""] * 4])
            continue
        shares = {part["part"]: part["share"]["value"] for part in one["parts"]}
        texts = [
            _percent(shares.get(part)) for part in ("waiting", "training", "interference", "rest")
        ]
        steps.append([name, format_seconds(step_s), *texts])
        rests.append(shares["rest"])
        if one["preparing"]:
            others = [one[stall] for stall in ("preparing", "fetching")]
            stalled = [_percent(stall["value"] / step_s) if stall else "" for stall in others]
            stalls.append([name, *stalled, texts[0], texts[2]])
        for way in one["ways"][1:]:
            if way["measured_s"] is not None:
                errors.append(way["predicted_s"] / way["measured_s"] - 1)
                times = [format_seconds(way[key]) for key in ("predicted_s", "measured_s")]
                ways.append([name, way["title"], *times, _percent(errors[-1])])
        added += _injected(one, known)
    adds_up = sum(abs(rest) <= ADDS_UP for rest in rests)
    holds = sum(abs(error) <= HOLDS for error in errors)
    said = (
        f"{adds_up} of {len(rests)} steps add up to {format_percent(ADDS_UP)}; {holds} of"
        f" {len(errors)} predictions hold to {format_percent(HOLDS)}."
    )
    parts = [
        write_table(["case", "step", "waiting", "training", "interference", "left"], steps),
        write_table(["case", "way", "predicted", "measured", "off by"], ways),
        write_table(["case", "preparing", "fetching", "waiting", "interference"], stalls),
        "\n".join([said, *added]),
    ]
    return "\n".join(parts)


def _step_s(one: Entry) -> float | None:
    """Return the step as it is (s); None where the study failed."""
    return float(one["variants"][0]["step_s"]["value"]) if one["status"] == "ok" else None


def _percent(share: float | None) -> str:
    return "" if share is None else format_percent(round(share, 3))


def _injected(one: Entry, known: Mapping[str, Entry]) -> list[str]:
    """Compare what a fault adds to each batch with what waiting grew by."""
    workload, _, fault = one["case"].partition("/")
    clean, step_s = known.get(f"{workload}/{NOTHING}"), _step_s(one)
    if fault not in {"slow_loader", "busy_loader"} or clean is None or step_s is None:
        return []
    grew_s = one["parts"][0]["s"] - clean["parts"][0]["s"]
    true = _percent(Injected(workload, fault, 0).seconds / step_s)
    said = f"{true} of a step are injected, waiting grew by {_percent(grew_s / step_s)} of it."
    return [f"{one['case']}: {said}"]


def main() -> None:
    """Run what is missing, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", choices=CASES, default=CASES)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    entries = ledger.read(options.output)
    for case in options.only:
        if case not in {one["case"] for one in entries}:
            entries.append(run(case))
            ledger.write(options.output, entries)
            print(f"{case}: {entries[-1]['status']}", file=sys.stderr, flush=True)
    print(tables(entries))


if __name__ == "__main__":
    main()
