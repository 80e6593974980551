"""Profile one launch of a study; the rule ``profile`` runs this."""

import argparse
from dataclasses import replace
from pathlib import Path

from scaling_study.common import file_errors, storage
from scaling_study.measuring import job_process, measure
from scaling_study.planning.plan import RECOMMENDED, recommended
from scaling_study.probing import probe
from scaling_study.profiling import profile_launch


def main() -> None:
    """Parse the command line and profile."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", required=True, help="what to profile, as JSON")
    parser.add_argument("--target", required=True, help="a launch's id, or recommended")
    parser.add_argument("--builds", type=Path, required=True, help="folder of built environments")
    parser.add_argument("--study-folder", type=Path, required=True, help="results/<study>")
    parser.add_argument("--plan", type=Path, help="default: plan.json in the study's folder")
    parser.add_argument("--probed", type=Path, nargs="?", help="machine.json of the named machine")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True, help="folder for the profiles")
    options = parser.parse_args()
    job = measure.read_job(options.job, 0)
    machine = probe.read_machine().to_dict()["hash"]
    name = options.target
    if options.target == RECOMMENDED:
        with file_errors.told("profile", reads="plan.json and analysis"):
            plan = storage.read_json(options.plan or options.study_folder / "plan.json")
            found = storage.read_json(options.study_folder / "analysis/recommendation.json")
            launch = recommended(plan, found, machine)
        if launch is None or launch["id"] in plan["profiled"]:
            content = profile_launch.without_profile(launch, machine)
            storage.write_json(options.output / "profile.json", content)
            return
        job = replace(job, launch=launch)
        name = f"{RECOMMENDED}: {launch['label']}"
    with job_process.prepared(f"profile ({name})", options.log, options.probed):
        profile_launch.profile_launch(job, options.target, options.output, options.builds)


if __name__ == "__main__":
    with file_errors.told("profile"):
        main()
