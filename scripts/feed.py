"""Measure what the recommended launch's data loader costs; the rule ``feed`` runs this."""

import argparse
from dataclasses import replace
from pathlib import Path

from scaling_study.common import file_errors, storage
from scaling_study.experimenting import feed
from scaling_study.experimenting.experiment import NO_LAUNCH
from scaling_study.measuring import job_process, measure
from scaling_study.planning.plan import recommended
from scaling_study.probing import probe


def main() -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", required=True, help="what all depends on, as JSON")
    parser.add_argument("--replicate", type=int, required=True)
    parser.add_argument("--builds", type=Path, required=True, help="folder of built environments")
    parser.add_argument("--plan", type=Path, required=True, help="plan.json")
    parser.add_argument("--recommendation", type=Path, required=True)
    parser.add_argument("--probed", type=Path, nargs="?", help="machine.json of the named machine")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    job = measure.read_job(options.job, options.replicate)
    machine = probe.read_machine().to_dict()["hash"]
    with file_errors.told("feed", reads="plan.json and analysis"):
        plan, found = (storage.read_json(one) for one in (options.plan, options.recommendation))
        launch = recommended(plan, found, machine)
        point = next((one for one in found["machines"] if one["machine"] == machine), None)
    job = replace(job, launch=launch or NO_LAUNCH)
    with job_process.prepared(f"feed ({job.launch['label']})", options.log, options.probed):
        one = feed.Feed(job, options.output, options.builds)
        if launch is None or point is None:
            one.leave_out("no launch is recommended on this machine")
        else:
            one.run(point["recommended"]["n"])


if __name__ == "__main__":
    with file_errors.told("feed"):
        main()
