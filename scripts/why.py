"""Find out by experiment why a launch stops scaling; the rule ``why`` runs this."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from scaling_study.common import file_errors, storage
from scaling_study.experimenting import why
from scaling_study.experimenting.experiment import NO_LAUNCH
from scaling_study.measuring import job_process, measure
from scaling_study.planning.plan import RECOMMENDED, recommended
from scaling_study.probing import probe


def knee(folder: Path, machine: str, launch: str) -> float | None:
    """Return where a launch's scaling law has its knee, as far as the study has analysed it."""
    path = folder / "analysis/scaling.json"
    if not path.exists():
        return None
    with file_errors.told("why", reads="analysis"):
        laws: list[dict[str, Any]] = [
            entry["laws"]
            for one in storage.read_json(path)["machines"]
            if one["machine"] == machine
            for entry in one["launches"]
            if entry["launch"] == launch
        ]
        return next((law["knee"]["value"] for law in laws if law["knee"] is not None), None)


def main() -> None:
    """Parse the command line and experiment."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", required=True, help="what to explain, as JSON")
    parser.add_argument("--target", required=True, help="a launch's id, or recommended")
    parser.add_argument("--replicate", type=int, required=True)
    parser.add_argument("--builds", type=Path, required=True, help="folder of built environments")
    parser.add_argument("--study-folder", type=Path, required=True, help="results/<study>")
    parser.add_argument("--plan", type=Path, help="default: plan.json in the study's folder")
    parser.add_argument("--probed", type=Path, nargs="?", help="machine.json of the named machine")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    job = measure.read_job(options.job, options.replicate)
    machine = probe.read_machine().to_dict()["hash"]
    same_as, nothing = None, ""
    name = options.target
    if options.target == RECOMMENDED:
        with file_errors.told("why", reads="plan.json and analysis"):
            plan = storage.read_json(options.plan or options.study_folder / "plan.json")
            found = storage.read_json(options.study_folder / "analysis/recommendation.json")
            launch = recommended(plan, found, machine)
        job = replace(job, launch=launch or NO_LAUNCH)
        name = f"{RECOMMENDED}: {job.launch['label']}"
        if launch is None:
            nothing = "no launch is recommended on this machine"
        elif launch["id"] in plan["explained"]:
            same_as, nothing = launch["id"], "it is explained under its own name"
    with job_process.prepared(f"why ({name})", options.log, options.probed):
        experiments = why.Experiments(job, options.target, options.output, options.builds)
        if nothing:
            experiments.leave_out(same_as, nothing)
        else:
            experiments.run(knee(options.study_folder, machine, job.launch["id"]))


if __name__ == "__main__":
    with file_errors.told("why"):
        main()
