"""Measure one launch and replicate of a study; the rule ``measure`` runs this."""

import argparse
import json
from pathlib import Path

from scaling_study.common import job_process
from scaling_study.measuring import measure


def place(output: Path) -> str:
    """Say which of the study's cohorts this is, as far as its folder tells."""
    done = len(list(output.parent.parent.glob("*/*.jsonl")))
    plan = output.parents[2] / "plan.json"
    if not plan.exists():
        return f"cohort {done + 1}"
    planned = json.loads(plan.read_text())
    return f"cohort {done + 1} of {len(planned['launches']) * planned['replicates']}"


def main() -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", required=True, help="what to measure, as JSON")
    parser.add_argument("--replicate", type=int, required=True)
    parser.add_argument("--builds", type=Path, required=True, help="folder of built environments")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    job = measure.read_job(options.job, options.replicate)
    job_process.prepare(f"{place(options.output)} ({job.launch['label']})", options.log)
    measure.Measurement(job, options.output, options.builds).run()


if __name__ == "__main__":
    main()
