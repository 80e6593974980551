"""Run the recommended and the default launch as a user would; the rule ``confirm`` runs this."""

import argparse
from pathlib import Path

from scaling_study.common import file_errors, storage
from scaling_study.confirming.confirm import Confirmation
from scaling_study.measuring import job_process, measure


def main() -> None:
    """Parse the command line and confirm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", required=True, help="what is confirmed, as JSON")
    parser.add_argument("--builds", type=Path, required=True, help="folder of built environments")
    parser.add_argument("--plan", type=Path, required=True, help="plan.json")
    parser.add_argument("--recommendation", type=Path, required=True, help="recommendation.json")
    parser.add_argument("--probed", type=Path, nargs="?", help="machine.json of the named machine")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    job = measure.read_job(options.job, 0)
    with file_errors.told("confirm", reads="plan.json and analysis"):
        plan = storage.read_json(options.plan)
        launches = {launch["id"]: launch for launch in plan["launches"]}
        found = storage.read_json(options.recommendation)
    with job_process.prepared("confirm", options.log, options.probed):
        Confirmation(
            job, launches, found, options.output, options.builds, baseline=plan["baseline"],
            today=plan.get("today"),
        ).run()  # fmt: skip


if __name__ == "__main__":
    with file_errors.told("confirm"):
        main()
